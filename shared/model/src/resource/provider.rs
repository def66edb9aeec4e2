//! Providers: one wire format at one base URL.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Uri, uri::PathAndQuery};
use sluicegate_proto::resource::v1 as pb;

use super::{
    breaker::{self, Breaker, Capacity},
    form,
    health::{self, HealthProbe},
};
use crate::{
    path::Path,
    profile::{Profile, StreamEnd},
    violation::{Violation, Violations},
};

/// A place that answers model calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    pub name: String,
    /// Name of the wire format.
    pub dialect: String,
    /// Which server of the format it is; empty: nothing is assumed.
    pub variant: String,
    /// Where it is. The path has no trailing slash; a query is kept on every call.
    pub base_url: BaseUrl,
    /// Takes calls without a key.
    pub keyless: bool,
    pub timeouts: Timeouts,
    pub http_version: HttpVersion,
    /// Idle connections kept for each address.
    pub max_idle_connections: usize,
    /// Sent with each call, after our own headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Region that requests are signed for, where it is named.
    pub region: Option<String>,
    /// Fetch images whose addresses the format does not take.
    pub fetch_images: bool,
    pub profile: Profile,
    pub key_pool: KeyPool,
    /// When one of its models is left alone.
    pub breaker: Box<Breaker>,
    /// How much is sent to one of its models at one time.
    pub capacity: Capacity,
    /// Asking again and again whether its models are well.
    pub health: Option<HealthProbe>,
}

/// How keys are treated that the provider does not take. Each wait is the first, where the provider
/// does not say how long; `None`: the usual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyPool {
    pub resting: Option<Duration>,
    pub exhausted: Option<Duration>,
    pub refused: Option<Duration>,
    pub suspended: Option<Duration>,
    pub last_resort: LastResort,
}

/// What happens when no key is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastResort {
    /// The request is refused at once.
    #[default]
    Refuse,
    /// It is sent with the key whose rest ends first.
    Soonest,
}

/// What a base URL must not end with: requests would go there twice.
const ENDPOINTS: [&str; 3] = ["/chat/completions", "/embeddings", "/messages"];

/// Variants of each dialect that has any.
const VARIANTS: &[(&str, &[&str])] = &[
    (
        "openai-chat",
        &[
            "generic",
            "openai",
            "deepseek",
            "doubao-ark",
            "zhipu-glm",
            "qwen",
            "qianfan-v2",
            "moonshot",
            "mistral",
            "minimax",
            "vllm",
            "sglang",
            "ollama",
            "llama-cpp",
        ],
    ),
    ("azure-openai", &["v1"]),
];

/// A base URL taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    pub scheme: http::uri::Scheme,
    pub authority: http::uri::Authority,
    /// Without trailing slashes; empty for a bare host.
    pub path: String,
    pub query: Option<String>,
}

impl BaseUrl {
    fn new(uri: &Uri) -> Option<Self> {
        Some(Self {
            scheme: uri.scheme()?.clone(),
            authority: uri.authority()?.clone(),
            path: uri.path().trim_end_matches('/').to_owned(),
            query: uri.query().map(str::to_owned),
        })
    }

    /// The region that a cloud's host names, such as `bedrock-runtime.eu-west-1.amazonaws.com`.
    pub fn region(&self) -> Option<&str> {
        let mut labels = self.authority.host().split('.').skip(1);
        labels.find(|label| {
            label.matches('-').count() >= 2
                && label.ends_with(|c: char| c.is_ascii_digit())
                && label.starts_with(|c: char| c.is_ascii_alphabetic())
        })
    }

    /// The URL of a path of the same host, with nothing of the base's own path and query.
    ///
    /// # Errors
    /// When the parts do not make a URL, which those of a URL and of a path never cause.
    pub fn at_host(&self, path: &PathAndQuery) -> Result<Uri, http::Error> {
        let host = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        host.path_and_query(path.clone()).build()
    }

