use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use executor::{DeviceSpan, DeviceTrace, NoTracer, Tracer};
use scheduler::StepPlan;
use tokio::sync::oneshot;

/// Where a span is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Track {
    /// Work of the engine thread.
    Host = 1,
    /// Steps, from submission to outcome.
    Steps = 2,
}

/// The first track of kernels; those that overlap are drawn on further ones.
const KERNELS: usize = 3;

/// A recording that nobody stops and that has no number of steps ends after so many.
const MOST_STEPS: u64 = 100_000;
/// Every recording ends when its spans have so many bytes as text, and has as many bytes of kernels at most.
const MOST_BYTES: usize = 128 << 20;
/// Bytes of a span as text, without its facts and its name.
const SPAN_BYTES: usize = 96;

struct Span {
    name: &'static str,
    track: Track,
    start: Duration,
    end: Duration,
    /// JSON members that describe it.
    facts: String,
}

/// The device's own recording beside ours.
pub(crate) struct Kernels(Result<Arc<dyn Tracer>, NoTracer>);

impl Kernels {
    /// Begins to record kernels where there is something that can.
    pub(crate) fn begin(tracer: Result<Arc<dyn Tracer>, NoTracer>) -> Self {
        Self(tracer.and_then(|tracer| tracer.begin().map(|()| tracer)))
    }

    fn end(self) -> Result<DeviceTrace, NoTracer> {
        self.0?.end()
    }
}

/// A recording of steps in the Chrome trace format, which Perfetto opens.
pub(crate) struct Profile {
    spans: Vec<Span>,
    /// What they have as text.
    bytes: usize,
    began: Duration,
    /// Steps still to be recorded.
    steps_left: u64,
    kernels: Kernels,
    result: oneshot::Sender<String>,
}

impl Profile {
    /// A recording from `now` on, which is when that of the kernels began.
    pub(crate) fn begin(
        now: Duration,
        steps: Option<u64>,
        kernels: Kernels,
        result: oneshot::Sender<String>,
    ) -> Self {
        Self {
            spans: Vec::new(),
            bytes: 0,
            began: now,
            steps_left: steps.unwrap_or(MOST_STEPS),
            kernels,
            result,
        }
    }

    pub(crate) fn span(
        &mut self,
        name: &'static str,
        track: Track,
        start: Duration,
        end: Duration,
        facts: String,
    ) {
        if start >= self.began {
            self.bytes += SPAN_BYTES + name.len() + facts.len();
            self.spans.push(Span {
                name,
                track,
                start,
                end,
                facts,
            });
        }
    }

    /// Counts a step; true when it was the last one to record.
    pub(crate) fn step_done(&mut self) -> bool {
        if self.bytes >= MOST_BYTES {
            tracing::warn!(
                "the recording of steps is full with {} spans and ends",
                self.spans.len()
            );
            return true;
        }
        self.steps_left = self.steps_left.saturating_sub(1);
        self.steps_left == 0
    }

    /// Hands the recording to whoever asked for it, from a thread of its own: there may be millions of kernels.
    pub(crate) fn finish(self) -> std::io::Result<()> {
        let work = move || {
            let kernels = self.kernels.end();
            let json = trace(&self.spans, self.began, &kernels);
            // Whoever asked may be gone; the recording is then nobody's.
            let _ = self.result.send(json);
        };
        std::thread::Builder::new()
            .name("trace".into())
            .spawn(work)
            .map(drop)
    }
}

fn trace(spans: &[Span], began: Duration, kernels: &Result<DeviceTrace, NoTracer>) -> String {
    let mut json = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    name_track(&mut json, Track::Host as usize, "engine thread");
    name_track(&mut json, Track::Steps as usize, "steps");
    for span in spans {
        let (track, times) = (span.track as usize, (span.start, span.end));
        write_span(&mut json, track, span.name, times, &span.facts);
    }
    let said = match kernels {
        Ok(trace) => {
            let written = write_kernels(&mut json, &trace.spans, began, MOST_BYTES);
            let left_out = (trace.spans.len() - written) as u64 + trace.dropped;
            format!("{written} recorded, {left_out} dropped")
        }
        Err(none) => format!("not recorded: {none}"),
    };
    let _ = writeln!(
        json,
        "{{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{{\"name\":\"peregrine\"}}}}\n],\
         \"otherData\":{{\"kernels\":\"{}\"}}}}",
        escaped(&said)
    );
    json
}

