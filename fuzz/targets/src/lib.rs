//! Everything that reads bytes of others: each function takes any bytes and returns. It may refuse them; it may not
//! panic, abort, hang, or take memory that they do not have. What is done with a refusal is no business of this crate.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use checkpoint::gguf::GgufSource;
use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{WeightSource, check_finite, widen};
use protocol::{json, native, openai, sse};
use text::{RenderInput, Sandbox, SpecialTokens, Template, Tokenizer};

/// A function that takes any bytes, and says whether they were accepted. A fuzzer whose mutants are all refused early
/// finds nothing.
pub type Target = fn(&[u8]) -> bool;

/// All of them, by the names of their corpora.
pub const TARGETS: [(&str, Target); 8] = [
    ("gguf", gguf),
    ("safetensors", safetensors),
    ("config", config),
    ("tokenizer", tokenizer),
    ("template", template),
    ("request", request),
    ("sse", sse),
    ("http", http),
];

/// A GGUF file: its header, its metadata, and every tensor.
pub fn gguf(bytes: &[u8]) -> bool {
    let Ok(source) = GgufSource::from_bytes("fuzz", bytes.to_vec()) else {
        return false;
    };
    let metadata = source.metadata();
    let _ = metadata.vocabulary();
    let _ = models::spec_from_gguf(&metadata, &source);
    read_all(&source);
    true
}

/// A safetensors file.
pub fn safetensors(bytes: &[u8]) -> bool {
    let source = SafetensorsSource::from_bytes("fuzz", bytes.to_vec());
    source.is_ok_and(|source| {
        read_all(&source);
        true
    })
}

fn read_all(source: &dyn WeightSource) {
    for tensor in source.tensors() {
        let Ok(bytes) = source.bytes(&tensor.name) else {
            continue;
        };
        let _ = check_finite(tensor, bytes);
        // One element takes at least half a byte.
        if tensor.elements() <= 2 * bytes.len() {
            let mut values = vec![0.0; tensor.elements()];
            let _ = widen(tensor.encoding, bytes, &mut values);
        }
    }
}

/// A config.json.
pub fn config(bytes: &[u8]) -> bool {
    models::spec_from_config(bytes).is_ok()
}

/// A tokenizer.json, and texts for it.
pub fn tokenizer(bytes: &[u8]) -> bool {
    let Ok(tokenizer) = Tokenizer::from_tokenizer_json(bytes) else {
        return false;
    };
    for text in ["", "The fast bird's 12 é🦅ﷺ\n\n  <|end|>x"] {
        let _ = tokenizer.least_tokens(text);
        if let Ok(ids) = tokenizer.encode(text, true) {
            let _ = tokenizer.decode(&ids, true);
        }
    }
    true
}

/// Where templates are rendered: libFuzzer watches its own process, the driver starts others.
static SANDBOX: OnceLock<Arc<Sandbox>> = OnceLock::new();

/// Has templates rendered in this sandbox.
pub fn render_in(sandbox: Arc<Sandbox>) {
    SANDBOX.get_or_init(|| sandbox);
}

/// A chat template, and conversations for it.
pub fn template(bytes: &[u8]) -> bool {
    let (source, special) = (String::from_utf8_lossy(bytes), SpecialTokens::default());
    let template = match SANDBOX.get() {
        Some(sandbox) => Template::compile_in(sandbox, &source, &special),
        None => Template::compile(&source, &special),
    };
    let Ok(template) = template else { return false };
    let messages = serde_json::json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What's the time in São Paulo?"},
        {"role": "assistant", "content": null, "reasoning_content": "A tool knows.", "tool_calls": [
            {"type": "function", "id": "1", "function": {"name": "time", "arguments": {"zone": "UTC-3", "n": [1, 2.5, null]}}}
        ]},
        {"role": "tool", "content": "12:00", "tool_call_id": "1"},
        {"role": "assistant", "content": "It is noon."},
    ]);
    let tools = serde_json::json!([{"type": "function", "function": {
        "name": "time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}
    }}]);
    for (tools, continues) in [(Some(&tools), false), (None, true)] {
        let _ = template.render(RenderInput {
            tools,
            add_generation_prompt: !continues,
            continue_final_message: continues,
            ..RenderInput::new(&messages)
        });
    }
    true
}

/// The body of a request, of each kind there is.
pub fn request(bytes: &[u8]) -> bool {
    [
        json::read::<openai::ChatRequest>(bytes).is_ok(),
        json::read::<openai::CompletionRequest>(bytes).is_ok(),
        json::read::<native::GenerateRequest>(bytes).is_ok(),
        json::read::<native::TokenizeRequest>(bytes).is_ok(),
        json::read::<native::DetokenizeRequest>(bytes).is_ok(),
        json::read::<native::AbortRequest>(bytes).is_ok(),
        json::read::<native::ParseFunctionCallRequest>(bytes).is_ok(),
        json::read::<native::SeparateReasoningRequest>(bytes).is_ok(),
    ]
    .contains(&true)
}

/// Server-sent events, cut after every so many bytes; they do not depend on where they are cut.
pub fn sse(bytes: &[u8]) -> bool {
    let events = |cut: usize| {
        let mut decoder = sse::Decoder::with_limit(1 << 16);
        let mut events = Vec::new();
        for chunk in bytes.chunks(cut) {
            decoder.push(Bytes::copy_from_slice(chunk));
            loop {
                match decoder.next_event() {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(_) => return events,
                }
            }
        }
        events
    };
    let whole = events(bytes.len().max(1));
    assert_eq!(whole, events(1));
    !whole.is_empty()
}

/// An answer of a server to the load generator; it does not depend on where it is cut either.
pub fn http(bytes: &[u8]) -> bool {
    let whole = bench::client::read_answer(bytes.chunks(bytes.len().max(1)));
    // A long head is read from its start at every piece.
    let cut = if bytes.len() < 4096 { 1 } else { 1021 };
    assert_eq!(whole, bench::client::read_answer(bytes.chunks(cut)));
    whole.is_some()
}
