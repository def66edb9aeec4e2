//! Processes whose wall clock is wrong. `libfaketime` hangs in a Redis that is linked with jemalloc,
//! so the few functions that tell the time are replaced here, by way of the C compiler that Rust
//! needs as well.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Adds `WRONG_BY_S` seconds to the wall clock, and to no other.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long wrong_by(void) {
  const char *seconds = getenv("WRONG_BY_S");
  return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  long failed = syscall(SYS_clock_gettime, clock, at);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += wrong_by();
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  long failed = syscall(SYS_gettimeofday, at, zone);
  if (!failed && at) at->tv_sec += wrong_by();
  return failed;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"#;

/// The environment of a process whose wall clock is ahead by so many seconds, or behind. Clocks that
/// only measure how long something takes stay right. What it needs is made in `folder`.
pub fn off_by(seconds: i64, folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, SOURCE)?;
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(&source)
        .output()
        .context("run cc")?;
    ensure!(compiler.status.success(), "cc: {}", String::from_utf8_lossy(&compiler.stderr));
    let variables =
        [("LD_PRELOAD", library.display().to_string()), ("WRONG_BY_S", seconds.to_string())];
    Ok(variables.map(|(name, value)| (name.to_owned(), value)).into())
}
