//! Numbers on their way through: kept as they are spelt, brought within bounds only where they are
//! outside, and read leniently where they only count.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::request::Chat;
use crate::dialect::Unfit;

/// A number for an upstream.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Number<'a> {
    /// As the caller spelt it.
    Spelt(&'a RawValue),
    /// Brought within bounds.
    Clamped(f64),
}

impl<'a> Chat<'a> {
    /// Takes a member that is a number, and brings it within these bounds.
    ///
    /// # Errors
    /// When it is something else.
    pub fn take_clamped(
        &mut self,
        name: &'static str,
        least: f64,
        most: f64,
    ) -> Result<Option<Number<'a>>, Unfit> {
        let spelt = self.others.get(name).copied();
        let Some(number) = self.take_number(name)? else { return Ok(None) };
        let clamped = number.clamp(least, most);
        Ok(match spelt {
            Some(raw) if (number - clamped).abs() == 0.0 => Some(Number::Spelt(raw)),
            _ => Some(Number::Clamped(clamped)),
        })
    }
}

/// A part of an upstream's answer that may be left out when it has not the form that it should have: an
/// answer is not thrown away for its statistics.
pub fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// A count of something, in an upstream's answer. What is no whole number counts as absent: an answer
/// is not thrown away for its statistics.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<serde_json::Value>::deserialize(deserializer)?.and_then(|value| value.as_u64()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::call::{Call, Endpoint};

    #[test]
    fn numbers_within_bounds_keep_their_spelling() {
        check("0.70", "0.70");
        check("1e0", "1e0");
        check("1.5", "1.0");
        check("-3", "0.0");

        #[track_caller]
        fn check(spelt: &str, expected: &str) {
            let body = format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}],"temperature":{spelt}}}"#
            );
            let call = Call::parse(Endpoint::Chat, Bytes::from(body)).unwrap();
            let number = Chat::read(&call).unwrap().take_clamped("temperature", 0.0, 1.0);
            assert_eq!(serde_json::to_string(&number.unwrap().unwrap()).unwrap(), expected);
        }
    }
}
