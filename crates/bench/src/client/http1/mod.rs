//! HTTP/1.1 as a load generator needs it: one exchange per connection, bytes seen as they arrive.
//!
//! There is no pool, no redirect and no compression: each would put time between the server and the
//! clock. Encryption is somebody else's, below this.

mod body;
mod head;
mod url;
mod whole;

pub(crate) use body::BodyFraming;
pub(crate) use head::{ResponseHead, write_request_head};
pub use url::{Url, UrlError};
pub use whole::read_answer;
