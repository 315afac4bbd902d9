//! Command lines of the serving benchmark.

mod own;
mod prefixes;
mod table;

use super::error::ServingError;
use crate::layout::Layout;
use crate::measure::goodput::Objectives;
use crate::release::Release;
use flags::{Command, Group, Parsed, Value};

/// Whose client is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imitated {
    /// SGLang's `bench_serving`.
    Sglang,
    /// LMDeploy's `profile_restful_api`.
    Lmdeploy,
}

/// A command line, read and checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The reference's options, as they are echoed.
    pub given: Parsed,
    /// Ours.
    pub own: Parsed,
    /// Whose client is imitated.
    pub imitated: Imitated,
    /// The release imitated.
    pub release: Release,
    /// The printed table.
    pub layout: Layout,
    /// Whether defects are mended.
    pub strict: bool,
    /// Service objectives.
    pub objectives: Option<Objectives>,
}

/// What `--help` shows.
pub fn help() -> String {
    let groups: Vec<Group<'_>> = own::GROUPS.iter().chain(table::GROUPS).copied().collect();
    Command {
        program: "peregrine bench serving",
        about: "Put a load on a server and measure it. Takes the arguments of sglang.bench_serving \
                unchanged and prints its table; --strict measures without its defects.",
        positionals: &[],
        groups: &groups,
    }
    .help()
        + EXAMPLES
}

/// What `--help` ends with.
const EXAMPLES: &str = "
examples:
  random token ids, 32 requests at once, on a server at port 30000
    peregrine bench serving --port 30000 --dataset-name random-ids --random-input-len 512 \\
        --random-output-len 128 --num-prompts 200 --max-concurrency 32
  the same measured without the reference's defects, with a page of plots
    peregrine bench serving --strict --port 30000 --dataset-name random-ids --num-prompts 200 \\
        --max-concurrency 32 --plot run.html
  arrivals at 8 req/s for a minute, counted against service objectives
    peregrine bench serving --port 30000 --dataset-name random-ids --request-rate 8 --duration 60 \\
        --slo ttft:200,tpot:20
  conversations from a file, against vLLM's chat endpoint
    peregrine bench serving --backend vllm-chat --base-url http://host:8000 --dataset-name sharegpt \\
        --dataset-path ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 1000 --request-rate 16

docs/figures.md defines every figure that is printed or written.
";

impl Options {
    /// Reads the words after `bench serving`.
    pub fn parse(args: &[String]) -> Result<Self, ServingError> {
        let (own, rest) = own::split(args)?;
        let imitated = match own.text("client") {
            Some("lmdeploy") => Imitated::Lmdeploy,
            _ => Imitated::Sglang,
        };
        let (release, layout) = manner(&own)?;
        let mut given = match imitated {
            Imitated::Sglang => Command {
                program: "peregrine bench serving",
                about: "",
                positionals: &[],
                groups: table::GROUPS,
            }
            .parse(&prefixes::spelled_out(&rest, release))?,
            Imitated::Lmdeploy => flags::parse(table::LMDEPLOY, &rest)?,
        };
        if !given.words().is_empty() {
            let words = given.words().to_vec();
            return Err(flags::FlagError::UnexpectedWords { words }.into());
        }
        if !given.given("seed") {
            given.set("seed", Value::Integer(release.seed().into()));
        }
        let strict = own::implies_strict(&own);
        let mut options = Self {
            given,
            own,
            imitated,
            release,
            layout,
            strict,
            objectives: None,
        };
        options.objectives = options.read_objectives()?;
        options.check_rate()?;
        options.check_lengths()?;
        match imitated {
            Imitated::Sglang => options.check()?,
            Imitated::Lmdeploy => options.check_lmdeploy()?,
        }
        Ok(options)
    }

    /// `Namespace(…)` with the options that the imitated release knows or that were given.
    pub fn echo(&self) -> String {
        let shown = self.given.namespace(|flag| {
            prefixes::is_known(flag, self.release) || self.given.given(flag.name)
        });
        if self.imitated == Imitated::Lmdeploy || self.given.list("goodput").is_none() {
            return shown;
        }
        // The reference keeps objectives as pairs of a name and a number.
        let objectives = self.objectives.iter().flat_map(Objectives::each);
        let pairs: Vec<String> = objectives
            .map(|objective| {
                let bound = crate::python_text::float(objective.milliseconds);
                format!("('{}', {bound})", objective.key.name())
            })
            .collect();
        let words = self.given.value("goodput").to_string();
        shown.replace(
            &format!("goodput={words}"),
            &format!("goodput=[{}]", pairs.join(", ")),
        )
    }

