//! Encrypted connections: whom to trust, and a session between the socket and the exchange.
//!
//! A session never touches the clock: what it opens is dated by the read that brought its bytes.

mod session;
mod trust;
mod verifier;

pub(crate) use session::{Session, refusal};
pub(crate) use trust::Identity;
pub use trust::{Trust, TrustError};
