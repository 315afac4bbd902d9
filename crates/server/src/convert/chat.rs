use std::sync::Arc;

use ::sampling::LogProbRequest;
use protocol::openai::ChatRequest;
use text::{ReasoningFormat, SamplingDefaults, ToolFormat};

use super::conversation::Conversation;
use super::log_probs;
use super::sampling::{self, Rules};
use super::spread::{Caller, names, namespaces, priority};
use crate::error::ApiError;
use crate::generation::{Generation, Prompt, Told};
use crate::pipeline::TextPipeline;
use crate::respond::message::{MessageParser, Thinking};
use crate::respond::thought_count::ThoughtCount;

/// What a chat asks for.
pub(crate) struct Chat {
    pub(crate) generation: Generation,
    pub(crate) log_probs: bool,
    /// Ready for the beginning of the answer.
    pub(crate) parser: MessageParser,
    /// The same, where thinking is a field of its own.
    pub(crate) thoughts: Option<ThoughtCount>,
}

pub(crate) fn chat(
    mut request: ChatRequest,
    text: &TextPipeline,
    defaults: &SamplingDefaults,
    rules: Rules,
    caller: &Caller,
) -> Result<Chat, ApiError> {
    refuse_other_modalities(&request)?;
    let max_tokens = request.max_completion_tokens.or(request.max_tokens);
    rules.check_max_completion_tokens(max_tokens)?;
    let mut sampling = sampling::openai(&request.controls, max_tokens, defaults, rules)?;
    let log_probs = log_probs_of(&request)?;
    let rendered = conversation(&mut request).render(text.template.as_ref())?;
    let parsers = Parsers::wanted(&request, text, rendered.has_tools);
    sampling.text.skip_special &= !parsers.need_special_tokens();
    let controls = &mut request.controls;
    let mut id = names(controls.rid.take(), 1)?;
    let (extra_key, cache_salt) = (controls.extra_key.take(), controls.cache_salt.take());
    let namespace = namespaces(caller, extra_key, cache_salt, 1)?.remove(0);
    let thoughts = parsers.reasoning.map(|(format, _)| {
        ThoughtCount::new(
            &text.tokenizer,
            sampling.text.skip_special,
            format,
            &rendered.text,
        )
    });
    Ok(Chat {
        log_probs: log_probs.is_some(),
        parser: parsers.for_answer_to(&rendered.text),
        thoughts,
        generation: Generation {
            id: id.each.remove(0),
            batch: None,
            prompt: Prompt::Rendered(rendered.text),
            sampling,
            log_probs,
            namespace,
            priority: priority(controls.priority),
            told: Told::default(),
        },
    })
}

fn conversation(request: &mut ChatRequest) -> Conversation {
    Conversation {
        messages: request.messages.take(),
        tools: request.tools.take(),
        tool_choice: request.tool_choice.take(),
        reasoning_effort: request.reasoning_effort.take(),
        kwargs: request.chat_template_kwargs.take(),
        add_generation_prompt: None,
        continue_final_message: request.continue_final_message,
    }
}

fn log_probs_of(request: &ChatRequest) -> Result<Option<Arc<LogProbRequest>>, ApiError> {
    let top = request.top_logprobs.unwrap_or(0);
    if !request.logprobs.unwrap_or(false) {
        if top > 0 {
            return Err(ApiError::invalid("top_logprobs needs logprobs to be true."));
        }
        return Ok(None);
    }
    let wanted = log_probs::Wanted {
        start: -1,
        top,
        token_ids: Vec::new(),
    };
    log_probs::request(wanted).map(Some)
}

fn refuse_other_modalities(request: &ChatRequest) -> Result<(), ApiError> {
    let wanted = request.modalities.iter().flatten();
    match wanted.into_iter().find(|kind| *kind != "text") {
        None => Ok(()),
        Some(kind) => Err(ApiError::Invalid(format!(
            "modalities: {kind:?} is not supported by this server: answers are text; ask for [\"text\"], or leave it \
             out."
        ))),
    }
}

/// What is looked for in the answer.
struct Parsers {
    reasoning: Option<(ReasoningFormat, Thinking)>,
    tools: Option<ToolFormat>,
}

impl Parsers {
    fn wanted(request: &ChatRequest, text: &TextPipeline, has_tools: bool) -> Self {
        let separate = request.separate_reasoning.unwrap_or(true);
        let thinking = match request.stream_reasoning {
            Some(false) => Thinking::AtItsEnd,
            _ => Thinking::AsItComes,
        };
        let reasoning = text.reasoning.filter(|_| separate);
        Self {
            reasoning: reasoning.map(|format| (format, thinking)),
            tools: text.tools.filter(|_| has_tools),
        }
    }

    fn need_special_tokens(&self) -> bool {
        self.reasoning
            .is_some_and(|(format, _)| format.needs_special_tokens())
            || self.tools.is_some_and(ToolFormat::needs_special_tokens)
    }

    fn for_answer_to(self, prompt: &str) -> MessageParser {
        let mut parser = MessageParser::default();
        if let Some((format, thinking)) = self.reasoning {
            parser = parser.with_reasoning(format, prompt, thinking);
        }
        if let Some(format) = self.tools {
            parser = parser.with_tools(format);
        }
        parser
    }
}
