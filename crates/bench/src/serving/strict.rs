//! A run measured properly: deadlines kept, failures counted, everything recorded.

use super::compat::output_file;
use super::error::ServingError;
use super::interrupts;
use super::live::LiveView;
use super::max_rate;
use super::options::Options;
use super::prepare::{Prepared, prepare};
use super::profile::Profile;
use super::progress::{ProgressBar, Silence};
use super::provenance::{dataset_digest, provenance};
use super::record_file::{self, RecordFile, Recorded, RunIdentity};
use super::resume::{self, Seam};
use super::run::{client, flush, server_info, threads};
use super::schedule::{Schedule, follows_trace, ramp};
use super::strict_result::StrictResult;
use super::surroundings::Surroundings;
use super::warm_up::{WarmUp, warm_up};
use crate::client::Client;
use crate::dataset::Row;
use crate::load::{self, Load, LoadOutcome, Onlooker, row_at};
use crate::measure::own::ClientHealth;
use crate::measure::steady::Loop;
use crate::measure::strict::StrictFigures;
use crate::record::RequestRecord;
use crate::result::{Style, append};
use crate::stop::StopRules;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Datasets whose size other options tell.
const GENERATED: [&str; 3] = ["generated-shared-prefix", "mooncake", "agentic-trace"];

/// Runs the benchmark; what the process returns.
pub(super) fn serve(
    mut options: Options,
    surroundings: &mut Surroundings<'_>,
) -> Result<u8, ServingError> {
    if options.own.given("ramp") && ramp(&options).is_none() {
        let reason = "argument --ramp: expected FROM:TO:SECONDS, all greater than 0";
        return Err(ServingError::Usage(reason.to_owned()));
    }
    let prepared = prepare(&mut options, surroundings)?;
    let rows: Vec<Arc<Row>> = prepared
        .dataset
        .rows
        .iter()
        .cloned()
        .map(Arc::new)
        .collect();
    let asked = options.count("num-prompts").unwrap_or(0) as usize;
    if rows.len() < asked && !GENERATED.contains(&options.dataset_name()) {
        let given = rows.len();
        surroundings.warn(&format!(
            "warning: the dataset has {given} rows that can be sent, {asked} were asked for"
        ));
    }
    if options.given.switch("use-trace-timestamps") && rows[0].timestamp.is_none() {
        return Err(ServingError::Refused(format!(
            "--use-trace-timestamps: the rows of dataset {} have no timestamps",
            options.dataset_name()
        )));
    }
    if options.own.switch("find-max-rate") {
        return max_rate::search(&options, &prepared, &rows, surroundings);
    }
    let run = StrictRun::new(&options, &prepared, rows)?;
    let result = run.execute(surroundings)?;
    conclude(&options, &prepared, result, surroundings)
}

/// Prints and writes a result; what the process returns.
fn conclude(
    options: &Options,
    prepared: &Prepared,
    mut result: StrictResult,
    surroundings: &mut Surroundings<'_>,
) -> Result<u8, ServingError> {
    let table = result.table();
    surroundings.show(&table);
    for warning in result.warnings() {
        surroundings.warn(&format!("warning: {warning}"));
    }
    let path = output_file(options);
    let written = append(&path, &result.line(options, prepared).text(Style::Valid))
        .map_err(|source| ServingError::Output { path, source });
    super::page::write_strict(options, prepared, (&result, &table), surroundings)?;
    written?;
    if let Some(trouble) = result.record_trouble.take() {
        return Err(trouble);
    }
    if result.interrupted {
        surroundings.warn(&format!(
            "interrupted: {} requests are done{}{}",
            result.figures.completed,
            result.not_sent(),
            result.resume_hint(),
        ));
        return Ok(130);
    }
    let most = options.own.float("fail-above").unwrap_or(0.0);
    let failed = result.figures.failed_share() > most || result.figures.completed == 0;
    Ok(u8::from(failed))
}

/// The state of the prefix cache when the load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheState {
    /// Emptied.
    Flushed,
    /// Filled with every prompt of the load.
    Filled,
    /// Whatever it was.
    Unknown,
    /// Should have been emptied, but the server did not.
    NotFlushed,
}

impl CacheState {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Flushed => "cold (flushed)",
            Self::Filled => "warm (prompts sent before)",
            Self::Unknown => "as it was",
            Self::NotFlushed => "unknown (flush refused)",
        }
    }
}

/// One strict run over rows at the options' rate.
pub(super) struct StrictRun<'a> {
    pub(super) options: &'a Options,
    pub(super) prepared: &'a Prepared,
    pub(super) rows: Vec<Arc<Row>>,
    pub(super) identity: RunIdentity,
    pub(super) rate: f64,
    pub(super) quiet: bool,
    records: Option<PathBuf>,
    earlier: Vec<RequestRecord>,
}

