//! A GPU as a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;
use ops::{
    AddRmsNorm, Attend, CopyPages, CountTokens, Device, DeviceError, DeviceInfo, EditLogits, Embed,
    GatedActivation, GatherRows, Graph, HostValues, HostWeight, InventedWeight, Kernels, Linear,
    LogProbs, Lowered, NoTracer, OpError, Penalise, Program, Readback, ResolveTokens, RmsNorm,
    Rope, RopeStoreKv, Sample, Sizes, Staging, Step, StepClass, StoreKv, Tracer, UpdatePages,
    Weight, WeightFormat, WeightStream, Weights,
};
use tensor::{Buffer, DType, View, ViewMut};

use crate::card::{self, Capability, Card, Generation};
use crate::context::Context;
use crate::cupti::CudaTracer;
use crate::driver::check;
use crate::launch::attend::Attention;
use crate::launch::sample::Sampling;
use crate::launch::{Functions, LARGEST};
use crate::library::{self, Absent};
use crate::linear::{DeviceWeight, Epilogue, Float8Weight, Gemm, Gemms};
use crate::megakernel::Megakernel;
use crate::module::{self, Modules};
use crate::options::{CudaOptions, KvPrecision};
use crate::transfer::{self, Courier, CudaReadback, CudaStaging};
use crate::upload::CudaWeightStream;
use crate::watch::Watch;
use crate::{graph, linear, lower, memory};

/// The first GPU of this machine.
pub struct CudaDevice {
    pub(crate) info: DeviceInfo,
    pub(crate) context: Arc<Context>,
    pub(crate) functions: Functions,
    pub(crate) attention: Attention,
    pub(crate) sampling: Sampling,
    pub(crate) gemms: Gemms,
    /// On Hopper.
    pub(crate) megakernel: Option<Arc<Megakernel>>,
    bandwidth: Option<f64>,
    tracer: Arc<CudaTracer>,
    pub(crate) library_folders: Vec<PathBuf>,
    pub(crate) max_rows: usize,
}

impl CudaDevice {
    /// Opens the GPU and loads every kernel.
    pub fn open(options: &CudaOptions) -> Result<Self, Absent> {
        if !module::is_embedded() {
            return Err(Absent::NoKernels);
        }
        let folders = &options.library_folders;
        let mut watch = Watch::start();
        // Two of the largest libraries there are: one is read while the other starts.
        std::thread::scope(|scope| {
            let products = scope.spawn(|| library::prepare_cublaslt(folders));
            library::prepare_driver(folders)?;
            let cards = Card::all()?;
            let (card, best) = card::first(&cards, options.untried)?;
            watch.lap("driver");
            let generation = options.generation.unwrap_or(best);
            // only Hopper lets a kernel begin before its predecessor has ended
            let in_turn = options.in_turn || generation == Generation::Ampere;
            let context = Arc::new(Context::open(card.device, in_turn)?);
            watch.lap("context");
            let info = describe(&context, (card.capability, generation), options.kv)?;
            if (best, options.generation) == (Generation::Ampere, None) {
                warn_of_untried(&info.name, card.capability);
            }
            let modules = Modules::load(generation)?;
            watch.lap("kernels");
            products
                .join()
                .expect("looking for a library does not panic")?;
            watch.lap("cuBLASLt");
            let mut device = Self::assemble(context, info, &modules, options)?;
            // kernels and workspaces have taken their part
            device.info.memory_free = device.context.memory()?.0;
            watch.lap("workspaces");
            tracing::info!("{} opened in {watch}", device.info.name);
            Ok(device)
        })
    }

    fn assemble(
        context: Arc<Context>,
        info: DeviceInfo,
        modules: &Modules,
        options: &CudaOptions,
    ) -> Result<Self, Absent> {
        transfer::rehearse(&context)?;
        Ok(Self {
            functions: Functions::find(modules)?,
            attention: Attention::new(&context, modules, info.units, info.kv)?,
            sampling: Sampling::new(&context, info.units)?,
            gemms: Gemms::new(&context, modules, info.units, options.gemms)?,
            megakernel: (modules.generation() == Generation::Hopper)
                .then(|| Megakernel::new(&context, modules, info.units).map(Arc::new))
                .transpose()?,
            bandwidth: card::bandwidth(&context)?,
            tracer: Arc::new(CudaTracer::new(&options.library_folders)),
            library_folders: options.library_folders.clone(),
            info,
            context,
            max_rows: options.max_step_tokens,
        })
    }

