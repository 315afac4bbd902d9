//! `bench one-batch`: the latency of one batch of given shape on a running server.

use crate::client::{Control, Trust, Url};
use crate::clock::{Clock, Nanos};
use crate::dataset::{Prompt, Source, SyntheticRules};
use crate::put::put;
use crate::python_text;
use crate::random::Streams;
use crate::release::Release;
use crate::result::{ResultLine, Style, append};
use crate::serving::{ServingError, Surroundings};
use crate::vocabulary::Vocabulary;
use flags::{Command, FlagError, FlagSpec, Group, Parsed, Preset, Takes};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PROGRAM: &str = "peregrine bench one-batch";
const LONGEST: Duration = Duration::from_hours(6);

const fn numbers(name: &'static str, help: &'static str) -> FlagSpec {
    FlagSpec::integer(name, help).takes(Takes::Some)
}

const FLAGS: &[FlagSpec] = &[
    FlagSpec::text("base-url", "Where the server is.")
        .default(Preset::Text("http://127.0.0.1:30000")),
    Trust::FLAG,
    FlagSpec::text("model", "Accepted; the running server decides.").alias(&["model-path"]),
    FlagSpec::text(
        "tokenizer",
        "The tokenizer's folder, when the server does not say.",
    ),
    FlagSpec::text("run-name", "Copied into the result.").default(Preset::Text("default")),
    numbers(
        "batch-size",
        "Requests in one batch; several are tried in turn. 1 when not given.",
    ),
    numbers(
        "input-len",
        "Prompt tokens; several are tried in turn. 1024 when not given.",
    ),
    numbers(
        "output-len",
        "Output tokens; several are tried in turn. 16 when not given.",
    ),
    FlagSpec::float("temperature", "Sampling temperature.").default(Preset::Float(0.0)),
    FlagSpec::switch("return-logprob", "Ask for log-probabilities."),
    FlagSpec::integer("client-stream-interval", "Tokens between events.")
        .default(Preset::Integer(1)),
    FlagSpec::switch("skip-warmup", "No warm-up batches."),
    FlagSpec::switch("show-report", "Print a table of all cases."),
    FlagSpec::choice(
        "dataset-name",
        &["random", "random-ids"],
        "What prompts are made of.",
    )
    .default(Preset::Text("random-ids")),
    FlagSpec::text("dataset-path", "The ShareGPT file for random.").default(Preset::Text("")),
    FlagSpec::text("result-filename", "Where result lines are appended.")
        .default(Preset::Text("result.jsonl")),
    FlagSpec::integer("seed", "The seed of both random streams.").default(Preset::Integer(42)),
];

/// What `--help` ends with.
const EXAMPLES: &str = "
examples:
  one and eight requests of 512 tokens in and 32 out
    peregrine bench one-batch --base-url http://127.0.0.1:30000 --batch-size 1 8 --input-len 512 \\
        --output-len 32 --show-report

docs/figures.md defines every figure that is printed or written.
";

/// Runs `bench one-batch` with these words; what the process returns.
pub fn main(args: &[String], surroundings: &mut Surroundings<'_>) -> u8 {
    let groups = [Group {
        title: "options",
        flags: FLAGS,
    }];
    let command = Command {
        program: PROGRAM,
        about: "Measure the latency of one batch of given shape on a running server.",
        positionals: &[],
        groups: &groups,
    };
    let ran = command
        .parse(args)
        .map_err(ServingError::from)
        .and_then(|given| run(&given, surroundings));
    match ran {
        Ok(()) => 0,
        Err(ServingError::Flags(FlagError::HelpAsked)) => {
            surroundings.show(&(command.help() + EXAMPLES));
            0
        }
        Err(error) => {
            surroundings.warn(&format!("{PROGRAM}: {error}"));
            error.exit_code()
        }
    }
}

/// One shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    batch: u64,
    input: u64,
    output: u64,
}

/// What a shape came to.
struct Case {
    shape: Shape,
    latency: f64,
    last_ttft: f64,
    last_generation: f64,
    accept_length: f64,
}

impl Case {
    fn input_throughput(&self) -> f64 {
        (self.shape.batch * self.shape.input) as f64 / self.last_ttft
    }

    fn output_throughput(&self) -> f64 {
        (self.shape.batch * self.shape.output) as f64 / (self.latency - self.last_ttft)
    }

    fn overall_throughput(&self) -> f64 {
        (self.shape.batch * (self.shape.input + self.shape.output)) as f64 / self.latency
    }

    fn words(&self) -> String {
        let Shape {
            batch,
            input,
            output,
        } = self.shape;
        let mut lines = vec![
            format!("batch size: {batch}"),
            format!("input_len: {input}"),
            format!("output_len: {output}"),
            format!("latency: {:.2} s", self.latency),
            format!("input throughput: {:.2} tok/s", self.input_throughput()),
        ];
        if output != 1 {
            lines.push(format!(
                "output throughput: {:.2} tok/s",
                self.output_throughput()
            ));
        }
        lines.push(format!("last_ttft: {:.2} s", self.last_ttft));
        lines.push(format!(
            "last generation throughput: {:.2} tok/s",
            self.last_generation
        ));
        if self.accept_length > 0.0 {
            lines.push(format!("acc_length: {:.2} ", self.accept_length));
        }
        lines.join("\n")
    }

