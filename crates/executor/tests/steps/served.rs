//! A scheduler and a rank on a CPU that tells what it ran, step by step.

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use scheduler::{PageSize, StepPlan};
use testkit::golden::Golden;
use testkit::recorded::{Log, Ran, recorded};
use testkit::served::{self, Serving};

pub(crate) use testkit::served::{Asked, Output};

const ROWS: u32 = 4;

/// A step as it was planned and as it ran.
pub(crate) struct Stepped {
    pub(crate) plan: StepPlan,
    pub(crate) ran: Vec<Ran>,
}

/// A rank on the CPU with exact activations, and a scheduler of chunks of so many tokens.
pub(crate) struct Served {
    inner: served::Served,
    log: Log,
    /// What the captures of graphs ran.
    pub(crate) captured: Vec<Ran>,
}

impl Served {
    pub(crate) fn start(golden: &Golden, chunk: u32, graphs: &[usize]) -> Self {
        let (device, log) = recorded(CpuDevice::new(&CpuOptions {
            activations: Activations::Exact,
            kv: KvPrecision::F32,
            ..CpuOptions::default()
        }));
        let serving = Serving {
            rows: ROWS,
            page_size: PageSize::ONE,
            chunk,
            fold: false,
            graphs,
        };
        Self {
            inner: served::Served::start(device, &golden.model, &serving),
            captured: log.take(),
            log,
        }
    }

    /// Runs all to their ends; gives what came of each, and every step.
    pub(crate) fn run(&mut self, asked: &[Asked<'_>]) -> (Vec<Output>, Vec<Stepped>) {
        let mut steps = Vec::new();
        let outputs = self.inner.run(asked, |plan| {
            let ran = self.log.take();
            steps.push(Stepped { plan, ran });
        });
        (outputs, steps)
    }
}