    /// A whole number that cannot be negative.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.given
            .integer(name)
            .map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// The seed of both streams.
    pub fn seed(&self) -> Result<u32, ServingError> {
        let seed = self.given.integer("seed").unwrap_or_default();
        u32::try_from(seed)
            .map_err(|_| ServingError::Refused("Seed must be between 0 and 2**32 - 1".to_owned()))
    }

    fn read_objectives(&self) -> Result<Option<Objectives>, ServingError> {
        let goodput = match self.imitated {
            Imitated::Sglang => self.given.list("goodput"),
            Imitated::Lmdeploy => None,
        };
        let (option, words) = match (self.own.text("slo"), goodput) {
            (Some(slo), _) => ("--slo", slo.split(',').collect()),
            (None, Some(words)) => ("--goodput", words),
            (None, None) => return Ok(None),
        };
        Objectives::from_words(words)
            .map(Some)
            .map_err(|error| ServingError::Usage(format!("argument {option}: {error}")))
    }

    fn check_rate(&self) -> Result<(), ServingError> {
        match self.given.float("request-rate") {
            // The reference divides by it.
            Some(rate) if rate.is_nan() || rate <= 0.0 => Err(ServingError::Usage(format!(
                "argument --request-rate: expected a number > 0 or inf, got '{rate}'"
            ))),
            _ => Ok(()),
        }
    }

    /// What the reference's generators refuse in the middle of their work.
    fn check_lengths(&self) -> Result<(), ServingError> {
        let sglang = self.imitated == Imitated::Sglang;
        let shares: &[&str] = if sglang {
            &["random-range-ratio", "gsp-range-ratio"]
        } else {
            &["random-range-ratio"]
        };
        for name in shares {
            if let Some(share) = self.given.float(name)
                && (share.is_nan() || share > 1.0)
            {
                return Err(ServingError::Usage(format!(
                    "argument --{name}: expected a share of at most 1, got '{share}'"
                )));
            }
        }
        let lengths: &[&str] = if sglang {
            &[
                "num-prompts",
                "random-input-len",
                "random-output-len",
                "gsp-system-prompt-len",
                "gsp-question-len",
                "gsp-output-len",
                "warmup-requests",
            ]
        } else {
            &["num-prompts", "random-input-len", "random-output-len"]
        };
        for name in lengths {
            if let Some(length) = self.given.integer(name)
                && length < 0
            {
                return Err(ServingError::Usage(format!(
                    "argument --{name}: expected a number of at least 0, got '{length}'"
                )));
            }
        }
        Ok(())
    }

    fn check_lmdeploy(&self) -> Result<(), ServingError> {
        let refuse = |reason: &str| Err(ServingError::Usage(reason.to_owned()));
        if self.strict {
            return refuse("--client lmdeploy does not go with strict measurement");
        }
        if self.own.given("plot") && self.given.switch("multi") {
            return refuse("--plot shows one run: give it without --multi");
        }
        Ok(())
    }

    /// What the reference's parser refuses beyond single values.
    fn check(&self) -> Result<(), ServingError> {
        let given = &self.given;
        let refuse = |reason: &str| Err(ServingError::Usage(reason.to_owned()));
        let positive = |name: &str| {
            given
                .float(name)
                .is_none_or(|number| number.is_finite() && number > 0.0)
        };
        for name in ["flush-cache-timeout", "gsp-zipf-alpha"] {
            if !positive(name) {
                let number = given.float(name).unwrap_or(f64::NAN);
                return refuse(&format!(
                    "argument --{name}: expected a finite float > 0, got '{number}'"
                ));
            }
        }
        if given.integer("rust-worker-threads").is_some() && !given.switch("rust-client") {
            return refuse("--rust-worker-threads requires --rust-client");
        }
        let shared = given.text("dataset-name") == Some("generated-shared-prefix");
        let turns = given.integer("gsp-num-turns").unwrap_or(1);
        if shared && given.switch("tokenize-prompt") && turns > 1 {
            return refuse("--tokenize-prompt requires --gsp-num-turns=1");
        }
        let zipf = given.text("gsp-group-distribution") == Some("zipf");
        match (zipf, given.float("gsp-zipf-alpha")) {
            (true, None) => refuse(
                "--gsp-group-distribution=zipf requires --gsp-zipf-alpha (a finite float > 0)",
            ),
            (false, Some(_)) => refuse(
                "--gsp-zipf-alpha is only meaningful with --gsp-group-distribution=zipf; remove \
                 --gsp-zipf-alpha or set --gsp-group-distribution=zipf",
            ),
            _ => self.check_own(),
        }
    }