    fn line(&self, run_name: &str) -> ResultLine {
        let round = |value: f64, digits: i32| {
            let scale = 10_f64.powi(digits);
            (value * scale).round() / scale
        };
        let mut line = ResultLine::default();
        line.add("run_name", run_name);
        line.add("batch_size", self.shape.batch);
        line.add("input_len", self.shape.input);
        line.add("output_len", self.shape.output);
        line.add_float("latency", round(self.latency, 4));
        line.add_float("input_throughput", round(self.input_throughput(), 2));
        line.add_float("output_throughput", round(self.output_throughput(), 2));
        line.add_float("overall_throughput", round(self.overall_throughput(), 2));
        line.add_float("last_ttft", round(self.last_ttft, 4));
        line.add_float("last_gen_throughput", round(self.last_generation, 2));
        line.add_float("acc_length", round(self.accept_length, 2));
        line
    }
}

/// Refuses shapes of nothing before anything is asked of the server.
fn check(given: &Parsed) -> Result<(), ServingError> {
    for name in ["batch-size", "input-len", "output-len"] {
        let numbers = given.integers(name).unwrap_or_default();
        if let Some(number) = numbers.iter().find(|number| **number < 1) {
            return Err(ServingError::Usage(format!(
                "argument --{name}: expected numbers of at least 1, got '{number}'"
            )));
        }
    }
    Ok(())
}

fn run(given: &Parsed, surroundings: &mut Surroundings<'_>) -> Result<(), ServingError> {
    check(given)?;
    let base = Url::parse(given.text("base-url").unwrap_or_default())?;
    let headers = surroundings.authorisation().into_iter().collect();
    let trust = Trust::chosen(given)?;
    let control = Control::trusting(base, headers, trust);
    let info = server_info(&control)?;
    let named = given.text("tokenizer").or(info["tokenizer_path"].as_str());
    let named = named
        .or(info["prefill"][0]["tokenizer_path"].as_str())
        .map(str::to_owned);
    let named = named.ok_or_else(|| {
        ServingError::Refused("the server does not name its tokenizer, give --tokenizer".to_owned())
    })?;
    let vocabulary = (surroundings.tokenizers)(&named)?;
    let capacity = info["internal_states"][0]["memory_usage"]["token_capacity"].as_u64();
    let list = |name: &str, usual: u64| -> Vec<u64> {
        let given = given.integers(name).unwrap_or_default();
        let given: Vec<u64> = given
            .into_iter()
            .filter_map(|n| u64::try_from(n).ok())
            .collect();
        if given.is_empty() { vec![usual] } else { given }
    };
    let batches = list("batch-size", 1);
    let seed = given
        .integer("seed")
        .and_then(|seed| u32::try_from(seed).ok())
        .unwrap_or(42);
    let mut bench = Bench {
        given,
        control,
        vocabulary,
        streams: Streams::seeded(seed),
    };
    if !given.switch("skip-warmup") {
        bench.warm_up(&batches, surroundings)?;
    }
    let mut cases = Vec::new();
    let results = PathBuf::from(given.text("result-filename").unwrap_or_default());
    for batch in batches {
        for input in list("input-len", 1024) {
            for output in list("output-len", 16) {
                let shape = Shape {
                    batch,
                    input,
                    output,
                };
                if let Some(words) = too_large(shape, capacity) {
                    surroundings.say(&words);
                    continue;
                }
                let case = bench.case(shape)?;
                surroundings.say(&case.words());
                let line = case.line(given.text("run-name").unwrap_or_default());
                keep(&results, &line)?;
                cases.push(case);
            }
        }
    }
    if cases.is_empty() {
        return Err(ServingError::Refused(format!(
            "nothing was measured: no shape fits the server's cache of {} tokens",
            capacity.unwrap_or_default()
        )));
    }
    surroundings.say(&format!("\nResults are saved to {}", results.display()));
    if given.switch("show-report") {
        surroundings.show(&report(&cases));
    }
    Ok(())
}

fn keep(path: &Path, line: &ResultLine) -> Result<(), ServingError> {
    append(path, &line.text(Style::Valid)).map_err(|source| ServingError::Output {
        path: path.to_owned(),
        source,
    })
}

fn server_info(control: &Control) -> Result<Value, ServingError> {
    for path in ["/get_server_info", "/server_info"] {
        let reply = control.get(path, Duration::from_mins(1))?;
        if reply.is_ok()
            && let Some(info) = reply.json()
        {
            return Ok(info);
        }
    }
    Ok(Value::Null)
}

