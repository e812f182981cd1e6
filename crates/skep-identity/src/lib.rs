//! Identity tokens of sandboxes: JSON Web Tokens that say which sandbox a request comes from, and the
//! keys that sign them.
//!
//! Everything here is pure but for random bytes: keys are kept, sealed and published by others. Tokens
//! are signed by ECDSA over P-256 with SHA-256 (ES256).

mod issuer;
mod rotation;
mod signing_key;
mod token;

pub use issuer::{Issuer, IssuerError};
pub use rotation::{KeyAge, Rotation};
pub use signing_key::{PublicKey, SigningKey, SigningKeyError};
pub use token::{Subject, TOKEN_LIFETIME, sign};
