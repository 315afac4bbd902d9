//! The OpenAI API as SGLang speaks it.

mod chat;
mod chat_response;
mod completions;
mod completions_response;
mod controls;
mod error;
mod logit_bias;
mod models;
mod prompt;
mod usage;

pub use chat::ChatRequest;
pub use chat_response::{
    ChatChoice, ChatChunk, ChatChunkChoice, ChatLogProbs, ChatMessage, ChatResponse,
    ChatTokenLogProb, Delta, FunctionCall, ToolCall, TopLogProb,
};
pub use completions::CompletionRequest;
pub use completions_response::{
    CompletionChoice, CompletionChunk, CompletionLogProbs, CompletionResponse, TopLogProbs,
};
pub use controls::{Controls, StreamOptions};
pub use error::{ErrorResponse, ModelNotFound, NestedError, StreamError};
pub use logit_bias::LogitBias;
pub use models::{ModelCard, ModelList};
pub use prompt::Prompt;
pub use usage::{Metadata, PromptTokensDetails, Usage};