    /// The choice for GEMMs of a weight of this shape, one line per row count; for people.
    pub fn describe_gemms(&self, outputs: usize, inputs: usize) -> Vec<String> {
        self.gemms.describe(outputs, inputs)
    }

    /// As [`Self::describe_gemms`], for weights of eight-bit floats.
    pub fn describe_float8_gemms(&self, outputs: usize, inputs: usize) -> Vec<String> {
        self.gemms.describe_float8(outputs, inputs)
    }

    /// Shapes of GEMMs that were not autotuned when their weights were loaded; each was logged. For proofs.
    pub fn unforeseen_gemms(&self) -> usize {
        self.gemms.unforeseen()
    }

    /// The elements of a weight of bf16 as they lie in memory; for proofs.
    pub fn read_weight(&self, weight: &Weight) -> Result<Vec<u8>, DeviceError> {
        let buffer = &self.weight(weight)?.buffer;
        memory::read(&self.context, buffer, "reading weights")
    }

    /// A GEMM by one of our own candidates, by number, and what that is; none when there are fewer. For proofs: `linear` takes
    /// the fastest.
    pub fn linear_by_candidate(
        &self,
        number: usize,
        op: Linear<'_>,
    ) -> Result<Option<String>, OpError> {
        op.check()?;
        let Some(weight) = op.weight.layout::<DeviceWeight>() else {
            return Err(OpError::NotTaken {
                op: "linear_by_candidate",
            });
        };
        let product = Gemm::from(op);
        Ok(self.gemms.run_own(number, &product, weight)?)
    }

    pub(crate) fn upload(&self, bytes: &[u8], what: &'static str) -> Result<Buffer, DeviceError> {
        let buffer = memory::allocate(&self.context, bytes.len(), what)?;
        memory::fill(&self.context, &buffer, bytes, "copying weights")?;
        Ok(buffer)
    }

    /// A weight of bf16 that lies in this buffer, row by row.
    pub(crate) fn adopt_plain(
        &self,
        buffer: Buffer,
        (rows, cols): (usize, usize),
    ) -> Result<Weight, DeviceError> {
        let bytes = buffer.bytes();
        let weight = self.gemms.adopt(buffer, (rows, cols), self.max_rows)?;
        let format = WeightFormat::Plain(DType::BF16);
        Ok(Weight::new(rows, cols, format, bytes, Box::new(weight)))
    }

    fn courier(&self) -> Courier {
        Courier {
            context: Arc::clone(&self.context),
            function: self.functions.transfer,
        }
    }

    fn weight<'w>(&self, weight: &'w Weight) -> Result<&'w DeviceWeight, DeviceError> {
        weight
            .layout::<DeviceWeight>()
            .ok_or_else(|| DeviceError::UnsupportedWeight {
                device: self.info.name.clone(),
                format: weight.format().to_string(),
            })
    }
}

fn warn_of_untried(name: &str, capability: Capability) {
    tracing::warn!(
        "no GPU like {name} has run these kernels yet: they are tested without one, and slower than Hopper's; look at answers \
         before you rely on them"
    );
    if capability.gets_text() {
        tracing::info!(
            "the driver compiles kernels for {name} now, and keeps them for the next start"
        );
    }
}

/// The facts of an opened GPU.
fn describe(
    context: &Context,
    (Capability(major, minor), generation): (Capability, Generation),
    kv: KvPrecision,
) -> Result<DeviceInfo, Absent> {
    let units = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let (memory_free, memory_total) = context.memory()?;
    Ok(DeviceInfo {
        kind: "cuda",
        name: context.name()?,
        memory_total,
        memory_free,
        units: context.attribute(units)?,
        features: format!("sm_{major}{minor}"),
        activation: DType::BF16,
        kv: match kv {
            KvPrecision::BF16 => DType::BF16,
            KvPrecision::F8E4M3 => DType::F8E4M3,
        },
        float8: generation == Generation::Hopper,
    })
}

