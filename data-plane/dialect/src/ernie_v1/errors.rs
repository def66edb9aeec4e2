//! What ERNIE's errors mean. They come under status 200, as `error_code` and `error_msg` or as `code`
//! and `msg`; the OAuth server has real statuses and an `error` that is a text.

use sluicegate_model::Outcome::{
    ContentFiltered, ContextTooLong, InvalidRequest, KeyRefused, ModelMissing, Overloaded,
    PermissionDenied, ProviderError, QuotaExhausted, RateLimited,
};

use crate::{
    errors::{Errors, Resets, Row, code},
    wait::Until,
};

pub(super) static ERRORS: Errors = Errors { rows: ROWS, resets: Resets::None };

const ROWS: &[Row] = &[
    code("1").means(ProviderError),
    code("2").means(Overloaded),
    code("3").means(ModelMissing),
    // Of the whole cluster, by the second.
    code("4").means(RateLimited).rest_s(1),
    code("6").means(PermissionDenied),
    code("13").means(KeyRefused),
    code("14").means(KeyRefused),
    code("15").means(KeyRefused),
    // What a day has, or a service that was not paid for.
    code("17").means(QuotaExhausted).until(Until::Midnight("Asia/Shanghai")),
    code("18").means(RateLimited).rest_s(1),
    code("19").means(QuotaExhausted),
    code("100").means(KeyRefused),
    code("110").means(KeyRefused),
    code("111").means(KeyRefused),
    code("336000").means(ProviderError),
    code("336001").means(InvalidRequest),
    code("336002").means(InvalidRequest),
    code("336003").means(InvalidRequest),
    code("336004").means(PermissionDenied),
    code("336005").means(InvalidRequest),
    code("336006").saying(&["too long"]).means(ContextTooLong),
    code("336006").means(InvalidRequest),
    code("336007").saying(&["too long"]).means(ContextTooLong),
    code("336007").means(InvalidRequest),
    code("336100").means(Overloaded),
    code("336101").means(InvalidRequest),
    code("336103").saying(&["too long"]).means(ContextTooLong),
    code("336103").means(InvalidRequest),
    // What developers and users say of themselves, refused for its form or for what it says.
    code("336104").saying(&["unsafe"]).means(ContentFiltered),
    code("336104").saying(&["sensitive"]).means(ContentFiltered),
    code("336104").means(InvalidRequest),
    code("336105").saying(&["unsafe"]).means(ContentFiltered),
    code("336105").saying(&["sensitive"]).means(ContentFiltered),
    code("336105").means(InvalidRequest),
    // Requests and tokens of a minute, which begins anew within 60 s.
    code("336501").means(RateLimited).rest_s(20),
    code("336502").means(RateLimited).rest_s(20),
    code("invalid_client").means(KeyRefused),
];

#[cfg(test)]
mod tests;
