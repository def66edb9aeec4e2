//! The scripts that run inside the server.

use ::redis::Script;

/// Every script there is. A server that was restarted has none of them.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) lease: Script,
    pub(super) count: Script,
    pub(super) epoch: Script,
    pub(super) rights: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            lease: Script::new(include_str!("lease.lua")),
            count: Script::new(include_str!("count.lua")),
            epoch: Script::new(include_str!("epoch.lua")),
            rights: Script::new(include_str!("rights.lua")),
        }
    }

    pub(super) fn all(&self) -> [&Script; 4] {
        [&self.lease, &self.count, &self.epoch, &self.rights]
    }
}
