//! From arguments to a running engine.

use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use engine::{EngineHandle, EngineThread, StepFloor};
use executor::{ExecutorConfig, LocalExecutor, MemoryPlan, Rank, measure_scratch};
use flags::Parsed;
use hub::{LocalModel, Progress as _};
use models::{Inventory, LoadError, LoadOptions, Model, ModelSpec};
use ops::{Device, DeviceError, DeviceInfo, OpError};
use server::StartTimes;

use crate::args::ServerArgs;
use crate::device;
use crate::env::Env;
use crate::language::Language;
use crate::launch::{
    Captures, Circumstances, ConfigError, Folding, Launch, Shortfall, estimate_scratch, resolve,
};
use crate::opened::Opened;
use crate::progress::{self, Bar};

/// What takes less is not worth a line.
const WORTH_TELLING: Duration = Duration::from_millis(10);

/// An engine that takes requests, and what it is made of.
pub(crate) struct Started {
    /// The way to it.
    pub(crate) engine: EngineHandle,
    /// Its thread.
    pub(crate) thread: EngineThread,
    /// Its text side; none with `--skip-tokenizer-init`.
    pub(crate) language: Option<Language>,
    /// The model's dimensions.
    pub(crate) spec: ModelSpec,
    /// The settings.
    pub(crate) launch: Launch,
    /// What it runs on.
    pub(crate) device: DeviceInfo,
    /// What its memory went to.
    pub(crate) memory: MemoryPlan,
    /// Bytes that captured steps took.
    pub(crate) graphs: usize,
    /// How long that took.
    pub(crate) times: StartTimes,
}

/// Resolves the settings of a model that is not loaded yet, with an estimate of its work space.
pub(crate) fn plan_on(
    parsed: &Parsed,
    opened: &Opened,
    inventory: &Inventory,
    device: &DeviceInfo,
) -> Result<Launch, ConfigError> {
    let spec = &opened.spec;
    let scratch = |config: &ExecutorConfig| estimate_scratch(spec, config);
    resolve(
        parsed,
        &Circumstances {
            spec,
            stored_wide: opened.stored_wide,
            weights: inventory.device_bytes,
            folding: Folding::Possible(inventory.folded_bytes),
            device,
            scratch: &scratch,
            entropy: entropy(),
        },
    )
}

/// Loads the model and starts the engine, logging each stage.
pub(crate) fn start(args: &ServerArgs, local: &LocalModel, env: &Env) -> anyhow::Result<Started> {
    let began = Instant::now();
    let opened = Opened::open(&local.path, load_format(args), quantization(args))?;
    let Loaded {
        device,
        model,
        language,
        seed,
        weights,
    } = load(args, &opened, local, env)?;
    let spec = ModelSpec {
        end_tokens: end_tokens(&opened.spec, language.as_ref()),
        ..opened.spec
    };
    let measured =
        |config: &ExecutorConfig| measure_scratch(model.program(), config, device.as_ref());
    let mut launch = resolve(
        &args.parsed,
        &Circumstances {
            spec: &spec,
            stored_wide: opened.stored_wide,
            weights: model.weight_bytes(),
            folding: Folding::Done(model.folded_bytes()),
            device: device.info(),
            scratch: &measured,
            entropy: seed,
        },
    )?;
    let mut rank = Rank::new(device, model, &launch.executor).map_err(|error| match error {
        OpError::Device(error) => {
            let tokens = launch.executor.pages * launch.executor.page_size;
            let short = Shortfall::serving(&error, &launch.budget, tokens);
            short.map_or_else(|| error.into(), Into::into)
        }
        other => anyhow::Error::new(other).context("cannot take the memory"),
    })?;
    let (memory, device) = (rank.memory().clone(), rank.device().info().clone());
    launch.engine.floor = floor(rank.device(), &spec, &memory, &launch.executor);
    let before = memory_left(&rank)?;
    report_memory(&launch, &memory, before);
    capture(&mut rank, &launch, before)?;
    let after = memory_left(&rank)?;
    report_limits(&launch, after);
    let executor = LocalExecutor::start(rank).context("cannot start the rank")?;
    let (engine, thread) = engine::start(launch.engine.clone(), Box::new(executor))?;
    Ok(Started {
        engine,
        thread,
        language,
        spec,
        launch,
        device,
        memory,
        graphs: before.saturating_sub(after),
        times: StartTimes {
            engine: began.elapsed(),
            weights,
        },
    })
}

