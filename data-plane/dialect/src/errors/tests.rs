use http::{HeaderMap, StatusCode};
use sluicegate_model::Outcome;

use super::*;
use crate::openai_chat::variant;

fn generic() -> &'static Errors {
    &variant::ALL[0].errors
}

#[test]
fn every_envelope_is_found() {
    check(r#"{"error":{"message":"m","type":"t","param":"p","code":"c"}}"#, Some("m"), Some("c"));
    check(r#"{"error":{"message":"m","type":"B","code":400}}"#, Some("m"), Some("400"));
    check(r#"{"error":"Unauthorized"}"#, Some("Unauthorized"), None);
    check(r#"{"object":"error","message":"m","code":400}"#, Some("m"), Some("400"));
    check(r#"{"detail":"Not Found"}"#, Some("Not Found"), None);
    check(r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, Some("field required"), None);
    check(r#"{"error_code":18,"error_msg":"m"}"#, Some("m"), Some("18"));
    check(r#"{"code":336501,"msg":"m"}"#, Some("m"), Some("336501"));
    check(
        r#"{"base_resp":{"status_code":1002,"status_msg":"m"},"choices":null}"#,
        Some("m"),
        Some("1002"),
    );
    check(
        r#"{"error":"invalid_client","error_description":"m"}"#,
        Some("m"),
        Some("invalid_client"),
    );
    check(r#"{"statusCode":401,"message":"m"}"#, Some("m"), None);
    check(r#"[{"error":{"message":"m"}}]"#, Some("m"), None);
    check(r#"{"type":"error","error":{"type":"t","message":"m"}}"#, Some("m"), Some("t"));
    check(
        r#"{"error":{"message":"{\n \"error\": {\"message\": \"m\", \"code\": 429}}\n","code":9}}"#,
        Some("m"),
        Some("429"),
    );
    check(r#"{"error":{"message":"{\"x\":1}","code":9}}"#, Some("{\"x\":1}"), Some("9"));
    check(r#""text""#, Some("text"), None);
    check("\n\n {\"error\":\"m\"}", Some("m"), None);
    check(
        "id:1\nevent:error\n:HTTP_STATUS/400\ndata:{\"code\":\"c\",\"message\":\"m\"}\n\n",
        Some("m"),
        Some("c"),
    );
    check("<html>x</html>", Some("an HTML page"), None);
    check("{\"cut", Some("an error body that cannot be read"), None);
    check("Internal Server Error", Some("Internal Server Error"), None);
    check("", None, None);

    #[track_caller]
    fn check(body: &str, message: Option<&str>, code: Option<&str>) {
        let fault = generic().refusal(StatusCode::IM_A_TEAPOT, &HeaderMap::new(), body.as_bytes());
        assert_eq!(fault.message.as_deref(), message);
        assert_eq!(fault.code.as_deref(), code);
    }
}

#[test]
fn c3_what_is_no_error_is_none() {
    for none in [
        "<html>",
        "",
        "3",
        r#"{"choices":[]}"#,
        r#"{"error":null,"choices":[]}"#,
        r#"{"type":"ping","message":"keepalive"}"#,
        r#"{"base_resp":{"status_code":0},"choices":[{}]}"#,
        r#"{"code":"","message":"","output":{"text":"x"}}"#,
        r#"{"code":200,"msg":"ok","data":{}}"#,
        r#"{"code":"x","choices":[{}]}"#,
    ] {
        assert_eq!(generic().in_band(none.as_bytes()), None, "{none}");
    }
}

#[test]
fn c3_errors_under_200_are_read_by_their_inner_code() {
    check(r#"{"error":{"message":"worker limit reached","code":429}}"#, Outcome::RateLimited);
    check(r#"{"error":{"message":"m","type":"server_error","code":503}}"#, Outcome::Overloaded);
    check(r#"{"error":"text"}"#, Outcome::ProviderError);
    check(r#"{"error_code":18,"error_msg":"qps"}"#, Outcome::ProviderError);
    check(r#"{"error":{"type":"server_is_overloaded","message":"m"}}"#, Outcome::Overloaded);

    #[track_caller]
    fn check(body: &str, outcome: Outcome) {
        assert_eq!(generic().in_band(body.as_bytes()).unwrap().outcome, outcome);
    }
}

#[test]
fn status_decides_where_no_code_does() {
    check(500, "{\"error\":{\"message\":\"CUDA out of memory\"}}", Outcome::ProviderError);
    check(500, "Internal Server Error", Outcome::ProviderError);
    check(502, "<html>bad gateway</html>", Outcome::ProviderError);
    check(503, "", Outcome::Overloaded);
    check(
        503,
        r#"{"error":{"message":"m","type":"server_error","code":null}}"#,
        Outcome::Overloaded,
    );
    check(407, "", Outcome::ProviderError);
    check(409, "", Outcome::ProviderError);
    check(429, "", Outcome::RateLimited);
    check(401, "{\"error\":\"Unauthorized\"}", Outcome::KeyRefused);
    check(402, r#"{"error":{"message":"You have no quota","code":"x"}}"#, Outcome::QuotaExhausted);
    check(404, "{\"detail\":\"Not Found\"}", Outcome::ModelMissing);
    check(
        404,
        r#"{"error":{"message":"m","type":"invalid_request_error","param":"model","code":null}}"#,
        Outcome::ModelMissing,
    );
    check(
        404,
        r#"{"error":{"message":"No such file: file-1","type":"invalid_request_error","param":"file_id","code":null}}"#,
        Outcome::InvalidRequest,
    );
    check(404, r#"{"error":{"message":"m","param":"","code":null}}"#, Outcome::ModelMissing);
    check(422, "{\"detail\":[]}", Outcome::InvalidRequest);
    check(529, "", Outcome::Overloaded);
    check(522, "<html>", Outcome::ProviderError);
    check(
        400,
        r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}}"#,
        Outcome::ContextTooLong,
    );
    check(
        429,
        r#"{"error":{"message":"m","type":"insufficient_quota","code":null}}"#,
        Outcome::QuotaExhausted,
    );

    #[track_caller]
    fn check(status: u16, body: &str, outcome: Outcome) {
        let status = StatusCode::from_u16(status).unwrap();
        let fault = generic().refusal(status, &HeaderMap::new(), body.as_bytes());
        assert_eq!(fault.outcome, outcome, "{body}");
    }
}

#[test]
fn the_upstreams_word_on_trying_again_is_kept() {
    let mut headers = HeaderMap::new();
    headers.insert("x-should-retry", "false".parse().unwrap());
    let fault = generic().refusal(StatusCode::INTERNAL_SERVER_ERROR, &headers, b"");
    assert_eq!(fault.should_retry, Some(false));
}
