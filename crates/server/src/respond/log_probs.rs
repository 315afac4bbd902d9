use protocol::native::{LogProb, LogProbs};
use protocol::openai::{
    ChatLogProbs, ChatTokenLogProb, CompletionLogProbs, TopLogProb, TopLogProbs,
};
use sampling::{LogProbRequest, Token, TokenLogProbs};
use text::Tokenizer;

/// What stands for minus infinity, which JSON cannot write.
const IMPOSSIBLE: f32 = -9999.0;

/// Log-probabilities as the native API writes them; with `tokenizer`, tokens come with their text.
pub(super) fn native(
    positions: &[TokenLogProbs],
    asked: &LogProbRequest,
    tokenizer: Option<&Tokenizer>,
) -> LogProbs {
    let entry = |(token, log_prob): (Token, f32)| {
        LogProb(
            Some(log_prob),
            token,
            tokenizer.map(|tokenizer| text_of(tokenizer, token)),
        )
    };
    let list = |tokens: &[(Token, f32)]| Some(tokens.iter().copied().map(entry).collect());
    LogProbs {
        tokens: positions
            .iter()
            .map(|position| entry((position.token, position.log_prob)))
            .collect(),
        top: (asked.top > 0).then(|| positions.iter().map(|at| list(&at.top)).collect()),
        chosen: (!asked.token_ids.is_empty())
            .then(|| positions.iter().map(|at| list(&at.chosen)).collect()),
    }
}

/// The entry of the first prompt token that is looked at: nothing before it makes it likely.
pub(super) fn native_first(
    prompt: &[Token],
    asked: &LogProbRequest,
    tokenizer: Option<&Tokenizer>,
) -> LogProbs {
    let first = asked.start.and_then(|start| prompt.get(start as usize));
    let unknown = |wanted: bool| wanted.then(|| vec![None; usize::from(first.is_some())]);
    LogProbs {
        tokens: first
            .map(|&token| LogProb(None, token, tokenizer.map(|text| text_of(text, token))))
            .into_iter()
            .collect(),
        top: unknown(asked.top > 0),
        chosen: unknown(!asked.token_ids.is_empty()),
    }
}

/// Log-probabilities as chats write them.
pub(super) fn chat(positions: &[TokenLogProbs], tokenizer: &Tokenizer) -> ChatLogProbs {
    let top = |&(token, log_prob): &(Token, f32)| TopLogProb {
        token: text_of(tokenizer, token),
        bytes: bytes_of(tokenizer, token).to_vec(),
        logprob: finite(log_prob),
    };
    let entry = |position: &TokenLogProbs| ChatTokenLogProb {
        token: text_of(tokenizer, position.token),
        bytes: bytes_of(tokenizer, position.token).to_vec(),
        logprob: finite(position.log_prob),
        top_logprobs: position.top.iter().map(top).collect(),
    };
    ChatLogProbs {
        content: positions.iter().map(entry).collect(),
    }
}

/// Log-probabilities as completions write them, piece by piece.
#[derive(Clone, Debug, Default)]
pub(super) struct CompletionScore {
    /// Characters before the next token.
    offset: i64,
}

impl CompletionScore {
    /// The prompt's first token, which has no log-probability.
    pub(super) fn first(
        &mut self,
        token: Token,
        tokenizer: &Tokenizer,
        out: &mut CompletionLogProbs,
    ) {
        self.token(token, tokenizer, out);
        out.token_logprobs.push(None);
        out.top_logprobs.push(None);
    }

    pub(super) fn append(
        &mut self,
        positions: &[TokenLogProbs],
        tokenizer: &Tokenizer,
        out: &mut CompletionLogProbs,
    ) {
        for position in positions {
            self.token(position.token, tokenizer, out);
            out.token_logprobs.push(Some(finite(position.log_prob)));
            let top = position.top.iter();
            let top = top.map(|&(token, log_prob)| (text_of(tokenizer, token), finite(log_prob)));
            out.top_logprobs.push(Some(TopLogProbs::new(top)));
        }
    }

    /// Characters are counted by their first byte, since a token may hold a part of one.
    fn token(&mut self, token: Token, tokenizer: &Tokenizer, out: &mut CompletionLogProbs) {
        out.tokens.push(text_of(tokenizer, token));
        out.text_offset.push(self.offset);
        let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
        self.offset += bytes_of(tokenizer, token).iter().filter(begins).count() as i64;
    }
}

fn text_of(tokenizer: &Tokenizer, token: Token) -> String {
    tokenizer.token_text(token).unwrap_or_default()
}

fn bytes_of(tokenizer: &Tokenizer, token: Token) -> &[u8] {
    tokenizer.token_bytes(token).unwrap_or_default()
}

fn finite(log_prob: f32) -> f32 {
    if log_prob.is_finite() {
        log_prob
    } else {
        IMPOSSIBLE
    }
}
