//! Reading bodies: so far, so fast, and as long as there is room.

use axum::body::{BodyDataStream, Bytes, HttpBody as _};
use axum::extract::Request;
use futures_util::StreamExt as _;
use http::header::EXPECT;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use crate::budget::Share;
use crate::config::Limits;
use crate::error::ApiError;

/// The largest body that is read: a million tokens as text, with room to spare.
pub(crate) const MAX_BODY: usize = 64 << 20;

/// Most clients read a refusal only when they have sent their body: so much more of it is thrown away,
const LINGER_BYTES: usize = 2 * MAX_BODY;
/// for so long,
const LINGER_TIME: Duration = Duration::from_secs(30);
/// while the next part comes as soon as this.
const LINGER_PAUSE: Duration = Duration::from_secs(5);

/// The whole body; the request then has its share of the budget.
pub(crate) async fn read(request: Request, limits: &Limits) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    let share = parts.extensions.get::<Share>();
    let share = share.ok_or_else(|| ApiError::Failed("a request without a share".to_owned()))?;
    let largest = MAX_BODY.min(share.budget().largest());
    let announced = body.size_hint().lower();
    let mut parts_of_body = body.into_data_stream();
    if announced > largest as u64 {
        // Who waits to be told to go on sends nothing.
        if !parts.headers.contains_key(EXPECT) {
            throw_away(parts_of_body).await;
        }
        return Err(ApiError::TooLarge { limit: largest });
    }
    let read = collect(
        &mut parts_of_body,
        announced as usize,
        largest,
        share,
        limits,
    )
    .await;
    if read.is_err() {
        share.clear();
    }
    if matches!(
        read,
        Err(ApiError::TooLarge { .. } | ApiError::Crowded { .. })
    ) {
        throw_away(parts_of_body).await;
    }
    read
}

async fn collect(
    parts: &mut BodyDataStream,
    announced: usize,
    largest: usize,
    share: &Share,
    limits: &Limits,
) -> Result<Bytes, ApiError> {
    // Memory costs nothing until it is written.
    let mut body = Vec::with_capacity(announced);
    let started = Instant::now();
    loop {
        let expected = Duration::from_secs_f64(body.len() as f64 / limits.body_rate as f64);
        let latest = started + limits.body_time + expected;
        let next = timeout_at(latest.min(Instant::now() + limits.body_time), parts.next());
        let part = match next.await {
            Ok(Some(Ok(part))) => part,
            Ok(Some(Err(error))) => return Err(ApiError::Interrupted(error.to_string())),
            Ok(None) => return Ok(whole(body, share.clone())),
            Err(_) => {
                return Err(ApiError::TooSlow {
                    received: body.len(),
                });
            }
        };
        if part.len() > largest - body.len() {
            return Err(ApiError::TooLarge { limit: largest });
        }
        if !share.grow(part.len()) {
            let limit = share.budget().total();
            return Err(ApiError::Crowded { limit });
        }
        body.extend_from_slice(&part);
    }
}

/// A body that has its share for as long as it is read, even when nobody waits for that any more.
fn whole(text: Vec<u8>, share: Share) -> Bytes {
    Bytes::from_owner(Held {
        text,
        _share: share,
    })
}

struct Held {
    text: Vec<u8>,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

async fn throw_away(mut parts: BodyDataStream) {
    let all = async {
        let mut left = LINGER_BYTES;
        while let Ok(Some(Ok(part))) = timeout(LINGER_PAUSE, parts.next()).await {
            let Some(less) = left.checked_sub(part.len()) else {
                return;
            };
            left = less;
        }
    };
    // A client that sends for longer learns nothing; its connection is closed.
    let _ = timeout(LINGER_TIME, all).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Budget;

    #[test]
    fn a_body_keeps_its_share_when_its_request_is_gone() {
        let budget = Arc::new(Budget::new(1000));
        let (one, other) = (Share::new(&budget), Share::new(&budget));
        assert!(one.grow(200) && !other.grow(200));
        let body = whole(vec![0; 200], one);
        let part = body.slice(..1);
        drop(body);
        assert!(!other.grow(200));
        drop(part);
        assert!(other.grow(200));
    }
}
