//! `GET /health`

/// The server answers. Needs no key.
pub(crate) async fn health() -> &'static str {
    "Health check successful"
}
