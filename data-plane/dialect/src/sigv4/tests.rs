//! Signatures of AWS's published signing test suite, and what is this gateway's own.

use std::time::Duration;

use sluicegate_model::secret::Secret;

use super::*;

/// 2015-08-30T12:36:00Z, the time of AWS's vectors.
const AT: u64 = 1_440_938_160;
const TOKEN: &str = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";

fn key(session: Option<&str>) -> AwsKey {
    AwsKey {
        access: "AKIDEXAMPLE".to_owned(),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session: session.map(Secret::new),
        region: "us-east-1".to_owned(),
        service: "service",
    }
}

fn signed(
    key: &AwsKey,
    method: Method,
    uri: &str,
    headers: &[(&'static str, &'static str)],
    body: &str,
) -> Result<Vec<(HeaderName, HeaderValue)>, SignError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let request = Signable {
        method: &method,
        uri: &uri.parse().unwrap(),
        headers: &map,
        body: body.as_bytes(),
        at: SystemTime::UNIX_EPOCH + Duration::from_secs(AT),
    };
    sign(key, &request)
}

fn value<'a>(headers: &'a [(HeaderName, HeaderValue)], wanted: &str) -> Option<&'a HeaderValue> {
    headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value)
}

#[track_caller]
fn check(
    method: Method,
    uri: &str,
    headers: &[(&'static str, &'static str)],
    body: &str,
    names: &str,
    signature: &str,
) {
    let added = signed(&key(None), method, uri, headers, body).unwrap();
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
         SignedHeaders={names}, Signature={signature}"
    );
    assert_eq!(value(&added, "authorization").unwrap(), expected.as_str());
    assert_eq!(value(&added, "x-amz-date").unwrap(), "20150830T123600Z");
    assert!(value(&added, "authorization").unwrap().is_sensitive());
}

#[test]
fn requests_sign_as_awss_test_suite_has_it() {
    const PLAIN: &str = "host;x-amz-date";
    // get-vanilla
    check(
        Method::GET,
        "https://example.amazonaws.com/",
        &[],
        "",
        PLAIN,
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    );
    // post-vanilla-query
    check(
        Method::POST,
        "https://example.amazonaws.com/?Param1=value1",
        &[],
        "",
        PLAIN,
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    );
    // get-vanilla-query-order-key-case
    check(
        Method::GET,
        "https://example.amazonaws.com/?Param2=value2&Param1=value1",
        &[],
        "",
        PLAIN,
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    );
    // post-header-key-sort
    check(
        Method::POST,
        "https://example.amazonaws.com/",
        &[("my-header1", "value1")],
        "",
        "host;my-header1;x-amz-date",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    );
    // get-header-value-trim
    check(
        Method::GET,
        "https://example.amazonaws.com/",
        &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")],
        "",
        "host;my-header1;my-header2;x-amz-date",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    );
    // post-x-www-form-urlencoded, whose header for the body's hash is given here
    check(
        Method::POST,
        "https://example.amazonaws.com/",
        &[
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", "13"),
            (
                "x-amz-content-sha256",
                "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
            ),
        ],
        "Param1=value1",
        "content-length;content-type;host;x-amz-content-sha256;x-amz-date",
        "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b",
    );
}

#[test]
fn a_session_is_part_of_the_signature() {
    // get-vanilla-with-session-token
    let uri = "https://example.amazonaws.com/";
    let added = signed(&key(Some(TOKEN)), Method::GET, uri, &[], "").unwrap();
    let token = value(&added, "x-amz-security-token").unwrap();
    assert!(token == TOKEN && token.is_sensitive());
    let proof = value(&added, "authorization").unwrap().to_str().unwrap();
    let signature = "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8";
    assert!(proof.ends_with(signature), "{proof}");
}

/// The signature was worked out apart from the library that is used here.
#[test]
fn a_models_colon_is_escaped_twice() {
    let key = AwsKey { service: "bedrock", ..key(None) };
    let uri = "https://bedrock-runtime.us-east-1.amazonaws.com/model/vendor.model-v1%3A0/converse";
    let headers = [("content-type", "application/json"), ("accept-encoding", "gzip")];
    let added = signed(&key, Method::POST, uri, &headers, "{\"messages\":[]}").unwrap();
    let proof = value(&added, "authorization").unwrap().to_str().unwrap();
    let expected = "SignedHeaders=content-type;host;x-amz-date, Signature=1d419e530670924c55365855ede9c06a15e2957dab381d9213abc7f3addb5727";
    assert!(proof.ends_with(expected), "{proof}");
}

#[test]
fn what_cannot_be_signed_is_an_error_that_tells_no_secret() {
    let without_host = signed(&key(None), Method::GET, "/model", &[], "").unwrap_err();
    assert!(matches!(without_host, SignError::NoHost));
    let uri = "https://example.amazonaws.com/";
    let broken = signed(&key(Some("a\nb")), Method::GET, uri, &[], "").unwrap_err();
    assert!(matches!(broken, SignError::NotAHeader));
    let access = AwsKey { access: "A\nB".to_owned(), ..key(None) };
    let broken = signed(&access, Method::GET, uri, &[], "").unwrap_err();
    assert!(matches!(broken, SignError::NotAHeader));
    assert!(!format!("{:?}", key(Some(TOKEN))).contains(TOKEN));
}
