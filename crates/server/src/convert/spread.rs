use std::collections::HashSet;
use std::sync::Arc;

use protocol::json::OneOrMany;

use crate::error::ApiError;
use crate::request_id;

/// One value for each of several requests: the only one for all, or one each. A value for all is not repeated.
pub(super) struct Spread<T>(Option<OneOrMany<T>>);

impl<T> Spread<T> {
    /// Values for `count` requests.
    pub(super) fn new(
        name: &str,
        values: Option<OneOrMany<T>>,
        count: usize,
    ) -> Result<Self, ApiError> {
        match values {
            Some(OneOrMany::Many(values)) if values.len() != count => {
                Err(ApiError::Invalid(format!(
                    "The length of {name} should be equal to the batch size {count}, got {}.",
                    values.len()
                )))
            }
            values => Ok(Self(values)),
        }
    }

    /// The value for one of them.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        match self.0.as_ref()? {
            OneOrMany::One(value) => Some(value),
            OneOrMany::Many(values) => values.get(index),
        }
    }
}

/// The names of the requests of a batch.
pub(super) struct Names {
    /// One each.
    pub(super) each: Vec<String>,
    /// The name that was given to all together.
    pub(super) shared: Option<Arc<str>>,
}

/// Names for `count` requests: made up when absent, numbered when one is given for several.
pub(super) fn names(values: Option<OneOrMany<String>>, count: usize) -> Result<Names, ApiError> {
    if let Some(OneOrMany::One(name)) = &values
        && count > 1
    {
        return Ok(Names {
            each: (0..count).map(|index| format!("{name}_{index}")).collect(),
            shared: Some(name.as_str().into()),
        });
    }
    let names = Spread::new("rid", values, count)?;
    let name = |index| names.get(index).cloned().unwrap_or_else(request_id::new);
    let each: Vec<String> = (0..count).map(name).collect();
    if let Some(twice) = repeated(&each) {
        return Err(ApiError::Invalid(format!(
            "Duplicate request IDs detected within the request: {twice:?}. Give each prompt its own rid, or one to all."
        )));
    }
    Ok(Names { each, shared: None })
}

fn repeated(names: &[String]) -> Option<&str> {
    let mut seen = HashSet::with_capacity(names.len());
    let mut names = names.iter().map(String::as_str);
    names.find(|name| !seen.insert(*name))
}

/// Who finds the prefixes of a request in the cache, apart from keys in the request itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Everybody.
    Anyone,
    /// Those with the same API key, of which this is a digest.
    Key(Arc<str>),
    /// Nobody who does not name the same salt.
    Stranger,
}

/// The namespaces of `count` requests: all keys tell prefixes apart.
pub(super) fn namespaces(
    caller: &Caller,
    extra_keys: Option<OneOrMany<Option<String>>>,
    cache_salts: Option<OneOrMany<Option<String>>>,
    count: usize,
) -> Result<Vec<Option<Arc<str>>>, ApiError> {
    let extra_keys = Spread::new("extra_key", extra_keys, count)?;
    let cache_salts = Spread::new("cache_salt", cache_salts, count)?;
    let own = match caller {
        Caller::Stranger => Some(Arc::from(format!("\u{0}{}", request_id::new()))),
        Caller::Anyone | Caller::Key(_) => None,
    };
    let namespace = |index| -> Option<Arc<str>> {
        let salt = cache_salts.get(index).and_then(Option::as_deref);
        let key = extra_keys.get(index).and_then(Option::as_deref);
        let named: Option<Arc<str>> = match (salt, key) {
            (None, None) => None,
            (Some(only), None) | (None, Some(only)) => Some(only.into()),
            (Some(salt), Some(key)) => Some(format!("{salt}\u{0}{key}").into()),
        };
        match caller {
            Caller::Key(digest) => {
                Some(format!("{digest}\u{0}{}", named.as_deref().unwrap_or_default()).into())
            }
            Caller::Anyone | Caller::Stranger => named.or_else(|| own.clone()),
        }
    };
    Ok((0..count).map(namespace).collect())
}

