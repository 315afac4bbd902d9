use serde::Serialize;
use serde_json::{Value, json};

use super::{FromJson, Json, Path, ReadError, Unknown};

/// A value for one request, or a list with one for each request of a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// For one request, or for all of a batch.
    One(T),
    /// One each.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// The values in order.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(value) => vec![value],
            Self::Many(values) => values,
        }
    }
}

impl<T: FromJson> FromJson for OneOrMany<T> {
    fn one() -> String {
        format!("{} or a list of {}", T::one(), T::many())
    }

    fn many() -> String {
        format!("{} or lists of {}", T::many(), T::many())
    }

    fn fits(json: &Json) -> bool {
        T::fits(json) || Vec::<T>::fits(json)
    }

    /// What is a list already stays one, so that texts of digits are texts where they may be.
    fn relaxed(json: Json) -> Json {
        if !T::fits(&json) && matches!(&json, Json::List(values) if values.iter().all(T::fits)) {
            return Vec::<T>::relaxed(json);
        }
        let json = T::relaxed(json);
        if T::fits(&json) {
            json
        } else {
            Vec::<T>::relaxed(json)
        }
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        if T::fits(&json) {
            return T::from_json(json, path).map(Self::One);
        }
        match json {
            list @ (Json::Ints(_) | Json::List(_)) => Vec::from_json(list, path).map(Self::Many),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn note_unknown(json: &Json, within: &str, unknown: &mut Unknown) {
        match json {
            Json::List(_) => Vec::<T>::note_unknown(json, within, unknown),
            one => T::note_unknown(one, within, unknown),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [T::schema(), Vec::<T>::schema()]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse::MAX_VALUES;
    use crate::json::{read, record};

    record! {
        /// A request for tests.
        struct Sample {
            /// Texts.
            text: OneOrMany<String>,
            /// Tokens.
            ids: OneOrMany<Vec<i64>>,
            /// A number.
            top_p: f64,
            /// A count.
            n: i64,
            /// A seed.
            seed: u64,
            /// A switch.
            stream: bool,
            /// More of the same.
            inner: OneOrMany<Sample2>,
            /// More whose members nothing else may stand for.
            exact: OneOrMany<Exact>,
            /// Switches.
            flags: OneOrMany<bool>,
            .. /// Members of a group.
            group: Group,
        }
    }

    record! {
        /// Nested.
        struct Sample2 {
            /// A number.
            top_p: f64,
        }
    }

    record! {
        take_exactly:
        /// Nested, and exact.
        struct Exact {
            /// A number.
            top_p: f64,
            /// A switch.
            stream: bool,
        }
    }

    record! {
        /// A group.
        struct Group {
            /// Texts, some absent.
            names: Vec<Option<String>>,
        }
    }

    fn check(text: &str) -> String {
        match read::<Sample>(text.as_bytes()) {
            Ok(sample) => serde_json::to_string(&sample).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_is_understood_is_written_the_same_way() {
        for text in [
            "{}",
            r#"{"text":"a"}"#,
            r#"{"text":["a","b"]}"#,
            r#"{"ids":[1,2]}"#,
            r#"{"ids":[[1,2],[3]]}"#,
            r#"{"ids":[]}"#,
            r#"{"top_p":0.5,"n":2,"seed":18446744073709551615,"stream":true}"#,
            r#"{"inner":{"top_p":0.5}}"#,
            r#"{"inner":[{"top_p":0.5},{}]}"#,
            r#"{"names":["a",null]}"#,
        ] {
            assert_eq!(check(text), text);
        }
    }

    #[test]
    fn nulls_unknown_members_and_what_stands_for_another_type_are_accepted() {
        let cases = [
            (
                r#"{"text":null,"ids":null,"inner":null,"names":null}"#,
                "{}",
            ),
            (r#"{"unknown":[1,{"a":2}],"n":1}"#, r#"{"n":1}"#),
            (r#"{"n":3.0}"#, r#"{"n":3}"#),
            (r#"{"top_p":1}"#, r#"{"top_p":1.0}"#),
            (r#"{"n":1,"n":2}"#, r#"{"n":2}"#),
            (r#"{"seed":-1}"#, r#"{"seed":18446744073709551615}"#),
            (
                r#"{"top_p":"0.5","n":"1","seed":true,"stream":"on"}"#,
                r#"{"top_p":0.5,"n":1,"seed":1,"stream":true}"#,
            ),
            (r#"{"ids":["1",2.0]}"#, r#"{"ids":[1,2]}"#),
            (r#"{"ids":[[1,"2"],["3"]]}"#, r#"{"ids":[[1,2],[3]]}"#),
            (r#"{"text":["1","2"]}"#, r#"{"text":["1","2"]}"#),
            (r#"{"flags":1}"#, r#"{"flags":true}"#),
            (r#"{"flags":[1,0]}"#, r#"{"flags":[true,false]}"#),
            (r#"{"flags":["no",true]}"#, r#"{"flags":[false,true]}"#),
            (r#"{"inner":{"top_p":"0.5"}}"#, r#"{"inner":{"top_p":0.5}}"#),
            (r#"{"exact":[{"top_p":1}]}"#, r#"{"exact":[{"top_p":1.0}]}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text), expected);
        }
    }

    #[test]
    fn more_integers_than_a_document_may_have_values_stand_for_nothing_else() {
        for (count, taken) in [(MAX_VALUES, true), (MAX_VALUES + 1, false)] {
            let text = format!("[{}1]", "0,".repeat(count - 1));
            let found = read::<OneOrMany<bool>>(text.as_bytes());
            assert_eq!(found.is_ok(), taken, "{count}");
        }
    }

    #[test]
    fn what_stands_for_nothing_is_reported_as_it_was_written() {
        let cases = [
            (
                r#"{"exact":{"top_p":"0.5"}}"#,
                "exact.top_p: expected a number, got a string",
            ),
            (
                r#"{"exact":[{"stream":1}]}"#,
                "exact[0].stream: expected a boolean, got an integer",
            ),
            (r#"{"n":"1.5"}"#, "n: expected an integer, got a string"),
            (
                r#"{"flags":[1,2]}"#,
                "flags[1]: expected a boolean, got an integer",
            ),
            (
                r#"{"flags":"maybe"}"#,
                "flags: expected a boolean or a list of booleans, got a string",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text), expected);
        }
    }

    #[test]
    fn wrong_types_are_reported_with_their_path() {
        let cases = [
            ("[]", "expected an object, got a list"),
            ("1", "expected an object, got an integer"),
            (
                r#"{"text":1}"#,
                "text: expected a string or a list of strings, got an integer",
            ),
            (
                r#"{"text":["a",1]}"#,
                "text[1]: expected a string, got an integer",
            ),
            (
                r#"{"text":[["a"]]}"#,
                "text[0]: expected a string, got a list",
            ),
            (
                r#"{"ids":"a"}"#,
                "ids: expected a list of integers or a list of lists of integers, got a string",
            ),
            (
                r#"{"ids":[1,"a"]}"#,
                "ids[1]: expected an integer, got a string",
            ),
            (
                r#"{"ids":[[1],["a"]]}"#,
                "ids[1][0]: expected an integer, got a string",
            ),
            (
                r#"{"ids":[[1],2]}"#,
                "ids[1]: expected a list of integers, got an integer",
            ),
            (
                r#"{"top_p":"half"}"#,
                "top_p: expected a number, got a string",
            ),
            (r#"{"n":1.5}"#, "n: expected an integer, got a fraction"),
            (
                r#"{"n":9000000000000000000000}"#,
                "n: expected an integer, got a number beyond 64 bits",
            ),
            (
                r#"{"text":true}"#,
                "text: expected a string or a list of strings, got a boolean",
            ),
            (
                r#"{"stream":2}"#,
                "stream: expected a boolean, got an integer",
            ),
            (
                r#"{"inner":{"top_p":[]}}"#,
                "inner.top_p: expected a number, got a list",
            ),
            (
                r#"{"inner":[{},{"top_p":{}}]}"#,
                "inner[1].top_p: expected a number, got an object",
            ),
            (
                r#"{"inner":"x"}"#,
                "inner: expected an object or a list of objects, got a string",
            ),
            (
                r#"{"names":[1]}"#,
                "names[0]: expected a string, got an integer",
            ),
            (
                r#"{"n":"#,
                "the body is not valid JSON: EOF while parsing a value at line 1 column 5",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text), expected);
        }
    }
}
