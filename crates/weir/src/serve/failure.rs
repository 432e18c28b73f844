//! Error answers.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use weir_filter::FilterError;
use weir_store::StoreError;

/// Seconds after which a client may try again when there was no place.
const RETRY: &str = "5";

/// An error answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Failure {
    #[serde(skip)]
    pub status: StatusCode,
    /// The error.
    pub error: String,
    /// Accepted values, or the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub help: Option<String>,
    /// Position in the expression, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub offset: Option<usize>,
    /// Length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub length: Option<usize>,
}

impl Failure {
    /// An error with a status.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: None, offset: None, length: None }
    }

    /// A bad request, with the values that would be accepted.
    pub fn question(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..Self::new(StatusCode::BAD_REQUEST, error) }
    }

    /// Not found.
    pub fn unknown(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// Temporarily unavailable.
    pub fn busy(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// Forbidden for this client.
    pub fn forbidden(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..Self::new(StatusCode::FORBIDDEN, error) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY));
        }
        response
    }
}

impl From<FilterError> for Failure {
    fn from(error: FilterError) -> Self {
        Self {
            offset: Some(error.span.start),
            length: Some(error.span.len()),
            help: Some("pcap-filter(7) expressions, such as `tcp port 443 and net 10.0.0.0/8`".to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, error.message)
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Unknown(_) | StoreError::NotThere(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}
