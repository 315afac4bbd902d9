//! Matrices on the device, and clocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cuda::CudaDevice;
use half::bf16;
use ops::{
    Device as _, Graph, Heads, HostValues, HostWeight, Linear, OpError, Readback, Weight, rng,
};
use tensor::{Buffer, DType, View, ViewMut};

/// What the memory of an H200 gives when it is only read, bytes a microsecond.
pub(crate) const MEMORY: f64 = 4.38e6;
/// Operations a microsecond that its tensor cores do with bf16.
pub(crate) const TENSOR: f64 = 804e6;

/// Elements of a random block that larger matrices repeat.
const BLOCK: usize = 1 << 20;
const CHUNK: usize = 4 << 20;

/// Whether weights are encoded as bf12.
static FOLD: AtomicBool = AtomicBool::new(false);

/// True when the device runs models with such heads; says so where it does not.
pub(crate) fn takes_heads(device: &CudaDevice, heads: Heads) -> bool {
    let takes = heads.dim <= device.largest().heads.dim;
    if !takes {
        println!("{heads:?} left out: wider than this GPU takes");
    }
    takes
}

/// A matrix on the device.
pub(crate) struct Matrix {
    buffer: Buffer,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    dtype: DType,
}

impl Matrix {
    /// Zeros.
    pub(crate) fn new(device: &CudaDevice, rows: usize, cols: usize, dtype: DType) -> Self {
        let bytes = (rows * cols * dtype.size()).max(16);
        let buffer = device
            .allocate(bytes, "a matrix to prove with")
            .expect("memory");
        Self {
            buffer,
            rows,
            cols,
            dtype,
        }
    }

    /// Given elements.
    pub(crate) fn of_bytes(
        device: &CudaDevice,
        rows: usize,
        cols: usize,
        dtype: DType,
        bytes: &[u8],
    ) -> Self {
        let mut matrix = Self::new(device, rows, cols, dtype);
        let mut staging = device.staging(CHUNK).expect("staging");
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            staging.host().expect("staging")[..chunk.len()].copy_from_slice(chunk);
            staging.send(chunk.len()).expect("staging");
            let from = staging.device().columns(0..chunk.len());
            let to = matrix
                .buffer
                .view_mut(index * CHUNK, 1, chunk.len(), DType::U8);
            device.copy(from, to).expect("a copy");
        }
        sync(device);
        matrix
    }

    /// Integers, one row.
    pub(crate) fn ints(device: &CudaDevice, values: &[u32]) -> Self {
        Self::int_matrix(device, 1, values.len(), values)
    }

    pub(crate) fn int_matrix(
        device: &CudaDevice,
        rows: usize,
        cols: usize,
        values: &[u32],
    ) -> Self {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self::of_bytes(device, rows, cols, DType::U32, &bytes)
    }

    /// Floats of one type.
    pub(crate) fn floats(
        device: &CudaDevice,
        rows: usize,
        cols: usize,
        dtype: DType,
        values: &[f32],
    ) -> Self {
        Self::of_bytes(device, rows, cols, dtype, &bytes_of(values, dtype))
    }

    /// About normal numbers; large matrices repeat a block.
    pub(crate) fn random(device: &CudaDevice, rows: usize, cols: usize, seed: u64) -> Self {
        let elements = rows * cols;
        let block = bytes_of(&normals(elements.min(BLOCK), seed), DType::BF16);
        Self::repeating(device, (rows, cols), DType::BF16, &block)
    }

    /// About normal numbers of one byte; large matrices repeat a block.
    pub(crate) fn random_bytes(device: &CudaDevice, rows: usize, cols: usize, seed: u64) -> Self {
        let block: Vec<u8> = normals((rows * cols).min(BLOCK), seed)
            .into_iter()
            .map(ops::float8::encode)
            .collect();
        Self::repeating(device, (rows, cols), DType::F8E4M3, &block)
    }

    /// A block of elements over and over.
    fn repeating(
        device: &CudaDevice,
        (rows, cols): (usize, usize),
        dtype: DType,
        block: &[u8],
    ) -> Self {
        let bytes = rows * cols * dtype.size();
        if bytes <= block.len() {
            return Self::of_bytes(device, rows, cols, dtype, block);
        }
        let source = Self::of_bytes(device, 1, block.len(), DType::U8, block);
        let mut matrix = Self::new(device, rows, cols, dtype);
        for at in (0..bytes).step_by(block.len()) {
            let count = block.len().min(bytes - at);
            let to = matrix.buffer.view_mut(at, 1, count, DType::U8);
            device
                .copy(source.view().columns(0..count), to)
                .expect("a copy");
        }
        sync(device);
        matrix
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.buffer.view(0, self.rows, self.cols, self.dtype)
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(0, self.rows, self.cols, self.dtype)
    }

    /// All elements as numbers.
    pub(crate) fn read(&self, device: &CudaDevice) -> Vec<f32> {
        let bytes = self.rows * self.cols * self.dtype.size();
        let mut readback = device.readback(bytes.max(16)).expect("a readback");
        readback.fetch(self.view(), 0).expect("a copy");
        readback.seal().expect("an event");
        let bytes = &readback.wait().expect("results")[..bytes];
        match self.dtype {
            DType::BF16 => bytes
                .chunks_exact(2)
                .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
                .collect(),
            DType::F32 => bytes
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
            DType::U32 => bytes
                .chunks_exact(4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32)
                .collect(),
            other => panic!("{other} is not read"),
        }
    }
}