    /// Whether anything but the number of rows limits what is sent at once.
    fn has_pace(&self) -> bool {
        let given = &self.given;
        self.has_rate()
            || self.count("max-concurrency").is_some_and(|most| most > 0)
            || given.switch("use-trace-timestamps")
            || given.text("dataset-name") == Some("mooncake")
    }

    /// Whether requests are sent at a rate.
    fn has_rate(&self) -> bool {
        let rate = self.given.float("request-rate");
        rate.is_some_and(f64::is_finite)
            || self.own.given("ramp")
            || self.own.switch("find-max-rate")
    }

    fn check_own(&self) -> Result<(), ServingError> {
        let refuse = |reason: &str| Err(ServingError::Usage(reason.to_owned()));
        for name in ["burstiness", "duration", "request-timeout"] {
            if self
                .own
                .float(name)
                .is_some_and(|number| !(number.is_finite() && number > 0.0))
            {
                return refuse(&format!("argument --{name}: expected a finite float > 0"));
            }
        }
        for name in ["stop-failed-share", "fail-above", "attainment"] {
            if self
                .own
                .float(name)
                .is_some_and(|share| !(0.0..=1.0).contains(&share))
            {
                return refuse(&format!(
                    "argument --{name}: expected a share between 0 and 1"
                ));
            }
        }
        self.check_together()
    }

    /// What of ours does not go together.
    fn check_together(&self) -> Result<(), ServingError> {
        let refuse = |reason: &str| Err(ServingError::Usage(reason.to_owned()));
        if self.own.switch("find-max-rate") && self.objectives.is_none() {
            return refuse("--find-max-rate needs objectives: give --slo");
        }
        if self.own.switch("find-max-rate") && self.own.given("resume") {
            return refuse("--find-max-rate begins anew: give it without --resume");
        }
        if self.own.given("duration") && !self.has_pace() {
            return refuse(
                "--duration needs a pace: give --request-rate, --ramp or --max-concurrency",
            );
        }
        let gamma = self.own.text("pace") == Some("gamma");
        if gamma != self.own.given("burstiness") {
            return refuse("--pace gamma and --burstiness need each other");
        }
        if self.own.given("pace") && !self.has_rate() {
            return refuse("--pace spreads a rate: give --request-rate, --ramp or --find-max-rate");
        }
        let headers = self.given.list("header").unwrap_or_default();
        let is_pair = |word: &&str| word.split_once('=').is_some_and(|(key, _)| !key.is_empty());
        if self.strict
            && let Some(word) = headers.iter().find(|word| !is_pair(word))
        {
            return refuse(&format!(
                "argument --header: expected Key=Value, got '{word}'"
            ));
        }
        if self.own.given("attainment") && !self.own.switch("find-max-rate") {
            return refuse("--attainment is for --find-max-rate");
        }
        Ok(())
    }
}

/// The release and layout that are asked for, each giving the other when it is not.
fn manner(own: &Parsed) -> Result<(Release, Layout), ServingError> {
    let layout = own
        .text("layout")
        .and_then(|layout| layout.parse::<Layout>().ok());
    let release = own
        .text("reference")
        .map(str::parse::<Release>)
        .transpose()
        .map_err(|error| ServingError::Usage(format!("argument --reference: {error}")))?;
    Ok(match (release, layout) {
        (Some(release), layout) => (release, layout.unwrap_or(Layout::of(release))),
        (None, Some(layout)) => (layout.release(), layout),
        (None, None) => (Release::USUAL, Layout::C),
    })
}

#[cfg(test)]
mod tests;
