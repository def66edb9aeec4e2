//! A request as the bytes it will be.

use bytes::Bytes;

/// A request. Headers given here replace the defaults of the same name.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    omitted: Vec<String>,
    pub body: Bytes,
}

impl Request {
    /// A POST of JSON, by default with no body.
    pub fn post(target: &str) -> Self {
        Self::new("POST", target).header("content-type", "application/json")
    }

    /// A GET.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Any method, with a `host` and, if there is a body, its `content-length`.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            headers: vec![("host".into(), "gateway.test".into())],
            omitted: Vec::new(),
            body: Bytes::new(),
        }
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// Sets a header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends no header of that name, not even a default.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.omitted.push(name.to_ascii_lowercase());
        self
    }

    /// Sets `authorization: Bearer key`.
    #[must_use]
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The bytes on the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let delimited = |(name, _): &(String, String)| {
            name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("transfer-encoding")
        };
        let has_length = self.headers.iter().any(delimited)
            || self.omitted.iter().any(|name| name == "content-length");
        if self.method != "GET" && !has_length {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}
