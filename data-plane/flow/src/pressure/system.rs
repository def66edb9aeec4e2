//! What the operating system says of this process. Reads files: sample it, never for each request.

use std::fs;
use std::path::{Path, PathBuf};

/// What a process uses, and what it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Memory that is in use. Bytes.
    pub memory_bytes: u64,
    /// What it may use: its control group's limit, else the machine's memory. 0: not known.
    pub memory_limit_bytes: u64,
    pub open_files: u64,
    /// How many it may open. 0: not known.
    pub open_files_limit: u64,
}

/// Where usage comes from.
pub trait Source: Send + Sync {
    /// The usage of now. What cannot be read is 0.
    fn usage(&self) -> Usage;
}

/// Linux: `/proc/self` and the control group (version 2, or 1).
#[derive(Debug, Clone)]
pub struct Linux {
    root: PathBuf,
}

impl Default for Linux {
    fn default() -> Self {
        Self { root: PathBuf::from("/") }
    }
}

impl Source for Linux {
    fn usage(&self) -> Usage {
        let read = |path: &str| fs::read_to_string(self.root.join(path)).unwrap_or_default();
        let groups = ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"];
        let machine = kilobytes(&read("proc/meminfo"), "MemTotal:").unwrap_or(0);
        // "No limit" is a word in version 2, and in version 1 more than any machine has.
        let group = groups.iter().find_map(|path| read(path).trim().parse().ok());
        Usage {
            memory_bytes: kilobytes(&read("proc/self/status"), "VmRSS:").unwrap_or(0),
            memory_limit_bytes: match group {
                Some(limit) if machine > 0 => machine.min(limit),
                Some(limit) => limit,
                None => machine,
            },
            open_files: open_files(&self.root.join("proc/self/fd")),
            open_files_limit: soft_limit(&read("proc/self/limits"), "Max open files").unwrap_or(0),
        }
    }
}

/// Since Linux 6.2 the folder's size is their number; before it was 0, and they have to be counted.
fn open_files(folder: &Path) -> u64 {
    match fs::metadata(folder).map_or(0, |of| of.len()) {
        0 => fs::read_dir(folder).map_or(0, |files| files.count() as u64),
        count => count,
    }
}

/// A row such as `VmRSS:      1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|row| row.strip_prefix(name))?;
    let kilobytes: u64 = row.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// A row such as `Max open files   1024   524288   files`: the first number.
fn soft_limit(text: &str, name: &str) -> Option<u64> {
    let row = text.lines().find_map(|row| row.strip_prefix(name))?;
    row.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let status = "Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t   20480 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(20_480 * 1_024));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
        assert_eq!(kilobytes("VmRSS: many kB", "VmRSS:"), None);
        assert_eq!(kilobytes("VmRSS: 18446744073709551615 kB", "VmRSS:"), None);
        let limits = "Limit  Soft  Hard  Units\nMax open files            1024   524288   files\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1_024));
        assert_eq!(
            soft_limit("Max open files  unlimited  unlimited files", "Max open files"),
            None
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_seen() {
        let before = Linux::default().usage();
        assert!(before.memory_bytes > 1 << 20, "{before:?}");
        assert!(before.memory_limit_bytes > before.memory_bytes);
        assert!(before.open_files >= 3);
        assert!(before.open_files_limit >= before.open_files);
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let after = Linux::default().usage();
        assert!(after.open_files >= before.open_files + 40, "{before:?} {after:?}");
        drop(files);
    }

    #[test]
    fn where_there_is_nothing_to_read_nothing_is_known() {
        let nowhere = Linux { root: PathBuf::from("/nonexistent") };
        assert_eq!(nowhere.usage(), Usage::default());
    }
}
