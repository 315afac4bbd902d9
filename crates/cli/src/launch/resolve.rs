//! The one place where "auto" becomes a value: a pure function of arguments, model and device.

mod graphs;
mod on_device;
mod priority;

use std::fmt::Display;
use std::time::Duration;

use engine::EngineConfig;
use executor::ExecutorConfig;
use flags::Parsed;
use kv::PageSize;
use scheduler::{Mix, Order, Reuse, SchedulerConfig};

use super::{Circumstances, ConfigError, Launch, Resolved};
use crate::args::{Notice, notices_on_device};

const PAGE_SIZE: i64 = 16;
/// Keys that one tile of attention holds on a GPU.
const GPU_PAGE_SIZE: i64 = 64;
const LARGEST_PAGE: i64 = 1024;
const LARGEST_STEP: i64 = 1 << 24;
/// Scores of prompt tokens that a step brings back at most: 8192 tokens with the 63 likeliest each, in 4 MiB.
const STEP_SCORES: u32 = 1 << 20;
const LOAD_FORMATS: &[&str] = &["auto", "safetensors", "gguf", "dummy"];

/// Resolves every setting, or says which one cannot be.
pub(crate) fn resolve(parsed: &Parsed, here: &Circumstances<'_>) -> Result<Launch, ConfigError> {
    let mut resolver = Resolver {
        parsed,
        here,
        values: Vec::new(),
        notices: notices_on_device(parsed, here.device.kind == "cpu"),
        limited: Vec::new(),
    };
    resolver.check_offered()?;
    resolver.device();
    resolver.dtype();
    resolver.kv_dtype();
    resolver.quantization();
    let context_length = resolver.context_length()?;
    let page_size = resolver.page_size()?;
    let chunk = resolver.chunk()?;
    let max_prefill_tokens = resolver.positive("--max-prefill-tokens", "max_prefill_tokens")?;
    let run_ahead = resolver.run_ahead();
    let fraction = resolver.fraction(chunk, max_prefill_tokens)?;
    let mut scheduler = SchedulerConfig {
        pages: 0,
        page_size,
        max_rows: resolver.rows(context_length)?,
        context_length,
        chunk,
        max_prefill_tokens,
        max_step_scores: STEP_SCORES,
        run_ahead,
        conservativeness: resolver.conservativeness()?,
        order: resolver.order()?,
        mix: Mix::Mixed,
        reuse: resolver.reuse(),
    };
    let graphs = resolver.graphs(scheduler.max_rows)?;
    let fewer_graphs = resolver.fewer_graphs();
    let budget = resolver.budget(fraction, &scheduler)?;
    let budget = resolver.folding(budget);
    scheduler.pages = resolver.pages(&budget, &scheduler)?;
    let executor = executor_config(&scheduler, here);
    let engine = EngineConfig {
        run_ahead: run_ahead as usize,
        context_length: context_length as usize,
        vocabulary: here.spec.vocabulary,
        end_tokens: here.spec.end_tokens.clone(),
        max_waiting: resolver.max_queued()?,
        priorities: resolver.priorities()?,
        decode_log_interval: resolver.positive("--decode-log-interval", "decode_log_interval")?
            as usize,
        largest_graph: graphs.iter().copied().max().unwrap_or(0),
        random_seed: resolver.random_seed(),
        watchdog: resolver.watchdog()?,
        // known once the model is loaded
        floor: None,
        scheduler,
    };
    Ok(Launch {
        engine,
        executor,
        graphs,
        fewer_graphs,
        budget,
        values: resolver.values,
        notices: resolver.notices,
        limited: resolver.limited,
    })
}

/// The ranks' limits follow from the scheduler's.
fn executor_config(scheduler: &SchedulerConfig, here: &Circumstances<'_>) -> ExecutorConfig {
    ExecutorConfig {
        max_rows: scheduler.max_rows as usize,
        max_step_tokens: scheduler.max_step_tokens() as usize,
        pages: scheduler.pages as usize,
        page_size: scheduler.page_size.tokens() as usize,
        max_sequence_tokens: scheduler.max_sequence_tokens() as usize,
        max_step_scores: scheduler.max_step_scores as usize,
        run_ahead: scheduler.run_ahead as usize,
        kv_dtype: here.device.kv,
    }
}

