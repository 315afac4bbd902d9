use protocol::json::OneOrMany;

use crate::error::ApiError;

/// One value for each of `count` requests: the only one for all, or one each.
pub(super) fn spread<T: Clone>(
    name: &str,
    values: Option<OneOrMany<T>>,
    count: usize,
) -> Result<Vec<Option<T>>, ApiError> {
    match values {
        None => Ok(vec![None; count]),
        Some(OneOrMany::One(value)) => Ok(vec![Some(value); count]),
        Some(OneOrMany::Many(values)) if values.len() == count => {
            Ok(values.into_iter().map(Some).collect())
        }
        Some(OneOrMany::Many(values)) => Err(ApiError::Invalid(format!(
            "The length of {name} should be equal to the batch size {count}, got {}.",
            values.len()
        ))),
    }
}

/// Names for `count` requests: made up when absent, numbered when one is given for several.
pub(super) fn names(
    values: Option<OneOrMany<String>>,
    count: usize,
) -> Result<Vec<String>, ApiError> {
    if let Some(OneOrMany::One(name)) = &values
        && count > 1
    {
        return Ok((0..count).map(|index| format!("{name}_{index}")).collect());
    }
    let names = spread("rid", values, count)?;
    Ok(names
        .into_iter()
        .map(|name| name.unwrap_or_else(crate::request_id::new))
        .collect())
}

/// The namespaces of `count` requests: both keys tell prefixes apart.
pub(super) fn namespaces(
    extra_keys: Option<OneOrMany<Option<String>>>,
    cache_salts: Option<OneOrMany<Option<String>>>,
    count: usize,
) -> Result<Vec<Option<std::sync::Arc<str>>>, ApiError> {
    let extra_keys = spread("extra_key", extra_keys, count)?;
    let cache_salts = spread("cache_salt", cache_salts, count)?;
    let join = |(extra_key, cache_salt): (Option<Option<String>>, Option<Option<String>>)| match (
        cache_salt.flatten(),
        extra_key.flatten(),
    ) {
        (None, None) => None,
        (Some(only), None) | (None, Some(only)) => Some(only.into()),
        (Some(salt), Some(key)) => Some(format!("{salt}\u{0}{key}").into()),
    };
    Ok(extra_keys.into_iter().zip(cache_salts).map(join).collect())
}

/// Priorities beyond what the engine tells apart are as good as its extremes.
pub(super) fn priority(value: Option<i64>) -> i32 {
    value
        .unwrap_or(0)
        .clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_serves_all_and_a_list_must_fit() {
        assert_eq!(spread::<i64>("n", None, 2).unwrap(), [None, None]);
        assert_eq!(
            spread("n", Some(OneOrMany::One(1)), 2).unwrap(),
            [Some(1), Some(1)]
        );
        assert_eq!(
            spread("n", Some(OneOrMany::Many(vec![1, 2])), 2).unwrap(),
            [Some(1), Some(2)]
        );
        let error = spread("n", Some(OneOrMany::Many(vec![1])), 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "The length of n should be equal to the batch size 2, got 1."
        );
    }

    #[test]
    fn names_are_kept_numbered_or_made_up() {
        let one = |name: &str| Some(OneOrMany::One(name.to_owned()));
        assert_eq!(names(one("a"), 1).unwrap(), ["a"]);
        assert_eq!(names(one("a"), 2).unwrap(), ["a_0", "a_1"]);
        assert_eq!(names(None, 1).unwrap()[0].len(), 32);
    }

    #[test]
    fn both_keys_make_the_namespace() {
        let key = |text: &str| Some(OneOrMany::One(Some(text.to_owned())));
        let only = |extra, salt| namespaces(extra, salt, 1).unwrap().remove(0);
        assert_eq!(only(None, None), None);
        assert_eq!(only(key("a"), None).as_deref(), Some("a"));
        assert_eq!(only(key("a"), key("b")).as_deref(), Some("b\u{0}a"));
    }

    #[test]
    fn priorities_are_clamped() {
        assert_eq!(priority(None), 0);
        assert_eq!(priority(Some(i64::MAX)), i32::MAX);
        assert_eq!(priority(Some(-5)), -5);
    }
}
