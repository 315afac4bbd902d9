use std::fmt::Write as _;

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

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_32_digits_and_differ() {
        let (first, second) = (super::new(), super::new());
        assert_eq!(first.len(), 32);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(first, second);
        assert_eq!(super::new_call().len(), 5 + 24);
    }
}