/// Priorities beyond what the engine tells apart are as good as its extremes.
pub(super) fn priority(value: Option<i64>) -> Option<i32> {
    value.map(|value| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_serves_all_and_a_list_must_fit() {
        let spread = |values| Spread::new("n", values, 2);
        let all = |values: Spread<i64>| [0, 1].map(|index| values.get(index).copied());
        assert_eq!(all(spread(None).unwrap()), [None, None]);
        let one = spread(Some(OneOrMany::One(1))).unwrap();
        assert_eq!(all(one), [Some(1), Some(1)]);
        let many = spread(Some(OneOrMany::Many(vec![1, 2]))).unwrap();
        assert_eq!(all(many), [Some(1), Some(2)]);
        let error = spread(Some(OneOrMany::Many(vec![1]))).err().unwrap();
        assert_eq!(
            error.to_string(),
            "The length of n should be equal to the batch size 2, got 1."
        );
    }

    #[test]
    fn names_are_kept_numbered_or_made_up_and_never_given_twice() {
        let one = |name: &str| Some(OneOrMany::One(name.to_owned()));
        assert_eq!(names(one("a"), 1).unwrap().each, ["a"]);
        let numbered = names(one("a"), 2).unwrap();
        assert_eq!(numbered.each, ["a_0", "a_1"]);
        assert_eq!(numbered.shared.as_deref(), Some("a"));
        assert_eq!(names(None, 1).unwrap().each[0].len(), 32);
        let many = |list: [&str; 3]| Some(OneOrMany::Many(list.map(str::to_owned).to_vec()));
        assert!(names(many(["a", "b", "c"]), 3).is_ok());
        let error = names(many(["a", "b", "a"]), 3).err().unwrap();
        let expected = "Duplicate request IDs detected within the request: \"a\"";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    fn key(text: &str) -> OneOrMany<Option<String>> {
        OneOrMany::One(Some(text.to_owned()))
    }

    fn only(caller: &Caller, extra: Option<&str>, salt: Option<&str>) -> Option<Arc<str>> {
        let (extra, salt) = (extra.map(key), salt.map(key));
        namespaces(caller, extra, salt, 1).unwrap().remove(0)
    }

    #[test]
    fn both_keys_make_the_namespace() {
        let only = |extra, salt| only(&Caller::Anyone, extra, salt);
        assert_eq!(only(None, None), None);
        assert_eq!(only(Some("a"), None).as_deref(), Some("a"));
        assert_eq!(only(Some("a"), Some("b")).as_deref(), Some("b\u{0}a"));
    }

    #[test]
    fn those_with_another_key_share_no_namespace_whatever_they_name() {
        let [first, second] = ["k1", "k2"].map(|key| Caller::Key(key.into()));
        for salt in [None, Some("s"), Some("k1\u{0}")] {
            let mine = only(&first, None, salt);
            assert!(mine.is_some());
            assert_eq!(mine, only(&first, None, salt));
            assert_ne!(mine, only(&second, None, salt));
        }
        assert_ne!(only(&first, None, None), only(&Caller::Anyone, None, None));
    }

    #[test]
    fn strangers_share_what_names_the_same_salt_and_nothing_else() {
        let stranger = Caller::Stranger;
        assert_ne!(only(&stranger, None, None), only(&stranger, None, None));
        let salted = only(&stranger, None, Some("s"));
        assert_eq!(salted, only(&stranger, None, Some("s")));
        let batch = namespaces(&stranger, None, None, 2).unwrap();
        assert_eq!(
            batch[0], batch[1],
            "prompts of one request are no strangers"
        );
    }

    #[test]
    fn priorities_are_clamped() {
        assert_eq!(priority(None), None);
        assert_eq!(priority(Some(i64::MAX)), Some(i32::MAX));
        assert_eq!(priority(Some(-5)), Some(-5));
    }
}
