//! Forward proxies, as `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` name them, in upper
//! or lower case.
//!
//! An entry of `NO_PROXY` is a host, a domain with or without a leading dot (both cover its
//! subdomains), an address, a CIDR block or `*`; with a port behind it, it covers that port alone.

use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// Says through which proxy a connection goes.
#[derive(Debug)]
pub(super) struct Proxies {
    matcher: Matcher,
    /// `NO_PROXY` is or holds `*`, which the matcher takes for names alone.
    none: bool,
    /// Entries of `NO_PROXY` with a port, which the matcher does not know.
    exempt: Vec<(String, u16)>,
}

impl Proxies {
    /// As the environment says now.
    pub(super) fn from_env() -> Self {
        let list =
            std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy")).unwrap_or_default();
        let none = list.split(',').any(|entry| entry.trim() == "*");
        Self { matcher: Matcher::from_env(), none, exempt: exempt(&list) }
    }

    /// The proxy for this URL; `None`: none.
    pub(super) fn intercept(&self, uri: &http::Uri) -> Option<Intercept> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let is_exempt = self.exempt.iter().any(|(name, at)| *at == port && covers(name, &host));
        if self.none || is_exempt { None } else { self.matcher.intercept(uri) }
    }
}

fn exempt(list: &str) -> Vec<(String, u16)> {
    let entry = |entry: &str| {
        let (name, port) = entry.trim().rsplit_once(':')?;
        // A bare IPv6 address has colons, too, and no port.
        let plain = !name.contains(':') || name.ends_with(']');
        let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
        plain.then_some((name, port.parse().ok()?))
    };
    list.split(',').filter_map(entry).collect()
}

/// Is `host` the entry's host, or below its domain?
fn covers(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches('.');
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_a_port_cover_that_port() {
        let exempt = exempt("127.0.0.1, .internal.test:8443,[::1]:9000,::1,x:y");
        assert_eq!(exempt, [(".internal.test".to_owned(), 8443), ("::1".to_owned(), 9000)]);
        let proxies = Proxies {
            matcher: Matcher::builder().all("http://proxy.test:3128").no("127.0.0.1,::1").build(),
            none: false,
            exempt,
        };
        check(&proxies, "http://127.0.0.1:8000/v1", false);
        check(&proxies, "http://[::1]:8000/v1", false);
        check(&proxies, "https://x.internal.test:8443/v1", false);
        check(&proxies, "https://internal.test:8443/v1", false);
        check(&proxies, "https://x.internal.test/v1", true);
        check(&proxies, "https://notinternal.test:8443/v1", true);
        check(&proxies, "https://outside.test/v1", true);

        #[track_caller]
        fn check(proxies: &Proxies, uri: &str, through: bool) {
            assert_eq!(proxies.intercept(&uri.parse().unwrap()).is_some(), through, "{uri}");
        }
    }
}
