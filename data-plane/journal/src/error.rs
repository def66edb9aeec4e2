//! Why the journal could not do what it was asked for.

use std::{io, path::PathBuf};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The folder cannot be made, read or locked.
    #[error(
        "usage journal {}: {error}; give the user that runs sluicegate access to it", folder.display()
    )]
    Folder { folder: PathBuf, error: io::Error },
    /// Another process writes there.
    #[error(
        "usage journal {}: another sluicegate process uses this folder; \
         stop it, or give this one a folder of its own", .0.display()
    )]
    InUse(PathBuf),
    /// The folder has files of this very incarnation: it is not random.
    #[error(
        "usage journal {}: there are files of incarnation {incarnation:016x} already; \
         every start needs a new one", folder.display()
    )]
    NotNew { folder: PathBuf, incarnation: u64 },
    /// More than a tenth over the limit.
    #[error(
        "the usage journal holds {bytes} bytes, its limit is {limit}; nothing more is taken until \
         the control plane has counted what is there: look at why it does not, or raise the limit"
    )]
    Full { bytes: u64, limit: u64 },
    /// One append is larger than 1 MiB.
    #[error("{0} bytes at once are more than the usage journal takes")]
    TooLarge(usize),
    /// The disk refuses.
    #[error("usage journal {}: cannot be written: {error}; free space or repair the disk", folder.display())]
    Disk { folder: PathBuf, error: io::Error },
    /// There is no such source here any more.
    #[error("the usage journal has no source {0:016x}")]
    NoSource(u64),
}
