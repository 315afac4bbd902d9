//! Who finds whose prefixes in the cache.

use serde_json::{Value, json};
use server::PrefixIsolation;

use crate::harness::Setup;

/// Tokens found in the cache by the second of two equal requests with these keys and salts.
async fn found(isolation: PrefixIsolation, keys: [&str; 2], salts: [Option<&str>; 2]) -> u64 {
    let setup = Setup::with(|setup| setup.server.prefix_isolation = isolation);
    let server = setup.start().await;
    let mut cached = Value::Null;
    for (key, salt) in keys.into_iter().zip(salts) {
        let body = json!({"text": "say:the same for everybody\n", "cache_salt": salt});
        let client = server.client().with_key(key);
        let answer = client.post("/generate", &body).await;
        cached = answer.json()["meta_info"]["cached_tokens"].clone();
    }
    cached.as_u64().expect("a number")
}

#[tokio::test]
async fn prefixes_are_found_by_those_who_may_and_by_nobody_else() {
    use PrefixIsolation::{Key, None as Nothing, Salt};
    for (isolation, keys, salts, shared) in [
        (Nothing, ["a", "b"], [None, None], true),
        (Nothing, ["a", "b"], [Some("x"), None], false),
        (Key, ["a", "a"], [None, None], true),
        (Key, ["a", "b"], [None, None], false),
        (Key, ["a", "b"], [Some("x"), Some("x")], false),
        (Key, ["a", "a"], [Some("x"), Some("x")], true),
        (Salt, ["a", "a"], [None, None], false),
        (Salt, ["a", "b"], [Some("x"), Some("x")], true),
        (Salt, ["a", "a"], [Some("x"), Some("y")], false),
    ] {
        let found = found(isolation, keys, salts).await;
        assert_eq!(
            found > 0,
            shared,
            "{isolation:?} {keys:?} {salts:?}: {found}"
        );
    }
}