fn too_large(shape: Shape, capacity: Option<u64>) -> Option<String> {
    let Shape {
        batch,
        input,
        output,
    } = shape;
    let tokens = batch * (input + output);
    let capacity = capacity.filter(|capacity| tokens > *capacity)?;
    let frame = "=".repeat(8);
    Some(format!(
        "{frame}Skip benchmark batch_size={batch} * (input_len={input} + output_len={output}) = \
         {tokens} > skip_token_capacity_threshold={capacity} due to kv cache limit.{frame}"
    ))
}

/// What all cases share.
struct Bench<'a> {
    given: &'a Parsed,
    control: Control,
    vocabulary: Vocabulary,
    streams: Streams,
}

impl Bench<'_> {
    /// One case of each batch size that nobody keeps.
    fn warm_up(
        &mut self,
        batches: &[u64],
        surroundings: &mut Surroundings<'_>,
    ) -> Result<(), ServingError> {
        let frame = "=".repeat(8);
        surroundings.say(&format!("{frame} Warmup Begin {frame}"));
        surroundings.say(&format!("Warmup with batch_size={batches:?}"));
        for &batch in batches {
            let case = self.case(Shape {
                batch,
                input: 1024,
                output: 16,
            })?;
            surroundings.say(&case.words());
        }
        surroundings.say(&format!("{frame} Warmup End   {frame}\n"));
        Ok(())
    }

    /// Sends one batch as one request and times its stream.
    fn case(&mut self, shape: Shape) -> Result<Case, ServingError> {
        self.control
            .post("/flush_cache", None, Duration::from_mins(10))?;
        let body = self.body(shape)?;
        let clock = Clock::start();
        let mut last_ttft = Nanos(0);
        let mut failure = None;
        let url = self.control.url("/generate");
        let status = self
            .control
            .stream("/generate", &body, LONGEST, &mut |line| {
                let now = clock.now();
                let Some(data) = line.strip_prefix(b"data:") else {
                    return;
                };
                let Ok(event) = serde_json::from_slice::<Value>(data) else {
                    return;
                };
                if let Some(error) = event.get("error") {
                    failure = Some(error.to_string());
                }
                if event["meta_info"]["completion_tokens"].as_u64() == Some(1) {
                    last_ttft = now;
                }
            })?;
        let latency = clock.now();
        if let Some(error) = failure.or_else(|| (status != 200).then(|| format!("status {status}")))
        {
            return Err(ServingError::Refused(format!(
                "{url}: request failed: {error}"
            )));
        }
        let info = server_info(&self.control)?;
        let state = &info["internal_states"][0];
        let or_none = |key: &str| {
            state[key]
                .as_f64()
                .filter(|value| *value != 0.0)
                .unwrap_or(-1.0)
        };
        Ok(Case {
            shape,
            latency: latency.seconds(),
            last_ttft: last_ttft.seconds(),
            last_generation: or_none("last_gen_throughput"),
            accept_length: or_none("avg_spec_accept_length"),
        })
    }

    fn body(&mut self, shape: Shape) -> Result<Value, ServingError> {
        let rules = SyntheticRules {
            count: shape.batch as usize,
            input: shape.input,
            output: shape.output,
            share: 1.0,
            as_ids: true,
            leave_room: false,
        };
        let source = match self.given.text("dataset-name") {
            Some("random") => Source::Random(rules),
            _ => Source::RandomIds(rules),
        };
        let path = self
            .given
            .text("dataset-path")
            .filter(|path| !path.is_empty())
            .map(Path::new);
        let dataset = source.load(path, &self.vocabulary, &mut self.streams, Release::USUAL)?;
        let prompts: Vec<Value> = dataset
            .rows
            .iter()
            .map(|row| match &row.prompt {
                Prompt::Tokens(ids) => json!(ids),
                _ => Value::Null,
            })
            .collect();
        Ok(json!({
            "sampling_params": {
                "temperature": self.given.float("temperature"),
                "max_new_tokens": shape.output,
                "ignore_eos": true,
                "json_schema": null,
                "stream_interval": self.given.integer("client-stream-interval"),
            },
            "return_logprob": self.given.switch("return-logprob"),
            "stream": true,
            "input_ids": prompts,
        }))
    }
}

fn report(cases: &[Case]) -> String {
    let mut text = String::from(
        "\n| batch size | input len | output len | latency (s) | input throughput (tok/s) | \
         output throughput (tok/s) | acc length | ITL (ms) |\n\
         | ---------- | --------- | ---------- | ----------- | ------------------------ | \
         ------------------------- | ---------- | -------- |\n",
    );
    for case in cases {
        let accept = if case.accept_length > 0.0 {
            python_text::float((case.accept_length * 100.0).round() / 100.0)
        } else {
            "n/a".to_owned()
        };
        let gap = case.shape.batch as f64 / case.output_throughput() * 1000.0;
        put(
            &mut text,
            format_args!(
                "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {accept} | {gap:.2} |\n",
                case.shape.batch,
                case.shape.input,
                case.shape.output,
                case.latency,
                case.input_throughput(),
                case.output_throughput(),
            ),
        );
    }
    text
}
