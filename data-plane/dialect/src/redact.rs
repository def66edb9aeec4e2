//! Taking out of an upstream's words what a caller must not see.

/// Longest message that is passed on, in characters.
const MAX_MESSAGE: usize = 1_000;

/// The message with everything that looks like a key, an address or an account taken out, capped.
pub fn message(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MAX_MESSAGE));
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        shown.push_str(if is_private(word) { "[redacted]" } else { word });
        if shown.len() > MAX_MESSAGE {
            break;
        }
    }
    if shown.chars().count() > MAX_MESSAGE {
        shown = shown.chars().take(MAX_MESSAGE - 3).chain("...".chars()).collect();
    }
    shown
}

/// What keys, accounts, requests and addresses hold.
const MARKS: [&str; 11] =
    ["://", ":\\/\\/", "bce-v3/", "AIza", "ya29.", "arn:", "AKIA", "ASIA", "eyJ", "@", "****"];

/// What they begin with, with something behind it that is no word.
const PREFIXES: [&str; 20] = [
    "sk-", "sk_", "org-", "org_", "proj-", "proj_", "req-", "req_", "ws-", "user-", "user_",
    "acct_", "ALTAK-", "xai-", "hf_", "pplx-", "gsk_", "key-", "ep-", "24.",
];

/// What stands before the sign of a secret's value.
const NAMES: [&str; 7] = ["password", "passwd", "secret", "token", "key", "auth", "signature"];

/// The last label of names of machines.
const ENDINGS: [&str; 17] = [
    "com", "net", "org", "io", "cn", "ai", "dev", "cloud", "local", "internal", "intranet", "corp",
    "lan", "svc", "cluster", "test", "example",
];

fn is_private(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    MARKS.iter().any(|mark| word.contains(mark))
        || word.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.:%[]".contains(c))).any(|part| {
            let part = part.trim_matches(['.', ':', '-', '_', '%']);
            has_prefix(part) || is_address(part)
        })
        || is_address(bare)
        || is_named_secret(word)
        || looks_random(word)
}

fn has_prefix(part: &str) -> bool {
    PREFIXES.iter().any(|prefix| {
        part.strip_prefix(prefix).is_some_and(|rest| {
            let coded = rest.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
            // What looks like a key is one, whatever stands in it.
            (rest.len() >= 4 && coded) || (prefix.starts_with("sk") && rest.len() >= 3)
        })
    })
}

