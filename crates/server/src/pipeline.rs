use text::{ReasoningFormat, Template, Tokenizer, ToolFormat};

/// What turns text into tokens and back for this model.
#[derive(Debug)]
pub struct TextPipeline {
    /// The model's vocabulary.
    pub tokenizer: Tokenizer,
    /// How conversations become prompts; without it there are no chats.
    pub template: Option<Template>,
    /// How the model marks its thinking.
    pub reasoning: Option<ReasoningFormat>,
    /// How the model writes calls of functions.
    pub tools: Option<ToolFormat>,
}
