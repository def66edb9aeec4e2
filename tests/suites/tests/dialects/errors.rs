//! Every error that the fake providers know, which are written from the providers' documentation by
//! themselves, against the tables of the formats.

use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_dialect::{Call, Endpoint, Sent, StreamEvent};
use sluicegate_model::Outcome;
use sluicegate_testkit::providers::{Dialect, ErrorRow, Meaning, error_rows};

use crate::spoken::Spoken;

/// What a meaning is called here.
fn outcome(means: Meaning) -> Outcome {
    match means {
        Meaning::RateLimited => Outcome::RateLimited,
        Meaning::Overloaded => Outcome::Overloaded,
        Meaning::Timeout => Outcome::Timeout,
        Meaning::QuotaExhausted => Outcome::QuotaExhausted,
        Meaning::AuthFailed => Outcome::KeyRefused,
        Meaning::PermissionDenied => Outcome::PermissionDenied,
        Meaning::ModelNotFound => Outcome::ModelMissing,
        Meaning::InvalidRequest => Outcome::InvalidRequest,
        Meaning::ContextLengthExceeded => Outcome::ContextTooLong,
        Meaning::ContentFiltered => Outcome::ContentFiltered,
        // Another attempt may do better, and nobody need rest.
        Meaning::ProviderError | Meaning::Conflict | Meaning::Cancelled => Outcome::ProviderError,
    }
}

/// Where the documentation leaves it open, and what was decided: who reads it otherwise is no worse.
const DECIDED: &[(Dialect, &str, Outcome)] = &[
    // The check failed, not the content.
    (Dialect::Ark, "ContentSecurityDetectionError", Outcome::ProviderError),
    // What is used up for the day is a quota.
    (Dialect::Ark, "RateLimitExceeded.FoundationModelTPDExceeded", Outcome::QuotaExhausted),
    (Dialect::Moonshot, "rate_limit_reached_error.tpd", Outcome::QuotaExhausted),
    // The account rests for minutes; no other provider's server is full.
    (Dialect::Zhipu, "1120", Outcome::RateLimited),
    // Between the gateway and its provider: another attempt has another id, another path.
    (Dialect::Zhipu, "1231", Outcome::ProviderError),
    (Dialect::QianfanV2, "method_not_supported", Outcome::ProviderError),
    (Dialect::Vllm, "detail", Outcome::ProviderError),
    (Dialect::Azure, "404", Outcome::ProviderError),
    // No quota at all for this model: a matter of the account's tier.
    (Dialect::Gemini, "limit_0", Outcome::PermissionDenied),
    // The text of the caller's own instructions is refused; its message may say what of it.
    (Dialect::Ernie, "336104", Outcome::InvalidRequest),
    (Dialect::Ernie, "336105", Outcome::InvalidRequest),
    // Until the owner has it raised.
    (Dialect::Bedrock, "ServiceQuotaExceededException", Outcome::QuotaExhausted),
];

fn understood(spoken: &Spoken, row: &ErrorRow) -> Outcome {
    let mut headers = HeaderMap::new();
    for (name, value) in row.headers {
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    let dialect = spoken.dialect();
    let status = StatusCode::from_u16(row.status).unwrap();
    if !status.is_success() {
        return dialect.refusal(status, &headers, row.body.as_bytes()).outcome;
    }
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let call = Call::parse(Endpoint::Chat, body.into()).unwrap();
    if headers.get("content-type").is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
    {
        return in_stream(spoken, &call, row);
    }
    match dialect.answer(&call, &headers, &row.body.into()) {
        Err(fault) => fault.outcome,
        Ok(_) => Outcome::Success,
    }
}

/// An error that is the first event of a stream.
fn in_stream(spoken: &Spoken, call: &Call, row: &ErrorRow) -> Outcome {
    let dialect = spoken.dialect();
    let mut reader = dialect.stream(call, &Sent::default(), &HeaderMap::new());
    let mut framer = dialect.framing().framer();
    framer.push(row.body.into());
    while let Some(frame) = framer.next_frame().unwrap().or_else(|| framer.finish()) {
        if let StreamEvent::Failed(fault) = reader.read(&frame) {
            return fault.outcome;
        }
    }
    Outcome::Success
}

#[test]
fn c2_every_documented_error_means_what_its_provider_says() {
    let (mut rows, mut wrong) = (0, Vec::new());
    for dialect in Dialect::ALL {
        let spoken = Spoken::of(dialect);
        for row in error_rows(dialect) {
            rows += 1;
            let decided = DECIDED.iter().find(|(of, name, _)| *of == dialect && *name == row.name);
            let meant = decided.map_or_else(|| outcome(row.means), |(.., decided)| *decided);
            let seen = understood(&spoken, row);
            if seen != meant {
                let ErrorRow { name, status, body, .. } = row;
                wrong.push(format!("{dialect:?} {name}: {seen:?}, not {meant:?}: {status} {body}"));
            }
        }
    }
    println!("{rows} errors of {} providers", Dialect::ALL.len());
    assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
}
