//! One run: warm-up, the load, and what surrounds them.

use super::error::ServingError;
use super::live::LiveView;
use super::options::{Imitated, Options};
use super::prepare::{LONGEST, Prepared};
use super::profile::Profile;
use super::progress::{ProgressBar, Silence};
use super::requests::RequestPrinter;
use super::schedule::Schedule;
use super::surroundings::Surroundings;
use crate::client::{Client, Extras, Manner, Sampling, USUAL_TIME_LIMIT, Wording};
use crate::dataset::Row;
use crate::load::{self, Load, LoadOutcome, Onlooker};
use crate::measure::reference::View;
use crate::pace::Burst;
use crate::stop::StopRules;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Warm-up answers are no longer than this.
const WARM_UP_OUTPUT: u64 = 32;

/// What a run came to, before any figure.
pub(super) struct Ran {
    pub(super) outcome: LoadOutcome,
    /// As the reference would time it.
    pub(super) duration: f64,
    pub(super) accept_length: Option<f64>,
    pub(super) rate: Option<f64>,
    pub(super) gate: Option<usize>,
}

/// Threads of connections: few, for parsing is cheap.
pub(super) fn threads(options: &Options) -> usize {
    let asked = match options.imitated {
        Imitated::Sglang => options.given.integer("rust-worker-threads"),
        Imitated::Lmdeploy => None,
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or((cores / 4).clamp(1, 8), |threads| {
        threads.clamp(1, 256) as usize
    })
}

/// How requests are worded.
pub(super) fn manner(options: &Options, prepared: &Prepared) -> Manner {
    let sglang = options.imitated == Imitated::Sglang;
    let given = &options.given;
    let switch = |name: &str| sglang && given.switch(name);
    let extras = Extras {
        log_probs: switch("return-logprob"),
        top_log_probs: if sglang {
            options.count("top-logprobs-num").unwrap_or(0)
        } else {
            0
        },
        token_ids: sglang
            .then(|| given.integers("token-ids-logprob"))
            .flatten()
            .map(|ids| ids.into_iter().map(|id| id.max(0) as u64).collect()),
        start: if sglang {
            given.integer("logprob-start-len").unwrap_or(-1)
        } else {
            -1
        },
        routed_experts: switch("return-routed-experts"),
    };
    let number = |name: &str, usual: f64| {
        if sglang {
            given.float(name).unwrap_or(usual)
        } else {
            usual
        }
    };
    Manner {
        backend: prepared.backend,
        base: prepared.base.clone(),
        trust: prepared.trust.clone(),
        release: options.release,
        model: prepared.model.clone(),
        headers: prepared.headers.clone(),
        stream: !given.switch("disable-stream"),
        ignore_eos: !given.switch("disable-ignore-eos"),
        sampling: Sampling {
            temperature: number("temperature", 0.0),
            top_p: number("top-p", 1.0),
        },
        extras,
        extra_body: prepared.extra_body.clone(),
        wording: match (options.imitated, options.strict) {
            (Imitated::Lmdeploy, _) => Wording::Lmdeploy,
            (Imitated::Sglang, false) => Wording::Sglang,
            (Imitated::Sglang, true) => Wording::SglangCounted,
        },
    }
}

/// The client of a run; a person's interrupt ends what it does.
pub(super) fn client(options: &Options, prepared: &Prepared) -> Result<Client, ServingError> {
    let limit = options
        .own
        .float("request-timeout")
        .map_or(USUAL_TIME_LIMIT, Duration::from_secs_f64);
    Client::start(manner(options, prepared), threads(options), limit).map_err(ServingError::Client)
}

/// Warm-up and load as the reference does them.
pub(super) fn run(
    options: &Options,
    prepared: &Prepared,
    rows: &[Arc<Row>],
    surroundings: &mut Surroundings<'_>,
) -> Result<Ran, ServingError> {
    let schedule = Schedule::of(options, rows, prepared.streams.clone());
    let mut client = client(options, prepared)?;
    let watch = super::interrupts::watch(client.interrupter(), surroundings.catch_interrupts);
    warm_up(options, prepared, &mut client, &schedule, surroundings)?;
    let flush = options.given.switch("flush-cache")
        || (prepared.backend.is_sglang() && surroundings.flush_always);
    if flush {
        self::flush(options, prepared)?;
    }
    super::pause(Duration::from_secs(1));
    let profile = Profile::of(options, &prepared.control, surroundings);
    profile.start(options, surroundings);
    let began = Instant::now();
    let (rate, gate) = (schedule.rate, schedule.gate);
    announce_trace(options, prepared, surroundings);
    let outcome = put_load(options, prepared, rows, schedule, &mut client, surroundings);
    profile.stop(options, surroundings);
    let info = prepared
        .backend
        .is_sglang()
        .then(|| server_info(options, prepared))
        .flatten();
    let duration = began.elapsed().as_secs_f64();
    drop(watch);
    let accept_length = info.as_ref().and_then(accept_length);
    Ok(Ran {
        outcome,
        duration,
        accept_length,
        rate,
        gate,
    })
}

fn warm_up(
    options: &Options,
    prepared: &Prepared,
    client: &mut Client,
    schedule: &Schedule,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    let count = options.count("warmup-requests").unwrap_or(1) as usize;
    surroundings.say(&format!("Starting warmup with {count} sequences..."));
    let mut row = prepared
        .dataset
        .warm_up
        .clone()
        .unwrap_or_else(|| prepared.dataset.rows[0].clone());
    row.asked.output_tokens = row.asked.output_tokens.min(WARM_UP_OUTPUT);
    row.extra_body.clear();
    let first = options
        .given
        .list("lora-name")
        .unwrap_or_default()
        .first()
        .map(|name| Arc::from(*name));
    let row = Arc::new(row);
    let rows: Vec<Arc<Row>> = (0..count).map(|_| Arc::clone(&row)).collect();
    let adapters: Vec<Arc<str>> = first.map_or_else(Vec::new, |name| vec![name; count]);
    let gate = if options.release.has(21) {
        schedule.gate
    } else {
        None
    };
    let load = Load {
        rows: &rows,
        adapters: &adapters,
        pace: Box::new(Burst),
        gate,
        stop: StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    let outcome = load::run(client, load, &mut Silence);
    let view = View {
        backend: prepared.backend,
        release: options.release,
        gap_per_event: false,
    };
    if outcome.interrupted {
        return Err(ServingError::Said(130));
    }
    if count > 0
        && !outcome
            .records
            .iter()
            .any(|record| view.see(record).success)
    {
        let failure = outcome
            .records
            .first()
            .and_then(|record| record.failure.as_ref());
        return Err(ServingError::WarmUp(
            failure.map(ToString::to_string).unwrap_or_default(),
        ));
    }
    surroundings.say(&format!(
        "Warmup completed with {count} sequences. Starting main benchmark run..."
    ));
    Ok(())
}

/// Empties the server's prefix cache.
pub(super) fn flush(options: &Options, prepared: &Prepared) -> Result<(), ServingError> {
    // Older releases neither knew vLLM's path nor looked at the answer.
    let newer = options.release.has(14) || options.strict;
    let timeout = options.given.float("flush-cache-timeout").unwrap_or(60.0);
    let path = match prepared.backend {
        backend if newer && backend.is_vllm() => "/reset_prefix_cache".to_owned(),
        backend if options.release.has(18) && backend.is_sglang() => {
            format!(
                "/flush_cache?timeout={}",
                crate::python_text::float(timeout)
            )
        }
        _ => "/flush_cache".to_owned(),
    };
    let reply = prepared.control.post(&path, None, LONGEST)?;
    if newer && !(200..300).contains(&reply.status) {
        let url = prepared.control.url(&path);
        return Err(ServingError::Flush {
            url,
            reason: reply.words(),
        });
    }
    Ok(())
}

fn announce_trace(options: &Options, prepared: &Prepared, surroundings: &mut Surroundings<'_>) {
    let mooncake = options.given.text("dataset-name") == Some("mooncake");
    if !mooncake || prepared.backend.name() != "sglang" {
        return;
    }
    surroundings.say("Using time-based Mooncake request scheduler, ignoring --request-rate.");
    let slowdown = options
        .given
        .float("mooncake-slowdown-factor")
        .unwrap_or(1.0);
    surroundings.say(&format!(
        "Starting Mooncake trace replay. Sessions: {}, Rounds per session: {}. Slowdown factor: {}",
        prepared.dataset.sessions,
        options.count("mooncake-num-rounds").unwrap_or(1),
        crate::python_text::float(slowdown),
    ));
}

fn put_load(
    options: &Options,
    prepared: &Prepared,
    rows: &[Arc<Row>],
    schedule: Schedule,
    client: &mut Client,
    surroundings: &mut Surroundings<'_>,
) -> LoadOutcome {
    let rounds = |row: usize| rows[row].rounds();
    let load = Load {
        rows,
        adapters: &schedule.adapters,
        pace: schedule.pace,
        gate: schedule.gate,
        stop: StopRules::default(),
        again: false,
        skip: &|_| false,
    };
    if options.given.switch("print-requests") {
        let mut printer = RequestPrinter::new(&mut surroundings.out, prepared, rows);
        return load::run(client, load, &mut printer);
    }
    if options.given.switch("disable-tqdm") {
        return load::run(client, load, &mut Silence);
    }
    if let Some(mut view) = LiveView::wanted(options, surroundings, rows.len(), client) {
        return load::run(client, load, &mut view);
    }
    let mut bar = ProgressBar::new(&mut surroundings.err, rows.len(), &rounds);
    let outcome = load::run(client, load, &mut bar as &mut dyn Onlooker);
    bar.close();
    outcome
}

/// What the server says about itself.
pub(super) fn server_info(options: &Options, prepared: &Prepared) -> Option<Value> {
    let reply = prepared
        .control
        .get(options.release.info_path(), LONGEST)
        .ok()?;
    reply.is_ok().then(|| reply.json()).flatten()
}

/// The mean accepted length in the server's information; of the first decoder behind a router.
pub(super) fn accept_length(info: &Value) -> Option<f64> {
    let info = info.get("decode").map_or(info, |decode| &decode[0]);
    info["internal_states"][0]["avg_spec_accept_length"].as_f64()
}