struct Resolver<'a> {
    parsed: &'a Parsed,
    here: &'a Circumstances<'a>,
    values: Vec<Resolved>,
    notices: Vec<Notice>,
    limited: Vec<String>,
}

impl Resolver<'_> {
    fn on_cpu(&self) -> bool {
        self.here.device.kind == "cpu"
    }

    fn note(&mut self, name: &'static str, value: impl Display, why: &str) {
        self.values.push(Resolved {
            name,
            value: value.to_string(),
            why: why.to_owned(),
        });
    }

    /// A flag that changes nothing, and why.
    fn without_effect(&mut self, flag: &str, reason: impl Into<String>) {
        self.notices.push(Notice {
            flag: flag.to_owned(),
            reason: reason.into(),
        });
    }

    /// A flag that is followed as far as that goes, and what is missing.
    fn followed_in_part(&mut self, flag: &str, what: &str) {
        self.limited
            .push(format!("{flag} is followed in part: {what}"));
    }

    fn given(&self, flag: &str) -> Option<i64> {
        self.parsed.integer(flag.trim_start_matches('-'))
    }

    /// A positive number with a default in the table.
    fn positive(&mut self, flag: &'static str, name: &'static str) -> Result<u32, ConfigError> {
        let why = if self.parsed.given(flag.trim_start_matches('-')) {
            "given"
        } else {
            "default"
        };
        let value = self.given(flag).expect("the table has a default for it");
        let value = within(flag, value, LARGEST_STEP, "between 1 and 16777216")?;
        self.note(name, value, why);
        Ok(value)
    }

    fn check_offered(&self) -> Result<(), ConfigError> {
        for flag in ["--tp-size", "--dp-size", "--pp-size"] {
            match self.given(flag) {
                Some(wanted) if wanted != 1 => {
                    return Err(ConfigError::TooManyRanks { flag, wanted });
                }
                _ => {}
            }
        }
        let format = self.parsed.text("load-format").unwrap_or("auto");
        if !LOAD_FORMATS.contains(&format) {
            return Err(ConfigError::NotOffered {
                flag: "--load-format",
                value: format.to_owned(),
                offered: LOAD_FORMATS,
            });
        }
        Ok(())
    }

    fn context_length(&mut self) -> Result<u32, ConfigError> {
        let limit = self.here.spec.context_length;
        let (length, why) = match self.given("--context-length") {
            None => (limit as i64, "what the model was trained for"),
            Some(given) if given > limit as i64 => {
                return Err(ConfigError::ContextTooLong { given, limit });
            }
            Some(given) => (given, "given"),
        };
        let length = room_for_an_answer("--context-length", length)?;
        self.note("context_len", length, why);
        Ok(length)
    }

    fn page_size(&mut self) -> Result<PageSize, ConfigError> {
        let (tokens, why) = match self.given("--page-size") {
            None if self.on_cpu() => (
                PAGE_SIZE,
                "prefixes are shared to the token at any page size",
            ),
            None => (
                GPU_PAGE_SIZE,
                "tiles of attention are loaded whole; prefixes are shared to the token at any page size",
            ),
            Some(given) => (given, "given"),
        };
        let fits = (1..=LARGEST_PAGE).contains(&tokens);
        let size = u32::try_from(tokens)
            .ok()
            .filter(|_| fits)
            .and_then(PageSize::new);
        let range = "between 1 and 1024";
        let size = size.ok_or_else(|| out_of_range("--page-size", tokens, range))?;
        self.note("page_size", tokens, why);
        Ok(size)
    }

    fn run_ahead(&mut self) -> u32 {
        let (steps, why) = if self.parsed.switch("disable-overlap-schedule") {
            (1, "--disable-overlap-schedule")
        } else {
            (2, "the next step is planned while one runs")
        };
        self.note("run_ahead", steps, why);
        steps
    }

    fn max_queued(&mut self) -> Result<usize, ConfigError> {
        let Some(given) = self.given("--max-queued-requests") else {
            self.note("max_queued_requests", "unlimited", "default");
            return Ok(usize::MAX);
        };
        let queued = at_least_one("--max-queued-requests", given)?;
        self.note("max_queued_requests", queued, "given");
        Ok(queued as usize)
    }

    /// How long a step may take; zero is for ever.
    fn watchdog(&mut self) -> Result<Option<Duration>, ConfigError> {
        let flag = "watchdog-timeout";
        let (seconds, why) = match self.parsed.float(flag) {
            Some(seconds) if self.parsed.given(flag) => (seconds, "given"),
            Some(seconds) if !self.on_cpu() => (seconds, "default"),
            _ => (0.0, "a CPU does not hang, and may compute for long"),
        };
        let patience = Duration::try_from_secs_f64(seconds).map_err(|_| {
            out_of_range(
                "--watchdog-timeout",
                seconds,
                "a number of seconds from 0 on",
            )
        })?;
        self.note("watchdog_timeout", format!("{seconds:?}"), why);
        Ok((!patience.is_zero()).then_some(patience))
    }

    fn conservativeness(&mut self) -> Result<f64, ConfigError> {
        let value = self
            .parsed
            .float("schedule-conservativeness")
            .unwrap_or(1.0);
        if !(value >= 0.0 && value.is_finite()) {
            return Err(out_of_range(
                "--schedule-conservativeness",
                value,
                "a number from 0 on",
            ));
        }
        let why = if self.parsed.given("schedule-conservativeness") {
            "given"
        } else {
            "default"
        };
        self.note("schedule_conservativeness", value, why);
        Ok(value)
    }

    fn order(&mut self) -> Result<Order, ConfigError> {
        let policy = self.parsed.text("schedule-policy").unwrap_or("fcfs");
        let (order, why) = match policy.parse() {
            _ if self.parsed.switch("enable-priority-scheduling") => {
                let rules = self.priority_rules()?;
                (Order::Priority(rules), "--enable-priority-scheduling")
            }
            Ok(order) if self.parsed.given("schedule-policy") => (order, "given"),
            Ok(order) => (order, "default"),
            Err(_) => {
                let reason = format!("the policy {policy} is not in this version, fcfs is used");
                self.without_effect("--schedule-policy", reason);
                (Order::Arrival, "the given policy is not in this version")
            }
        };
        let name = match order {
            Order::Arrival => "fcfs",
            Order::LongestPrefix => "lpm",
            Order::LongestOutput => "lof",
            Order::Priority(_) => "priority",
        };
        self.note("schedule_policy", name, why);
        Ok(order)
    }

    fn reuse(&mut self) -> Reuse {
        if self.parsed.switch("disable-radix-cache") {
            self.note("radix_cache", "off", "--disable-radix-cache");
            Reuse::Off
        } else {
            self.note("radix_cache", "on", "default");
            Reuse::Prefixes
        }
    }

    fn random_seed(&mut self) -> u64 {
        let (seed, why) = match self.given("--random-seed") {
            Some(given) => (given as u64, "given"),
            None => (self.here.entropy, "drawn at start"),
        };
        self.note("random_seed", seed, why);
        seed
    }
}

fn out_of_range(flag: &'static str, value: impl Display, range: &'static str) -> ConfigError {
    ConfigError::OutOfRange {
        flag,
        value: value.to_string(),
        range,
    }
}

fn at_least_one(flag: &'static str, value: i64) -> Result<u32, ConfigError> {
    within(flag, value, i64::from(u32::MAX), "at least 1")
}

/// A prompt and an answer take a token each.
fn room_for_an_answer(flag: &'static str, value: i64) -> Result<u32, ConfigError> {
    let range = "at least 2";
    match within(flag, value, i64::from(u32::MAX), range)? {
        1 => Err(out_of_range(flag, value, range)),
        tokens => Ok(tokens),
    }
}

fn within(
    flag: &'static str,
    value: i64,
    most: i64,
    range: &'static str,
) -> Result<u32, ConfigError> {
    let fits = u32::try_from(value)
        .ok()
        .filter(|_| (1..=most).contains(&value));
    fits.ok_or_else(|| out_of_range(flag, value, range))
}

#[cfg(test)]
mod tests;
