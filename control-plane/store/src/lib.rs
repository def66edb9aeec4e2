//! Where the control plane keeps its configuration: one small transactional key-value contract,
//! kept by etcd on a cluster and by one crash-safe file on a single machine.

mod backoff;
mod config;
pub mod embedded;
pub mod etcd;
mod limits;

pub use config::{
    Change, ChangeSet, Commit, Committed, ConfigStore, Entry, Epoch, Listing, Op, Precondition,
    Revision, StoreError, WatchEvent, WatchStream,
};
pub use limits::Limits;