/// A model on its device, and its text side.
struct Loaded {
    device: Box<dyn Device>,
    model: Model,
    language: Option<Language>,
    seed: u64,
    /// How long the weights took.
    weights: Duration,
}

/// Device and weights on this thread and the tokenizer on another: all take a good part of a second.
fn load(
    args: &ServerArgs,
    opened: &Opened,
    local: &LocalModel,
    env: &Env,
) -> anyhow::Result<Loaded> {
    let checkpoint = opened.checkpoint();
    let with_text = !args.parsed.switch("skip-tokenizer-init");
    if with_text {
        Language::look(&args.parsed, &local.path, checkpoint)?;
    }
    std::thread::scope(|scope| {
        let language = with_text
            .then(|| scope.spawn(|| Language::load(&args.parsed, &local.path, checkpoint)));
        let device = device::open(&args.parsed, env, &opened.spec)?;
        let inventory = opened.inventory(device.as_ref());
        let plan = plan_on(&args.parsed, opened, &inventory, device.info())?;
        plan.warn();
        let (model, weights) =
            load_weights((opened, &inventory), &local.path, device.as_ref(), &plan)?;
        let language = language.map(|thread| thread.join().expect("text loading does not panic"));
        Ok(Loaded {
            device,
            model,
            language: language.transpose()?,
            seed: plan.engine.random_seed,
            weights,
        })
    })
}

/// Also tells how long that took.
fn load_weights(
    (opened, inventory): (&Opened, &Inventory),
    path: &Path,
    device: &dyn Device,
    plan: &Launch,
) -> anyhow::Result<(Model, Duration)> {
    let began = Instant::now();
    let free = device.info().memory_free;
    tracing::info!("Load weight begin. avail mem={:.2} GB", gib(free));
    let options = LoadOptions {
        max_positions: plan.engine.context_length,
        fold: plan.budget.folded > 0,
    };
    let mut bar = Bar::quiet();
    bar.start("loading weights", Some(inventory.file_bytes as u64));
    let mut progress = |done: usize, _: usize| bar.advance(done as u64);
    let spec = opened.spec.clone();
    let model =
        models::load(spec, opened.source(), device, options, &mut progress).map_err(|error| {
            match error {
                LoadError::Device(error) => {
                    let short = Shortfall::loading(&error, &plan.budget);
                    short.map_or_else(|| error.into(), Into::into)
                }
                other => anyhow::Error::new(other)
                    .context(format!("cannot load the weights at {}", path.display())),
            }
        })?;
    bar.finish();
    let used = model.weight_bytes() + model.folded_bytes();
    tracing::info!(
        "Load weight end. type={}, dtype={}, avail mem={:.2} GB, mem usage={:.2} GB.",
        opened.spec.architecture,
        inventory.quantisation(),
        gib(free.saturating_sub(used)),
        gib(used)
    );
    if model.folded_bytes() > 0 {
        tracing::info!(
            "weights are kept folded too, in {}: --fold-weights",
            progress::size(model.folded_bytes() as u64)
        );
    }
    let set_up = model.set_up_time();
    let took = began.elapsed().saturating_sub(set_up);
    let read = opened.checkpoint().map(|_| {
        let bytes = inventory.file_bytes as u64;
        let rate = progress::rate(bytes, took);
        format!(", {} of files at {rate}", progress::size(bytes))
    });
    let read = read.unwrap_or_default();
    tracing::info!("weights loaded in {:.2} s{read}", took.as_secs_f64());
    if set_up >= WORTH_TELLING {
        let seconds = set_up.as_secs_f64();
        tracing::info!("ways to compute with them found in {seconds:.2} s besides");
    }
    Ok((model, took))
}

