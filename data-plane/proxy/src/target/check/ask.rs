//! One health probe: what is sent, and what its answer says.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use sluicegate_dialect::Fault;
use sluicegate_protocol::breaker::{Checkup, End};
use tokio::time::{Instant, timeout_at};

use crate::{
    attempt::send::{self, USER_AGENT},
    policy::{HealthCheck, Provider},
    target::{end_of, ping::Pinger},
};

/// Sends one probe of a model. What it found, and why, for people: nothing that the provider says
/// comes into it.
pub(super) async fn ask(
    pinger: &Pinger,
    provider: &Arc<Provider>,
    health: &HealthCheck,
    model: &str,
) -> (Checkup, String) {
    let deadline = Instant::now() + health.timeout;
    let late = || {
        let ms = health.timeout.as_millis();
        (Checkup::Ill, format!("no answer within {ms} ms"))
    };
    match &health.uri {
        Some(uri) => match timeout_at(deadline, get(provider, uri)).await {
            Ok(Ok(status)) => of_status(status),
            Ok(Err(reason)) => (Checkup::Ill, reason),
            Err(_) => late(),
        },
        // A token for the key may take its time, too.
        None => match timeout_at(deadline, pinger.complete(provider, model, deadline)).await {
            Ok(Some(Ok(()))) => (Checkup::Well, "a completion of one token".to_owned()),
            Ok(Some(Err(fault))) => of_fault(&fault),
            Ok(None) => (Checkup::Unclear, "no key is up".to_owned()),
            Err(_) => late(),
        },
    }
}

/// Gets something of the provider's host, on a connection of its own: that a kept one was closed says
/// nothing.
async fn get(provider: &Provider, uri: &Uri) -> Result<StatusCode, String> {
    let mut request = Request::new(Full::<Bytes>::default());
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, USER_AGENT);
    for (name, value) in &provider.headers {
        headers.append(name, value.clone());
    }
    let answer = provider.client.fresh.request(request).await;
    match answer {
        Ok(answer) => Ok(answer.status()),
        Err(error) => Err(send::transport(&error).message.unwrap_or_default()),
    }
}

fn of_status(status: StatusCode) -> (Checkup, String) {
    let code = status.as_u16();
    match code {
        200..=299 => (Checkup::Well, code.to_string()),
        429 | 500..=599 => (Checkup::Ill, code.to_string()),
        _ => (Checkup::Unclear, format!("{code}: the path is wrong")),
    }
}

fn of_fault(fault: &Fault) -> (Checkup, String) {
    let status = fault.status.map(|status| format!("{status} ")).unwrap_or_default();
    let reason = format!("{status}{}", fault.outcome.name());
    match end_of(fault, false) {
        End::Success => (Checkup::Well, reason),
        End::Neutral | End::RateLimited => (Checkup::Unclear, reason),
        _ => (Checkup::Ill, reason),
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_model::Outcome;

    use super::*;

    #[test]
    fn a12_a_wrong_path_is_no_illness() {
        for (code, expected) in [
            (200, Checkup::Well),
            (204, Checkup::Well),
            (301, Checkup::Unclear),
            (401, Checkup::Unclear),
            (404, Checkup::Unclear),
            (429, Checkup::Ill),
            (500, Checkup::Ill),
            (503, Checkup::Ill),
        ] {
            let (checkup, reason) = of_status(StatusCode::from_u16(code).unwrap());
            assert_eq!(checkup, expected, "{code}");
            assert!(reason.contains(&code.to_string()));
        }
    }

    #[test]
    fn a12_a_key_that_fails_is_no_illness() {
        for (outcome, expected) in [
            (Outcome::RateLimited, Checkup::Unclear),
            (Outcome::KeyRefused, Checkup::Unclear),
            (Outcome::InvalidRequest, Checkup::Unclear),
            (Outcome::ModelMissing, Checkup::Unclear),
            (Outcome::Overloaded, Checkup::Ill),
            (Outcome::ProviderError, Checkup::Ill),
            (Outcome::Network, Checkup::Ill),
            (Outcome::Timeout, Checkup::Ill),
        ] {
            let fault = Fault { status: Some(499), ..Fault::new(outcome, "sk-secret") };
            let (checkup, reason) = of_fault(&fault);
            assert_eq!(checkup, expected, "{outcome:?}");
            assert_eq!(reason, format!("499 {}", outcome.name()), "and no words of the provider's");
        }
    }
}
