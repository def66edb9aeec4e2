//! The control plane over loopback, with generated clients and the data plane's own end of the
//! policy stream.

mod admin;
mod changes;
mod doors;
mod fixture;
mod node;
mod policy;
mod stop;
mod watch;