/// Numbers as little-endian bf16.
fn halves(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values
        .flat_map(|value| half::bf16::from_f32(value).to_le_bytes())
        .collect()
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn memory_left(&self) -> Result<Option<usize>, DeviceError> {
        let (free, _) = self.context.memory()?;
        Ok(Some(free))
    }

    fn largest(&self) -> Sizes {
        let mut largest = LARGEST;
        largest.heads.dim = largest.heads.dim.min(self.attention.widest());
        largest
    }

    fn bandwidth(&self) -> Option<f64> {
        self.bandwidth
    }

    fn tracer(&self) -> Result<Arc<dyn Tracer>, NoTracer> {
        Ok(Arc::clone(&self.tracer) as Arc<dyn Tracer>)
    }

    fn kernels(&self) -> &dyn Kernels {
        self
    }

    fn lower(&self, program: Arc<Program>, class: &StepClass) -> Lowered {
        lower::lower(program, class, self.info.activation)
    }

    fn run(&self, list: &Lowered, weights: &Weights, step: &Step<'_>) -> Result<(), OpError> {
        self.run_list(list, weights, step)
    }

    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        memory::allocate(&self.context, bytes, what)
    }

    fn supports(&self, format: WeightFormat) -> bool {
        match format {
            WeightFormat::Plain(dtype) => dtype == DType::BF16,
            WeightFormat::Affine { .. } => false,
            WeightFormat::Float8 { group } => {
                self.gemms.takes_float8() && Self::takes_groups(group)
            }
        }
    }

    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        let (rows, cols) = (weight.rows, weight.cols);
        if let (HostValues::Float8(values), true) = (&weight.values, self.supports(weight.format()))
        {
            return self.load_float8((rows, cols), values, weight.format());
        }
        let buffer = match &weight.values {
            HostValues::Plain(DType::BF16, bytes) => self.upload(bytes, "weights")?,
            _ => self.upload(
                &halves((0..rows).flat_map(|row| weight.row(row))),
                "weights",
            )?,
        };
        self.adopt_plain(buffer, (rows, cols))
    }

    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        Ok(Some(Box::new(CudaWeightStream::new(self)?)))
    }

    fn invent_weight(
        &self,
        (rows, cols): (usize, usize),
        format: WeightFormat,
        seed: u64,
    ) -> Result<Option<InventedWeight>, DeviceError> {
        match format {
            WeightFormat::Plain(DType::BF16) => {}
            WeightFormat::Float8 { group } if self.supports(format) => {
                return self.invent_float8((rows, cols), group, seed).map(Some);
            }
            _ => return Ok(None),
        }
        let buffer = memory::allocate(&self.context, 2 * rows * cols, "weights")?;
        self.gemms.invent(&buffer, rows * cols, seed)?;
        self.context.synchronise()?;
        let made = Instant::now();
        let weight = self.adopt_plain(buffer, (rows, cols))?;
        Ok(Some(InventedWeight { weight, made }))
    }

    fn expect_bias(&self, weight: &Weight) -> Result<(), DeviceError> {
        if let Some(layout) = weight.layout::<Float8Weight>() {
            return self.gemms.expect_float8_bias(layout, self.max_rows);
        }
        let (layout, shape) = (self.weight(weight)?, (weight.rows(), weight.cols()));
        self.gemms.expect_bias(layout, shape, self.max_rows)
    }

    fn folded_bytes(&self, shape: (usize, usize), format: WeightFormat) -> usize {
        match format {
            WeightFormat::Plain(DType::BF16) if self.gemms.takes_bf12() => {
                linear::bf12_bytes(shape)
            }
            _ => 0,
        }
    }

    fn fold(&self, weight: &Weight) -> Result<usize, DeviceError> {
        let shape = (weight.rows(), weight.cols());
        match weight.layout::<DeviceWeight>() {
            Some(layout) if self.gemms.takes_bf12() => {
                self.gemms.encode_bf12(layout, shape, self.max_rows)
            }
            _ => Ok(0),
        }
    }

    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError> {
        let bytes: Vec<u8> = match dtype {
            DType::BF16 => halves(values.iter().copied()),
            _ => values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        };
        self.upload(&bytes, "small weights")
    }

    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        Ok(Box::new(CudaStaging::new(self.courier(), bytes)?))
    }

    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        Ok(Box::new(CudaReadback::new(self.courier(), bytes)?))
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) -> Result<(), DeviceError> {
        assert!(
            from.is_contiguous() && to.is_contiguous(),
            "whole rows are copied"
        );
        self.context.flush()?;
        self.context.begin_epoch();
        let bytes = from.rows() * from.cols() * from.dtype().size();
        let (to, from) = (
            to.address() as sys::CUdeviceptr,
            from.address() as sys::CUdeviceptr,
        );
        // SAFETY: two checked views of device memory that do not overlap.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.context.stream()) };
        check(result, "copying pages")
    }

    fn capture(
        &self,
        run: &mut dyn FnMut() -> Result<(), OpError>,
    ) -> Result<Option<Box<dyn Graph>>, OpError> {
        if let Some(megakernel) = &self.megakernel {
            self.context.recording().begin(&self.context, megakernel)?;
        }
        self.context.opening().begin(&self.functions);
        let captured = graph::capture(&self.context, &mut || {
            run()?;
            Ok(self.context.flush()?)
        });
        self.context.opening().end();
        let links = self.context.recording().end(&self.context);
        let mut graph = captured?;
        graph.keep(links?);
        graph.upload()?;
        Ok(Some(Box::new(graph)))
    }
}