impl<'a> StrictRun<'a> {
    pub(super) fn new(
        options: &'a Options,
        prepared: &'a Prepared,
        rows: Vec<Arc<Row>>,
    ) -> Result<Self, ServingError> {
        let identity = RunIdentity {
            dataset: dataset_digest(&rows),
            tokenizer: prepared.vocabulary.fingerprint().to_owned(),
            backend: prepared.backend.name().to_owned(),
            model: prepared.model.clone(),
            rows: rows.len(),
            load: load_words(options),
        };
        let mut run = Self {
            options,
            prepared,
            rows,
            identity,
            rate: options.given.float("request-rate").unwrap_or(f64::INFINITY),
            quiet: false,
            records: Some(record_path(options)).flatten(),
            earlier: Vec::new(),
        };
        if let Some(path) = options.own.text("resume") {
            run.take_up(Path::new(path))?;
        }
        Ok(run)
    }

    /// A run over the same rows at another rate, of which nothing is kept.
    pub(super) fn at_rate(&self, rate: f64, rows: &[Arc<Row>]) -> Self {
        Self {
            options: self.options,
            prepared: self.prepared,
            rows: rows.to_vec(),
            identity: self.identity.clone(),
            rate,
            quiet: true,
            records: None,
            earlier: Vec::new(),
        }
    }

    fn take_up(&mut self, path: &Path) -> Result<(), ServingError> {
        resume::check(self.options, &self.rows)?;
        let (identity, records) = record_file::read(path)?;
        if identity != self.identity {
            let reason = "it is of another dataset, tokenizer, backend, model or load".to_owned();
            return Err(ServingError::Resume {
                path: path.to_owned(),
                reason,
            });
        }
        self.earlier = resume::done(records, &self.rows);
        self.records = Some(path.to_owned());
        Ok(())
    }

