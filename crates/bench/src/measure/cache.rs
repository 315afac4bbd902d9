//! Prefix-cache hits as servers report them.

use crate::record::RequestRecord;

/// Tokens found in the prefix cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheHits {
    /// Prompt tokens of all requests.
    pub prompt_tokens: u64,
    /// Those found in the cache.
    pub cached_tokens: u64,
    /// Where, when servers say so.
    pub places: Option<CachePlaces>,
    /// What the storage is called.
    pub storage_backend: Option<String>,
}

/// Cached tokens by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePlaces {
    /// On the device.
    pub device: u64,
    /// In the host's memory.
    pub host: u64,
    /// In storage.
    pub storage: u64,
}

impl CacheHits {
    /// The hits of successful requests, each with its prompt tokens.
    pub fn of<'a>(requests: impl IntoIterator<Item = (&'a RequestRecord, u64)>) -> Self {
        let mut hits = Self::default();
        for (record, prompt_tokens) in requests {
            hits.prompt_tokens += prompt_tokens;
            hits.cached_tokens += record.usage.cached_tokens.unwrap_or(0);
            let Some(details) = &record.usage.cached_tokens_details else {
                continue;
            };
            let tokens = |place: &str| details[place].as_u64().unwrap_or(0);
            let places = hits.places.get_or_insert_default();
            places.device += tokens("device");
            places.host += tokens("host");
            places.storage += tokens("storage");
            if tokens("storage") > 0 {
                hits.storage_backend = details["storage_backend"].as_str().map(str::to_owned);
            }
        }
        hits
    }

    /// The share of prompt tokens found in the cache.
    pub fn rate(&self) -> f64 {
        if self.prompt_tokens == 0 {
            return 0.0;
        }
        self.cached_tokens as f64 / self.prompt_tokens as f64
    }
}