    /// The URL of an endpoint below the base; `path` starts with a slash and may have a query of its
    /// own, which comes before the base's.
    ///
    /// # Errors
    /// When the parts do not make a URL, which a path that holds only URL characters never causes.
    pub fn endpoint(&self, path: &str) -> Result<Uri, http::Error> {
        let before = if path.contains('?') { '&' } else { '?' };
        let query = self.query.as_ref().map(|query| format!("{before}{query}")).unwrap_or_default();
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(format!("{}{path}{query}", self.path))
            .build()
    }
}

/// Which HTTP the upstream is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HttpVersion {
    /// HTTP/2 where TLS negotiates it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    H2c,
}

/// The clocks of one call. Each bounds one wait; none bounds two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until the first meaningful event, for a prompt of no size.
    pub first_event: Duration,
    /// Added to `first_event` for each thousand tokens of prompt.
    pub first_event_per_1k_tokens: Duration,
    /// Longest silence between chunks.
    pub idle: Duration,
    /// Longest time in which only comments and pings come.
    pub progress: Duration,
    /// From arrival to the last byte.
    pub total: Duration,
    /// Until an answer that is not streamed has come whole.
    pub answer: Duration,
}

impl Timeouts {
    /// Time until the first event for a prompt of this many tokens (an estimate is enough).
    pub fn first_event_for(&self, prompt_tokens: u64) -> Duration {
        let thousands = u32::try_from(prompt_tokens / 1000).unwrap_or(u32::MAX);
        self.first_event + self.first_event_per_1k_tokens.saturating_mul(thousands)
    }
}

/// Headers that a provider's `headers` may not set: ours, or the connection's.
const RESERVED: &[&str] = &[
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "accept",
    "accept-encoding",
    "x-request-id",
    "traceparent",
    "tracestate",
];

/// Headers that carry keys. What stands in `headers` is shown to whoever may read the configuration,
/// so a key does not belong there.
const KEYS: &[&str] = &[
    "api-key",
    "cookie",
    "proxy-authenticate",
    "set-cookie",
    "www-authenticate",
    "x-api-key",
    "x-auth-token",
    "x-goog-api-key",
];

pub(super) fn parse(spec: &pb::Provider, found: &mut Violations) -> Option<Provider> {
    let root = Path::root();
    let url = form::base_url(&spec.base_url).ok();
    if !spec.keys.is_empty() {
        found.0.push(
            Violation::new(root.field("keys"), "is a shorthand of files")
                .hint("over the API, apply credentials of their own"),
        );
    }
    let network = spec.network.clone().unwrap_or_default();
    let http_version = match network.http_version.as_str() {
        "http1" => HttpVersion::Http1,
        "h2c" => HttpVersion::H2c,
        _ => HttpVersion::Auto,
    };
    if http_version == HttpVersion::H2c
        && url.as_ref().is_some_and(|url| url.scheme_str() == Some("https"))
    {
        found.0.push(
            Violation::new(root.field("network").field("http_version"), "h2c needs an http URL")
                .hint("use auto: TLS negotiates HTTP/2 by itself"),
        );
    }
    if let Some(ending) = ENDPOINTS.iter().find(|ending| {
        url.as_ref().is_some_and(|url| url.path().trim_end_matches('/').ends_with(**ending))
    }) {
        let what = format!("names an endpoint: {ending} is added to it");
        found
            .0
            .push(Violation::new(root.field("base_url"), what).hint(format!("leave {ending} out")));
    }
    let headers = parse_headers(spec, found);
    check_variant(spec, found);
    let is_region =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_region(&spec.region) {
        found.0.push(
            Violation::new(root.field("region"), "is not a region").hint("such as us-east-1"),
        );
    }
    Some(Provider {
        name: spec.name.clone(),
        dialect: spec.dialect.clone(),
        variant: spec.variant.clone(),
        region: Some(spec.region.clone()).filter(|region| !region.is_empty()),
        fetch_images: spec.image_urls == "fetch",
        profile: profile(spec.profile.as_ref()),
        base_url: BaseUrl::new(&url?)?,
        keyless: spec.keyless,
        timeouts: timeouts(spec.timeouts.as_ref()),
        http_version,
        max_idle_connections: network.max_idle_connections.unwrap_or(256) as usize,
        headers,
        key_pool: key_pool(spec.key_pool.as_ref()),
        breaker: Box::new(breaker::parse(spec.breaker.as_ref(), found)),
        capacity: breaker::capacity(spec.capacity.as_ref()),
        health: health::parse(spec.health.as_ref(), found),
    })
}

