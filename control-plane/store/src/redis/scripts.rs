//! The scripts that run inside the server.

use ::redis::Script;

/// Every script there is. A server that was restarted has none of them.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) lease: Script,
    pub(super) count: Script,
    pub(super) cells: Script,
    pub(super) epoch: Script,
    pub(super) rights: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            lease: Script::new(include_str!("lease.lua")),
            count: Script::new(include_str!("count.lua")),
            cells: Script::new(include_str!("cells.lua")),
            epoch: Script::new(include_str!("epoch.lua")),
            rights: Script::new(include_str!("rights.lua")),
        }
    }

    pub(super) fn all(&self) -> [&Script; 5] {
        [&self.lease, &self.count, &self.cells, &self.epoch, &self.rights]
    }
}
