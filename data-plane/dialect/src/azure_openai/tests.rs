use proptest::prelude::*;

use super::*;
use crate::{StreamEvent, registry, sse};

fn proof(key: &str) -> (String, String) {
    let key = Secret::new(key);
    match CLASSIC.auth(&AuthScheme { key: &key, region: None }).unwrap() {
        Proof::Header(name, value) => {
            assert!(value.is_sensitive());
            (name.to_string(), value.to_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn c1_keys_and_tokens_go_into_their_own_headers() {
    let token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln-_A";
    assert_eq!(proof(token), ("authorization".to_owned(), format!("Bearer {token}")));
    for key in ["0123abcd", "eyJ0", "eyJh.eyJz", "eyJh..c2ln", "eyJh.e+z.c2ln", "a.b.c"] {
        assert_eq!(proof(key), ("api-key".to_owned(), key.to_owned()));
    }
    let key = Secret::new("a\nb");
    let refused = V1.auth(&AuthScheme { key: &key, region: None });
    assert_eq!(refused.unwrap_err(), AuthError::NotAHeader);
}

#[test]
fn c1_the_forms_differ_in_their_places() {
    let find = |variant| registry::find("azure-openai", variant).unwrap();
    for endpoint in Endpoint::ALL {
        assert_eq!(find("").place(endpoint), Some(Place::PerCall));
        assert_eq!(find("v1").place(endpoint), Some(Place::At(endpoint.path())));
    }
    let path = |variant, endpoint| {
        let body = Bytes::from_static(br#"{"model":"m"}"#);
        let call = Call::parse(endpoint, body).unwrap();
        let to = Destination { model: "my model/2", profile: &Default::default() };
        find(variant).request(&call, &to).unwrap().path
    };
    let expected = "/deployments/my%20model%2F2/chat/completions";
    assert_eq!(path("", Endpoint::Chat).as_deref(), Some(expected));
    let expected = "/deployments/my%20model%2F2/completions";
    assert_eq!(path("", Endpoint::Completions).as_deref(), Some(expected));
    let expected = "/deployments/my%20model%2F2/embeddings";
    assert_eq!(path("", Endpoint::Embeddings).as_deref(), Some(expected));
    assert_eq!(path("v1", Endpoint::Chat), None);
}

/// Chunks and answers as they are.
const SHAPES: [&str; 6] = [
    r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}"#,
    r#"{"choices":[{"content_filter_results":{},"content_filter_offsets":{"check_offset":1},"finish_reason":null,"index":0}]}"#,
    r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"","name":"f"},"id":"c","index":0,"type":"function"}]},"finish_reason":null,"index":0}]}"#,
    r#"{"choices":[{"delta":{},"finish_reason":"content_filter","index":0}]}"#,
    r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"A"}}],"usage":{"prompt_tokens":9}}"#,
    r#"{"error":{"message":"m","code":"429","innererror":{"code":"x"}}}"#,
];

proptest! {
    /// Whatever comes, with some bytes changed, nobody panics.
    #[test]
    fn c3_no_bytes_do_harm(
        parts in prop::collection::vec(
            (prop::sample::select(SHAPES.to_vec()),
             prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3)),
            0..6),
    ) {
        let call = Call::parse(Endpoint::Chat, Bytes::from_static(br#"{"model":"m"}"#)).unwrap();
        let mut reader = V1.stream(&call, &Sent::default(), &HeaderMap::new());
        let mut framer = sse::Framer::default();
        for (shape, changes) in parts {
            let mut bytes = shape.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let body = Bytes::from(bytes);
            if let Ok(answer) = V1.answer(&call, &HeaderMap::new(), &body) {
                prop_assert!(!answer.body.is_empty());
            }
            let fault = V1.refusal(StatusCode::BAD_REQUEST, &HeaderMap::new(), &body);
            prop_assert_eq!(fault.status, Some(400));
            framer.push([b"data: ".as_slice(), &body, b"\n\n"].concat().into());
        }
        while let Some(frame) = framer.next_frame().unwrap() {
            if let StreamEvent::Content(bytes) = reader.read(&frame) {
                prop_assert!(bytes.ends_with(b"\n\n"));
            }
        }
    }
}
