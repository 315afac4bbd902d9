//! A device that remembers which ops it ran.

use std::sync::{Arc, Mutex};

use ops::{
    AddRmsNorm, Attend, CopyPages, CountTokens, Device, EditLogits, Embed, GatedActivation,
    GatherRows, Graph, Kernels, Linear, LogProbs, Lowered, OpError, Penalise, Program,
    ResolveTokens, RmsNorm, Rope, RopeStoreKv, Sample, Step, StepClass, StoreKv, UpdatePages,
    Weights,
};

use crate::detour::{Detour, Detoured};

/// One op as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its name.
    pub op: &'static str,
    /// Rows of its main destination; of drawing, of the logits.
    pub rows: usize,
    /// Where that lies.
    pub address: usize,
}

/// What was run since somebody last looked.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Ran>>>);

impl Log {
    /// Gives what was run and forgets it.
    pub fn take(&self) -> Vec<Ran> {
        std::mem::take(&mut self.0.lock().expect("nobody panics"))
    }

    fn push(&self, op: &'static str, rows: usize, address: usize) {
        let ran = Ran { op, rows, address };
        self.0.lock().expect("nobody panics").push(ran);
    }
}

/// Passes every op on and remembers it. Captures run their ops once; their graphs do nothing.
pub struct Recorded<D> {
    device: D,
    log: Log,
}

/// The device, watched, and what it was seen to run.
pub fn recorded<D: Device>(device: D) -> (Detoured<Recorded<D>>, Log) {
    let log = Log::default();
    let watched = Recorded {
        device,
        log: log.clone(),
    };
    (Detoured(watched), log)
}

/// A graph of which only the capture matters.
struct Nothing;

impl Graph for Nothing {
    fn replay(&self) -> Result<(), ops::DeviceError> {
        Ok(())
    }
}

impl<D: Device> Detour for Recorded<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.device
    }

    fn kernels(&self) -> &dyn Kernels {
        self
    }

    fn lower(&self, program: Arc<Program>, class: &StepClass) -> Lowered {
        Lowered::plain(program, class, self.device.info().activation)
    }

    fn run(&self, list: &Lowered, weights: &Weights, step: &Step<'_>) -> Result<(), OpError> {
        list.interpret(self, weights, step)
    }

    fn capture(
        &self,
        run: &mut dyn FnMut() -> Result<(), OpError>,
    ) -> Result<Option<Box<dyn Graph>>, OpError> {
        run()?;
        Ok(Some(Box::new(Nothing)))
    }
}

macro_rules! remembered {
    ($($method:ident: $op:ident => $($destination:ident).+;)*) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            let destination = &op.$($destination).+;
            let (rows, address) = (destination.rows(), destination.address() as usize);
            self.log.push(stringify!($method), rows, address);
            self.device.kernels().$method(op)
        })*
    };
}

impl<D: Device> Kernels for Recorded<D> {
    remembered!(
        resolve_tokens: ResolveTokens => out;
        update_pages: UpdatePages => table;
        copy_pages: CopyPages => memory;
        count_tokens: CountTokens => counts;
        embed: Embed => out;
        linear: Linear => out;
        rms_norm: RmsNorm => out;
        add_rms_norm: AddRmsNorm => out;
        rope: Rope => x;
        store_kv: StoreKv => key;
        rope_store_kv: RopeStoreKv => key;
        attend: Attend => out;
        gated_activation: GatedActivation => out;
        gather_rows: GatherRows => out;
        edit_logits: EditLogits => logits;
        penalise: Penalise => logits;
        sample: Sample => logits;
        log_probs: LogProbs => log_probs;
    );
}
