use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use protocol::native::{CumulativeEvent, MetaInfo};
use protocol::sse;
use serde::Serialize;
use serde_json::Value;

use crate::outputs::Outputs;
use crate::sequence::Delta;

/// Turns what is new into events.
pub(crate) trait EventWriter: Send + 'static {
    /// Something is new about sequence `index`.
    fn write(&mut self, index: usize, delta: Delta, events: &mut Events);

    /// All sequences have ended.
    fn end(&mut self, events: &mut Events);
}

/// Events that are about to be sent.
#[derive(Debug, Default)]
pub(crate) struct Events(Vec<u8>);

impl Events {
    /// An event whose data is a value.
    pub(crate) fn json<T: Serialize>(&mut self, value: &T) {
        self.0.extend_from_slice(sse::PREFIX);
        serde_json::to_writer(&mut self.0, value).expect("our own values are JSON");
        self.0.extend_from_slice(sse::SUFFIX);
    }

    /// The same, without members that are null.
    pub(crate) fn json_without_nulls<T: Serialize>(&mut self, value: &T) {
        let mut value = serde_json::to_value(value).expect("our own values are JSON");
        drop_nulls(&mut value);
        self.json(&value);
    }

    /// An event that repeats the output so far.
    pub(crate) fn cumulative(&mut self, event: &CumulativeEvent, meta_info: &MetaInfo) {
        event.write(meta_info, &mut self.0);
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The answer to a request that wants its outputs as they come.
///
/// It is driven by the connection itself: a client that reads slowly gets fewer and larger pieces,
/// and one that goes away drops the outputs, which cancels them.
pub(crate) fn respond(outputs: Outputs, writer: impl EventWriter) -> Response {
    let events = stream::unfold(Some((outputs, writer)), |running| async {
        let (mut outputs, mut writer) = running?;
        let mut events = Events::default();
        while events.0.is_empty() {
            let Some((index, delta)) = outputs.next().await else {
                writer.end(&mut events);
                events.0.extend_from_slice(sse::DONE_EVENT);
                return Some((Ok::<_, Infallible>(events.0), None));
            };
            writer.write(index, delta, &mut events);
        }
        Some((Ok(events.0), Some((outputs, writer))))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_lines_of_json() {
        let mut events = Events::default();
        events.json(&json!({"a": null, "b": "x\ny"}));
        events.json_without_nulls(&json!({"a": null, "b": [{"c": null, "d": 1}]}));
        assert_eq!(
            String::from_utf8(events.0).unwrap(),
            "data: {\"a\":null,\"b\":\"x\\ny\"}\n\ndata: {\"b\":[{\"d\":1}]}\n\n"
        );
    }
}
