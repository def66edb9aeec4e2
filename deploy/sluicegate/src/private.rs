//! Files for their owner's eyes alone, whatever stood there before.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// What to do with a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
}

/// Writes a file that only its owner reads. An earlier one is replaced by a new one that was written
/// beside it with mode 0600: neither its mode nor those who have it open live on.
///
/// # Errors
/// As the operating system says; `AlreadyExists` when the file is there and to be kept. What was
/// there is untouched then.
pub(crate) fn write(path: &Path, text: &str, existing: Existing) -> io::Result<()> {
    if existing == Existing::Keep {
        return fill(path, text);
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", uuid::Uuid::new_v4().simple()));
    let beside = path.with_file_name(beside);
    let outcome = fill(&beside, text).and_then(|()| fs::rename(&beside, path));
    if outcome.is_err()
        && let Err(error) = fs::remove_file(&beside)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, file = %beside.display(), "a file is left over");
    }
    outcome
}

fn fill(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_could_read_becomes_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.token");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut reader = fs::File::open(&path).unwrap();

        assert_eq!(
            write(&path, "new", Existing::Keep).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write(&path, "new", Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let seen = io::read_to_string(&mut reader).unwrap();
        assert_eq!(seen, "old", "whoever has the old file open sees nothing of the new one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
        write(&folder.path().join("fresh"), "x", Existing::Keep).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