/// Ops whose launcher does everything but the check.
macro_rules! launched {
    ($($method:ident: $op:ident => $launch:ident),* $(,)?) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            op.check()?;
            self.$launch(&op)
        })*
    };
}

impl Kernels for CudaDevice {
    launched!(
        resolve_tokens: ResolveTokens => launch_resolve_tokens, update_pages: UpdatePages => launch_update_pages,
        copy_pages: CopyPages => launch_copy_pages, count_tokens: CountTokens => launch_count_tokens, rms_norm: RmsNorm => launch_rms_norm,
        add_rms_norm: AddRmsNorm => launch_add_rms_norm, rope_store_kv: RopeStoreKv => launch_rope_store_kv,
        attend: Attend => launch_attend, gated_activation: GatedActivation => launch_gated_activation,
        edit_logits: EditLogits => launch_edit_logits, penalise: Penalise => launch_penalise,
        sample: Sample => launch_sample, log_probs: LogProbs => launch_log_probs,
    );

    fn embed(&self, op: Embed<'_>) -> Result<(), OpError> {
        op.check()?;
        if let Some(table) = op.table.layout::<Float8Weight>() {
            self.embed_float8(&op, table)?;
            return self.launch_scale(&op.out, op.scale);
        }
        let table = self.weight(op.table)?.buffer.address() as u64;
        self.launch_gather((table, op.table.cols()), op.ids, &op.out)?;
        self.launch_scale(&op.out, op.scale)
    }

    fn linear(&self, op: Linear<'_>) -> Result<(), OpError> {
        op.check()?;
        if op.x.rows() == 0 {
            return Ok(());
        }
        let weight = op.weight;
        let mut product = Gemm::from(op);
        if self.takes_megakernel(weight, &product) {
            return self.megakernel_gemm(&product, weight, (None, &Epilogue::Store));
        }
        if let Some(weight) = weight.layout::<Float8Weight>() {
            return Ok(self.gemms.run_float8(&mut product, weight)?);
        }
        Ok(self.gemms.run(&mut product, self.weight(weight)?)?)
    }

    fn gather_rows(&self, op: GatherRows<'_>) -> Result<(), OpError> {
        op.check()?;
        self.launch_gather((op.x.address() as u64, op.x.stride()), op.indices, &op.out)
    }

    fn rope(&self, op: Rope<'_>) -> Result<(), OpError> {
        op.check()?;
        self.launch_rope(&op)
    }

    fn store_kv(&self, op: StoreKv<'_>) -> Result<(), OpError> {
        op.check()?;
        self.launch_store_kv(&op)
    }
}