/// Kernels begin before their predecessors end: each is drawn on the first track that is free. Returns how many there was
/// room for.
fn write_kernels(json: &mut String, spans: &[DeviceSpan], began: Duration, room: usize) -> usize {
    let full = json.len() + room;
    let mut free: Vec<Duration> = Vec::new();
    for (written, span) in spans.iter().enumerate() {
        if json.len() >= full {
            return written;
        }
        let lane = free.iter().position(|end| *end <= span.start);
        let lane = lane.unwrap_or_else(|| {
            let lane = free.len();
            free.push(Duration::ZERO);
            let name = if lane == 0 {
                "kernels"
            } else {
                "kernels that overlap"
            };
            name_track(json, KERNELS + lane, name);
            lane
        });
        free[lane] = span.end;
        let times = (began + span.start, began + span.end);
        write_span(json, KERNELS + lane, &escaped(&span.name), times, "");
    }
    spans.len()
}

fn name_track(json: &mut String, track: usize, name: &str) {
    let _ = writeln!(
        json,
        "{{\"ph\":\"M\",\"pid\":1,\"tid\":{track},\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}},"
    );
}

fn write_span(
    json: &mut String,
    track: usize,
    name: &str,
    (start, end): (Duration, Duration),
    facts: &str,
) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let _ = writeln!(
        json,
        "{{\"ph\":\"X\",\"pid\":1,\"tid\":{track},\"name\":\"{name}\",\"ts\":{:.3},\"dur\":{:.3},\"args\":{{{facts}}}}},",
        micros(start),
        micros(end.saturating_sub(start)),
    );
}

/// Text that may stand between the quotes of JSON.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out
}

/// What a step does, as JSON members.
pub(crate) fn facts(plan: &StepPlan) -> String {
    let rows = plan.rows.len();
    let tokens = plan.tokens();
    let prompts = plan.rows.iter().filter(|row| row.tokens() > 1).count();
    format!(
        "\"step\":{},\"rows\":{rows},\"tokens\":{tokens},\"prompts\":{prompts}",
        plan.id.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(time: u64) -> Duration {
        Duration::from_micros(time)
    }

    fn kernel(name: &str, start: u64, end: u64) -> DeviceSpan {
        DeviceSpan {
            name: name.into(),
            start: micros(start),
            end: micros(end),
        }
    }

    #[test]
    fn kernels_that_overlap_are_drawn_on_different_tracks_at_the_hosts_time() {
        let kernels = DeviceTrace {
            spans: vec![
                kernel("a", 0, 10),
                kernel("b\"<\n", 8, 20),
                kernel("c", 12, 30),
            ],
            dropped: 2,
        };
        let json = trace(&[], micros(1000), &Ok(kernels));
        let parsed: serde_json::Value = serde_json::from_str(&json).expect("a trace is JSON");
        let events = parsed["traceEvents"].as_array().expect("a list");
        let drawn: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let places: Vec<_> = drawn
            .iter()
            .map(|event| (event["tid"].as_u64(), event["ts"].as_f64()))
            .collect();
        let expected = [(3, 1000.0), (4, 1008.0), (3, 1012.0)];
        assert_eq!(
            places,
            expected.map(|(track, start)| (Some(track), Some(start)))
        );
        assert_eq!(drawn[1]["name"], "b\"<\n");
        assert_eq!(parsed["otherData"]["kernels"], "3 recorded, 2 dropped");
    }

    #[test]
    fn a_recording_that_nobody_stops_ends_by_steps_or_by_bytes() {
        let begin = |steps| {
            let (result, _trace) = oneshot::channel();
            let kernels = Kernels(Err(NoTracer("not here".to_owned())));
            Profile::begin(Duration::ZERO, steps, kernels, result)
        };
        let mut profile = begin(None);
        assert!((1..MOST_STEPS).all(|_| !profile.step_done()));
        assert!(profile.step_done());
        let mut profile = begin(Some(u64::MAX));
        let facts = " ".repeat(1 << 20);
        let mut step = || {
            profile.span("step", Track::Steps, micros(1), micros(2), facts.clone());
            profile.step_done()
        };
        assert!((1..MOST_BYTES >> 20).all(|_| !step()));
        assert!(step());
    }

    #[test]
    fn kernels_beyond_the_room_of_a_trace_are_left_out() {
        let spans: Vec<_> = (0..100).map(|time| kernel("k", time, time)).collect();
        let mut json = String::new();
        let written = write_kernels(&mut json, &spans, micros(0), 1000);
        assert!((5..20).contains(&written), "{written}");
        assert_eq!(json.matches("\"ph\":\"X\"").count(), written);
    }

    #[test]
    fn a_trace_without_kernels_says_why() {
        let none = NoTracer("libcupti was not found".to_owned());
        let json = trace(&[], Duration::ZERO, &Err(none));
        let parsed: serde_json::Value = serde_json::from_str(&json).expect("a trace is JSON");
        let said = &parsed["otherData"]["kernels"];
        assert_eq!(said, "not recorded: libcupti was not found");
    }
}
