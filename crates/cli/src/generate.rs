//! `peregrine generate`: one message answered, or one text continued, in the terminal.

use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use engine::{EngineHandle, GenerateRequest, TokenEvent};
use flags::{FlagSpec, Parsed, Positional, Preset, Takes};
use sampling::{SamplingOptions, SamplingParams};
use serde_json::json;
use text::{Detokenizer, RenderInput, StopStrings, prepare_messages};

use crate::args::{ServerArgs, ServerCommand};
use crate::end::end_if_held_up;
use crate::env::Env;
use crate::failure::Failure;
use crate::language::Language;
use crate::logging::{self, Levels};
use crate::obtain::{Wanted, obtain};
use crate::print::unless_gone;
use crate::start::{self, Started};
use crate::summary::tell;

pub(crate) const COMMAND: ServerCommand = ServerCommand {
    program: "peregrine generate",
    about: "Answers one message, or continues a text with --raw, and prints it as it comes. Takes the flags of serve \
            for the model.",
    positionals: &[Positional {
        name: "TEXT",
        takes: Takes::One,
        help: "A message to the model where it has a chat template; with --raw or without a template, the text to \
               continue. - reads it from standard input.",
    }],
    own: &[
        FlagSpec::integer("max-new-tokens", "Most tokens to generate.")
            .default(Preset::Integer(512)),
        FlagSpec::float(
            "temperature",
            "0 is greedy; the model's own default when not given.",
        ),
        FlagSpec::float(
            "top-p",
            "Keep the smallest set of tokens with this total probability.",
        ),
        FlagSpec::integer("top-k", "Keep this many tokens."),
        FlagSpec::float(
            "min-p",
            "Keep tokens at least this likely relative to the likeliest.",
        ),
        FlagSpec::float("repetition-penalty", "Above 1 discourages repeating."),
        FlagSpec::integer("seed", "Fixes the random numbers."),
        FlagSpec::words("stop", "Texts that end the output."),
        FlagSpec::text("system", "What the system message says."),
        FlagSpec::switch(
            "raw",
            "Continue TEXT as it is instead of answering it as a chat message.",
        ),
        FlagSpec::switch("ignore-eos", "Do not stop at the model's end token."),
    ],
};

/// Runs the command.
pub(crate) fn run(args: &ServerArgs, env: &Env) -> Result<(), Failure> {
    let given = args
        .parsed
        .given("log-level")
        .then(|| args.parsed.text("log-level"))
        .flatten();
    let filter = env.log_filter.as_deref();
    logging::start(Levels {
        all: given.unwrap_or("warning"),
        access: None,
        filter,
    })
    .map_err(Failure::Config)?;
    let text = text(&args.parsed, io::stdin()).map_err(Failure::Config)?;
    let local = obtain(Wanted::from(&args.parsed, None), env).map_err(Failure::Config)?;
    let started = start::start(args, &local, env).map_err(Failure::Config)?;
    tell(args.notices.iter().chain(&started.launch.notices));
    let request = request(&args.parsed, &text, &started).map_err(Failure::Config)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Broken(error.into()))?;
    let language = started
        .language
        .as_ref()
        .expect("the request was made with it");
    let stops = args.parsed.list("stop").unwrap_or_default();
    let stops = StopStrings::new(
        stops.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        false,
    );
    let done = runtime.block_on(stream(&started.engine, language, request, stops));
    let done = done.or_else(|error| {
        unless_gone(Err(error.downcast::<io::Error>()?)).context("cannot write to standard output")
    });
    if !started.engine.is_healthy() {
        end_if_held_up();
    }
    let ended = started.thread.stop().context("the engine broke");
    // It may have been lost only now.
    let ended = ended.inspect_err(|_| end_if_held_up());
    done.and(ended).map_err(Failure::Broken)
}

