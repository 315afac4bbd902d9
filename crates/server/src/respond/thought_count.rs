use sampling::Token;
use text::{Detokenizer, ReasoningEvent, ReasoningFormat, ReasoningParser, Tokenizer};

/// Counts the tokens of an output that come before its answer, marks of thinking included.
#[derive(Clone, Debug)]
pub(crate) struct ThoughtCount {
    detokenizer: Detokenizer,
    parser: ReasoningParser,
    seen: usize,
    thinks: bool,
    answers: bool,
}

impl ThoughtCount {
    /// A count for the output that follows `prompt`.
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        skip_special: bool,
        format: ReasoningFormat,
        prompt: &str,
    ) -> Self {
        Self {
            detokenizer: Detokenizer::new(tokenizer, skip_special),
            parser: ReasoningParser::new(format, prompt),
            seen: 0,
            thinks: false,
            answers: false,
        }
    }

    /// Takes the next tokens.
    pub(super) fn push(&mut self, tokens: &[Token]) {
        for &token in tokens {
            if self.answers {
                return;
            }
            for event in self.parser.push(self.detokenizer.push(token)) {
                match event {
                    ReasoningEvent::Reasoning(text) => self.thinks |= !text.is_empty(),
                    ReasoningEvent::Content(text) => self.answers |= !text.is_empty(),
                }
            }
            self.seen += usize::from(!self.answers);
        }
    }

    /// How many there are so far.
    pub(super) fn tokens(&self) -> usize {
        if self.thinks { self.seen } else { 0 }
    }
}
