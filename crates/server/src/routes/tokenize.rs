use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use protocol::json::OneOrMany;
use protocol::native::{
    DetokenizeRequest, DetokenizeResponse, Each, TokenizeRequest, TokenizeResponse,
};
use sampling::Token;

use crate::convert::conversation::Conversation;
use crate::error::{ApiError, OpenAiError};
use crate::extract::NativeJson;
use crate::pipeline::TextPipeline;
use crate::start::NO_TOKENIZER;
use crate::state::{self, Shared};
use crate::work::Abandoned;

/// Bytes of text, or tokens, that may be asked about at once, whatever the model's context.
const LEAST_LIMIT: usize = 1 << 20;

/// Bytes for each token of the context that may be asked about at once, where that is more.
const BYTES_PER_TOKEN: usize = 8;

/// `/tokenize`
pub(crate) async fn tokenize(
    State(state): State<Shared>,
    NativeJson(request, facts): NativeJson<TokenizeRequest>,
) -> Result<Json<TokenizeResponse>, OpenAiError> {
    let text = pipeline(&state)?;
    let limit = limit(&state);
    let max_model_len = state.context_length();
    let job = move |abandoned: &Abandoned| {
        let asked = texts(request, &text)?;
        let texts = match &asked.texts {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts.as_slice(),
        };
        let bytes = texts.iter().map(String::len).sum();
        within("/tokenize", "bytes of text", bytes, limit)?;
        let mut lists = Vec::with_capacity(texts.len());
        for one in texts {
            abandoned.check()?;
            lists.push(text.tokenizer.encode(one, asked.add_special)?);
        }
        let counts = lists.iter().map(Vec::len).collect();
        Ok(TokenizeResponse {
            count: Each::like(&asked.texts, counts),
            tokens: Each::like(&asked.texts, lists),
            max_model_len,
        })
    };
    Ok(Json(state.work.aside(facts.bytes, job).await?))
}

/// What is to be encoded.
struct Asked {
    texts: OneOrMany<String>,
    add_special: bool,
}

fn texts(request: TokenizeRequest, text: &TextPipeline) -> Result<Asked, ApiError> {
    match (request.prompt, request.messages) {
        (Some(_), Some(_)) => Err(ApiError::invalid(
            "Only one of prompt and messages should be provided.",
        )),
        (None, None) => Err(ApiError::invalid(
            "prompt: field required, or messages of a conversation",
        )),
        (Some(texts), None) => Ok(Asked {
            texts,
            add_special: request.add_special_tokens.unwrap_or(true),
        }),
        (None, messages) => {
            let conversation = Conversation {
                messages,
                tools: request.tools,
                tool_choice: None,
                reasoning_effort: request.reasoning_effort,
                kwargs: request.chat_template_kwargs,
                add_generation_prompt: request.add_generation_prompt,
                continue_final_message: request.continue_final_message,
            };
            let rendered = conversation.render(text.template.as_ref())?;
            Ok(Asked {
                texts: OneOrMany::One(rendered.text),
                add_special: request.add_special_tokens.unwrap_or(false),
            })
        }
    }
}

/// `/detokenize`
pub(crate) async fn detokenize(
    State(state): State<Shared>,
    NativeJson(request, facts): NativeJson<DetokenizeRequest>,
) -> Result<Json<DetokenizeResponse>, OpenAiError> {
    let pipeline = pipeline(&state)?;
    let lists = request
        .tokens
        .ok_or_else(|| ApiError::invalid("tokens: field required"))?;
    let skip_special = request.skip_special_tokens.unwrap_or(true);
    let (vocabulary, limit) = (state.vocabulary(), limit(&state));
    let decode = move |ids: &Vec<i64>| -> Result<String, ApiError> {
        let tokens = known(ids, vocabulary)?;
        Ok(pipeline.tokenizer.decode(&tokens, skip_special))
    };
    let job = move |abandoned: &Abandoned| match lists {
        OneOrMany::One(ids) => {
            within("/detokenize", "tokens", ids.len(), limit)?;
            decode(&ids).map(Each::One)
        }
        OneOrMany::Many(lists) => {
            let count = lists.iter().map(Vec::len).sum();
            within("/detokenize", "tokens", count, limit)?;
            let decode = |ids| {
                abandoned.check()?;
                decode(ids)
            };
            lists
                .iter()
                .map(decode)
                .collect::<Result<_, _>>()
                .map(Each::Many)
        }
    };
    let text = state.work.on(facts.bytes, job).await?;
    Ok(Json(DetokenizeResponse { text }))
}

fn known(ids: &[i64], vocabulary: usize) -> Result<Vec<Token>, ApiError> {
    let known = |&id: &i64| {
        let token = Token::try_from(id).ok();
        let token = token.filter(|&token| (token as usize) < vocabulary);
        token.ok_or_else(|| {
            ApiError::Invalid(format!(
                "tokens contains {id}, the vocabulary has {vocabulary} tokens."
            ))
        })
    };
    ids.iter().map(known).collect()
}

fn pipeline(state: &state::State) -> Result<Arc<TextPipeline>, ApiError> {
    let text = state.text.as_ref();
    let text = text.ok_or_else(|| ApiError::invalid(NO_TOKENIZER))?;
    Ok(Arc::clone(text))
}

/// The most that may be asked about at once: encoding takes dozens of bytes of memory for each.
fn limit(state: &state::State) -> usize {
    LEAST_LIMIT.max(BYTES_PER_TOKEN * state.context_length())
}

fn within(path: &str, what: &str, count: usize, limit: usize) -> Result<(), ApiError> {
    if count > limit {
        return Err(ApiError::Invalid(format!(
            "{path} takes {limit} {what} at once, got {count}; send them in parts."
        )));
    }
    Ok(())
}
