//! The text side of a model: its tokenizer, its chat template and its authors' sampling defaults.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use checkpoint::Checkpoint;
use checkpoint::gguf::{GgufSource, Metadata, Value};
use flags::Parsed;
use hub::source::wheel::{PINNED, Pin};
use text::{GgufVocabulary, ModelFiles, SamplingDefaults, Template, Tokenizer};

use crate::templates;

/// What turns text into tokens and back.
#[derive(Debug)]
pub(crate) struct Language {
    /// The vocabulary.
    pub(crate) tokenizer: Tokenizer,
    /// How conversations become prompts.
    pub(crate) template: Option<Template>,
    /// What the model's authors recommend.
    pub(crate) sampling: SamplingDefaults,
    /// Where the tokenizer came from.
    pub(crate) path: PathBuf,
}

impl Language {
    /// Says before minutes of loading weights that a file which [`Self::load`] needs is not there.
    pub(crate) fn look(
        parsed: &Parsed,
        model: &Path,
        weights: Option<&Checkpoint>,
    ) -> anyhow::Result<()> {
        if let Some(given) = parsed.text("chat-template") {
            template_text(given)?;
        }
        let path = parsed.text("tokenizer-path").map(Path::new);
        if path.is_none() && matches!(weights, Some(Checkpoint::Gguf(_))) {
            return Ok(());
        }
        let path = path.unwrap_or(model);
        let file = if path.is_dir() {
            path.join("tokenizer.json")
        } else {
            path.to_owned()
        };
        let seen = fs::metadata(&file).with_context(|| format!("cannot read {}", file.display()));
        seen.map(drop).with_context(|| advice(path))
    }

    /// Loads it from `--tokenizer-path`, else from the model; `--chat-template` replaces the template.
    pub(crate) fn load(
        parsed: &Parsed,
        model: &Path,
        weights: Option<&Checkpoint>,
    ) -> anyhow::Result<Self> {
        let elsewhere = parsed.text("tokenizer-path").map(PathBuf::from);
        let path = elsewhere.clone().unwrap_or_else(|| model.to_owned());
        let (tokenizer, template, sampling) = match (weights, elsewhere) {
            (Some(Checkpoint::Gguf(source)), None) => from_gguf(source)?,
            _ if is_gguf(&path) => from_gguf(&GgufSource::open(&path)?)?,
            _ => from_folder(&path)?,
        };
        let template = match parsed.text("chat-template") {
            Some(given) => Some(template_text(given)?),
            None => template,
        };
        let template = template
            .map(|source| templates::compile(&source, tokenizer.special_tokens()))
            .transpose()?;
        Ok(Self {
            tokenizer,
            template,
            sampling,
            path,
        })
    }
}

/// The tokenizer and the chat template inside a GGUF file.
pub(crate) fn gguf_text(path: &Path) -> anyhow::Result<(Tokenizer, Option<Template>)> {
    let (tokenizer, template, _) = from_gguf(&GgufSource::open(path)?)?;
    let compile = |source: String| templates::compile(&source, tokenizer.special_tokens());
    let template = template.map(compile).transpose()?;
    Ok((tokenizer, template))
}

type Parts = (Tokenizer, Option<String>, SamplingDefaults);

fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

fn advice(path: &Path) -> String {
    format!(
        "no tokenizer at {}; give one with --tokenizer-path, or serve token ids with --skip-tokenizer-init",
        path.display()
    )
}

/// A folder of a model, a folder with a tokenizer alone, or a tokenizer.json.
fn from_folder(path: &Path) -> anyhow::Result<Parts> {
    let advice = || advice(path);
    if path.is_file() {
        let tokenizer = Tokenizer::from_file(path).with_context(advice)?;
        return Ok((tokenizer, None, SamplingDefaults::default()));
    }
    if !path.join("config.json").exists() {
        let tokenizer = Tokenizer::from_folder(path).with_context(advice)?;
        return Ok((tokenizer, None, SamplingDefaults::default()));
    }
    let files = ModelFiles::open(path)?;
    let tokenizer = files.tokenizer().with_context(advice)?;
    Ok((tokenizer, files.chat_template, files.sampling))
}

fn from_gguf(source: &GgufSource) -> anyhow::Result<Parts> {
    let name = source.path().display();
    let vocabulary =
        vocabulary(&source.metadata()).with_context(|| format!("{name} has a bad vocabulary"))?;
    let vocabulary = vocabulary.with_context(|| {
        format!(
            "{name} has no vocabulary; give one with --tokenizer-path, or serve token ids with \
             --skip-tokenizer-init"
        )
    })?;
    let template = vocabulary.chat_template.clone();
    let sampling = recommended(source.path());
    Ok((Tokenizer::from_gguf(vocabulary)?, template, sampling))
}

/// What the authors of a pinned model recommend; other GGUF files recommend nothing.
fn recommended(path: &Path) -> SamplingDefaults {
    let is_it = |pin: &&Pin| path.file_name().is_some_and(|name| name == pin.file_name());
    let Some(pin) = PINNED.iter().find(is_it) else {
        return SamplingDefaults::default();
    };
    let (temperature, top_p) = pin.sampling;
    SamplingDefaults {
        temperature: Some(f64::from(temperature) / 100.0),
        top_p: Some(f64::from(top_p) / 100.0),
        ..SamplingDefaults::default()
    }
}

fn vocabulary(metadata: &Metadata<'_>) -> anyhow::Result<Option<GgufVocabulary>> {
    let Some(found) = metadata.vocabulary()? else {
        return Ok(None);
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flag = |name: &str| metadata.flag(&format!("tokenizer.ggml.{name}"));
    let kinds = found.kinds.into_iter().flat_map(|kinds| kinds.numbers());
    let scores = found.scores.into_iter().flat_map(|scores| scores.numbers());
    Ok(Some(GgufVocabulary {
        model: found.model.to_owned(),
        pre: found.pre.map(str::to_owned),
        tokens: found.tokens.texts().map(text).collect(),
        token_types: kinds.map(|kind| integer(&kind)).collect(),
        scores: scores.map(|score| real(&score)).collect(),
        merges: found
            .merges
            .into_iter()
            .flat_map(|merges| merges.texts())
            .map(text)
            .collect(),
        bos: metadata.token_id("bos")?,
        eos: metadata.token_id("eos")?,
        eot: metadata.token_id("eot")?,
        pad: metadata.token_id("padding")?,
        unk: metadata.token_id("unknown")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        chat_template: found.chat_template.map(str::to_owned),
    }))
}

fn integer(value: &Value) -> i32 {
    match value {
        Value::Integer(number) => i32::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}

fn real(value: &Value) -> f32 {
    match value {
        Value::Float(number) => *number as f32,
        _ => 0.0,
    }
}

/// A file's content, or the template itself when it looks like one.
fn template_text(given: &str) -> anyhow::Result<String> {
    if given.contains("{{") || given.contains("{%") {
        return Ok(given.to_owned());
    }
    fs::read_to_string(given)
        .with_context(|| format!("--chat-template {given} is neither a file nor a Jinja template"))
}
