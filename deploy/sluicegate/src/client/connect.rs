//! Reaching the control plane.

use std::{error::Error, fs, path::Path, time::Duration};

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::failure::Failure;

/// Longest wait for a connection, however long an answer may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The server's URL as given, with `http://` when it has no scheme.
///
/// # Errors
/// When it is no http or https URL with a host and nothing behind it.
pub(super) fn url(given: &str) -> Result<String, Failure> {
    let full = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    let bad = |what: &str| {
        Failure::usage(format!(
            "--server '{given}': {what}; use a form such as {}",
            super::DEFAULT_SERVER
        ))
    };
    let uri: http::Uri = full.parse().map_err(|_| bad("not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("only http and https are supported"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(bad("the URL must not hold credentials"));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(bad("the URL must end after the port"));
    }
    Ok(full.trim_end_matches('/').to_owned())
}

/// Connects to a server that [`url`] accepted.
///
/// # Errors
/// When nobody answers there, or not in the way the URL says.
pub(super) async fn channel(
    server: &str,
    ca_file: Option<&Path>,
    timeout: Duration,
) -> Result<Channel, Failure> {
    let usage = |error: tonic::transport::Error| {
        Failure::usage(format!("--server {server}: {}", cause(&error)))
    };
    let mut endpoint = Endpoint::from_shared(server.to_owned())
        .map_err(usage)?
        .connect_timeout(timeout.min(CONNECT_LIMIT))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_while_idle(true);
    let tls = server.starts_with("https://");
    if tls {
        let mut config = ClientTlsConfig::new();
        config = match ca_file {
            Some(file) => {
                let bad = |what: &dyn std::fmt::Display| {
                    Failure::usage(format!("--ca-file {}: {what}", file.display()))
                };
                let pem = fs::read_to_string(file).map_err(|error| bad(&error))?;
                if !pem.contains("-----BEGIN CERTIFICATE-----") {
                    return Err(bad(&"holds no certificate in PEM form"));
                }
                config.ca_certificate(Certificate::from_pem(pem))
            }
            None => config.with_native_roots(),
        };
        endpoint = endpoint.tls_config(config).map_err(usage)?;
    }
    endpoint.connect().await.map_err(|error| {
        let cause = cause(&error);
        let hint = if tls {
            "check --server and --ca-file"
        } else {
            "start one with 'sluicegate run' or give --server"
        };
        Failure::unreachable(format!("no control plane answers at {server} ({cause}); {hint}"))
    })
}

/// The innermost reason of an error, in a few words.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    // The number that the operating system gives an error tells a user nothing.
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for (given, expected) in [
            ("http://127.0.0.1:9180", "http://127.0.0.1:9180"),
            ("https://cp.example.com/", "https://cp.example.com"),
            ("127.0.0.1:9180", "http://127.0.0.1:9180"),
            ("[::1]:9180", "http://[::1]:9180"),
        ] {
            assert_eq!(url(given).as_deref(), Ok(expected));
        }
        for bad in ["", "ftp://x", "http://a b", "http://x/v1", "http://u:p@x", "http://x?y"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }
}
