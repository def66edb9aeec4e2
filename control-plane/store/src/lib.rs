//! Where the control plane keeps its state, behind two contracts. Its configuration is a small
//! transactional key-value store: etcd on a cluster, one crash-safe file on a single machine. Its
//! ledger counts limits and usage, and requests that are to be run later are kept beside it: in Redis
//! on a cluster, in the same file on a single machine.

mod backoff;
mod config;
pub mod deferred;
pub mod embedded;
pub mod etcd;
pub mod ledger;
mod limits;
pub mod redis;

pub use config::{
    Change, ChangeSet, Commit, Committed, ConfigStore, Entry, Epoch, Listing, Op, Precondition,
    Revision, StoreError, WatchEvent, WatchStream,
};
pub use limits::Limits;
