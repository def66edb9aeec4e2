//! What a rule asks of a request, and which rule leaves nothing for a later one.

use std::ops::RangeInclusive;

use http::HeaderName;

use super::{Lang, Script, TextPattern};

/// Each part that is given must match. The default matches always.
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    pub prompt_tokens: RangeInclusive<u64>,
    pub messages: RangeInclusive<u64>,
    pub tools: Option<bool>,
    pub images: Option<bool>,
    pub audio: Option<bool>,
    pub json_schema: Option<bool>,
    pub stream: Option<bool>,
    /// Any of them, as the lists that follow; empty: whatever.
    pub languages: Vec<Lang>,
    pub scripts: Vec<Script>,
    pub keywords: Option<TextPattern>,
    pub pattern: Option<TextPattern>,
    /// Each of them.
    pub headers: Vec<HeaderMatch>,
    pub tenants: Vec<String>,
    pub keys: Vec<String>,
}

/// A header that must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderMatch {
    pub name: HeaderName,
    /// `None`: with any value.
    pub value: Option<String>,
}

impl Default for When {
    fn default() -> Self {
        Self {
            prompt_tokens: 0..=u64::MAX,
            messages: 0..=u64::MAX,
            tools: None,
            images: None,
            audio: None,
            json_schema: None,
            stream: None,
            languages: Vec::new(),
            scripts: Vec::new(),
            keywords: None,
            pattern: None,
            headers: Vec::new(),
            tenants: Vec::new(),
            keys: Vec::new(),
        }
    }
}

impl When {
    /// Does it match whenever `other` does? False where that cannot be told from the parts.
    pub fn covers(&self, other: &Self) -> bool {
        let header = |wanted: &HeaderMatch| {
            other.headers.iter().any(|given| {
                given.name == wanted.name && (wanted.value.is_none() || given.value == wanted.value)
            })
        };
        within(&other.prompt_tokens, &self.prompt_tokens)
            && within(&other.messages, &self.messages)
            && flags(self).iter().zip(flags(other)).all(|(of, given)| of.is_none() || *of == given)
            && same(self.keywords.as_ref(), other.keywords.as_ref())
            && same(self.pattern.as_ref(), other.pattern.as_ref())
            && subset(&other.languages, &self.languages)
            && subset(&other.scripts, &self.scripts)
            && subset(&other.tenants, &self.tenants)
            && subset(&other.keys, &self.keys)
            && self.headers.iter().all(header)
    }

    /// Does it need the text of the request?
    pub fn reads_text(&self) -> bool {
        self.keywords.is_some()
            || self.pattern.is_some()
            || !self.languages.is_empty()
            || !self.scripts.is_empty()
    }
}

fn flags(when: &When) -> [Option<bool>; 5] {
    [when.tools, when.images, when.audio, when.json_schema, when.stream]
}

fn within(inner: &RangeInclusive<u64>, outer: &RangeInclusive<u64>) -> bool {
    outer.contains(inner.start()) && outer.contains(inner.end())
}

fn same(of: Option<&TextPattern>, given: Option<&TextPattern>) -> bool {
    of.is_none() || of == given
}

/// Is each of `inner` among `outer`, where an empty list is everything?
fn subset<T: PartialEq>(inner: &[T], outer: &[T]) -> bool {
    outer.is_empty() || (!inner.is_empty() && inner.iter().all(|one| outer.contains(one)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn when() -> impl Strategy<Value = When> {
        let bounds = || (0..4_u64, 0..4_u64).prop_map(|(a, b)| a.min(b)..=a.max(b));
        let list =
            || prop::sample::subsequence(vec!["a".to_owned(), "b".into(), "c".into()], 0..=3);
        (bounds(), bounds(), any::<Option<bool>>(), any::<Option<bool>>(), list(), list()).prop_map(
            |(prompt_tokens, messages, tools, stream, tenants, keys)| When {
                prompt_tokens,
                messages,
                tools,
                stream,
                tenants,
                keys,
                ..When::default()
            },
        )
    }

    /// Tokens, messages, tools, stream, tenant, key.
    type Request = (u64, u64, bool, bool, &'static str, &'static str);

    fn matches(when: &When, request: Request) -> bool {
        let (tokens, messages, tools, stream, tenant, key) = request;
        let among = |list: &[String], one: &str| list.is_empty() || list.iter().any(|of| of == one);
        when.prompt_tokens.contains(&tokens)
            && when.messages.contains(&messages)
            && when.tools.is_none_or(|wanted| wanted == tools)
            && when.stream.is_none_or(|wanted| wanted == stream)
            && among(&when.tenants, tenant)
            && among(&when.keys, key)
    }

    proptest! {
        #[test]
        fn c8_what_is_covered_never_matches_alone(
            one in when(), other in when(),
            requests in prop::collection::vec(
                (0..4_u64, 0..4_u64, any::<bool>(), any::<bool>(),
                 prop::sample::select(vec!["a", "b", "c", "d"]), prop::sample::select(vec!["a", "c", "e"])),
                50,
            ),
        ) {
            prop_assert!(one.covers(&one) && When::default().covers(&one));
            if one.covers(&other) {
                for request in requests {
                    prop_assert!(!matches(&other, request) || matches(&one, request), "{:?}", request);
                }
            }
        }
    }

    #[test]
    fn c8_covering_goes_by_the_parts() {
        let header = |value: Option<&str>| When {
            headers: vec![HeaderMatch {
                name: HeaderName::from_static("x-a"),
                value: value.map(str::to_owned),
            }],
            ..When::default()
        };
        assert!(header(None).covers(&header(Some("1"))));
        assert!(!header(Some("1")).covers(&header(None)));
        assert!(!header(Some("1")).covers(&When::default()));
        let pattern =
            |text: &str| When { pattern: TextPattern::parse(text).ok(), ..When::default() };
        assert!(pattern("a").covers(&pattern("a")) && !pattern("a").covers(&pattern("b")));
    }
}