    /// Warm-up, cache, load, figures.
    pub(super) fn execute(
        self,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<StrictResult, ServingError> {
        let options = self.options;
        let schedule = Schedule::at(
            options,
            &self.rows,
            self.prepared.streams.clone(),
            self.rate,
        );
        let info_before = server_info(options, self.prepared);
        let mut client = client(options, self.prepared)?;
        let watch = interrupts::watch(client.interrupter(), surroundings.catch_interrupts);
        let warm = warm_up(
            options,
            &self.rows,
            schedule.gate,
            &mut client,
            surroundings,
        )?;
        let cache = self.set_cache(&mut client, surroundings)?;
        let profile = Profile::of(options, &self.prepared.control, surroundings);
        profile.start(options, surroundings);
        let mut file = self.record_file()?;
        let (usage, began) = (crate::os::process_usage(), Instant::now());
        let (rate, gate) = (schedule.rate, schedule.gate);
        let seam = Seam::after(&self.earlier, client.clock().now());
        let shape = schedule.shape;
        let log = (file.as_mut(), seam);
        let outcome = self.put_load(schedule, &mut client, log, surroundings);
        let spent = (usage, crate::os::process_usage());
        let wall = began.elapsed();
        profile.stop(options, surroundings);
        drop(watch);
        let own = client.finish();
        let health = ClientHealth::of(&own, &outcome.records, spent, (wall, threads(options)));
        let info_after = server_info(options, self.prepared);
        let record_trouble = file.and_then(|mut file| file.check().err());
        Ok(self.result(
            (outcome, shape, seam),
            (rate, gate),
            (warm, cache, health),
            (info_before, info_after),
            record_trouble,
        ))
    }

    /// Brings the prefix cache into the state that is asked for.
    fn set_cache(
        &self,
        client: &mut Client,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<CacheState, ServingError> {
        let wanted = self.options.own.text("cache");
        let flushes = self.options.given.switch("flush-cache") || wanted == Some("cold");
        match (wanted, flushes) {
            (Some("warm"), _) => {
                self.fill_cache(client, surroundings);
                Ok(CacheState::Filled)
            }
            (_, true) => flush(self.options, self.prepared).map(|()| CacheState::Flushed),
            (Some("as-is"), _) => Ok(CacheState::Unknown),
            // Nobody asked: cold is what most people mean, if the server can be made so.
            _ if self.prepared.backend.is_sglang() || self.prepared.backend.is_vllm() => {
                let flushed = flush(self.options, self.prepared).is_ok();
                Ok(if flushed {
                    CacheState::Flushed
                } else {
                    CacheState::NotFlushed
                })
            }
            _ => Ok(CacheState::Unknown),
        }
    }

    /// Sends every prompt once for a single token.
    fn fill_cache(&self, client: &mut Client, surroundings: &mut Surroundings<'_>) {
        surroundings.say("Filling the prefix cache with every prompt...");
        let rows: Vec<Arc<Row>> = self
            .rows
            .iter()
            .map(|row| {
                let mut row = Row::clone(row);
                row.asked.output_tokens = 1;
                Arc::new(row)
            })
            .collect();
        let load = Load {
            rows: &rows,
            adapters: &[],
            pace: Box::new(crate::pace::Closed { concurrency: 16 }),
            gate: None,
            stop: StopRules::default(),
            again: false,
            skip: &|_| false,
        };
        load::run(client, load, &mut Silence);
    }

    fn record_file(&self) -> Result<Option<RecordFile>, ServingError> {
        let Some(path) = &self.records else {
            return Ok(None);
        };
        if self.options.own.given("resume") {
            return RecordFile::take_up(path, &self.identity, &self.earlier).map(Some);
        }
        RecordFile::create(path, &self.identity).map(Some)
    }

    fn put_load(
        &self,
        schedule: Schedule,
        client: &mut Client,
        (file, seam): (Option<&mut RecordFile>, Option<Seam>),
        surroundings: &mut Surroundings<'_>,
    ) -> LoadOutcome {
        let rounds = |place: usize| row_at(&self.rows, place).rounds();
        let done: BTreeSet<usize> = record_file::finished_rows(&self.earlier, rounds);
        let own = &self.options.own;
        let before = resume::seconds(&self.earlier);
        let load = Load {
            rows: &self.rows,
            adapters: &schedule.adapters,
            pace: schedule.pace,
            gate: schedule.gate,
            stop: StopRules {
                count: None,
                seconds: own.float("duration").map(|all| (all - before).max(0.0)),
                failed_share: own.float("stop-failed-share"),
            },
            // A time is filled; a trace is not told twice.
            again: own.given("duration") && !follows_trace(self.options, &self.rows),
            skip: &|place| done.contains(&place),
        };
        let onlook = |inner: &mut dyn Onlooker, client: &mut Client, load| {
            load::run(client, load, &mut Recorded { file, seam, inner })
        };
        if self.quiet || self.options.given.switch("disable-tqdm") {
            return onlook(&mut Silence, client, load);
        }
        // How many requests fit into a time nobody knows.
        let timed = own.given("duration");
        let total = if timed {
            0
        } else {
            self.rows.len().saturating_sub(done.len())
        };
        if let Some(mut view) = LiveView::wanted(self.options, surroundings, total, client) {
            let outcome = onlook(&mut view, client, load);
            drop(view);
            return outcome;
        }
        let mut bar = ProgressBar::new(&mut surroundings.err, total, &rounds);
        let outcome = onlook(&mut bar, client, load);
        bar.close();
        outcome
    }

    fn result(
        self,
        (outcome, shape, seam): (LoadOutcome, Loop, Option<Seam>),
        (rate, gate): (Option<f64>, Option<usize>),
        (warm_up, cache, health): (WarmUp, CacheState, ClientHealth),
        server: (Option<Value>, Option<Value>),
        record_trouble: Option<ServingError>,
    ) -> StrictResult {
        let (options, prepared) = (self.options, self.prepared);
        let resumed = self.earlier.len();
        let mut records = self.earlier;
        let new = outcome.records.into_iter();
        records.extend(new.map(|record| match seam {
            Some(seam) => seam.joined(record),
            None => record,
        }));
        let figures = StrictFigures::under(
            shape,
            &records,
            prepared.backend,
            &prepared.vocabulary,
            options.objectives.as_ref(),
        );
        let figures = if resumed > 0 {
            figures.of_resumed()
        } else {
            figures
        };
        StrictResult {
            figures,
            records,
            rate,
            gate,
            pace: pace_words(options, rate, gate),
            warm_up,
            cache,
            health,
            server,
            provenance: provenance(options, prepared, &self.identity.dataset),
            backend: prepared.backend,
            resumed,
            total_rows: (!options.own.given("duration")).then_some(self.rows.len()),
            interrupted: outcome.interrupted,
            stopped: outcome.stopped,
            record_file: self.records,
            can_be_resumed: resume::is_possible(options, &self.rows),
            fixed_length: !options.given.switch("disable-ignore-eos")
                && !prepared.backend.is_embedding(),
            record_trouble,
        }
    }
}

fn pace_words(options: &Options, rate: Option<f64>, gate: Option<usize>) -> String {
    if options.own.given("ramp") {
        return "ramp".to_owned();
    }
    match (rate, gate) {
        (None, _) => "trace".to_owned(),
        (Some(rate), _) if rate.is_finite() => {
            options.own.text("pace").unwrap_or("poisson").to_owned()
        }
        (_, Some(_)) => "closed loop".to_owned(),
        _ => "all at once".to_owned(),
    }
}

/// How requests leave, as far as a run must share it with one that it resumes.
fn load_words(options: &Options) -> String {
    let given = &options.given;
    let own = &options.own;
    let pace = own.text("pace").unwrap_or("poisson");
    let burstiness = own.float("burstiness").unwrap_or(1.0);
    format!(
        "{pace} ({burstiness}) at {} req/s, at most {} at once",
        given.float("request-rate").unwrap_or(f64::INFINITY),
        options.count("max-concurrency").unwrap_or(0),
    )
}

/// Where records go: beside the result, unless somewhere else or nowhere.
fn record_path(options: &Options) -> Option<PathBuf> {
    match options.own.text("records") {
        Some("-" | "none") => None,
        Some(path) => Some(path.into()),
        None => Some(output_file(options).with_extension("records.jsonl")),
    }
}