/// What was written, or what comes on standard input, without the end of its last line.
fn text(parsed: &Parsed, input: impl io::Read) -> anyhow::Result<String> {
    let word = parsed.words().first().expect("the table requires a text");
    if word != "-" {
        return Ok(word.clone());
    }
    let text = io::read_to_string(input).context("cannot read standard input")?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// The prompt's tokens and the sampling parameters.
fn request(parsed: &Parsed, text: &str, started: &Started) -> anyhow::Result<GenerateRequest> {
    let Some(language) = &started.language else {
        bail!("generate writes text, so it needs a tokenizer: leave out --skip-tokenizer-init");
    };
    let prompt = match &language.template {
        Some(template) if !parsed.switch("raw") => {
            let mut messages = vec![json!({ "role": "user", "content": text })];
            if let Some(system) = parsed.text("system") {
                messages.insert(0, json!({ "role": "system", "content": system }));
            }
            let messages = prepare_messages(&messages.into(), template.content_format())?;
            let rendered = template.render(RenderInput::new(&messages))?;
            language.tokenizer.encode(&rendered, false)?
        }
        _ => language.tokenizer.encode(text, true)?,
    };
    let room = started.engine.config().scheduler.max_sequence_tokens() as i64;
    let options = options(parsed, language, room - prompt.len() as i64);
    let params = SamplingParams::new(&options, started.spec.vocabulary as u32)?;
    Ok(GenerateRequest {
        prompt: prompt.into(),
        params: Arc::new(params),
        choice: 0,
        log_probs: None,
        namespace: None,
        priority: None,
    })
}

/// What was given, else what the model's authors recommend, else greedy.
fn options(parsed: &Parsed, language: &Language, room: i64) -> SamplingOptions {
    let (defaults, own) = (SamplingOptions::default(), &language.sampling);
    let number = |flag: &str, own: Option<f64>, otherwise: f64| {
        parsed.float(flag).or(own).unwrap_or(otherwise)
    };
    SamplingOptions {
        max_new_tokens: parsed
            .integer("max-new-tokens")
            .map(|tokens| tokens.min((room - 1).max(1))),
        temperature: number("temperature", own.temperature, 0.0),
        top_p: number("top-p", own.top_p, defaults.top_p),
        top_k: parsed
            .integer("top-k")
            .or(own.top_k)
            .unwrap_or(defaults.top_k),
        min_p: number("min-p", own.min_p, defaults.min_p),
        repetition_penalty: number(
            "repetition-penalty",
            own.repetition_penalty,
            defaults.repetition_penalty,
        ),
        seed: parsed.integer("seed").map(|seed| seed as u64),
        ignore_eos: parsed.switch("ignore-eos"),
        ..defaults
    }
}

/// Prints text as tokens come.
async fn stream(
    engine: &EngineHandle,
    language: &Language,
    request: GenerateRequest,
    mut stops: StopStrings,
) -> anyhow::Result<()> {
    let mut words = Detokenizer::after_prompt(&language.tokenizer, true, &request.prompt);
    let (began, mut first, mut count) = (Instant::now(), None, 0_usize);
    let mut tokens = engine.generate(request)?;
    let mut out = stdout().lock();
    'events: while let Some(event) = tokens.next().await {
        let progress = match event {
            TokenEvent::Progress(progress) => progress,
            TokenEvent::Failed(failed) => bail!(failed),
        };
        first.get_or_insert_with(Instant::now);
        count += progress.tokens.len();
        for token in progress.tokens {
            let outcome = stops.push(words.push(token));
            write!(out, "{}", outcome.emit)?;
            if outcome.matched.is_some() {
                break 'events;
            }
        }
        out.flush()?;
    }
    write!(out, "{}{}", stops.push(words.flush()).emit, stops.flush())?;
    writeln!(out)?;
    if stderr().is_terminal()
        && let Some(first) = first
    {
        report(
            count,
            first.duration_since(began).as_secs_f64(),
            first.elapsed().as_secs_f64(),
        );
    }
    Ok(())
}

/// A remark for the person at the terminal.
fn report(tokens: usize, wait: f64, seconds: f64) {
    let rate = tokens.saturating_sub(1) as f64 / seconds.max(1e-9);
    let line = format!("[{tokens} tokens, first after {wait:.2} s, then {rate:.1} a second]");
    let _ = writeln!(stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_takes_the_text_from_standard_input_without_its_last_line_end() {
        for (word, input, expected) in [
            ("-", "one\ntwo\n", "one\ntwo"),
            ("-", "one", "one"),
            ("-", "", ""),
            ("-x", "never read", "-x"),
            ("hello", "never read", "hello"),
        ] {
            let words = ["--".to_owned(), word.to_owned()];
            let args = COMMAND.parse(&words).unwrap();
            let found = text(&args.parsed, input.as_bytes()).unwrap();
            assert_eq!(found, expected, "{word}");
        }
        assert!(
            text(
                &COMMAND.parse(&["-".to_owned()]).unwrap().parsed,
                &b"\xff"[..]
            )
            .is_err()
        );
    }

    #[test]
    fn help_says_that_the_text_is_a_message_unless_it_is_raw() {
        let help = COMMAND.help(false);
        for part in [
            "Answers one message",
            "or continues a text with --raw",
            "- reads it from standard input",
        ] {
            let words: Vec<&str> = help.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{part}: {help}");
        }
    }
}
