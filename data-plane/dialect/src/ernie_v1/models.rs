//! Where each model is.

/// Names of models and the last part of their paths, where these differ.
const CHATS: &[(&str, &str)] = &[
    ("ernie-3.5", "completions"),
    ("ernie-3.5-8k", "completions"),
    ("ernie-bot", "completions"),
    ("ernie-4.0", "completions_pro"),
    ("ernie-4.0-8k", "completions_pro"),
    ("ernie-bot-4", "completions_pro"),
    ("ernie-bot-turbo", "eb-instant"),
    ("ernie-speed", "ernie_speed"),
    ("ernie-speed-8k", "ernie_speed"),
];

const EMBEDDINGS: &[(&str, &str)] =
    &[("bge-large-zh", "bge_large_zh"), ("bge-large-en", "bge_large_en"), ("tao-8k", "tao_8k")];

/// The path of a chat. A name that is not known is a path of its own, as every deployment has one.
pub(super) fn chat(model: &str) -> String {
    format!("/chat/{}", place(CHATS, model))
}

/// The path of embeddings.
pub(super) fn embeddings(model: &str) -> String {
    format!("/embeddings/{}", place(EMBEDDINGS, model))
}

fn place(table: &[(&str, &str)], model: &str) -> String {
    let known = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(model));
    known.map_or_else(|| escaped(model), |(_, path)| (*path).to_owned())
}

/// Text as it may stand in one part of a path. (RFC 3986, section 2.3: unreserved characters stay.)
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_places_and_unknown_names_are_places() {
        assert_eq!(chat("ERNIE-3.5-8K"), "/chat/completions");
        assert_eq!(chat("ernie-4.0-8k"), "/chat/completions_pro");
        assert_eq!(chat("ERNIE-Bot-turbo"), "/chat/eb-instant");
        assert_eq!(chat("ERNIE-Speed-8K"), "/chat/ernie_speed");
        for same in ["ernie-speed-128k", "ernie-lite-8k", "ernie-tiny-8k", "ernie-4.0-turbo-8k"] {
            assert_eq!(chat(same), format!("/chat/{same}"));
        }
        assert_eq!(chat("my_deployment"), "/chat/my_deployment");
        assert_eq!(chat("a/b?c\u{e9}"), "/chat/a%2Fb%3Fc%C3%A9");
        assert_eq!(embeddings("Embedding-V1"), "/embeddings/Embedding-V1");
        assert_eq!(embeddings("bge-large-zh"), "/embeddings/bge_large_zh");
        assert_eq!(embeddings("tao_8k"), "/embeddings/tao_8k");
    }
}
