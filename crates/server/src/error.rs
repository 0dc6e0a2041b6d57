//! How a request is refused: a status, a reason in words, and when to come again.

use std::net::IpAddr;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use record::batch::{BatchError, PROTOCOL, Refusal};
use store::{PrepareError, StoreError};

use crate::committer::NotStored;
use crate::places::Crowded;
use crate::tokens::Refused;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error(transparent)]
    Unauthorized(#[from] Refused),
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    BadRequest(String),
    /// The batch arrived as it was sent, and still cannot be used.
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    UnsupportedMedia(String),
    #[error("the request did not come within {0} seconds")]
    Timeout(u64),
    #[error("the answer takes longer than {0} seconds: ask for less, a shorter time or fewer columns")]
    Long(f64),
    #[error("host {0} sends more than its share: try again later")]
    Rate(String),
    #[error("too many wrong tokens came from {0}: try again later")]
    Wrong(IpAddr),
    #[error(transparent)]
    Crowded(#[from] Crowded),
    #[error("answers that you asked for wait to be read: read them, or ask again later")]
    Unread,
    #[error(transparent)]
    NotStored(#[from] NotStored),
    #[error("{0}")]
    Internal(&'static str),
    #[error("{}", in_words(.0))]
    Store(#[from] StoreError),
}

/// A limit is no fault of the store.
fn in_words(error: &StoreError) -> String {
    match error {
        StoreError::Quota(reason) => reason.clone(),
        _ => format!("the store cannot answer: {error}"),
    }
}

impl From<BatchError> for ApiError {
    fn from(error: BatchError) -> Self {
        ApiError::BadRequest(error.to_string())
    }
}

impl From<PrepareError> for ApiError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Host { .. } => ApiError::Forbidden(error.to_string()),
            _ => ApiError::Unusable(error.to_string()),
        }
    }
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            ApiError::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            ApiError::Forbidden(_) => StatusCode::FORBIDDEN,
            ApiError::BadRequest(_) | ApiError::Store(StoreError::Tags(_)) => StatusCode::BAD_REQUEST,
            ApiError::Unusable(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::UnsupportedMedia(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiError::Timeout(_) => StatusCode::REQUEST_TIMEOUT,
            ApiError::Long(_) => StatusCode::GATEWAY_TIMEOUT,
            ApiError::Rate(_) | ApiError::Wrong(_) | ApiError::Crowded(_) | ApiError::Unread => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ApiError::Conflict(_) | ApiError::Store(StoreError::Quota(_)) => StatusCode::CONFLICT,
            ApiError::NotStored(_) => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Store(_) | ApiError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Seconds after which it makes sense to come again.
    fn retry_after(&self) -> Option<&'static str> {
        match self {
            ApiError::Rate(_) | ApiError::Crowded(_) | ApiError::Unread => Some("5"),
            ApiError::Wrong(_) | ApiError::NotStored(NotStored::DiskFull { .. }) => Some("30"),
            ApiError::NotStored(_) => Some("2"),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let refusal = Refusal { error: self.to_string(), protocol: PROTOCOL };
        let mut response = (self.status(), Json(refusal)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if matches!(self, ApiError::Unauthorized(_)) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
