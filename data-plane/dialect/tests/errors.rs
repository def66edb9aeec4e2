//! Every documented error of the servers that speak OpenAI's format, as it comes over the wire, and
//! what it means: one row for each.

#![allow(clippy::unwrap_used, reason = "tests fail where they panic")]

use http::{HeaderMap, StatusCode};
use sluicegate_dialect::{Level, registry};
use sluicegate_model::Outcome::{self, *};

/// Status, body, what it means, whom it concerns.
type Row = (u16, &'static str, Outcome, Level);

const NOBODY: Level = Level::Nobody;
const PAIR: Level = Level::Pair;
const KEY: Level = Level::Key;
const ACCOUNT: Level = Level::Account;

/// Checks the rows of one variant. A status of 200 is an error in a body or an event.
#[track_caller]
fn check(variant: &str, rows: &[Row]) {
    let dialect = registry::find("openai-chat", variant).unwrap();
    let body = br#"{"model":"m","messages":[]}"#;
    let call = sluicegate_dialect::Call::parse(
        sluicegate_dialect::Endpoint::Chat,
        bytes::Bytes::from_static(body),
    );
    let call = call.unwrap();
    for (status, body, outcome, level) in rows {
        let body = bytes::Bytes::from_static(body.as_bytes());
        let none = HeaderMap::new();
        let fault = match StatusCode::from_u16(*status).unwrap() {
            StatusCode::OK => dialect.answer(&call, &none, &body).unwrap_err(),
            status => dialect.refusal(status, &none, &body),
        };
        assert_eq!((fault.outcome, fault.level), (*outcome, *level), "{variant} {status} {body:?}");
    }
}

/// An error object with a code.
macro_rules! code {
    ($code:literal) => {
        concat!(
            "{\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":null,\"code\":\"",
            $code,
            "\"}}"
        )
    };
}

/// An error object with a type alone.
macro_rules! kind {
    ($kind:literal) => {
        concat!(
            "{\"error\":{\"message\":\"m\",\"type\":\"",
            $kind,
            "\",\"param\":null,\"code\":null}}"
        )
    };
    ($kind:literal, $message:literal) => {
        concat!("{\"error\":{\"message\":\"", $message, "\",\"type\":\"", $kind, "\"}}")
    };
}

#[test]
fn c2_openai() {
    check(
        "openai",
        &[
            (400, kind!("invalid_request_error"), InvalidRequest, NOBODY),
            (400, code!("context_length_exceeded"), ContextTooLong, NOBODY),
            (400, code!("content_policy_violation"), ContentFiltered, NOBODY),
            (400, code!("content_filter"), ContentFiltered, NOBODY),
            (401, code!("invalid_api_key"), KeyRefused, KEY),
            (
                401,
                kind!("invalid_request_error", "You must be a member of an organization"),
                KeyRefused,
                KEY,
            ),
            (403, code!("unsupported_country_region_territory"), PermissionDenied, NOBODY),
            (
                403,
                kind!("x", "Country, region, or territory not supported"),
                PermissionDenied,
                NOBODY,
            ),
            (404, code!("model_not_found"), ModelMissing, PAIR),
            (409, kind!("conflict"), ProviderError, NOBODY),
            (422, kind!("invalid_request_error"), InvalidRequest, NOBODY),
            (429, code!("rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("slow_down"), RateLimited, ACCOUNT),
            (429, code!("insufficient_quota"), QuotaExhausted, ACCOUNT),
            (429, kind!("insufficient_quota"), QuotaExhausted, ACCOUNT),
            (429, code!("credit_balance_exhausted"), QuotaExhausted, ACCOUNT),
            (429, code!("organization_usage_limit_exceeded"), QuotaExhausted, ACCOUNT),
            (429, code!("organization_spend_limit_exceeded"), QuotaExhausted, ACCOUNT),
            (429, code!("project_spend_limit_exceeded"), QuotaExhausted, ACCOUNT),
            (500, kind!("server_error"), ProviderError, NOBODY),
            (503, code!("server_is_overloaded"), Overloaded, NOBODY),
            (200, code!("server_is_overloaded"), Overloaded, NOBODY),
            (502, "<html>bad gateway</html>", ProviderError, NOBODY),
            (504, "", Timeout, NOBODY),
            (520, "<html></html>", ProviderError, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_8_deepseek_is_told_by_status_and_not_by_code_or_words() {
    check(
        "deepseek",
        &[
            (400, code!("invalid_request_error"), InvalidRequest, NOBODY),
            (
                400,
                kind!("x", "This model's maximum context length is 65536 tokens"),
                ContextTooLong,
                NOBODY,
            ),
            (400, kind!("x", "Content Exists Risk"), ContentFiltered, NOBODY),
            (401, code!("invalid_request_error"), KeyRefused, KEY),
            (402, code!("invalid_request_error"), QuotaExhausted, ACCOUNT),
            (422, code!("invalid_request_error"), InvalidRequest, NOBODY),
            (
                429,
                kind!(
                    "rate_limit_error",
                    "concurrency 40 is above your limit of 39 based on your remaining balance. Please top up"
                ),
                RateLimited,
                ACCOUNT,
            ),
            (500, "", ProviderError, NOBODY),
            (503, kind!("x", "Service is too busy"), Overloaded, NOBODY),
            (200, "\n\n  ", Timeout, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_10_doubao_ark_has_three_cures_for_429() {
    check(
        "doubao-ark",
        &[
            (400, code!("MissingParameter"), InvalidRequest, NOBODY),
            (400, code!("InvalidParameter"), InvalidRequest, NOBODY),
            (400, code!("InvalidParameter.OversizedImage"), InvalidRequest, NOBODY),
            (400, code!("InvalidEndpoint.ClosedEndpoint"), ModelMissing, PAIR),
            (400, code!("OutofContextError"), ContextTooLong, NOBODY),
            (400, code!("SensitiveContentDetected"), ContentFiltered, NOBODY),
            (400, code!("SensitiveContentDetected.SevereViolation"), ContentFiltered, NOBODY),
            (400, code!("SensitiveContentDetected.Violence"), ContentFiltered, NOBODY),
            (400, code!("InputTextSensitiveContentDetected"), ContentFiltered, NOBODY),
            (
                400,
                code!("OutputTextSensitiveContentDetected.PolicyViolation"),
                ContentFiltered,
                NOBODY,
            ),
            (400, code!("InputImageSensitiveContentDetected"), ContentFiltered, NOBODY),
            (400, code!("OutputImageSensitiveContentDetected"), ContentFiltered, NOBODY),
            (400, code!("InputVideoSensitiveContentDetected"), ContentFiltered, NOBODY),
            (400, code!("InputTextRiskDetection"), ContentFiltered, NOBODY),
            (400, code!("OutputTextRiskDetection"), ContentFiltered, NOBODY),
            (400, code!("InputImageRiskDetection"), ContentFiltered, NOBODY),
            (400, code!("ContentSecurityDetectionError"), ProviderError, NOBODY),
            (401, code!("AuthenticationError"), KeyRefused, KEY),
            (401, code!("InvalidAccountStatus"), KeyRefused, ACCOUNT),
            (402, code!("x"), QuotaExhausted, ACCOUNT),
            (403, code!("AccountOverdueError"), QuotaExhausted, ACCOUNT),
            (403, code!("OperationDenied.ServiceOverdue"), QuotaExhausted, ACCOUNT),
            (403, code!("AccessDenied"), PermissionDenied, PAIR),
            (403, code!("OperationDenied.PermissionDenied"), PermissionDenied, PAIR),
            (403, code!("OperationDenied.ServiceNotOpen"), PermissionDenied, PAIR),
            (403, code!("OperationDenied.InvalidState"), PermissionDenied, PAIR),
            (403, code!("OperationDenied.UnsupportedPhase"), PermissionDenied, PAIR),
            (403, code!("OperationDenied.FileQuotaExceeded"), PermissionDenied, PAIR),
            (404, code!("InvalidEndpointOrModel.NotFound"), ModelMissing, PAIR),
            (404, code!("InvalidEndpointOrModel.ModelIDAccessDisabled"), ModelMissing, PAIR),
            (404, code!("ModelNotOpen"), ModelMissing, PAIR),
            (404, code!("NotFound.File"), ModelMissing, PAIR),
            (404, code!("UnsupportedModel"), ModelMissing, PAIR),
            (429, code!("RateLimitExceeded.EndpointRPMExceeded"), RateLimited, PAIR),
            (429, code!("RateLimitExceeded.EndpointTPMExceeded"), RateLimited, PAIR),
            (429, code!("RateLimitExceeded.EndpointFlexTPMExceeded"), RateLimited, PAIR),
            (429, code!("RateLimitExceeded.FoundationModelRPMExceeded"), RateLimited, PAIR),
            (429, code!("RateLimitExceeded.FoundationModelTPMExceeded"), RateLimited, PAIR),
            (429, code!("RateLimitExceeded.FoundationModelTPDExceeded"), QuotaExhausted, PAIR),
            (429, code!("ModelAccountRpmRateLimitExceeded"), RateLimited, PAIR),
            (429, code!("ModelAccountTpmRateLimitExceeded"), RateLimited, PAIR),
            (429, code!("ModelAccountIpmRateLimitExceeded"), RateLimited, PAIR),
            (429, code!("ModelAccountFlexTpmRateLimitExceeded"), RateLimited, PAIR),
            (429, code!("APIAccountRpmRateLimitExceeded"), RateLimited, ACCOUNT),
            (429, code!("AccountRateLimitExceeded"), RateLimited, ACCOUNT),
            (429, code!("InflightBatchsizeExceeded"), RateLimited, PAIR),
            (429, code!("RequestBurstTooFast"), RateLimited, PAIR),
            (429, code!("ServerOverloaded"), Overloaded, NOBODY),
            (429, code!("SetLimitExceeded"), QuotaExhausted, PAIR),
            (429, code!("QuotaExceeded"), QuotaExhausted, KEY),
            (429, code!("QuotaExceeded.AgentPlanQuotaExceeded"), QuotaExhausted, KEY),
            (429, code!("InferenceQuotaExceeded"), QuotaExhausted, KEY),
            (429, code!("SomethingNewExceeded"), RateLimited, PAIR),
            (500, code!("InternalServiceError"), ProviderError, NOBODY),
            (503, "busy", Overloaded, NOBODY),
            (504, "", Timeout, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_3_zhipu_mixes_concurrency_overload_and_an_empty_purse_under_429() {
    check(
        "zhipu-glm",
        &[
            (500, code!("500"), ProviderError, NOBODY),
            (401, code!("1000"), KeyRefused, KEY),
            (401, code!("1001"), KeyRefused, KEY),
            (401, code!("1002"), KeyRefused, KEY),
            (401, code!("1003"), KeyRefused, KEY),
            (401, code!("1004"), KeyRefused, KEY),
            (401, code!("1005"), KeyRefused, KEY),
            (429, code!("1110"), KeyRefused, ACCOUNT),
            (429, code!("1111"), KeyRefused, ACCOUNT),
            (429, code!("1112"), KeyRefused, ACCOUNT),
            (429, code!("1113"), QuotaExhausted, ACCOUNT),
            (429, code!("1120"), RateLimited, ACCOUNT),
            (429, code!("1121"), KeyRefused, ACCOUNT),
            (500, code!("1200"), ProviderError, NOBODY),
            (400, code!("1210"), InvalidRequest, NOBODY),
            (400, code!("1211"), ModelMissing, PAIR),
            (400, code!("1212"), InvalidRequest, NOBODY),
            (400, code!("1213"), InvalidRequest, NOBODY),
            (400, code!("1214"), InvalidRequest, NOBODY),
            (400, code!("1215"), InvalidRequest, NOBODY),
            (403, code!("1220"), PermissionDenied, PAIR),
            (400, code!("1221"), ModelMissing, PAIR),
            (404, code!("1222"), ModelMissing, PAIR),
            (500, code!("1230"), ProviderError, NOBODY),
            (400, code!("1231"), ProviderError, NOBODY),
            (500, code!("1234"), ProviderError, NOBODY),
            (200, code!("1234"), ProviderError, NOBODY),
            (400, code!("1261"), ContextTooLong, NOBODY),
            (400, code!("1300"), ContentFiltered, NOBODY),
            (
                400,
                r#"{"contentFilter":[{"level":1,"role":"user"}],"error":{"code":"1301","message":"m"}}"#,
                ContentFiltered,
                NOBODY,
            ),
            (429, code!("1302"), RateLimited, PAIR),
            (429, code!("1303"), RateLimited, PAIR),
            (429, code!("1304"), QuotaExhausted, KEY),
            (429, code!("1305"), Overloaded, NOBODY),
            (200, code!("1305"), Overloaded, NOBODY),
            (429, code!("1308"), QuotaExhausted, ACCOUNT),
            (429, code!("1309"), QuotaExhausted, ACCOUNT),
            (429, code!("1310"), QuotaExhausted, ACCOUNT),
            (429, code!("1311"), PermissionDenied, PAIR),
            (429, code!("1312"), Overloaded, NOBODY),
            (429, code!("1313"), RateLimited, PAIR),
            (434, "", PermissionDenied, PAIR),
            (435, "", InvalidRequest, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_1_qwens_insufficient_quota_is_a_throttle_and_trap_2_arrearage_is_400() {
    check(
        "qwen",
        &[
            (400, code!("InvalidParameter"), InvalidRequest, NOBODY),
            (400, code!("invalid_parameter_error"), InvalidRequest, NOBODY),
            (400, code!("BadRequest.EmptyInput"), InvalidRequest, NOBODY),
            (400, code!("BadRequest.EmptyParameters"), InvalidRequest, NOBODY),
            (400, code!("BadRequest.EmptyModel"), InvalidRequest, NOBODY),
            (400, code!("InvalidURL"), InvalidRequest, NOBODY),
            (400, code!("UnsupportedOperation"), InvalidRequest, NOBODY),
            (
                400,
                r#"{"error":{"code":"InvalidParameter","message":"Range of input length should be [1, 30720]"}}"#,
                ContextTooLong,
                NOBODY,
            ),
            (400, code!("DataInspectionFailed"), ContentFiltered, NOBODY),
            (400, code!("data_inspection_failed"), ContentFiltered, NOBODY),
            (400, code!("InvalidParameter.DataInspection"), ContentFiltered, NOBODY),
            (400, code!("Arrearage"), QuotaExhausted, ACCOUNT),
            (
                400,
                "id:1\nevent:error\n:HTTP_STATUS/400\ndata:{\"code\":\"Arrearage\",\"message\":\"m\",\"request_id\":\"r\"}\n\n",
                QuotaExhausted,
                ACCOUNT,
            ),
            (401, code!("InvalidApiKey"), KeyRefused, KEY),
            (401, code!("invalid_api_key"), KeyRefused, KEY),
            (401, r#"{"message":"invalid access token or token expired"}"#, KeyRefused, KEY),
            (403, code!("AccessDenied"), PermissionDenied, PAIR),
            (403, code!("access_denied"), PermissionDenied, PAIR),
            (403, code!("Model.AccessDenied"), PermissionDenied, PAIR),
            (403, code!("AccessDenied.Unpurchased"), PermissionDenied, PAIR),
            (403, code!("Workspace.AccessDenied"), PermissionDenied, PAIR),
            (403, code!("AllocationQuota.FreeTierOnly"), QuotaExhausted, PAIR),
            (404, code!("ModelNotFound"), ModelMissing, PAIR),
            (404, code!("model_not_found"), ModelMissing, PAIR),
            (408, code!("RequestTimeOut"), Timeout, NOBODY),
            (413, code!("BadRequest.TooLarge"), InvalidRequest, NOBODY),
            (429, code!("Throttling"), RateLimited, PAIR),
            (429, code!("Throttling.RateQuota"), RateLimited, PAIR),
            (429, code!("LimitRequests"), RateLimited, PAIR),
            (429, code!("limit_requests"), RateLimited, PAIR),
            (429, code!("Throttling.BurstRate"), RateLimited, PAIR),
            (429, code!("limit_burst_rate"), RateLimited, PAIR),
            (429, code!("Throttling.AllocationQuota"), RateLimited, PAIR),
            (429, code!("insufficient_quota"), RateLimited, PAIR),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","message":"Free allocated quota exceeded."}}"#,
                QuotaExhausted,
                PAIR,
            ),
            (429, code!("PrepaidBillOverdue"), QuotaExhausted, ACCOUNT),
            (429, code!("PostpaidBillOverdue"), QuotaExhausted, ACCOUNT),
            (429, code!("CommodityNotPurchased"), QuotaExhausted, ACCOUNT),
            (429, code!("BudgetLimitExceeded"), QuotaExhausted, ACCOUNT),
            (429, code!("Throttling.ServiceOverloaded"), Overloaded, NOBODY),
            (500, code!("InternalError"), ProviderError, NOBODY),
            (500, code!("InternalError.Algo"), ProviderError, NOBODY),
            (500, code!("InternalError.Timeout"), ProviderError, NOBODY),
            (
                500,
                r#"{"code":"InternalError","message":"<400> InternalError.Algo.DataInspectionFailed: m"}"#,
                ContentFiltered,
                NOBODY,
            ),
            (503, code!("ModelUnavailable"), Overloaded, NOBODY),
            (503, code!("ModelServingError"), Overloaded, NOBODY),
        ],
    );
}

#[test]
fn c2_qianfan_v2() {
    check(
        "qianfan-v2",
        &[
            (400, code!("malformed_json"), InvalidRequest, NOBODY),
            (400, code!("invalid_messages"), InvalidRequest, NOBODY),
            (400, code!("invalid_argument"), InvalidRequest, NOBODY),
            (400, code!("invalid_model"), InvalidRequest, NOBODY),
            (400, code!("characters_too_long"), ContextTooLong, NOBODY),
            (400, code!("tokens_too_long"), ContextTooLong, NOBODY),
            (400, kind!("unsafe_request"), ContentFiltered, NOBODY),
            (401, code!("no_parameter_permission"), PermissionDenied, PAIR),
            (401, code!("invalid_model"), ModelMissing, PAIR),
            (401, code!("invalid_appid"), KeyRefused, KEY),
            (401, code!("invalid_iam_token"), KeyRefused, KEY),
            (403, code!("system_unsafe"), ContentFiltered, NOBODY),
            (403, code!("user_setting_unsafe"), ContentFiltered, NOBODY),
            (403, code!("functions_unsafe"), ContentFiltered, NOBODY),
            (405, code!("method_not_supported"), ProviderError, NOBODY),
            (429, code!("rpm_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("tpm_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("input_tpm_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("output_tpm_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("preemptible_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("user_rate_limit_exceeded"), RateLimited, PAIR),
            (429, code!("cluster_rate_limit_exceeded"), Overloaded, NOBODY),
            (429, code!("cluster_rpm_rate_limit_exceeded"), Overloaded, NOBODY),
            (429, code!("cluster_tpm_rate_limit_exceeded"), Overloaded, NOBODY),
            (429, code!("Offline_batch_reasoning_refused"), RateLimited, PAIR),
            (429, code!("BILLING_INSUFFICIENT_BALANCE"), QuotaExhausted, KEY),
            (429, code!("QUOTA_USER_DAILY_FREE"), QuotaExhausted, KEY),
            (500, code!("internal_error"), ProviderError, NOBODY),
            (500, code!("dispatch_internal_error"), ProviderError, NOBODY),
            (500, code!("image_genration_interal_error"), ProviderError, NOBODY),
            (200, r#"{"code":"rpm_rate_limit_exceeded","msg":"m"}"#, RateLimited, PAIR),
            (200, r#"{"code":"tpm_rate_limit_exceeded","message":"m"}"#, RateLimited, PAIR),
            (200, r#"{"code":336501,"msg":"Rate limit reached for RPM"}"#, RateLimited, PAIR),
        ],
    );
}

#[test]
fn c2_moonshot() {
    check(
        "moonshot",
        &[
            (400, kind!("invalid_request_error"), InvalidRequest, NOBODY),
            (
                400,
                kind!(
                    "invalid_request_error",
                    "Your request exceeded model token limit: 8192 (requested: 9000)"
                ),
                ContextTooLong,
                NOBODY,
            ),
            (400, kind!("content_filter"), ContentFiltered, NOBODY),
            (401, kind!("invalid_authentication_error"), KeyRefused, KEY),
            (401, kind!("incorrect_api_key_error"), KeyRefused, KEY),
            (402, "", QuotaExhausted, KEY),
            (403, kind!("permission_denied_error"), PermissionDenied, PAIR),
            (
                403,
                kind!("permission_denied_error", "Insufficient balance"),
                QuotaExhausted,
                ACCOUNT,
            ),
            (
                403,
                kind!("x", "You've reached your usage limit for this billing cycle"),
                QuotaExhausted,
                ACCOUNT,
            ),
            (404, kind!("resource_not_found_error"), ModelMissing, PAIR),
            (
                429,
                kind!(
                    "rate_limit_reached_error",
                    "reached max RPM: 3, please try again after 1 seconds"
                ),
                RateLimited,
                ACCOUNT,
            ),
            (429, kind!("rate_limit_reached_error", "reached max TPD"), QuotaExhausted, PAIR),
            (429, kind!("exceeded_current_quota_error"), QuotaExhausted, ACCOUNT),
            (429, kind!("engine_overloaded_error"), Overloaded, NOBODY),
            (429, kind!("x", "usage limit for this period"), QuotaExhausted, ACCOUNT),
            (500, kind!("server_error"), ProviderError, NOBODY),
            (500, kind!("unexpected_output"), ProviderError, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_9_mistrals_capacity_calls_itself_an_invalid_request() {
    check(
        "mistral",
        &[
            (400, kind!("invalid_request_error"), InvalidRequest, NOBODY),
            (
                400,
                kind!("invalid_request_error", "Prompt exceeds the maximum context length"),
                ContextTooLong,
                NOBODY,
            ),
            (401, r#"{"detail":"Unauthorized"}"#, KeyRefused, KEY),
            (402, "", QuotaExhausted, KEY),
            (403, "", PermissionDenied, PAIR),
            (404, "", ModelMissing, PAIR),
            (
                422,
                r#"{"detail":[{"type":"extra_forbidden","loc":["body","user"],"msg":"m"}]}"#,
                InvalidRequest,
                NOBODY,
            ),
            (
                429,
                r#"{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300","raw_status_code":429}"#,
                RateLimited,
                PAIR,
            ),
            (429, r#"{"message":"Requests rate limit exceeded"}"#, RateLimited, PAIR),
            (
                429,
                r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"invalid_request_error","param":null,"code":null}"#,
                Overloaded,
                NOBODY,
            ),
            (503, code!("3505"), Overloaded, NOBODY),
            (429, kind!("service_tier_capacity_exceeded"), Overloaded, NOBODY),
            (500, "", ProviderError, NOBODY),
            (502, "", ProviderError, NOBODY),
            (503, "", Overloaded, NOBODY),
            (504, "", Timeout, NOBODY),
        ],
    );
}

#[test]
fn c2_trap_7_vllm_has_several_envelopes_of_one_error() {
    const TOO_LONG: &str = r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000","type":"BadRequestError","param":"input_tokens","code":400}}"#;
    check(
        "vllm",
        &[
            (400, TOO_LONG, ContextTooLong, NOBODY),
            (500, TOO_LONG, ContextTooLong, NOBODY),
            (
                400,
                r#"{"object":"error","message":"max_tokens is too large: 9000","type":"BadRequestError","param":"max_tokens","code":400}"#,
                ContextTooLong,
                NOBODY,
            ),
            (
                400,
                r#"{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
                InvalidRequest,
                NOBODY,
            ),
            (401, r#"{"error":"Unauthorized"}"#, KeyRefused, KEY),
            (401, "", KeyRefused, KEY),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
                ModelMissing,
                PAIR,
            ),
            (404, r#"{"detail":"Not Found"}"#, ProviderError, NOBODY),
            (
                422,
                r#"{"detail":[{"loc":["body","messages"],"msg":"field required"}]}"#,
                InvalidRequest,
                NOBODY,
            ),
            (
                500,
                r#"{"error":{"message":"CUDA out of memory","type":"InternalServerError","param":null,"code":500}}"#,
                ProviderError,
                NOBODY,
            ),
            (500, "Internal Server Error", ProviderError, NOBODY),
            (
                501,
                r#"{"error":{"message":"m","type":"NotImplementedError","code":501}}"#,
                InvalidRequest,
                NOBODY,
            ),
            (
                503,
                r#"{"error":{"message":"queue is full","type":"ServiceUnavailable","code":503}}"#,
                Overloaded,
                NOBODY,
            ),
            (
                200,
                r#"{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","code":500}}"#,
                ProviderError,
                NOBODY,
            ),
            (502, "<html>", ProviderError, NOBODY),
        ],
    );
    check(
        "sglang",
        &[
            (
                400,
                r#"{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
                InvalidRequest,
                NOBODY,
            ),
            (
                500,
                r#"{"object":"error","message":"Internal server error: x","type":"InternalServerError","code":500}"#,
                ProviderError,
                NOBODY,
            ),
        ],
    );
}

#[test]
fn c2_ollama() {
    check(
        "ollama",
        &[
            (400, kind!("invalid_request_error"), InvalidRequest, NOBODY),
            (401, r#"{"error":"unauthorized","signin_url":"u"}"#, KeyRefused, KEY),
            (404, kind!("not_found_error"), ModelMissing, PAIR),
            (404, r#"{"error":"model 'x' not found"}"#, ModelMissing, PAIR),
            (429, r#""you have reached your hourly usage limit""#, QuotaExhausted, KEY),
            (499, "", ProviderError, NOBODY),
            (500, kind!("api_error"), ProviderError, NOBODY),
            (502, "", ProviderError, NOBODY),
            (
                503,
                r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
                Overloaded,
                NOBODY,
            ),
        ],
    );
}
