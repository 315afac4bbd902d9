//! What pydantic, by which SGLang reads its requests, takes for a value of another type.
//!
//! Each function gives the value in its own type, or as it was when it stands for nothing: whoever reads
//! it then says what is wrong. Infinities and what is no number are nothing here, as they are in JSON.

use super::Json;

/// The spellings of booleans, in any case and without spaces.
const TRUE: [&str; 6] = ["1", "t", "y", "on", "yes", "true"];
const FALSE: [&str; 6] = ["0", "f", "n", "no", "off", "false"];

/// Zero and one, and words.
pub(super) fn boolean(json: Json) -> Json {
    let value = match &json {
        Json::Int(0) | Json::Float(0.0) => Some(false),
        Json::Int(1) | Json::Float(1.0) => Some(true),
        Json::String(text) => boolean_of(text),
        _ => None,
    };
    value.map_or(json, Json::Bool)
}

/// Booleans, numbers without a fraction, and both kinds of whole numbers as text.
pub(super) fn integer(json: Json) -> Json {
    let value = match &json {
        Json::Bool(value) => Some(Json::Int(i64::from(*value))),
        Json::Float(value) if value.fract() == 0.0 && value.abs() < TWO_TO_63 => {
            Some(Json::Int(*value as i64))
        }
        Json::String(text) => integer_of(text),
        _ => None,
    };
    value.unwrap_or(json)
}

/// Booleans, and numbers as text.
pub(super) fn number(json: Json) -> Json {
    let value = match &json {
        Json::Bool(value) => Some(f64::from(*value)),
        Json::String(text) => number_of(text),
        _ => None,
    };
    value.map_or(json, Json::Float)
}

/// Where integers of 64 bits end.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn boolean_of(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 6]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    is_one_of(TRUE)
        .then_some(true)
        .or_else(|| is_one_of(FALSE).then_some(false))
}

