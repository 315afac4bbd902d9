//! `peregrine inspect`: what a model is and whether it fits, before anything is loaded.

use std::fmt::Write as _;

use flags::{FlagSpec, Positional, Takes};
use models::{Inventory, ModelSpec};
use ops::DeviceInfo;

use crate::args::{ServerArgs, ServerCommand};
use crate::device;
use crate::env::Env;
use crate::failure::Failure;
use crate::launch::{ConfigError, Launch};
use crate::logging::{self, Levels};
use crate::obtain::{Wanted, obtain};
use crate::opened::Opened;
use crate::print::print;
use crate::progress::{count, size};
use crate::start::{load_format, plan_on, quantization};

pub(crate) const COMMAND: ServerCommand = ServerCommand {
    program: "peregrine inspect",
    about: "Shows a model's architecture, parameters, quantisation and memory plan without loading it, and \
            says whether it fits and which flag changes that. Takes the flags of serve.",
    positionals: &[Positional {
        name: "MODEL",
        takes: Takes::Maybe(""),
        help: "A folder, a .gguf file, a known name or a hub id. Without it the default model.",
    }],
    own: &[FlagSpec::float(
        "memory-gb",
        "Plan for a device with this much memory instead of this machine.",
    )],
};

/// Runs the command.
pub(crate) fn run(args: &ServerArgs, env: &Env) -> Result<(), Failure> {
    let levels = Levels {
        all: "warning",
        access: None,
        filter: env.log_filter.as_deref(),
    };
    logging::start(levels).map_err(Failure::Config)?;
    let word = args.parsed.words().first().map(String::as_str);
    let local = obtain(Wanted::from(&args.parsed, word), env).map_err(Failure::Config)?;
    let format = load_format(args);
    // a description can be inspected by itself
    let alone = local.path.extension().is_some_and(|end| end == "json");
    let format = if alone { "dummy" } else { format };
    let opened = Opened::open(&local.path, format, quantization(args)).map_err(Failure::Config)?;
    let device = device::open(&args.parsed, env, &opened.spec)
        .map_err(|error| Failure::Config(error.into()))?;
    let info = imagined(device.info(), args.parsed.float("memory-gb"))?;
    let inventory = opened.inventory(device.as_ref());
    let plan = plan_on(&args.parsed, &opened, &inventory, &info);
    let mut text = format!(
        "model         {}\npath          {}\n",
        local.name,
        local.path.display()
    );
    text += &describe(&opened.spec, &inventory);
    text += &describe_device(&info);
    match plan {
        Ok(plan) => print(&(text + &describe_plan(&plan))),
        Err(error @ ConfigError::NoRoom(_)) => {
            print(&format!("{text}fits          no: {error}\n"))?;
            Err(Failure::Told(1))
        }
        Err(error) => Err(Failure::Config(error.into())),
    }
}

/// The device with another amount of memory.
fn imagined(info: &DeviceInfo, gigabytes: Option<f64>) -> Result<DeviceInfo, Failure> {
    let Some(gigabytes) = gigabytes else {
        return Ok(info.clone());
    };
    if !(gigabytes > 0.0 && gigabytes < 1e6) {
        let error = ConfigError::OutOfRange {
            flag: "--memory-gb",
            value: gigabytes.to_string(),
            range: "above 0",
        };
        return Err(Failure::Config(error.into()));
    }
    let bytes = (gigabytes * 1e9) as usize;
    Ok(DeviceInfo {
        memory_total: bytes,
        memory_free: bytes,
        ..info.clone()
    })
}

fn describe(spec: &ModelSpec, inventory: &Inventory) -> String {
    let weights: Vec<String> = inventory
        .formats
        .iter()
        .map(|(name, tensors, elements)| {
            format!("{name} for {} in {tensors} tensors", count(*elements))
        })
        .collect();
    let on_device: Vec<String> = inventory
        .device_formats
        .iter()
        .map(|(name, elements)| format!("{name} for {}", count(*elements)))
        .collect();
    let tied = if spec.tied {
        ", shared by input and output"
    } else {
        ""
    };
    let mut text = String::new();
    let _ = write!(
        text,
        "architecture  {} ({})\nparameters    {}\nlayers        {} of width {}, feed forward {}\n\
         attention     {} heads of {}, {} for keys and values\nvocabulary    {}{tied}\ncontext       {}\n\
         weights       {} in files: {}\non device     {}\n",
        spec.architecture,
        spec.model_type,
        count(spec.parameters()),
        spec.layers.len(),
        spec.hidden,
        spec.feed_forward,
        spec.heads.query,
        spec.heads.dim,
        spec.heads.kv,
        spec.vocabulary,
        spec.context_length,
        size(inventory.file_bytes as u64),
        weights.join(", "),
        on_device.join(", "),
    );
    text
}

fn describe_device(info: &DeviceInfo) -> String {
    format!(
        "device        {} ({}), {} threads, {} free of {}\n",
        info.name,
        info.kind,
        info.units,
        size(info.memory_free as u64),
        size(info.memory_total as u64)
    )
}

fn describe_plan(plan: &Launch) -> String {
    let budget = &plan.budget;
    let tokens = plan.executor.pages * plan.executor.page_size;
    let cache = size((tokens * budget.token) as u64);
    let more = if tokens < budget.tokens {
        format!("{} would fit: raise --max-total-tokens", budget.tokens)
    } else {
        format!(
            "raise --mem-fraction-static above {} for more",
            budget.fraction
        )
    };
    let mut weights = size(budget.weights as u64);
    if budget.folded > 0 {
        let _ = write!(weights, ", folded {} more", size(budget.folded as u64));
    }
    format!(
        "memory        {} may be used (--mem-fraction-static {})\n  weights     {}\n  work space  {} for steps of \
         {} tokens and {} requests\n  KV cache    {} a token, {tokens} tokens in {cache}\nfits          yes; {more}\n",
        size(budget.given as u64),
        budget.fraction,
        weights,
        size(budget.work as u64),
        plan.executor.max_step_tokens,
        plan.executor.max_rows,
        size(budget.token as u64),
    )
}
