//! From options to a server that answers, a tokenizer and a dataset.

use super::error::ServingError;
use super::options::{Imitated, Options};
use super::surroundings::Surroundings;
use crate::client::{Backend, Control, ControlError, Family, Trust, Url};
use crate::dataset::Dataset;
use crate::open_files;
use crate::random::Streams;
use crate::vocabulary::Vocabulary;
use flags::Value as Flag;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// Datasets that have no meaning for embeddings.
const NOT_FOR_EMBEDDINGS: [&str; 3] = ["image", "mmmu", "mooncake"];
/// How long a question to a server may take that does not say otherwise.
pub(super) const LONGEST: Duration = Duration::from_mins(10);
/// The host that stands for a prefill that never happened.
const FAKE_PREFILL_HOST: &str = "2.2.2.2";

/// All that a run needs.
pub(super) struct Prepared {
    pub(super) backend: Backend,
    pub(super) base: Url,
    pub(super) trust: Trust,
    pub(super) control: Control,
    pub(super) headers: Vec<(String, String)>,
    /// The model named in requests.
    pub(super) model: String,
    pub(super) tokenizer: String,
    pub(super) vocabulary: Vocabulary,
    pub(super) extra_body: Map<String, Value>,
    pub(super) dataset: Dataset,
    /// Both streams, as the dataset left them.
    pub(super) streams: Streams,
}

/// Follows the reference's start-up, messages included.
pub(super) fn prepare(
    options: &mut Options,
    surroundings: &mut Surroundings<'_>,
) -> Result<Prepared, ServingError> {
    let backend = backend(options)?;
    super::outputs::check(options)?;
    if let Some(note) = options.settle_dataset()? {
        surroundings.warn(note);
    }
    if options.imitated == Imitated::Sglang {
        let echo = format!("benchmark_args={}", options.echo());
        surroundings.say(&echo);
    }
    let failure = match open_files::make_room() {
        Ok(files) if files < open_files::WANTED => {
            Some("current limit exceeds maximum limit".to_owned())
        }
        made => made.err().map(|error| error.to_string()),
    };
    if let Some(failure) = failure {
        surroundings.say(&format!("Fail to set RLIMIT_NOFILE: {failure}"));
    }
    let mut streams = Streams::seeded(options.seed()?);
    let extra_body = extra_body(options, backend, surroundings)?;
    let base = locate(options, backend)?;
    let mut headers: Vec<(String, String)> = surroundings.authorisation().into_iter().collect();
    let trust = Trust::chosen(&options.own)?;
    let control = Control::trusting(base.clone(), headers.clone(), trust.clone());
    if backend.name() == "trt" && options.given.text("model").is_none() {
        surroundings.say("Please provide a model using `--model` when using `trt` backend.");
        return Err(ServingError::Said(1));
    }
    wait_until_ready(options, backend, &control, surroundings)?;
    let model = find_model(options, backend, &control, surroundings)?;
    refuse_combinations(options, backend, surroundings)?;
    let (tokenizer, vocabulary) = find_vocabulary(options, &model, &control, surroundings)?;
    if !backend.is_embedding() && !vocabulary.has_template() && options.imitated == Imitated::Sglang
    {
        surroundings.say(
            "\nWARNING It is recommended to use the `Chat` or `Instruct` model for benchmarking.\n\
             Because when the tokenizer counts the output tokens, if there is gibberish, it might \
             count incorrectly.\n",
        );
    }
    let echo = format!("{}\n", options.echo());
    surroundings.say(&echo);
    headers.extend(custom_headers(options));
    let source = options.source()?;
    let dataset = source.load(
        options.dataset_path(),
        &vocabulary,
        &mut streams,
        options.release,
    )?;
    for note in &dataset.notes {
        surroundings.say(note);
    }
    tell_of_bad_lines(options, &dataset, surroundings)?;
    if dataset.rows.is_empty() {
        return Err(ServingError::Refused(format!(
            "dataset {}: no row is left to send: {}",
            source.name(),
            options.no_row(&dataset)
        )));
    }
    let served = match options.imitated {
        Imitated::Sglang => options.given.text("served-model-name"),
        Imitated::Lmdeploy => None,
    };
    let model = served.unwrap_or(&model).to_owned();
    Ok(Prepared {
        backend,
        base,
        trust,
        control,
        headers,
        model,
        tokenizer,
        vocabulary,
        extra_body,
        dataset,
        streams,
    })
}

