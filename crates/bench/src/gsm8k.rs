//! `bench gsm8k`: few-shot accuracy on grade-school mathematics, beside the speed it was had at.

use crate::client::{
    Backend, Client, Extras, Manner, Sampling, Trust, USUAL_TIME_LIMIT, Url, Wording,
};
use crate::dataset::Row;
use crate::load::{self, Load, Onlooker};
use crate::pace::Burst;
use crate::put::put;
use crate::record::RequestRecord;
use crate::release::Release;
use crate::result::{ResultLine, Style, append};
use crate::serving::{ProgressBar, ServingError, Surroundings};
use crate::stop::StopRules;
use flags::{Command, FlagError, FlagSpec, Group, Parsed, Preset};
use serde::Deserialize;
use serde_json::{Map, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROGRAM: &str = "peregrine bench gsm8k";
/// Where an answer ends that runs on into the next question.
const STOPS: [&str; 3] = ["Question", "Assistant:", "<|separator|>"];

const FLAGS: &[FlagSpec] = &[
    FlagSpec::integer("num-shots", "Solved questions before each one.").default(Preset::Integer(5)),
    FlagSpec::text("data-path", "The questions: GSM8K's test.jsonl."),
    FlagSpec::integer("num-questions", "How many questions.").default(Preset::Integer(200)),
    FlagSpec::integer("max-new-tokens", "The longest answer.").default(Preset::Integer(512)),
    FlagSpec::integer("parallel", "Questions under way at once.").default(Preset::Integer(128)),
    FlagSpec::text("host", "Where the server is.").default(Preset::Text("http://127.0.0.1")),
    FlagSpec::integer("port", "Its port.").default(Preset::Integer(30000)),
    Trust::FLAG,
    FlagSpec::choice(
        "backend",
        &["sglang", "sglang-oai", "vllm", "lmdeploy"],
        "The protocol to speak.",
    )
    .default(Preset::Text("sglang")),
    FlagSpec::text("model", "The model named in requests of OpenAI backends.")
        .default(Preset::Text("default")),
    FlagSpec::float("temperature", "Sampling temperature.").default(Preset::Float(0.0)),
    FlagSpec::text("output-file", "Where the result line is appended."),
];

/// What `--help` ends with.
const EXAMPLES: &str = "
examples:
  a thousand questions, eight solved ones before each, 64 at once
    peregrine bench gsm8k --data-path test.jsonl --num-shots 8 --num-questions 1000 --parallel 64

docs/figures.md defines every figure that is printed or written.
";

/// Runs `bench gsm8k` with these words; what the process returns.
pub fn main(args: &[String], surroundings: &mut Surroundings<'_>) -> u8 {
    let groups = [Group {
        title: "options",
        flags: FLAGS,
    }];
    let command = Command {
        program: PROGRAM,
        about: "Ask a running server grade-school mathematics, few-shot, and report accuracy and speed.",
        positionals: &[],
        groups: &groups,
    };
    let ran = command
        .parse(args)
        .map_err(ServingError::from)
        .and_then(|given| run(&given, surroundings));
    match ran {
        Ok(code) => code,
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

#[derive(Deserialize)]
struct Question {
    question: String,
    answer: String,
}

impl Question {
    fn asked(&self) -> String {
        format!("Question: {}\nAnswer:", self.question)
    }

    fn solved(&self) -> String {
        format!("{} {}\n\n", self.asked(), self.answer)
    }
}

/// The last whole number in a text; thousands may be set off by commas.
fn last_number(text: &str) -> Option<u128> {
    let text = text.replace(',', "");
    let digits = text
        .split(|letter: char| !letter.is_ascii_digit())
        .rfind(|part| !part.is_empty())?;
    digits.parse().ok()
}

fn run(given: &Parsed, surroundings: &mut Surroundings<'_>) -> Result<u8, ServingError> {
    let count = |name: &str| given.integer(name).unwrap_or(0).max(0) as usize;
    let questions = read(given)?;
    let shots: String = questions
        .iter()
        .take(count("num-shots"))
        .map(Question::solved)
        .collect();
    let asked: Vec<&Question> = questions.iter().take(count("num-questions")).collect();
    let labels: Vec<Option<u128>> = asked
        .iter()
        .map(|question| last_number(&question.answer))
        .collect();
    let output = count("max-new-tokens") as u64;
    let rows: Vec<Arc<Row>> = asked
        .iter()
        .map(|question| Arc::new(Row::text(shots.clone() + &question.asked(), 0, output)))
        .collect();
    if rows.is_empty() {
        return Err(ServingError::Refused(
            "there are no questions to ask".to_owned(),
        ));
    }
    // Requests that find no room fail, and are told of.
    let _ = crate::open_files::make_room();
    let mut client = Client::start(manner(given, surroundings)?, 1, USUAL_TIME_LIMIT)
        .map_err(ServingError::Client)?;
    let load = Load {
        rows: &rows,
        adapters: &[],
        pace: Box::new(Burst),
        gate: Some(count("parallel").max(1)),
        stop: StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    let one = |_: usize| 1;
    let mut bar = ProgressBar::new(&mut surroundings.err, rows.len(), &one);
    let outcome = load::run(&mut client, load, &mut bar as &mut dyn Onlooker);
    bar.close();
    let seconds = outcome.ended.seconds_since(outcome.started);
    let score = Score::of(&outcome.records, &labels, seconds);
    surroundings.say(&score.words());
    if let Some(path) = given.text("output-file") {
        let path = PathBuf::from(path);
        append(&path, &score.line(given).text(Style::Valid))
            .map_err(|source| ServingError::Output { path, source })?;
    }
    Ok(u8::from(score.failed > 0))
}

fn read(given: &Parsed) -> Result<Vec<Question>, ServingError> {
    let path = given.text("data-path").ok_or_else(|| {
        ServingError::Refused(
            "give the questions with --data-path (GSM8K's test.jsonl, one JSON object per line)"
                .to_owned(),
        )
    })?;
    Ok(crate::dataset::read_json_lines(Path::new(path))?)
}

fn manner(given: &Parsed, surroundings: &Surroundings<'_>) -> Result<Manner, ServingError> {
    let backend = given.text("backend").and_then(Backend::named);
    let backend = backend.expect("the choices of --backend are all known");
    let host = given.text("host").unwrap_or_default();
    let host = if host.contains("://") {
        host.to_owned()
    } else {
        format!("http://{host}")
    };
    let base = Url::parse(&format!(
        "{host}:{}",
        given.integer("port").unwrap_or(30000)
    ))?;
    let temperature = given.float("temperature").unwrap_or(0.0);
    let native = backend.name() == "sglang";
    let mut extra_body = Map::new();
    if native {
        extra_body.insert(
            "sampling_params".to_owned(),
            json!({
                "temperature": temperature,
                "max_new_tokens": given.integer("max-new-tokens"),
                "stop": STOPS,
            }),
        );
    } else {
        extra_body.insert("stop".to_owned(), json!(STOPS));
        extra_body.insert("temperature".to_owned(), json!(temperature));
    }
    Ok(Manner {
        backend,
        base,
        trust: Trust::chosen(given)?,
        release: Release::USUAL,
        model: given.text("model").unwrap_or_default().to_owned(),
        headers: surroundings.authorisation().into_iter().collect(),
        stream: true,
        ignore_eos: false,
        sampling: Sampling {
            temperature,
            top_p: 1.0,
        },
        extras: Extras {
            start: -1,
            ..Extras::default()
        },
        extra_body,
        wording: Wording::Plain,
    })
}

/// Accuracy and speed.
struct Score {
    accuracy: f64,
    invalid: f64,
    failed: usize,
    /// Why the first of them did.
    first_failure: Option<String>,
    seconds: f64,
    tokens: u64,
}

impl Score {
    fn of(records: &[RequestRecord], labels: &[Option<u128>], seconds: f64) -> Self {
        let predicted = |record: &RequestRecord| last_number(&record.text);
        let right = records
            .iter()
            .filter(|record| record.succeeded() && predicted(record) == labels[record.row])
            .count();
        let invalid = records
            .iter()
            .filter(|record| predicted(record).is_none())
            .count();
        let share = |count: usize| count as f64 / records.len().max(1) as f64;
        let counted = |record: &RequestRecord| {
            record
                .usage
                .output_tokens
                .unwrap_or(record.chunks.len() as u64)
        };
        Self {
            accuracy: share(right),
            invalid: share(invalid),
            failed: records.iter().filter(|record| !record.succeeded()).count(),
            first_failure: records
                .iter()
                .find_map(|record| record.failure.as_ref().map(ToString::to_string)),
            seconds,
            tokens: records.iter().map(counted).sum(),
        }
    }

    fn throughput(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    fn words(&self) -> String {
        let mut text = format!(
            "Accuracy: {:.3}\nInvalid: {:.3}\nLatency: {:.3} s\nOutput throughput: {:.3} token/s",
            self.accuracy,
            self.invalid,
            self.seconds,
            self.throughput(),
        );
        if self.failed > 0 {
            put(
                &mut text,
                format_args!("\nFailed requests: {}", self.failed),
            );
        }
        if let Some(reason) = &self.first_failure {
            put(&mut text, format_args!("\nThe first of them: {reason}"));
        }
        text
    }

    fn line(&self, given: &Parsed) -> ResultLine {
        let mut line = ResultLine::default();
        line.add("task", "gsm8k");
        line.add("backend", given.text("backend").unwrap_or_default());
        line.add("num_shots", given.integer("num-shots"));
        line.add("num_questions", given.integer("num-questions"));
        line.add("parallel", given.integer("parallel"));
        line.add_float("accuracy", self.accuracy);
        line.add_float("invalid", self.invalid);
        line.add_float("latency", self.seconds);
        line.add_float("output_throughput", self.throughput());
        line.add("failed", self.failed);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_answer() {
        for (text, number) in [
            ("He has 5 apples.\n#### 1,234", Some(1234)),
            (" 18 dollars", Some(18)),
            ("The answer is 3.50", Some(50)),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
    }
}
