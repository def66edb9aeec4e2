//! The errors of Zhipu: codes of digits; the status says next to nothing.

use super::{HTML, IS_HTML};
use crate::providers::rows::Meaning::{
    AuthFailed, ContentFiltered, ContextLengthExceeded, InvalidRequest, ModelNotFound, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};
use crate::providers::rows::{ErrorRow, row};

/// A row whose name is its code.
macro_rules! coded {
    ($code:literal, $status:literal, $means:expr, $message:literal) => {
        row(
            $code,
            $status,
            $means,
            concat!(r#"{"error":{"code":""#, $code, r#"","message":""#, $message, r#""}}"#),
        )
    };
}

/// An error that comes as an event although the status is 200.
const STREAMED: &[(&str, &str)] = &[("content-type", "text/event-stream;charset=UTF-8")];

pub(super) const ROWS: &[ErrorRow] = &[
    coded!("1000", 401, AuthFailed, "Authentication failed"),
    coded!("1001", 401, AuthFailed, "The Authorization header was not received"),
    coded!("1002", 401, AuthFailed, "The Authorization token is not valid"),
    coded!("1003", 401, AuthFailed, "The Authorization token has expired"),
    coded!("1004", 401, AuthFailed, "The Authorization token could not be checked"),
    coded!("1005", 401, AuthFailed, "A second factor is needed"),
    coded!("1110", 429, AuthFailed, "Your account is inactive"),
    coded!("1111", 429, AuthFailed, "Your account does not exist"),
    coded!("1112", 429, AuthFailed, "Your account has been locked"),
    coded!("1113", 429, QuotaExhausted, "Insufficient balance or no resource package. Please recharge."),
    coded!("1120", 429, Overloaded, "Your account cannot be reached for now"),
    coded!("1121", 429, AuthFailed, "Your account was locked for violations"),
    coded!("1200", 500, ProviderError, "The API call failed"),
    coded!("1210", 400, InvalidRequest, "A parameter of the call is wrong"),
    coded!("1211", 400, ModelNotFound, "Unknown Model, please check the model code."),
    coded!("1212", 400, InvalidRequest, "The model does not support this method"),
    coded!("1213", 400, InvalidRequest, "The field messages was not received"),
    coded!("1214", 400, InvalidRequest, "The field messages is not allowed to be so"),
    coded!("1215", 400, InvalidRequest, "The fields a and b exclude each other"),
    coded!("1220", 403, PermissionDenied, "You have no right to this API"),
    coded!("1221", 400, ModelNotFound, "The API is offline"),
    coded!("1222", 404, ModelNotFound, "The API does not exist"),
    coded!("1230", 500, ProviderError, "The API process failed"),
    coded!("1231", 400, InvalidRequest, "There is a request with that request_id already"),
    coded!("1234", 500, ProviderError, "Network error, error id: 1, please contact customer service"),
    row("1234.200", 200, ProviderError, "data: {\"error\":{\"code\":\"1234\",\"message\":\"Network error, error id: 1\"}}\n\ndata: [DONE]\n\n").with(STREAMED),
    coded!("1261", 400, ContextLengthExceeded, "The prompt is too long"),
    coded!("1300", 400, ContentFiltered, "The call was blocked by policy"),
    row("1301", 400, ContentFiltered, r#"{"contentFilter":[{"level":1,"role":"user"}],"error":{"code":"1301","message":"The input or the output may hold unsafe or sensitive content."}}"#),
    coded!("1302", 429, RateLimited, "Concurrency of this API key is too high."),
    coded!("1303", 429, RateLimited, "Frequency of this API is too high."),
    coded!("1304", 429, QuotaExhausted, "The day's limit of calls is reached"),
    coded!("1305", 429, Overloaded, "This model is very busy, try later"),
    row("1305.200", 200, Overloaded, "data: {\"error\":{\"code\":\"1305\",\"message\":\"This model is very busy, try later\"}}\n\ndata: [DONE]\n\n").with(STREAMED),
    coded!("1308", 429, QuotaExhausted, "5-hour usage limit reached, resets at 2026-09-01 18:00:00"),
    coded!("1309", 429, QuotaExhausted, "Your plan has expired"),
    coded!("1310", 429, QuotaExhausted, "Weekly limit reached, resets at 2026-09-07 00:00:00"),
    coded!("1311", 429, PermissionDenied, "Your plan does not include this model"),
    coded!("1312", 429, Overloaded, "This model is busy, try another"),
    coded!("1313", 429, RateLimited, "Your use is limited for violating fair use"),
    coded!("500", 500, ProviderError, "Internal error"),
    coded!("434", 434, PermissionDenied, "You have no right to this API while it is in beta"),
    coded!("435", 435, InvalidRequest, "The file is too large"),
    row("bad_gateway", 502, ProviderError, HTML).with(IS_HTML),
];