fn backend(options: &Options) -> Result<Backend, ServingError> {
    let name = options.given.text("backend").unwrap_or_default();
    let backend = Backend::named(name).ok_or_else(|| {
        ServingError::Refused(format!(
            "backend {name}: the reference does not implement it either"
        ))
    })?;
    if options.imitated == Imitated::Lmdeploy {
        return Ok(backend);
    }
    if options.given.switch("print-requests") && backend.name() != "sglang-oai-chat" {
        return Err(ServingError::Refused(
            "--print-requests only works with --backend sglang-oai-chat".to_owned(),
        ));
    }
    if options.given.switch("tokenize-prompt") && backend.name() != "sglang" {
        return Err(ServingError::Refused(
            "`--tokenize-prompt` only compatible with `--backend sglang` currently".to_owned(),
        ));
    }
    Ok(backend)
}

fn extra_body(
    options: &Options,
    backend: Backend,
    surroundings: &mut Surroundings<'_>,
) -> Result<Map<String, Value>, ServingError> {
    let mut body = match options
        .given
        .text("extra-request-body")
        .filter(|text| !text.is_empty())
    {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            ServingError::Refused(format!(
                "--extra-request-body is not a JSON object: {error}"
            ))
        })?,
    };
    if options.imitated == Imitated::Lmdeploy {
        return Ok(body);
    }
    if options.given.switch("cache-report") {
        match backend.name() {
            "sglang" | "sglang-native" => {}
            "sglang-oai" | "sglang-oai-chat" => {
                body.insert("return_cached_tokens_details".to_owned(), json!(true));
            }
            _ => {
                surroundings.say("WARNING: --cache-report is only supported with sglang backends.");
            }
        }
    }
    if options.given.switch("fake-prefill") {
        body.insert("bootstrap_host".to_owned(), json!(FAKE_PREFILL_HOST));
        body.insert("bootstrap_room".to_owned(), json!(0));
    }
    Ok(body)
}