/// `10.0.0.1`, `[fd00::1]:8000`, `gpu-7.internal`, `redis-master:6379`.
fn is_address(word: &str) -> bool {
    let unbracketed = word.trim_start_matches('[').replace(']', "");
    let is_ip = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    if is_ip(word) || is_ip(&unbracketed) {
        return true;
    }
    let (host, port) =
        word.rsplit_once(':').map_or((word, None), |(host, port)| (host, Some(port)));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let has_port = port.is_some_and(|port| {
        (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    let long_port = has_port && port.is_some_and(|port| port.len() >= 4);
    let named = host.bytes().any(|byte| byte.is_ascii_alphabetic());
    let ending = host
        .rsplit_once('.')
        .is_some_and(|(_, last)| ENDINGS.iter().any(|known| last.eq_ignore_ascii_case(known)));
    is_ip(host)
        || (ending && named)
        || (has_port && named && (host.contains('.') || host == "localhost"))
        || (long_port && named && host.len() >= 3)
}

/// `password=...`, `api_key:...`.
fn is_named_secret(word: &str) -> bool {
    word.split_once(['=', ':']).is_some_and(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        value.len() >= 4 && NAMES.iter().any(|known| name.ends_with(known))
    })
}

/// A long unbroken run of letters and digits mixed, or of digits alone, as keys, accounts and their
/// masks have. Names of models are long, too, but broken by hyphens.
fn looks_random(word: &str) -> bool {
    let mixed = |run: &str| {
        run.len() >= 16
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let digits = |run: &str| run.len() >= 9 && run.bytes().all(|byte| byte.is_ascii_digit());
    let mut runs = word.split(|c: char| !c.is_ascii_alphanumeric());
    runs.any(|run| mixed(run) || digits(run)) || has_uuid(word)
}

/// Five groups of hexadecimal digits, of 8, 4, 4, 4 and 12. (RFC 9562.)
fn has_uuid(word: &str) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    let groups: Vec<&str> = word.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    groups.windows(GROUPS.len()).any(|window| {
        window.iter().all(is_hex) && window.iter().map(|group| group.len()).eq(GROUPS)
    })
}

/// Takes texts that are known to be private out of a message, wherever they stand.
pub fn known(text: &str, private: &[&str]) -> String {
    let mut shown = text.to_owned();
    for private in private.iter().filter(|private| private.len() >= 6) {
        shown = shown.replace(private, "[redacted]");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_addresses_go_words_stay() {
        check(
            "Incorrect API key provided: sk-up-AA********9999.",
            "Incorrect API key provided: [redacted]",
        );
        check("see https://platform.example/account for more", "see [redacted] for more");
        check("Request id: 0217000000000000", "Request id: [redacted]");
        check("request 7f1c9f0e-0a1b-4c2d-8e3f-0123456789ab", "request [redacted]");
        check("of arn:aws:bedrock:eu-west-1:123456789012:model/x", "of [redacted]");
        check("limit 1000000, used 999999", "limit 1000000, used 999999");
        check("ask ops@example.test", "ask [redacted]");
        check("connect to 10.1.2.3:8000 failed", "connect to [redacted] failed");
        check("gpu-7.internal.test:8443 refused", "[redacted] refused");
        check("token abcdef0123456789abcdef0123456789 is bad", "token [redacted] is bad");
        check(
            "in organization org-abc123 on tokens per min",
            "in organization [redacted] on tokens per min",
        );
        check(
            "This model's maximum context length is 4096 tokens.",
            "This model's maximum context length is 4096 tokens.",
        );
        check(
            "claude-3-5-sonnet-20241022 does not support tools",
            "claude-3-5-sonnet-20241022 does not support tools",
        );
        check(
            "'max_completion_tokens' is not supported with gpt-4o-2024-08-06",
            "'max_completion_tokens' is not supported with gpt-4o-2024-08-06",
        );

        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(message(text), expected);
        }
    }

    #[test]
    fn a5_nothing_of_ours_shows_in_whatever_form() {
        for private in [
            "gpu-7.internal.corp",
            "x.svc.cluster.local",
            "redis-master:6379",
            "localhost:8080",
            "ip=10.1.2.3",
            "10.1.2.3/v1",
            "10.1.2.3,10.1.2.4",
            "[fd00::1]:8000",
            "req_011Cabc4",
            "0123456789abcdef",
            "org_A1b2",
            "proj-9f2c",
            "ws-12ab",
            "user-91x2",
            "ALTAK-8fh2K",
            "24.a1b2c3d4",
            "xai-9d2f",
            "hf_Ab12",
            "pplx-77aa",
            "Password=hunter2",
            "api_key:abcd1",
            r"https:\/\/x.y",
            "eyJhbGciOi",
            "api.example.com",
            "sk-canary-abcdef.prod-host",
        ] {
            assert_eq!(message(private), "[redacted]", "{private}");
        }
        for plain in [
            "messages[1].content",
            "response_format.json_schema",
            "InternalError.Algo.InvalidParameter",
            "claude-3.5-sonnet",
            "gpt-4o-2024-08-06",
            "key",
            "user-provided",
            "org-wide",
            "token",
            "1.5",
            "line:12",
            "code:429",
            "tools.0.custom.input_schema",
            "e.g.",
            "max_tokens=4096",
        ] {
            assert_eq!(message(plain), plain, "{plain}");
        }
        assert_eq!(
            known("client my-plain-secret is bad", &["my-plain-secret"]),
            "client [redacted] is bad"
        );
    }

    #[test]
    fn long_texts_are_capped() {
        assert_eq!(message(&"é".repeat(5000)).chars().count(), 1000);
        assert!(message(&"ab ".repeat(5000)).chars().count() <= 1000);
    }
}
