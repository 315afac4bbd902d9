use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::{Map, Value, json};
use text::{SpecialTokens, Template, Tokenizer};

/// The token that ends an output.
pub(crate) const END: u32 = 256;

/// One token per byte, the end, and a mark that is special too.
pub(crate) const VOCABULARY: u32 = 258;

/// A model that can be told what to say: after `say:TEXT` and a line feed it says the text and
/// ends. After anything else it says the alphabet and never ends.
pub(crate) fn speak(history: &[u32]) -> u32 {
    let command: Vec<u32> = b"say:".iter().map(|&byte| u32::from(byte)).collect();
    let is_line_feed = |&token: &u32| token == u32::from(b'\n');
    if let Some(start) = history.windows(4).position(|window| window == command) {
        let told = &history[start + 4..];
        if let Some(length) = told.iter().position(is_line_feed) {
            let said = told.len() - length - 1;
            return told[..length].get(said).copied().unwrap_or(END);
        }
    }
    u32::from(b'a') + (history.len() % 26) as u32
}

/// Lets a model take steps only as they are given.
pub(crate) struct Gate(Sender<()>);

impl Gate {
    /// A model that waits for the gate before every token; it is open when the gate is gone.
    pub(crate) fn new() -> (Self, impl FnMut(&[u32]) -> u32 + Send + 'static) {
        let (sender, permits): (Sender<()>, Receiver<()>) = channel();
        let model = move |history: &[u32]| {
            let _ = permits.recv();
            speak(history)
        };
        (Self(sender), model)
    }

    /// Lets `tokens` tokens through.
    pub(crate) fn open_for(&self, tokens: usize) {
        for _ in 0..tokens {
            self.0.send(()).expect("the model waits");
        }
    }
}

/// A tokenizer whose tokens are bytes: it splits every character that is not ASCII.
pub(crate) fn tokenizer() -> Tokenizer {
    let vocab: Map<String, Value> = byte_names().map(|(name, id)| (name, json!(id))).collect();
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "single_word": false,
               "lstrip": false, "rstrip": false, "normalized": false})
    };
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false,
                            "trim_offsets": false, "use_regex": false});
    let file = json!({
        "version": "1.0",
        "added_tokens": [special(END, "<|end|>"), special(END + 1, "<|mark|>")],
        "normalizer": null,
        "pre_tokenizer": byte_level,
        "post_processor": null,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    });
    Tokenizer::from_tokenizer_json(file.to_string().as_bytes()).expect("the tokenizer is sound")
}

/// The printable character that stands for each byte in byte-level vocabularies.
fn byte_names() -> impl Iterator<Item = (String, u32)> {
    let is_printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut stand_in = 255;
    (0..256_u32).map(move |byte| {
        let code = if is_printable(byte) {
            byte
        } else {
            stand_in += 1;
            stand_in
        };
        (
            char::from_u32(code)
                .expect("codes are characters")
                .to_string(),
            byte,
        )
    })
}

/// A template that writes the contents of messages, one a line.
pub(crate) fn template() -> Template {
    let source = "{%- for message in messages -%}{{ message.content }}{{ '\\n' }}{%- endfor -%}";
    Template::compile(source, &SpecialTokens::default()).expect("the template is sound")
}
