//! One request's times, token by token.

use super::goodput::Observed;
use crate::client::Family;
use crate::clock::Nanos;
use crate::record::RequestRecord;
use crate::vocabulary::Vocabulary;

/// Who counted the output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountSource {
    /// The server.
    Server,
    /// The text, encoded again.
    Text,
    /// Nobody: the length asked for is taken for granted.
    Asked,
}

impl CountSource {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Text => "retokenized",
            Self::Asked => "requested",
        }
    }
}

/// Tokens that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// How many.
    pub tokens: u32,
}

/// The times of one successful request; seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// When it was sent.
    pub sent: Nanos,
    /// When it was due.
    pub scheduled: Nanos,
    /// When its last line arrived.
    pub finished: Nanos,
    /// From being due to being let through the gate.
    pub queue: f64,
    /// From being sent to the first token.
    pub ttft: f64,
    /// From being due to the first token.
    pub scheduled_ttft: f64,
    /// From being sent to the last line.
    pub e2e: f64,
    /// From being due to the last line.
    pub scheduled_e2e: f64,
    /// Tokens as they arrived.
    pub arrivals: Vec<Arrival>,
    /// Output tokens.
    pub output: u64,
    /// Who counted them.
    pub source: CountSource,
}

impl Timing {
    /// The times of a request, with tokens attributed to the chunks they came in.
    pub fn of(record: &RequestRecord, family: Family, vocabulary: &Vocabulary) -> Self {
        let arrivals = arrivals(record, family, vocabulary);
        let first = arrivals
            .first()
            .map_or(record.finished, |arrival| arrival.at);
        let (output, source) = output(record, family, vocabulary);
        Self {
            sent: record.sent,
            scheduled: record.scheduled,
            finished: record.finished,
            queue: record.released.seconds_since(record.scheduled),
            ttft: first.seconds_since(record.sent),
            scheduled_ttft: first.seconds_since(record.scheduled),
            e2e: record.finished.seconds_since(record.sent),
            scheduled_e2e: record.finished.seconds_since(record.scheduled),
            arrivals,
            output,
            source,
        }
    }

    /// Seconds per output token after the first arrival; nothing when all came at once.
    pub fn tpot(&self) -> Option<f64> {
        let (first, last) = (self.arrivals.first()?, self.arrivals.last()?);
        (self.output > 1).then(|| last.at.seconds_since(first.at) / (self.output - 1) as f64)
    }

    /// The times that objectives are about, as clients experience them: from being due.
    pub fn observed(&self) -> Observed {
        Observed {
            ttft: self.scheduled_ttft,
            tpot: self.tpot().unwrap_or(0.0),
            e2el: self.scheduled_e2e,
        }
    }

    /// One gap per token after the first arrival: tokens that came together share their gap.
    pub fn gaps(&self) -> impl Iterator<Item = f64> + '_ {
        self.arrivals.windows(2).flat_map(|pair| {
            let tokens = pair[1].tokens;
            let gap = pair[1].at.seconds_since(pair[0].at) / f64::from(tokens.max(1));
            std::iter::repeat_n(gap, tokens as usize)
        })
    }
}

/// How many output tokens there were, and who says so.
fn output(record: &RequestRecord, family: Family, vocabulary: &Vocabulary) -> (u64, CountSource) {
    if family == Family::Embeddings {
        return (0, CountSource::Server);
    }
    let told = record.usage.output_tokens;
    if let Some(tokens) = told.or_else(|| record.chunks.last_count()) {
        return (tokens, CountSource::Server);
    }
    match vocabulary.count(&record.text) + vocabulary.count(&record.tool_calls.text) {
        0 => (record.asked.output_tokens, CountSource::Asked),
        tokens => (tokens as u64, CountSource::Text),
    }
}

/// Tokens by chunk: from running counts where every chunk has one, else by encoding its text.
fn arrivals(record: &RequestRecord, family: Family, vocabulary: &Vocabulary) -> Vec<Arrival> {
    let parts = record.generated();
    let counted = family == Family::Native || parts.iter().all(|(chunk, _)| chunk.tokens > 0);
    let mut before = 0;
    let mut arrivals = Vec::with_capacity(parts.len());
    for (chunk, text) in parts {
        let tokens = if counted {
            let tokens = chunk.tokens.saturating_sub(before);
            before = before.max(chunk.tokens);
            tokens
        } else {
            vocabulary.count(text).max(1) as u32
        };
        if tokens > 0 {
            arrivals.push(Arrival {
                at: chunk.at,
                tokens,
            });
        }
    }
    arrivals
}