fn check_variant(spec: &pb::Provider, found: &mut Violations) {
    let known = VARIANTS.iter().find(|(dialect, _)| *dialect == spec.dialect);
    let known = known.map_or(&[][..], |(_, variants)| *variants);
    if spec.variant.is_empty() || known.contains(&spec.variant.as_str()) {
        return;
    }
    let hint = match known {
        [] => "remove it".to_owned(),
        known => format!("allowed: {}", known.join(", ")),
    };
    let what = format!("dialect '{}' has no variant '{}'", spec.dialect, spec.variant);
    found.0.push(Violation::new(Path::root().field("variant"), what).hint(hint));
}

fn profile(spec: Option<&pb::Profile>) -> Profile {
    let Some(spec) = spec else { return Profile::default() };
    Profile {
        ask_usage: spec.ask_usage,
        fill_usage: spec.fill_usage,
        stream_end: match spec.stream_end.as_str() {
            "done" => StreamEnd::Done,
            "close" => StreamEnd::Close,
            _ => StreamEnd::Finish,
        },
    }
}

fn parse_headers(spec: &pb::Provider, found: &mut Violations) -> Vec<(HeaderName, HeaderValue)> {
    let mut names: Vec<_> = spec.headers.keys().collect();
    names.sort_unstable();
    let mut headers = Vec::with_capacity(names.len());
    for name in names {
        let path = Path::root().field("headers").field(name);
        let value = spec.headers.get(name).map_or("", String::as_str);
        let parsed =
            HeaderName::try_from(name.as_str()).ok().zip(HeaderValue::from_str(value).ok());
        match parsed {
            Some((header, _)) if RESERVED.contains(&header.as_str()) => found.0.push(
                Violation::new(path, format!("header '{header}' is set by the gateway"))
                    .hint("use another header, or a credential for keys"),
            ),
            Some((header, _)) if KEYS.contains(&header.as_str()) => found.0.push(
                Violation::new(path, format!("header '{header}' carries a key"))
                    .hint("use a credential: its secret is sealed and never shown"),
            ),
            Some(pair) => headers.push(pair),
            None => found.0.push(
                Violation::new(path, "is not a legal header")
                    .hint("names are tokens, values have no line breaks"),
            ),
        }
    }
    headers
}

fn key_pool(spec: Option<&pb::KeyPool>) -> KeyPool {
    let Some(spec) = spec else { return KeyPool::default() };
    let ms = |value: Option<u32>| value.map(|ms| Duration::from_millis(ms.into()));
    KeyPool {
        resting: ms(spec.resting_ms),
        exhausted: ms(spec.exhausted_ms),
        refused: ms(spec.refused_ms),
        suspended: ms(spec.suspended_ms),
        last_resort: match spec.last_resort.as_str() {
            "soonest" => LastResort::Soonest,
            _ => LastResort::Refuse,
        },
    }
}

fn timeouts(spec: Option<&pb::Timeouts>) -> Timeouts {
    let spec = spec.copied().unwrap_or_default();
    let ms =
        |value: Option<u32>, default: u64| Duration::from_millis(value.map_or(default, u64::from));
    Timeouts {
        connect: ms(spec.connect_ms, 2_000),
        first_event: ms(spec.first_event_ms, 120_000),
        first_event_per_1k_tokens: ms(spec.first_event_per_1k_tokens_ms, 1_000),
        idle: ms(spec.idle_ms, 60_000),
        progress: ms(spec.progress_ms, 180_000),
        total: ms(spec.total_ms, 1_800_000),
        answer: ms(spec.answer_ms, 600_000),
    }
}