/// Fills in the port and finds the base address.
fn locate(options: &mut Options, backend: Backend) -> Result<Url, ServingError> {
    if options.given.integer("port").is_none() {
        options
            .given
            .set("port", Flag::Integer(backend.port().into()));
    }
    if let Some(url) = options.given.text("base-url").filter(|url| !url.is_empty()) {
        return Ok(Url::parse(url)?);
    }
    let host = options.given.text("host").unwrap_or_default();
    let port = options.given.integer("port").unwrap_or_default();
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    let host = if is_bare_v6 {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    Ok(Url::parse(&format!("http://{host}:{port}"))?)
}

fn wait_until_ready(
    options: &Options,
    backend: Backend,
    control: &Control,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    if options.imitated == Imitated::Lmdeploy {
        return Ok(());
    }
    let waits = options.release.has(10) || options.given.given("ready-check-timeout-sec");
    let seconds = options.count("ready-check-timeout-sec").unwrap_or(0);
    if !waits || seconds == 0 {
        return Ok(());
    }
    let path = if backend.family() == Family::Triton {
        ""
    } else {
        "/v1/models"
    };
    let url = control.url(path);
    surroundings.say(&format!(
        "Waiting up to {seconds}s for {url} to become ready..."
    ));
    let started = Instant::now();
    loop {
        let ready = match control.get(path, Duration::from_secs(5)) {
            Ok(reply) => reply.is_ok(),
            // Waiting does not turn a server into another one.
            Err(error @ ControlError::Tls { .. }) => return Err(error.into()),
            Err(_) => false,
        };
        let elapsed = started.elapsed().as_secs_f64();
        if ready {
            surroundings.say(&format!("Server ready in {elapsed:.1}s."));
            return Ok(());
        }
        if elapsed >= seconds as f64 {
            surroundings.say(&format!(
                "Server did not become ready within {seconds}s timeout."
            ));
            surroundings.say(&format!("Server at {url} is not ready. Exiting."));
            return Err(ServingError::Said(1));
        }
        super::pause(Duration::from_secs(1));
    }
}

fn find_model(
    options: &mut Options,
    backend: Backend,
    control: &Control,
    surroundings: &mut Surroundings<'_>,
) -> Result<String, ServingError> {
    if let Some(model) = options.given.text("model") {
        return Ok(model.to_owned());
    }
    if backend.name() == "truss" {
        surroundings.say(
            "Please provide a model with `--model` when using truss backend. e.g. --model \
             meta-llama/Llama-3.1-8B-Instruct",
        );
        return Err(ServingError::Said(1));
    }
    let listed = control.get("/v1/models", LONGEST).and_then(|reply| {
        reply.json().ok_or_else(|| ControlError::Malformed {
            url: control.url("/v1/models"),
            reason: "the answer is not JSON".to_owned(),
        })
    });
    match listed {
        Ok(list) => {
            if let Some(model) = list["data"][0]["id"].as_str() {
                options.given.set("model", Flag::Text(model.to_owned()));
                return Ok(model.to_owned());
            }
            surroundings
                .say("No model specified or found. Please provide a model using `--model`.");
            Err(ServingError::Said(1))
        }
        Err(error) => {
            let url = control.url("/v1/models");
            surroundings.say(&format!("Failed to fetch model from {url}. Error: {error}"));
            surroundings
                .say("Please specify the correct host and port using `--host` and `--port`.");
            Err(ServingError::Said(1))
        }
    }
}

/// Combinations that the reference refuses only once it has found the server.
fn refuse_combinations(
    options: &mut Options,
    backend: Backend,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    if options.imitated == Imitated::Lmdeploy {
        return Ok(());
    }
    let dataset = options
        .given
        .text("dataset-name")
        .unwrap_or_default()
        .to_owned();
    if backend.is_embedding() && NOT_FOR_EMBEDDINGS.contains(&dataset.as_str()) {
        surroundings.say(&format!(
            "{dataset} dataset is unsupported for embeddings benchmark"
        ));
        return Err(ServingError::Said(1));
    }
    if ["image", "mmmu"].contains(&dataset.as_str()) {
        options.given.set("apply-chat-template", Flag::Switch(true));
        if options.given.switch("tokenize-prompt") {
            return Err(ServingError::Refused(
                "`--tokenize-prompt` not compatible with image dataset".to_owned(),
            ));
        }
    }
    let adapters = options.given.list("lora-name").unwrap_or_default().len();
    if options.given.text("lora-request-distribution") != Some("uniform") && adapters < 2 {
        return Err(ServingError::Refused(
            "More than 1 LoRA adapter must be specified via --lora-name to use 'distinct' or \
             'skewed' request distribution."
                .to_owned(),
        ));
    }
    let alpha = options.given.float("lora-zipf-alpha").unwrap_or(1.5);
    if alpha.is_nan() || alpha <= 1.0 {
        let alpha = crate::python_text::float(alpha);
        return Err(ServingError::Refused(format!(
            "Got invalid value for --lora-zipf-alpha of {alpha}. It must be greater than 1."
        )));
    }
    Ok(())
}

/// The tokenizer named by the options, by the server, or by the model.
fn find_vocabulary(
    options: &Options,
    model: &str,
    control: &Control,
    surroundings: &mut Surroundings<'_>,
) -> Result<(String, Vocabulary), ServingError> {
    let told = || {
        let info = control
            .get("/model_info", Duration::from_secs(5))
            .ok()?
            .json()?;
        let path = info["tokenizer_path"]
            .as_str()
            .or(info["model_path"].as_str())?;
        Some(path.to_owned())
    };
    let asks_server = options.release.has(14) && options.imitated == Imitated::Sglang;
    let name = match options.given.text("tokenizer") {
        Some(name) => name.to_owned(),
        None if asks_server => told().unwrap_or_else(|| model.to_owned()),
        None => model.to_owned(),
    };
    let vocabulary = (surroundings.tokenizers)(&name)?;
    Ok((name, vocabulary))
}

/// The reference passes over lines it cannot read: that is told, and where figures count, refused.
fn tell_of_bad_lines(
    options: &Options,
    dataset: &Dataset,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    let Some(first) = dataset.passed_over.first() else {
        return Ok(());
    };
    if options.strict {
        return Err(ServingError::Refused(first.clone()));
    }
    let count = dataset.passed_over.len();
    surroundings.warn(&format!(
        "warning: {count} bad lines of the dataset are passed over, the first: {first}"
    ));
    Ok(())
}

fn custom_headers(options: &Options) -> Vec<(String, String)> {
    if options.imitated == Imitated::Lmdeploy {
        return Vec::new();
    }
    let words = options.given.list("header").unwrap_or_default();
    let pair = |word: &str| {
        let (key, value) = word.split_once('=')?;
        (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    words.into_iter().filter_map(pair).collect()
}
