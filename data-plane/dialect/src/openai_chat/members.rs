//! A variant's rules for the members of a request, as replacements in the caller's bytes.

use std::borrow::Cow;

use memchr::memmem;
use sluicegate_model::Profile;

use super::variant::{Rule, Variant};
use crate::{
    call::Call,
    dialect::Unfit,
    json::{Kind, Scanner},
    splice::Splices,
};

/// Applies every rule whose member is given. Returns the names of the members that are left out.
pub(super) fn apply(
    variant: &Variant,
    call: &Call,
    profile: &Profile,
    splices: &mut Splices,
) -> Result<Vec<Cow<'static, str>>, Unfit> {
    let mut dropped = Vec::new();
    let mut out = Vec::new();
    for (name, rule) in variant.members {
        let Some((index, value)) = call.member(name) else { continue };
        if out.contains(&index)
            || (value == b"null" && !matches!(rule, Rule::Drop | Rule::Rename(_)))
        {
            continue;
        }
        let Some(member) = call.members.get(index) else { continue };
        match rule {
            Rule::Drop => {
                out.push(index);
                if value != b"null" {
                    dropped.push(Cow::Borrowed(*name));
                }
            }
            // Given under both names, the one that is known here stands.
            Rule::Rename(other) if call.member(other).is_some() => out.push(index),
            Rule::Rename(other) => splices.replace(member.name.clone(), format!("\"{other}\"")),
            Rule::Clamp(least, most) => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                if let Some(number) = number.filter(|number: &f64| number < least || number > most)
                {
                    splices.replace(member.value.clone(), number.clamp(*least, *most).to_string());
                }
            }
            Rule::Words(words) => {
                let spelt = |word: &str| value == format!("\"{word}\"").as_bytes();
                if let Some((_, other)) = words.iter().find(|(word, _)| spelt(word)) {
                    splices.replace(member.value.clone(), format!("\"{other}\""));
                }
            }
            Rule::Becomes(other, _) if call.member(other).is_some() => {
                out.push(index);
                dropped.push(Cow::Borrowed(*name));
            }
            Rule::Becomes(other, values) => {
                let spelt = values.iter().find(|(from, _)| value == from.as_bytes());
                if let Some((_, to)) = spelt.or(values.last()) {
                    splices.replace(member.name.clone(), format!("\"{other}\""));
                    splices.replace(member.value.clone(), *to);
                }
            }
            Rule::NoToolChoice => match value {
                b"\"auto\"" => {}
                b"\"none\"" => {
                    let gone = ["tools", "tool_choice", "parallel_tool_calls"];
                    out.extend(gone.iter().filter_map(|name| Some(call.member(name)?.0)));
                }
                _ => return Err(Unfit::unsupported(*name, "it chooses tools by itself")),
            },
            Rule::Only(values, why) => {
                if !values.iter().any(|allowed| value == allowed.as_bytes()) {
                    return Err(Unfit::unsupported(*name, why));
                }
            }
            Rule::NoType(kind, why) => {
                if type_of(value).is_some_and(|found| found == *kind) {
                    return Err(Unfit::unsupported(*name, why));
                }
            }
        }
    }
    // A server that must not be asked for usage must not hear the wish from a caller either.
    if profile.ask_usage == Some(false)
        && let Some((index, value)) = call.member("stream_options")
        && !out.contains(&index)
    {
        out.push(index);
        if value != b"null" {
            dropped.push(Cow::Borrowed("stream_options"));
        }
    }
    splices.remove_members(&call.members, |index| out.contains(&index));
    if !variant.developer {
        plain_roles(call, splices);
    }
    Ok(dropped)
}

/// The `type` of an object.
fn type_of(object: &[u8]) -> Option<String> {
    let mut found = None;
    let mut scanner = Scanner::new(object);
    if scanner.kind().ok()? != Kind::Object {
        return None;
    }
    scanner
        .object(|scanner, name| {
            if name.is("type") && scanner.kind()? == Kind::String {
                found = Some(scanner.string()?.decode().into_owned());
                return Ok(());
            }
            scanner.skip().map(drop)
        })
        .ok()?;
    found
}

