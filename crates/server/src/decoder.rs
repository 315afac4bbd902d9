use std::sync::Arc;

use protocol::native::{FinishReason, Matched};
use sampling::{Abort, FinishReason as EngineFinish, Token};
use text::{Detokenizer, PatternSearch, StopStrings, Tokenizer};

use crate::generation::TextOptions;

/// What the tokens of one sequence say, and where it ends.
///
/// Without a tokenizer there is no text and there are no stop strings; everything else is the same.
pub(crate) struct Decoder {
    text: Option<TextDecoder>,
    /// What ends an output stays in the text.
    keep_stop: bool,
    tokens: usize,
}

struct TextDecoder {
    detokenizer: Detokenizer,
    stops: StopStrings,
    patterns: Option<PatternSearch>,
}

/// What a run of tokens led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    /// Text that will not be taken back.
    pub(crate) text: String,
    /// How many of the tokens belong to the output: those behind a stop string do not.
    pub(crate) kept: usize,
    /// Why the output ends here.
    pub(crate) finish: Option<FinishReason>,
}

impl Decoder {
    pub(crate) fn new(
        tokenizer: Option<&Tokenizer>,
        options: &TextOptions,
        prompt: &[Token],
    ) -> Self {
        let text = tokenizer.map(|tokenizer| TextDecoder {
            detokenizer: Detokenizer::after_prompt(tokenizer, options.skip_special, prompt),
            stops: StopStrings::new(Arc::clone(&options.stop), options.keep_stop),
            patterns: options.patterns.clone().map(PatternSearch::new),
        });
        Self {
            text,
            keep_stop: options.keep_stop,
            tokens: 0,
        }
    }

    /// Tokens of the output so far.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Takes the next tokens, and the end when the engine saw one.
    pub(crate) fn push(&mut self, tokens: &[Token], finish: Option<EngineFinish>) -> Decoded {
        let end_token = match &finish {
            Some(EngineFinish::Stop { token: Some(token) }) if !self.keep_stop => Some(*token),
            _ => None,
        };
        let mut decoded = Decoded::default();
        for (index, &token) in tokens.iter().enumerate() {
            decoded.kept += 1;
            self.tokens += 1;
            let is_end = index + 1 == tokens.len() && end_token == Some(token);
            let Some(text) = self.text.as_mut().filter(|_| !is_end) else {
                continue;
            };
            let matched = text.push(token, &mut decoded.text);
            if matched.is_some() {
                let matched = matched.map(Matched::Text);
                decoded.finish = Some(FinishReason::Stop { matched });
                return decoded;
            }
        }
        if let Some(finish) = finish {
            decoded.finish = Some(self.end(finish, &mut decoded.text));
        }
        decoded
    }

    /// What was held back is said at the end; it may still turn out to be a stop string.
    fn end(&mut self, finish: EngineFinish, said: &mut String) -> FinishReason {
        if let Some(text) = &mut self.text {
            let outcome = text.stops.push(text.detokenizer.flush());
            said.push_str(&outcome.emit);
            if let Some(stop) = outcome.matched {
                return FinishReason::Stop {
                    matched: Some(Matched::Text(stop)),
                };
            }
            said.push_str(&text.stops.flush());
        }
        match finish {
            EngineFinish::Stop { token } => FinishReason::Stop {
                matched: token.map(Matched::Token),
            },
            EngineFinish::Length => FinishReason::Length {
                length: self.tokens,
            },
            EngineFinish::Abort(Abort::Cancelled) => cancelled(),
            EngineFinish::Abort(Abort::Failed(message)) => failed(message),
            EngineFinish::Abort(Abort::Displaced) => {
                unavailable("The request is aborted by a higher priority request.")
            }
            EngineFinish::Abort(Abort::QueueFull) => unavailable("The request queue is full."),
        }
    }
}

impl TextDecoder {
    /// Adds what a token says to `said`; returns the stop string or pattern that it completed. A pattern keeps its
    /// text: that is how SGLang has it.
    fn push(&mut self, token: Token, said: &mut String) -> Option<String> {
        let piece = self.detokenizer.push(token);
        let outcome = self.stops.push(piece);
        said.push_str(&outcome.emit);
        if outcome.matched.is_some() {
            return outcome.matched;
        }
        let matched = self.patterns.as_mut()?.push(piece)?.to_owned();
        said.push_str(&self.stops.flush());
        Some(matched)
    }
}

/// The end of a sequence that somebody asked to end.
pub(crate) fn cancelled() -> FinishReason {
    FinishReason::Abort {
        message: "the request was aborted".to_owned(),
        status_code: None,
        err_type: None,
    }
}

/// The end of a sequence that had no place; the messages are SGLang's.
fn unavailable(message: &str) -> FinishReason {
    FinishReason::Abort {
        message: message.to_owned(),
        status_code: Some(503),
        err_type: Some("ServiceUnavailableError".to_owned()),
    }
}

/// The end of a sequence that we broke.
pub(crate) fn failed(message: String) -> FinishReason {
    FinishReason::Abort {
        message,
        status_code: Some(500),
        err_type: Some("InternalServerError".to_owned()),
    }
}