/// A sign, digits in groups, and a fraction of zeros; nothing beyond 64 bits.
fn integer_of(text: &str) -> Option<Json> {
    let text = text.trim();
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (digits, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if fraction.is_empty() || fraction.bytes().any(|digit| digit != b'0') {
        return None;
    }
    let mut magnitude = 0_u64;
    for group in digits.split('_') {
        if group.is_empty() {
            return None;
        }
        for digit in group.chars() {
            let digit = u64::from(digit.to_digit(10)?);
            magnitude = magnitude.checked_mul(10)?.checked_add(digit)?;
        }
    }
    if negative {
        return 0_i64.checked_sub_unsigned(magnitude).map(Json::Int);
    }
    Some(i64::try_from(magnitude).map_or(Json::Large(magnitude), Json::Int))
}

/// As Rust and Python write them both; with single underscores anywhere inside, but then without spaces around.
fn number_of(text: &str) -> Option<f64> {
    let value: f64 = if text.contains('_') {
        if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
            return None;
        }
        text.replace('_', "").parse().ok()?
    } else {
        text.trim().parse().ok()?
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{FromJson, read};

    /// Every text reads as the value, or as nothing: the answers of pydantic 2.14.
    fn check<T: FromJson + PartialEq + std::fmt::Debug>(taken: &[(&str, T)], refused: &[&str]) {
        for (text, expected) in taken {
            assert_eq!(read::<T>(text.as_bytes()).as_ref(), Ok(expected), "{text}");
        }
        for text in refused {
            let found = read::<T>(text.as_bytes());
            assert!(found.is_err(), "{text}: {found:?}");
        }
    }

    #[test]
    fn booleans_are_taken_from_zero_and_one_and_from_words_in_any_case() {
        for (words, value) in [(TRUE, true), (FALSE, false)] {
            for word in words {
                let spellings = [word.to_owned(), word.to_uppercase()];
                for spelling in spellings {
                    check(&[(&format!("{spelling:?}"), value)], &[]);
                }
            }
        }
        check(
            &[
                ("true", true),
                ("1", true),
                ("0", false),
                ("1.0", true),
                ("-0.0", false),
                (r#""tRuE""#, true),
            ],
            &[
                "2",
                "-1",
                "0.5",
                r#""""#,
                r#"" true""#,
                r#""true ""#,
                r#""2""#,
                r#""1.0""#,
                r#""ja""#,
                r#""oﬀ""#,
                "[]",
                "{}",
            ],
        );
    }

    #[test]
    fn integers_are_taken_from_text_whole_floats_and_booleans() {
        check(
            &[
                (r#""1""#, 1),
                (r#""-1""#, -1),
                (r#""+1""#, 1),
                (r#"" \t1\n\u00a0""#, 1),
                (r#""-01""#, -1),
                (r#""1_000""#, 1000),
                (r#""0_1""#, 1),
                (r#""1.00""#, 1),
                (r#""1_0.0""#, 10),
                (r#""-0.0""#, 0),
                (r#""9223372036854775807""#, i64::MAX),
                (r#""-9223372036854775808""#, i64::MIN),
                ("1.0", 1),
                ("1e18", 1_000_000_000_000_000_000),
                ("true", 1),
                ("false", 0),
            ],
            &[
                r#""""#,
                r#""  ""#,
                r#""-""#,
                r#""- 1""#,
                r#""--1""#,
                r#""1 0""#,
                r#""_1""#,
                r#""1_""#,
                r#""1__0""#,
                r#""1.""#,
                r#"".0""#,
                r#""1.5""#,
                r#""1.0_0""#,
                r#""1e3""#,
                r#""0x10""#,
                r#""1,000""#,
                r#""１""#,
                r#""1\u0000""#,
                r#""\ufeff1""#,
                r#""inf""#,
                r#""true""#,
                "1.5",
                "1e19",
                "[]",
                "[1]",
                "{}",
            ],
        );
        check(&[(r#""18446744073709551615""#, u64::MAX)], &[]);
    }

    #[test]
    fn numbers_are_taken_from_text_and_booleans() {
        check(
            &[
                (r#""1""#, 1.0),
                (r#""0.5""#, 0.5),
                (r#"".5""#, 0.5),
                (r#""5.""#, 5.0),
                (r#""-.5e+2""#, -50.0),
                (r#""1E-3""#, 0.001),
                (r#"" 0.5\u2003""#, 0.5),
                (r#""1_0.5""#, 10.5),
                (r#""1._5""#, 1.5),
                (r#""1e-999""#, 0.0),
                ("true", 1.0),
                ("false", 0.0),
            ],
            &[
                r#""""#,
                r#"".""#,
                r#""e5""#,
                r#""1e""#,
                r#""0x10""#,
                r#""0.5f""#,
                r#""1,5""#,
                r#""1 5""#,
                r#""_1""#,
                r#""1_""#,
                r#""1__0""#,
                r#"" 1_0""#,
                r#""１""#,
                r#""true""#,
                "[]",
                "{}",
            ],
        );
    }

    #[test]
    fn what_does_not_fit_its_type_is_refused_and_never_rounded_to_the_edge() {
        check::<i64>(
            &[],
            &[
                r#""18446744073709551616""#,
                r#""-9223372036854775809""#,
                r#""99999999999999999999999.0""#,
            ],
        );
        check::<f64>(
            &[],
            &[
                r#""1e999""#,
                r#""inf""#,
                r#""-Infinity""#,
                r#""nan""#,
                r#""i_nf""#,
            ],
        );
    }

    #[test]
    fn millions_of_digits_are_read_once_and_never_counted_up() {
        const LONG: usize = 4_000_000;
        let [ones, zeros, groups] = ["1", "0", "1_"].map(|digits| digits.repeat(LONG));
        assert_eq!(integer_of(&ones), None);
        assert_eq!(integer_of(&format!("-{ones}")), None);
        assert_eq!(integer_of(&groups), None);
        assert_eq!(integer_of(&format!("{zeros}7")), Some(Json::Int(7)));
        assert_eq!(integer_of(&format!("7.{zeros}")), Some(Json::Int(7)));
        assert_eq!(number_of(&ones), None);
        assert_eq!(number_of(&groups), None);
        assert_eq!(number_of(&format!("0.{ones}")), Some(1.0 / 9.0));
        assert_eq!(boolean_of(&ones), None);
    }
}
