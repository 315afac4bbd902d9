use std::fmt::Write as _;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue};

/// The header by which clients and proxies follow a request.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Most bytes of a name that is taken over from a request.
const LONGEST: usize = 128;

/// A new name for a request: 32 hexadecimal digits.
pub(crate) fn new() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A new name for a call of a function, as OpenAI forms them.
pub(crate) fn new_call() -> String {
    let mut name = String::from("call_");
    write!(name, "{:024x}", rand::random::<u128>() >> 32).expect("strings take any text");
    name
}

/// Gives every answer the name that its request brought, or a new one.
pub(crate) async fn name_answer(request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).filter(|name| is_clean(name));
    let name = given.cloned().unwrap_or_else(|| {
        HeaderValue::try_from(new()).expect("hexadecimal digits are a header's text")
    });
    let mut response = next.run(request).await;
    response.headers_mut().insert(HEADER, name);
    response
}

/// Whether a name can be repeated anywhere: letters, digits and what joins them.
fn is_clean(name: &HeaderValue) -> bool {
    let name = name.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    (1..=LONGEST).contains(&name.len()) && name.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_32_digits_and_differ() {
        let (first, second) = (new(), new());
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(first, second);
        assert_eq!(new_call().len(), 5 + 24);
    }

    #[test]
    fn only_short_plain_names_are_taken_over() {
        let is_clean = |name: &str| is_clean(&HeaderValue::from_str(name).unwrap());
        for clean in ["a", "req-1_2.3", "01H:x/y+z=", &"a".repeat(LONGEST)] {
            assert!(is_clean(clean), "{clean}");
        }
        for other in ["", "a b", "<x>", "a\tb", "a\"", &"a".repeat(LONGEST + 1)] {
            assert!(!is_clean(other), "{other}");
        }
    }
}
