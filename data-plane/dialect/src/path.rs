//! Names as segments of a path.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 3986 calls unreserved stays as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A name as one segment of a path: slashes and colons are escaped, too.
pub(crate) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment() {
        assert_eq!(segment("eu.model-v1_2~x"), "eu.model-v1_2~x");
        assert_eq!(segment("vendor.model-v1:0"), "vendor.model-v1%3A0");
        assert_eq!(
            segment("arn:aws:x::1:y/z é?#%"),
            "arn%3Aaws%3Ax%3A%3A1%3Ay%2Fz%20%C3%A9%3F%23%25"
        );
    }
}
