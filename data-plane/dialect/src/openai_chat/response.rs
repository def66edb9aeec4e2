//! A whole answer on its way down.

use bytes::Bytes;
use sluicegate_model::Outcome;

use super::{chunk, finish, repair::Repair, variant::Variant};
use crate::{call::Endpoint, dialect::Answer, fault::Fault};

pub(crate) fn read(variant: &Variant, endpoint: Endpoint, body: &Bytes) -> Result<Answer, Fault> {
    let failed = |message: &str| Err(Fault::new(Outcome::ProviderError, message));
    // Some servers begin with a byte order mark, which JSON parsers need not take.
    let body = match body.strip_prefix(b"\xef\xbb\xbf") {
        Some(_) => body.slice(3..),
        None => body.clone(),
    };
    if body.iter().all(u8::is_ascii_whitespace) {
        // A server that gave up waiting for its model.
        return Err(Fault::new(Outcome::Timeout, "the provider answered 200 with an empty body"));
    }
    let Ok(mut facts) = chunk::read(&body, &mut Repair::new(variant)) else {
        let fault = variant.errors.in_band(&body);
        return fault
            .map_or_else(|| failed("the provider answered 200 with a body that is not JSON"), Err);
    };
    if facts.error.is_some()
        && let Some(fault) = variant.errors.in_band(&body)
    {
        return Err(fault);
    }
    let items = match endpoint {
        Endpoint::Chat | Endpoint::Completions => facts.choices,
        Endpoint::Embeddings => facts.data,
    };
    match items {
        Some(count) if count > 0 || endpoint == Endpoint::Embeddings => {}
        Some(_) => return failed("the provider answered without any choice"),
        None => {
            let fault = variant.errors.in_band(&body);
            return fault
                .map_or_else(|| failed("the provider answered 200 without an answer"), Err);
        }
    }
    let finish_reason = finish::judge(variant, facts.finish, &mut facts.splices)?;
    Ok(Answer {
        body: facts.splices.apply(&body),
        usage: facts.usage,
        finish_reason,
        output_chars: facts.chars,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERIC: &Variant = super::super::variant::ALL[0];

    #[test]
    fn an_answer_passes_byte_for_byte() {
        let body = Bytes::from_static(br#"{ "choices":[{"index":0,"message":{"content":"A"},"finish_reason":"stop","stop_reason":128009}],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"cost":0.00001},"x_id":9007199254740993}"#);
        let answer = read(GENERIC, Endpoint::Chat, &body).unwrap();
        assert_eq!(answer.body.as_ptr(), body.as_ptr());
        let usage = answer.usage.unwrap();
        assert_eq!((usage.input, usage.output, usage.cached), (7, 2, 3));
    }

    #[test]
    fn failures_in_disguise() {
        check("", Outcome::Timeout);
        check("<html>Login</html>", Outcome::ProviderError);
        check("{}", Outcome::ProviderError);
        check(r#"{"choices":[]}"#, Outcome::ProviderError);
        check(r#"{"error":{"message":"x","code":429}}"#, Outcome::RateLimited);
        check(r#"{"error_code":18,"error_msg":"qps"}"#, Outcome::ProviderError);
        check(r#"{"choices":[{"message":{},"finish_reason":"abort"}]}"#, Outcome::ProviderError);
        check(
            r#"{"choices":[{"message":{},"finish_reason":"abort"},{"message":{},"finish_reason":"stop"}]}"#,
            Outcome::ProviderError,
        );
        check(r#"{"object":"list","data":[{}]}"#, Outcome::ProviderError);

        #[track_caller]
        fn check(body: &'static str, outcome: Outcome) {
            let fault =
                read(GENERIC, Endpoint::Chat, &Bytes::from_static(body.as_bytes())).unwrap_err();
            assert_eq!(fault.outcome, outcome, "{body}");
        }
    }

    #[test]
    fn every_endpoint_has_its_own_shape() {
        let chat = Bytes::from_static(
            br#"{"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}"#,
        );
        assert!(read(GENERIC, Endpoint::Embeddings, &chat).is_err());
        let list = Bytes::from_static(b"\xef\xbb\xbf{\"data\":[]}");
        assert_eq!(read(GENERIC, Endpoint::Embeddings, &list).unwrap().output_chars, 0);
    }

    #[test]
    fn a_null_error_beside_an_answer_is_no_error() {
        let body = Bytes::from_static(
            br#"{"error":null,"choices":[{"message":{"content":"A"},"finish_reason":"eos"}]}"#,
        );
        let answer = read(GENERIC, Endpoint::Chat, &body).unwrap();
        assert_eq!(answer.finish_reason.as_deref(), Some("eos"));
        assert!(std::str::from_utf8(&answer.body).unwrap().contains(r#""finish_reason":"stop""#));
    }
}
