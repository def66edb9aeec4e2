//! The scripts that run inside the server.

use ::redis::Script;

use super::deferred::DeferredScripts;

/// Every script there is. A server that was restarted has none of them.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) lease: Script,
    pub(super) count: Script,
    pub(super) cells: Script,
    pub(super) notes: Script,
    pub(super) epoch: Script,
    pub(super) rights: Script,
    pub(super) deferred: DeferredScripts,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            lease: Script::new(include_str!("lease.lua")),
            count: Script::new(include_str!("count.lua")),
            cells: Script::new(include_str!("cells.lua")),
            notes: Script::new(include_str!("notes.lua")),
            epoch: Script::new(include_str!("epoch.lua")),
            rights: Script::new(include_str!("rights.lua")),
            deferred: DeferredScripts::new(),
        }
    }

    pub(super) fn all(&self) -> [&Script; 12] {
        let DeferredScripts { put, claim, change, look, list, deliver } = &self.deferred;
        let Self { lease, count, cells, notes, epoch, rights, deferred: _ } = self;
        [lease, count, cells, notes, epoch, rights, put, claim, change, look, list, deliver]
    }
}
