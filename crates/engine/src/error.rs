/// The client asked for something that cannot be had; made before the request is queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is nothing to continue.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// The prompt alone does not fit.
    #[error(
        "The input ({tokens} tokens) is longer than the model's context length ({limit} tokens)."
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens a sequence may have.
        limit: usize,
    },
    /// Prompt and output together do not fit.
    #[error(
        "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total \
         of {total} tokens: {prompt} tokens from the input messages and {output} tokens for the completion. Please \
         reduce the number of tokens in the input messages or the completion to fit within the limit."
    )]
    TotalTooLong {
        /// Tokens a sequence may have.
        limit: usize,
        /// Prompt and output.
        total: usize,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        output: usize,
    },
    /// The KV memory could never hold it.
    #[error("the request needs KV memory for {tokens} tokens, the server has room for {capacity}")]
    NeverFits {
        /// Tokens it would need.
        tokens: usize,
        /// Tokens there is memory for.
        capacity: usize,
    },
    /// A token that the model does not know.
    #[error("The input_ids {token} contains values greater than the vocab size ({vocabulary}).")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// More log-probabilities a token than the server computes.
    #[error("{asked} log-probabilities a token were asked, the limit is {limit}")]
    TooManyLogProbs {
        /// Top and named ones together.
        asked: usize,
        /// The most there can be.
        limit: usize,
    },
    /// Too many requests wait already.
    #[error("The request queue is full.")]
    QueueFull,
    /// A priority where none counts, and the server was told to refuse such.
    #[error(
        "Using priority is disabled for this server. Please send a new request without a priority."
    )]
    PriorityDisabled,
    /// The server is going away.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// We broke one request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestFailed {
    /// What happened.
    pub message: String,
}
