//! Prefixes that must not be shared.

use std::sync::Arc;

/// Separates cached prefixes: equal tokens in different namespaces are different prefixes.
///
/// Clients set it (`extra_key`, `cache_salt`); the default is the one everybody shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Option<Arc<str>>);

impl Namespace {
    /// The namespace of a client's key; an empty key is the shared namespace.
    pub fn new(key: &str) -> Self {
        Self((!key.is_empty()).then(|| Arc::from(key)))
    }
}
