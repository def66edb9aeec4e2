//! http-no-proxy-honoured: the proxy variables of the environment are honoured, exceptions included.
//!
//! Each run is a gateway of its own with an environment of its own. The forward proxy is a scripted
//! upstream: it answers whole URLs by itself and refuses to tunnel, so that the request lines it saw
//! say what came through it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde_json::{Value, json};
use sluicegate_testkit::client::exchange;
use sluicegate_testkit::cluster::Standalone;
use sluicegate_testkit::openai;
use sluicegate_testkit::upstream::{Call, Step, Upstream};
use tempfile::TempDir;

use crate::own::{LIMIT, api_key, model, provider, request};

const PROXIED: &str = "through the proxy";
const DIRECT: &str = "directly";

/// The parties of a run.
struct Net {
    proxy: Upstream,
    v4: Upstream,
    /// Another port of the same host.
    v4_too: Upstream,
    /// `None` on a machine without IPv6.
    v6: Option<Upstream>,
}

/// A URL to reach, and how.
struct Way {
    base_url: String,
    through: bool,
}

impl Net {
    async fn start() -> Self {
        let direct = |_: &Call| Step::completion(DIRECT);
        let proxy = Upstream::start(|call| match call.method.as_str() {
            "CONNECT" => Step::json(403, "no tunnels here"),
            _ => Step::completion(PROXIED),
        });
        Self {
            proxy: proxy.await.expect("a proxy"),
            v4: Upstream::start(direct).await.expect("an upstream"),
            v4_too: Upstream::start(direct).await.expect("an upstream"),
            v6: Upstream::start_on(IpAddr::from(Ipv6Addr::LOCALHOST), direct).await.ok(),
        }
    }

    fn proxy_url(&self) -> String {
        format!("http://{}", self.proxy.address())
    }

    /// `[::1]`'s address; one where nobody is if there is no IPv6.
    fn v6(&self) -> SocketAddr {
        let nobody = (Ipv6Addr::LOCALHOST, 9).into();
        self.v6.as_ref().map_or(nobody, Upstream::address)
    }

    /// Starts a gateway in this environment and reaches every URL through it.
    async fn check(&self, variables: &[(&str, String)], ways: &[Way]) {
        let folder = TempDir::with_prefix("sluicegate-proxies-").expect("a folder");
        let config = folder.path().join("gateway.yaml");
        std::fs::write(&config, configuration(ways)).expect("a writable folder");
        let gateway = Standalone::with_env(&config, variables, folder.path()).await;
        let gateway = gateway.expect("a gateway");
        for (number, Way { base_url, through }) in ways.iter().enumerate() {
            if base_url.contains("[::1]") && self.v6.is_none() {
                continue;
            }
            let context = format!("{base_url} with {variables:?}");
            let before = self.proxy.count();
            let request = request("sk-cl-main", openai::chat(&format!("m{number}"), false));
            let reply = exchange(gateway.traffic(), &request, &[], LIMIT).await;
            let seen = self.proxy.calls(|call| call.number >= before);
            let seen: Vec<_> =
                seen.iter().map(|call| (call.method.as_str(), call.target.as_str())).collect();
            if let Some(host) = base_url.strip_prefix("https://").filter(|_| *through) {
                let asked = format!("{}:443", host.split('/').next().unwrap_or_default());
                assert_eq!(seen, [("CONNECT", asked.as_str())], "{context}");
                assert_eq!(reply.status, Some(502), "{context}: {reply:?}");
                continue;
            }
            let url = format!("{base_url}/chat/completions");
            let expected = if *through { vec![("POST", url.as_str())] } else { vec![] };
            assert_eq!(seen, expected, "{context}: {:?} {}", reply.status, reply.text());
            let text = if *through { PROXIED } else { DIRECT };
            assert_eq!(reply.content().as_deref(), Some(text), "{context}: {reply:?}");
        }
    }
}

fn through(base_url: impl Into<String>) -> Way {
    Way { base_url: base_url.into(), through: true }
}

fn direct(base_url: impl Into<String>) -> Way {
    Way { base_url: base_url.into(), through: false }
}

/// One provider and one model for each way.
fn configuration(ways: &[Way]) -> String {
    let numbered = || ways.iter().enumerate();
    let providers = numbered().map(|(n, way)| provider(&format!("p{n}"), &way.base_url));
    let models = numbered().map(|(n, _)| {
        let mut model = model(&format!("m{n}"), &format!("p{n}"));
        model["retry"] = json!({ "max_attempts": 1 });
        model
    });
    json!({
        "providers": providers.collect::<Vec<Value>>(),
        "models": models.collect::<Vec<Value>>(),
        "tenants": [{"name": "default"}],
        "api_keys": [api_key("main")],
    })
    .to_string()
}

fn v1(address: SocketAddr) -> String {
    format!("http://{address}/v1")
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_and_domains_are_exempt() {
    let net = Net::start().await;
    let exempt = "127.0.0.1, ::1,.internal.test";
    let ways = [
        direct(v1(net.v4.address())),
        direct(v1(net.v6())),
        through("http://outside.test/v1"),
        through("http://internal.test.outside.test:8080/v1"),
        through("https://outside.test/v1"),
    ];
    for [http, https, no] in
        [["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"], ["http_proxy", "https_proxy", "no_proxy"]]
    {
        let proxy = net.proxy_url();
        let variables = [(http, proxy.clone()), (https, proxy), (no, exempt.to_owned())];
        net.check(&variables, &ways).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exemption_with_a_port_is_for_that_port() {
    let net = Net::start().await;
    let (v4, v6) = (net.v4.address(), net.v6());
    // As a name, an address and an IPv6 address in turn.
    let exempt = format!("localhost:{0},{v4},{v6}", v4.port());
    let ways = [
        direct(v1(v4)),
        direct(format!("http://localhost:{}/v1", v4.port())),
        direct(v1(v6)),
        through(v1(net.v4_too.address())),
        through(format!("http://localhost:{}/v1", net.v4_too.address().port())),
        through(format!("http://[::1]:{}/v1", v4.port())),
        through("http://outside.test/v1"),
        through("https://outside.test/v1"),
    ];
    for [all, no] in [["ALL_PROXY", "NO_PROXY"], ["all_proxy", "no_proxy"]] {
        let variables = [(all, net.proxy_url()), (no, exempt.clone())];
        net.check(&variables, &ways).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_variable_names_goes_through_its_proxy() {
    let net = Net::start().await;
    let proxy = net.proxy_url();
    let v4 = v1(net.v4.address());
    net.check(&[], &[direct(v4.clone())]).await;
    net.check(&[("HTTP_PROXY", proxy.clone())], &[through(v4.clone())]).await;
    net.check(&[("HTTPS_PROXY", proxy)], &[direct(v4)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_exempts_everything() {
    let net = Net::start().await;
    let variables = [("HTTP_PROXY", net.proxy_url()), ("NO_PROXY", "*".to_owned())];
    let by_name = format!("http://localhost:{}/v1", net.v4.address().port());
    let ways = [direct(by_name), direct(v1(net.v4.address())), direct(v1(net.v6()))];
    net.check(&variables, &ways).await;
}
