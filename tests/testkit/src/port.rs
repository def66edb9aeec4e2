//! Free TCP ports on 127.0.0.1.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

static HANDED_OUT: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// An address that was free a moment ago and that this function never gives twice.
///
/// Another program may take the port before its user binds it, so whoever starts a process on it
/// tries again with a new one; see [`crate::process::Member`].
pub fn free() -> std::io::Result<SocketAddr> {
    loop {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut handed_out = HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner);
        if handed_out.insert(address.port()) {
            return Ok(address);
        }
    }
}