fn bytes_of(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::BF16 => values
            .iter()
            .flat_map(|&value| bf16::from_f32(value).to_le_bytes())
            .collect(),
        _ => values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    }
}

/// Sums of twelve uniform numbers, near enough to normal.
pub(crate) fn normals(count: usize, seed: u64) -> Vec<f32> {
    (0..count as u32)
        .map(|i| {
            (0..3)
                .flat_map(|j| rng::philox(seed, u64::from(i), j))
                .map(|word| word as f32 / 4_294_967_296.0)
                .sum::<f32>()
                - 6.0
        })
        .collect()
}

/// As [`normals`], but large counts repeat a block.
pub(crate) fn repeated(count: usize, seed: u64) -> Vec<f32> {
    normals(count.min(BLOCK), seed)
        .into_iter()
        .cycle()
        .take(count)
        .collect()
}

/// A weight of about normal numbers divided by the root of its inputs.
pub(crate) fn weight(device: &CudaDevice, rows: usize, cols: usize, seed: u64) -> Weight {
    let scale = 1.0 / (cols as f32).sqrt();
    let block: Vec<f32> = normals((rows * cols).min(BLOCK), seed)
        .into_iter()
        .map(|value| value * scale)
        .collect();
    let block = bytes_of(&block, DType::BF16);
    let mut bytes = Vec::with_capacity(2 * rows * cols);
    while bytes.len() < 2 * rows * cols {
        let count = block.len().min(2 * rows * cols - bytes.len());
        bytes.extend_from_slice(&block[..count]);
    }
    let values = HostValues::Plain(DType::BF16, bytes.into());
    let weight = device.load_weight(HostWeight { rows, cols, values });
    let weight = weight.expect("a weight");
    if FOLD.load(Ordering::Relaxed) {
        device.fold(&weight).expect("room for it");
    }
    weight
}

/// Weights that are made from now on are encoded as bf12.
pub(crate) fn encode_weights() {
    FOLD.store(true, Ordering::Relaxed);
}

/// A GEMM without a bias.
pub(crate) fn linear(
    device: &CudaDevice,
    x: View<'_>,
    weight: &Weight,
    out: ViewMut<'_>,
) -> Result<(), OpError> {
    let bias = None;
    device.kernels().linear(Linear {
        x,
        weight,
        bias,
        out,
    })
}

/// Waits for everything enqueued.
pub(crate) fn sync(device: &CudaDevice) {
    wait(device.readback(16).expect("a readback").as_mut());
}

/// As [`sync`], with a readback at hand.
pub(crate) fn wait(readback: &mut dyn Readback) {
    readback.seal().expect("an event");
    readback.wait().expect("the device is there");
}

/// Replays that are timed together.
const REPLAYS: usize = 4;

/// Many `run`s as one graph; what a first call sets up is done.
pub(crate) fn captured(
    device: &CudaDevice,
    many: usize,
    mut run: impl FnMut(usize) -> Result<(), OpError>,
) -> Box<dyn Graph> {
    for turn in 0..many.min(2) {
        run(turn).expect("an op");
    }
    let graph = device.capture(&mut || (0..many).try_for_each(&mut run));
    graph.expect("a capture").expect("this device captures")
}

/// Microseconds of one `run` among many in a graph; `run` gets its number, to alternate inputs.
pub(crate) fn time(
    device: &CudaDevice,
    many: usize,
    run: impl FnMut(usize) -> Result<(), OpError>,
) -> f64 {
    let graph = captured(device, many, run);
    let mut readback = device.readback(16).expect("a readback");
    graph.replay().expect("a replay");
    wait(readback.as_mut());
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(time_replays(graph.as_ref(), readback.as_mut(), REPLAYS));
    }
    best / many as f64
}

/// Microseconds of one replay among many.
pub(crate) fn time_replays(graph: &dyn Graph, readback: &mut dyn Readback, replays: usize) -> f64 {
    let began = Instant::now();
    for _ in 0..replays {
        graph.replay().expect("a replay");
    }
    wait(readback);
    1e6 * began.elapsed().as_secs_f64() / replays as f64
}

/// ‖found − expected‖ / ‖expected‖, infinite when something is not a number.
pub(crate) fn distance(found: &[f32], expected: &[f32]) -> f64 {
    let (mut wrong, mut size) = (0.0, 0.0);
    for (&found, &expected) in found.iter().zip(expected) {
        if !found.is_finite() {
            return f64::INFINITY;
        }
        wrong += (f64::from(found) - f64::from(expected)).powi(2);
        size += f64::from(expected).powi(2);
    }
    (wrong / size.max(1e-30)).sqrt()
}