/// `developer` is a newer word for `system`, which servers that do not know it refuse.
fn plain_roles(call: &Call, splices: &mut Splices) {
    let Some((index, messages)) = call.member("messages") else { return };
    if memmem::find(messages, b"\"developer\"").is_none() {
        return;
    }
    let start = call.members.get(index).map_or(0, |member| member.value.start);
    let mut scanner = Scanner::new(messages);
    let read = scanner.array(|scanner, _| {
        if scanner.kind()? != Kind::Object {
            return scanner.skip().map(drop);
        }
        scanner.object(|scanner, name| {
            let is_text = scanner.kind()? == Kind::String;
            let span = scanner.skip()?;
            if is_text && name.is("role") && scanner.slice(span.clone()) == b"\"developer\"" {
                splices.replace(start + span.start..start + span.end, "\"system\"");
            }
            Ok(())
        })?;
        Ok(())
    });
    // Messages of another shape are the upstream's to judge.
    drop(read);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{call::Endpoint, registry};

    #[track_caller]
    fn sent(variant: &str, body: &str) -> Result<(String, Vec<String>), String> {
        let call = Call::parse(Endpoint::Chat, Bytes::copy_from_slice(body.as_bytes())).unwrap();
        let dialect = registry::find("openai-chat", variant).unwrap();
        let to = crate::Destination { model: &call.model, profile: &Default::default() };
        let sent = dialect.request(&call, &to).map_err(|unfit| unfit.message)?;
        let dropped = sent.dropped.iter().map(ToString::to_string).collect();
        Ok((String::from_utf8(sent.body.to_vec()).unwrap(), dropped))
    }

    #[test]
    fn c1_members_are_dropped_renamed_clamped_by_table() {
        check("generic", r#"{"model":"m","seed":1,"x":2}"#, r#"{"model":"m","seed":1,"x":2}"#, &[]);
        check("mistral", r#"{"model":"m","seed":1}"#, r#"{"model":"m","random_seed":1}"#, &[]);
        check(
            "mistral",
            r#"{"user":"u", "model":"m", "tool_choice":"required", "store":true}"#,
            r#"{"model":"m", "tool_choice":"any"}"#,
            &["user", "store"],
        );
        check(
            "zhipu-glm",
            r#"{"user":"u","metadata":{},"temperature":2,"model":"m"}"#,
            r#"{"temperature":0.99,"model":"m"}"#,
            &["user", "metadata"],
        );
        check(
            "deepseek",
            r#"{"max_completion_tokens":5,"max_tokens":5,"model":"m"}"#,
            r#"{"max_tokens":5,"model":"m"}"#,
            &[],
        );
        check(
            "deepseek",
            r#"{"model":"m","messages":[{"role":"developer","content":"\"developer\""},{"role": "user"}]}"#,
            r#"{"model":"m","messages":[{"role":"system","content":"\"developer\""},{"role": "user"}]}"#,
            &[],
        );

        #[track_caller]
        fn check(variant: &str, body: &str, expected: &str, dropped: &[&str]) {
            let (body, left_out) = sent(variant, body).unwrap();
            assert_eq!(body, expected);
            assert_eq!(left_out, dropped);
        }
    }

    #[test]
    fn c1_tools_that_must_not_be_called_are_not_there() {
        let body = r#"{"model":"m","tools":[{}],"tool_choice":"none","parallel_tool_calls":false}"#;
        assert_eq!(sent("ollama", body).unwrap().0, r#"{"model":"m"}"#);
        assert_eq!(sent("zhipu-glm", body).unwrap(), (r#"{"model":"m"}"#.to_owned(), Vec::new()));
        let effort = |word: &str| {
            sent("zhipu-glm", &format!(r#"{{"model":"m","reasoning_effort":"{word}"}}"#)).unwrap().0
        };
        assert_eq!(effort("none"), r#"{"model":"m","thinking":{"type":"disabled"}}"#);
        assert_eq!(effort("high"), r#"{"model":"m","thinking":{"type":"enabled"}}"#);
    }

    #[test]
    fn c1_what_changes_the_meaning_is_refused() {
        let refused = |variant: &str, member: &str| {
            sent(variant, &format!("{{\"model\":\"m\",{member}}}")).unwrap_err()
        };
        assert!(refused("deepseek", "\"n\":2").contains("'n' is not supported"));
        let schema = r#""response_format":{"type":"json_schema","json_schema":{}}"#;
        assert!(refused("zhipu-glm", schema).contains("'response_format'"));
        assert!(refused("ollama", r#""tool_choice":"required""#).contains("'tool_choice'"));
        sent("deepseek", r#"{"model":"m","n":1,"response_format":{"type":"json_object"}}"#)
            .unwrap();
        sent("deepseek", r#"{"model":"m","n":null}"#).unwrap();
    }
}
