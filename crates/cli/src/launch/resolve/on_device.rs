//! Settings that depend on the device: its number types, its memory, its speed.

use executor::transfer_bytes;
use models::Quantisation;
use scheduler::SchedulerConfig;
use tensor::DType;

use super::{LARGEST_STEP, Resolver, executor_config, out_of_range, room_for_an_answer, within};
use crate::launch::memory::{Budget, Needs, smaller, tables};
use crate::launch::{ConfigError, Folding, gpu};
use crate::progress::size;

pub(super) const MOST_ROWS: i64 = 1 << 16;
const CPU_ROWS: i64 = 64;
const CPU_CHUNK: i64 = 512;
const CPU_FRACTION: f64 = 0.8;
/// Contexts that the cache of a CPU holds at most by default; more memory would rarely be found again.
const CPU_CONTEXTS: usize = 8;
/// Of the room for keys and values: what folded weights may take by default.
const MOST_FOLDED: f64 = 0.15;

impl Resolver<'_> {
    /// Which one serves.
    pub(super) fn device(&mut self) {
        let device = self.here.device;
        let why = match self.parsed.text("device") {
            Some("cpu" | "cuda") => "given",
            _ => "the best there is",
        };
        self.note("device", device.kind, &format!("{why}: {}", device.name));
    }

    /// Activations are of one type on each device; other wishes are mapped to it, and said to be.
    pub(super) fn dtype(&mut self) {
        let used = match self.here.device.activation {
            DType::BF16 => "bfloat16",
            DType::F16 => "float16",
            _ => "float32",
        };
        let given = match self.parsed.text("dtype").unwrap_or("auto") {
            "half" => "float16",
            "float" => "float32",
            given => given,
        };
        let why = if given == used {
            "given"
        } else {
            "the device's own type"
        };
        if given != "auto" && given != used {
            let reason = format!(
                "activations are {used} on this device and sums float32; {given} is mapped to that"
            );
            self.without_effect("--dtype", reason);
        }
        self.note("dtype", used, why);
    }

    /// The device has chosen; what it could not follow is said.
    pub(super) fn kv_dtype(&mut self) {
        let used = self.here.device.kv.name();
        let given = self.parsed.text("kv-cache-dtype").unwrap_or("auto");
        let followed = match given {
            "fp8_e4m3" => self.here.device.kv == DType::F8E4M3,
            "bf16" | "bfloat16" => self.here.device.kv == DType::BF16,
            given => given == "auto",
        };
        if !followed {
            let reason = format!("keys and values are {used} on this device");
            self.without_effect("--kv-cache-dtype", reason);
        }
        let why = if followed && given != "auto" {
            "given"
        } else {
            "the device's own type"
        };
        self.note("kv_cache_dtype", used, why);
    }

    /// What projections become; a format that is not made here is said to have no effect.
    pub(super) fn quantization(&mut self) {
        let given = self.parsed.text("quantization");
        let wide = !self.here.device.float8;
        match (&self.here.spec.quantisation, given) {
            (Quantisation::Float8 { .. } | Quantisation::OnlineFloat8, given) if wide => {
                let reason = "this GPU has no kernels for weights of eight bits, they are bfloat16";
                self.note("quantization", "bfloat16", reason);
                if given.is_some() {
                    self.without_effect("--quantization", reason);
                }
            }
            (Quantisation::Float8 { .. }, given) => {
                self.note("quantization", "fp8", "the model's own description");
                if given.is_some_and(|given| given != "fp8") {
                    let reason = "weights keep the format they are stored in, which is fp8";
                    self.without_effect("--quantization", reason);
                }
            }
            (Quantisation::OnlineFloat8, _) => self.note("quantization", "fp8", "given"),
            (Quantisation::AsStored, Some("fp8")) => self.without_effect(
                "--quantization",
                "projections are quantised already, and not a second time",
            ),
            (Quantisation::AsStored, Some(_)) => self.without_effect(
                "--quantization",
                "weights keep the format they are stored in",
            ),
            (Quantisation::AsStored, None) => {}
        }
    }

    pub(super) fn chunk(&mut self) -> Result<u32, ConfigError> {
        let (tokens, why) = match self.given("--chunked-prefill-size") {
            Some(-1) => {
                let why = "given: prompts are split for their log-probabilities only";
                self.note("chunked_prefill_size", -1, why);
                return Ok(u32::MAX);
            }
            Some(given) => (given, "given".to_owned()),
            None if self.on_cpu() => (
                CPU_CHUNK,
                "a longer step would hold up generation on a CPU".to_owned(),
            ),
            None => {
                let (chunk, _) = gpu::by_memory(self.here.device.memory_total);
                (
                    chunk,
                    format!(
                        "for a GPU with {} GiB",
                        gpu::gib(self.here.device.memory_total)
                    ),
                )
            }
        };
        let range = "-1 or a number of tokens up to 16777216";
        let tokens = within("--chunked-prefill-size", tokens, LARGEST_STEP, range)?;
        self.note("chunked_prefill_size", tokens, &why);
        Ok(tokens)
    }

    pub(super) fn fraction(
        &mut self,
        chunk: u32,
        max_prefill_tokens: u32,
    ) -> Result<f64, ConfigError> {
        let (fraction, why) = match self.parsed.float("mem-fraction-static") {
            Some(given) => (given, "given".to_owned()),
            None if self.on_cpu() => (CPU_FRACTION, "of the memory that is free".to_owned()),
            None => {
                let prefill = if chunk == u32::MAX {
                    max_prefill_tokens
                } else {
                    chunk
                };
                let total = self.here.device.memory_total;
                (
                    gpu::static_fraction(total, prefill),
                    "what steps and graphs leave".to_owned(),
                )
            }
        };
        if !(fraction > 0.0 && fraction < 1.0) {
            return Err(out_of_range(
                "--mem-fraction-static",
                fraction,
                "above 0 and below 1",
            ));
        }
        self.note("mem_fraction_static", fraction, &why);
        Ok(fraction)
    }

    pub(super) fn rows(&mut self, context_length: u32) -> Result<u32, ConfigError> {
        let (rows, why) = match self.given("--max-running-requests") {
            Some(given) => (given, "given".to_owned()),
            None if self.on_cpu() => (
                CPU_ROWS,
                "more at once would only slow each other on a CPU".to_owned(),
            ),
            None => {
                let token = self
                    .here
                    .spec
                    .kv_bytes_per_token(self.here.device.kv)
                    .max(1);
                let tokens = self.here.device.memory_total / token;
                let rows = (tokens as u64 * 512 / u64::from(context_length)).clamp(2048, 4096);
                (
                    rows as i64,
                    "by the contexts that memory could hold".to_owned(),
                )
            }
        };
        let rows = within(
            "--max-running-requests",
            rows,
            MOST_ROWS,
            "between 1 and 65536",
        )?;
        self.note("max_running_requests", rows, &why);
        Ok(rows)
    }

    pub(super) fn budget(
        &mut self,
        fraction: f64,
        scheduler: &SchedulerConfig,
    ) -> Result<Budget, ConfigError> {
        let here = self.here;
        // the largest cache there could be, so that its tables are counted in full
        let executor = executor_config(
            &SchedulerConfig {
                pages: u32::MAX,
                ..scheduler.clone()
            },
            here,
        );
        let work =
            (here.scratch)(&executor) + tables(here.spec, &executor) + transfer_bytes(&executor);
        let needs = Needs {
            weights: here.weights,
            work,
            token: here.spec.kv_bytes_per_token(here.device.kv),
            smaller: smaller(here.device, &here.spec.quantisation, here.stored_wide),
        };
        Budget::divide(here.device, fraction, needs).map_err(ConfigError::NoRoom)
    }

    /// Whether weights are kept folded too: as given, or where keys and values hardly miss the room.
    pub(super) fn folding(&mut self, budget: Budget) -> Budget {
        let given = self.parsed.text("fold-weights").unwrap_or("auto");
        let (bytes, is_done) = match self.here.folding {
            Folding::Possible(bytes) => (bytes, false),
            Folding::Done(bytes) => (bytes, true),
        };
        if bytes == 0 {
            if given == "on" {
                let reason = "no weight of this model is folded on this device".to_owned();
                self.without_effect("--fold-weights", reason);
            }
            return budget;
        }
        let share = bytes as f64 / budget.rest() as f64;
        let taken = size(bytes as u64);
        let percent = format!("{:.0} % of the room for keys and values", 100.0 * share);
        let folded = budget.with_folded(bytes);
        let folds = is_done
            || match given {
                "on" => folded.is_some(),
                "off" => false,
                _ => share <= MOST_FOLDED,
            };
        let why = match (given, folds) {
            ("on", false) => {
                let reason = format!("folded weights would take {taken}, {percent}");
                self.without_effect("--fold-weights", reason);
                "there is no room".to_owned()
            }
            ("on" | "off", _) => "given".to_owned(),
            (_, true) => format!("{taken} more, {percent}"),
            (_, false) => format!("it would take {taken}, {percent}"),
        };
        self.note("fold_weights", if folds { "on" } else { "off" }, &why);
        folded.filter(|_| folds).unwrap_or(budget)
    }

    pub(super) fn pages(
        &mut self,
        budget: &Budget,
        scheduler: &SchedulerConfig,
    ) -> Result<u32, ConfigError> {
        let fits = budget.tokens;
        let enough = CPU_CONTEXTS * scheduler.context_length as usize;
        let (tokens, why) = match self.given("--max-total-tokens") {
            Some(given) => {
                let given = room_for_an_answer("--max-total-tokens", given)? as usize;
                if given > fits {
                    let needed = size((given * budget.token) as u64);
                    let short = size(((given - fits) * budget.token) as u64);
                    let cut = format!(
                        "{given} tokens need {needed}, which is {short} too much; {fits} fit and are used"
                    );
                    self.followed_in_part("--max-total-tokens", &cut);
                }
                (
                    given.min(fits),
                    if given > fits {
                        "all that fits"
                    } else {
                        "given"
                    },
                )
            }
            None if self.on_cpu() && enough < fits => (enough, "room for 8 whole contexts"),
            None => (fits, "what weights and work space leave"),
        };
        let page = scheduler.page_size.tokens() as usize;
        let pages = (tokens / page).clamp(2_usize.div_ceil(page), u32::MAX as usize / page - 1);
        self.note("max_total_tokens", pages * page, why);
        Ok(pages as u32)
    }
}