/// What a generating step reads: all weights but a table that is only looked up in, and keys and values.
fn floor(
    device: &dyn Device,
    spec: &ModelSpec,
    memory: &MemoryPlan,
    config: &ExecutorConfig,
) -> Option<StepFloor> {
    let looked_up = if spec.tied {
        0
    } else {
        spec.vocabulary * spec.hidden * device.info().activation.size()
    };
    Some(StepFloor {
        weights: memory.weights.saturating_sub(looked_up),
        token: memory.kv / config.slots(),
        bandwidth: device.bandwidth()?,
    })
}

/// Bytes that nobody has taken: as the device says, else by what is known to be taken.
fn memory_left(rank: &Rank) -> Result<usize, DeviceError> {
    let device = rank.device();
    let taken = rank.memory().total();
    let rest = device.info().memory_free.saturating_sub(taken);
    Ok(device.memory_left()?.unwrap_or(rest))
}

fn report_memory(launch: &Launch, memory: &MemoryPlan, left: usize) {
    let tokens = launch.executor.pages * launch.executor.page_size;
    let half = gib(memory.kv / 2);
    tracing::info!(
        "KV Cache is allocated. #tokens: {tokens}, K size: {half:.2} GB, V size: {half:.2} GB"
    );
    tracing::info!("Memory pool end. avail mem={:.2} GB", gib(left));
}

/// Records the steps that only generate, where the device keeps graphs.
fn capture(rank: &mut Rank, launch: &Launch, free: usize) -> anyhow::Result<()> {
    let rows = &launch.graphs;
    if rows.is_empty() {
        return Ok(());
    }
    let (began, left) = (Instant::now(), gib(free));
    tracing::info!(
        "Capture cuda graph begin. This can take up to several minutes. avail mem={left:.2} GB"
    );
    tracing::info!("Capture cuda graph bs {rows:?}");
    let mut begun = 0_usize;
    let mut progress = |rows: usize| {
        begun += 1;
        tracing::debug!("Capturing batches (bs={rows})");
    };
    if let Err(lost) = rank.capture(rows, &mut progress) {
        let captures = Captures {
            wanted: rows.len(),
            done: begun.saturating_sub(1),
            before: free,
            // a device that is broken says nothing any more
            left: memory_left(rank).unwrap_or(0),
        };
        return Err(
            match Shortfall::capturing(&lost, captures, &launch.budget, launch.fewer_graphs) {
                Some(short) => short.into(),
                None => anyhow::Error::new(lost)
                    .context("cannot capture the steps; --disable-cuda-graph does without"),
            },
        );
    }
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Capture cuda graph end. Time elapsed: {seconds:.2} s.");
    Ok(())
}

fn report_limits(launch: &Launch, free: usize) {
    let tokens = launch.executor.pages * launch.executor.page_size;
    let left = gib(free);
    let scheduler = &launch.engine.scheduler;
    let chunk = if scheduler.chunk == u32::MAX {
        -1
    } else {
        i64::from(scheduler.chunk)
    };
    tracing::info!(
        "max_total_num_tokens={tokens}, chunked_prefill_size={chunk}, max_prefill_tokens={}, \
         max_running_requests={}, context_len={}, available_gpu_mem={left:.2} GB",
        scheduler.max_prefill_tokens,
        scheduler.max_rows,
        scheduler.context_length
    );
}

/// What weights are to become.
pub(crate) fn quantization(args: &ServerArgs) -> Option<&str> {
    args.parsed.text("quantization")
}

/// How weights are to be read.
pub(crate) fn load_format(args: &ServerArgs) -> &str {
    args.parsed.text("load-format").unwrap_or("auto")
}

/// The end tokens of the model's description and of its tokenizer, each once.
fn end_tokens(spec: &ModelSpec, language: Option<&Language>) -> Vec<u32> {
    let mut tokens = spec.end_tokens.clone();
    for id in language.map_or(&[][..], |language| language.tokenizer.eos_ids()) {
        if !tokens.contains(id) && (*id as usize) < spec.vocabulary {
            tokens.push(*id);
        }
    }
    tokens
}

fn gib(bytes: usize) -> f64 {
    bytes as f64 / (1_u64 << 30) as f64
}

/// A number that differs from process to process.
fn entropy() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
