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

/// What keys, accounts, requests and addresses begin with.
const MARKS: [&str; 17] = [
    "sk-", "sk_", "://", "org-", "proj_", "bce-v3/", "AIza", "ya29.", "arn:", "req_", "req-",
    "AKIA", "ASIA", "eyJ", "ep-2", "acct", "@",
];

fn is_private(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    MARKS.iter().any(|mark| word.contains(mark)) || is_address(bare) || looks_random(bare)
}

/// `10.0.0.1`, `10.0.0.1:8000`, or a name with a port.
fn is_address(word: &str) -> bool {
    let (host, port) =
        word.rsplit_once(':').map_or((word, None), |(host, port)| (host, Some(port)));
    let port_like =
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    host.parse::<std::net::IpAddr>().is_ok()
        || word.parse::<std::net::IpAddr>().is_ok()
        || (port_like && host.contains('.') && host.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// A long unbroken run of letters and digits mixed, of digits alone, or stars, as keys, accounts and
/// their masks have. Names of
/// models are long, too, but broken by hyphens.
fn looks_random(word: &str) -> bool {
    let mixed = |run: &str| {
        run.len() >= 20
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let digits = |run: &str| run.len() >= 9 && run.bytes().all(|byte| byte.is_ascii_digit());
    let runs = || word.split(|c: char| !c.is_ascii_alphanumeric());
    runs().any(|run| mixed(run) || digits(run)) || word.contains("****") || has_uuid(word)
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
    fn long_texts_are_capped() {
        assert_eq!(message(&"é".repeat(5000)).chars().count(), 1000);
        assert!(message(&"ab ".repeat(5000)).chars().count() <= 1000);
    }
}
