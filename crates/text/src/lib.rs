//! Text in, tokens out and back: tokenizers, incremental detokenizing, stop strings and patterns, chat templates,
//! and the parsers that find reasoning and tool calls in a stream. It knows what a model folder says
//! about text. It refuses to know HTTP, engines and tensors: it is given strings and gives back values.

mod bounded_file;
mod caught;
pub mod chat;
pub mod detokenizer;
mod markers;
pub mod model_files;
pub mod reasoning;
pub mod stop_patterns;
pub mod stop_strings;
pub mod template;
pub mod tokenizer;
pub mod tools;

pub use chat::{ChatError, prepare_messages};
pub use detokenizer::Detokenizer;
pub use model_files::{ModelFiles, ModelFilesError, SamplingDefaults};
pub use reasoning::{ReasoningEvent, ReasoningFormat, ReasoningParser, UnknownReasoningFormat};
pub use stop_patterns::{PatternSearch, StopPatternError, StopPatterns};
pub use stop_strings::{StopOutcome, StopStrings};
pub use template::{
    ContentFormat, RenderInput, Sandbox, SandboxLimits, Template, TemplateError, serve_sandbox,
};
pub use tokenizer::{GgufVocabulary, SpecialTokens, Tokenizer, TokenizerError};
pub use tools::{ToolEvent, ToolFormat, ToolParser, UnknownToolFormat};
