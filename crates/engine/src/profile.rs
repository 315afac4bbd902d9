use std::fmt::Write as _;
use std::time::Duration;

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

struct Span {
    name: &'static str,
    track: Track,
    start: Duration,
    end: Duration,
    /// JSON members that describe it.
    facts: String,
}

/// A recording of steps in the Chrome trace format, which Perfetto opens.
pub(crate) struct Profile {
    spans: Vec<Span>,
    began: Duration,
    /// Steps still to be recorded; without a limit the recording lasts until it is stopped.
    steps_left: Option<u64>,
    result: oneshot::Sender<String>,
}

impl Profile {
    pub(crate) fn begin(
        now: Duration,
        steps: Option<u64>,
        result: oneshot::Sender<String>,
    ) -> Self {
        Self {
            spans: Vec::new(),
            began: now,
            steps_left: steps,
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
        let Some(left) = &mut self.steps_left else {
            return false;
        };
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Hands the recording to whoever asked for it.
    pub(crate) fn finish(self) {
        let mut json = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        for (track, name) in [(Track::Host, "engine thread"), (Track::Steps, "steps")] {
            let _ = writeln!(
                json,
                "{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}}},",
                track as u8
            );
        }
        for span in &self.spans {
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            let _ = writeln!(
                json,
                "{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"name\":\"{}\",\"ts\":{:.3},\"dur\":{:.3},\"args\":{{{}}}}},",
                span.track as u8,
                span.name,
                micros(span.start),
                micros(span.end.saturating_sub(span.start)),
                span.facts,
            );
        }
        json.push_str(
            "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"peregrine\"}}\n]}\n",
        );
        // Whoever asked may be gone; the recording is then nobody's.
        let _ = self.result.send(json);
    }
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
