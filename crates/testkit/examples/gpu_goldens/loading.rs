//! How fast a large checkpoint comes into device memory, and whether all of it does.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cuda::CudaDevice;
use models::{LoadOptions, Model, Quantisation};
use ops::{Device, DeviceError, StreamError, Weight, WeightRows, WeightStream};
use tensor::DType;
use testkit::detour::{Detour, Detoured};

use crate::files::Shape;

/// Four layers and the tables of Qwen3-8B: four gigabytes.
const LARGE: Shape = Shape {
    layers: 4,
    vocabulary: 151_936,
    dtype: "BF16",
};
/// Numbers that threads have to round on the way.
const FOREIGN: Shape = Shape {
    layers: 2,
    vocabulary: 32_000,
    dtype: "F16",
};
const PIECE: usize = 2 << 20;
const REPEATS: usize = 3;

/// How weights come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In pieces, as they do in a server.
    Pieces,
    /// The same, and a sum over every weight is kept.
    Checked,
    /// Whole, one after the other, from memory that is not pinned.
    Whole,
}

/// The GPU, and what came to it.
struct Watched {
    inner: CudaDevice,
    way: Way,
    sums: RefCell<Vec<u64>>,
}

impl Detour for Watched {
    type Inner = CudaDevice;

    fn inner(&self) -> &CudaDevice {
        &self.inner
    }

    fn weight_stream(&self) -> Result<Option<Box<dyn WeightStream + '_>>, DeviceError> {
        let stream = self.inner.weight_stream()?;
        Ok(match (self.way, stream) {
            (Way::Checked, Some(stream)) => Some(Box::new(Summed {
                stream,
                device: self,
            })),
            (Way::Pieces, stream) => stream,
            _ => None,
        })
    }
}

/// Reads every weight back.
struct Summed<'d> {
    stream: Box<dyn WeightStream + 'd>,
    device: &'d Watched,
}

impl WeightStream for Summed<'_> {
    fn load(&self, rows: &dyn WeightRows) -> Result<Weight, StreamError> {
        let weight = self.stream.load(rows)?;
        let bytes = self.device.inner.read_weight(&weight)?;
        self.device.sums.borrow_mut().push(sum(0, &bytes));
        Ok(weight)
    }
}

/// A number that depends on every byte and its place.
fn sum(before: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    words.fold(before, |sum, word| {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

/// Writes checkpoints to a folder and loads them; true when every weight arrived as it is in the files.
pub(crate) fn run(device: CudaDevice, folder: &Path) -> anyhow::Result<bool> {
    let mut device = Detoured(Watched {
        inner: device,
        way: Way::Checked,
        sums: RefCell::default(),
    });
    let (large, foreign) = (folder.join("large"), folder.join("foreign"));
    let began = Instant::now();
    let bytes = LARGE.write(&large)?;
    let foreign_bytes = FOREIGN.write(&foreign)?;
    tell("written", bytes + foreign_bytes, began);
    let (began, _) = (Instant::now(), load(&device, &large, None)?);
    tell("loaded, products timed, read back", bytes, began);
    let right = check(&device, &large)?;
    tell_floors(&device, &large)?;
    let ways = [
        ("in pieces", Way::Pieces, &large, None, bytes),
        ("whole, as before", Way::Whole, &large, None, bytes),
        (
            "f16 that becomes bf16",
            Way::Pieces,
            &foreign,
            None,
            foreign_bytes,
        ),
        (
            "bf16 rounded to fp8",
            Way::Pieces,
            &large,
            Some(Quantisation::OnlineFloat8),
            bytes,
        ),
    ];
    for (name, way, folder, quantisation, bytes) in ways {
        device.0.way = way;
        // products of new shapes are timed by the first
        for repeat in 0..REPEATS {
            let began = Instant::now();
            let model = load(&device, folder, quantisation.clone())?;
            synchronise(&device)?;
            tell(&format!("{name}, load {}", repeat + 1), bytes, began);
            drop(model);
        }
    }
    std::fs::remove_dir_all(folder)?;
    Ok(right)
}

fn load(
    device: &Detoured<Watched>,
    folder: &Path,
    quantisation: Option<Quantisation>,
) -> anyhow::Result<Model> {
    let opened = models::open(folder)?;
    let mut spec = opened.spec.clone();
    if let Some(quantisation) = quantisation {
        spec.quantisation = quantisation;
    }
    let options = LoadOptions {
        max_positions: 128,
        fold: false,
    };
    let source = opened.checkpoint.weights();
    Ok(models::load(spec, source, device, options, &mut |_, _| ())?)
}

/// Compares what arrived with the files, read in another way.
fn check(device: &Detoured<Watched>, folder: &Path) -> anyhow::Result<bool> {
    let opened = models::open(folder)?;
    let source = opened.checkpoint.weights();
    let weights = LARGE.weights();
    let sums = device.sums.take();
    let mut wrong = usize::from(sums.len() != weights.len());
    for (names, arrived) in weights.iter().zip(&sums) {
        let mut expected = 0;
        for name in names {
            expected = sum(expected, source.bytes(name)?);
        }
        if expected != *arrived {
            println!("{names:?} differ");
            wrong += 1;
        }
    }
    println!("{} weights came, {wrong} differ from the files", sums.len());
    Ok(wrong == 0)
}

/// What the bus and the file cache give by themselves.
fn tell_floors(device: &Detoured<Watched>, folder: &Path) -> anyhow::Result<()> {
    const BUFFER: usize = 64 << 20;
    const COPIES: usize = 64;
    let mut staging = device.staging(BUFFER)?;
    for _ in 0..3 {
        staging.host()?.fill(1);
        staging.send(BUFFER)?;
    }
    synchronise(device)?;
    let began = Instant::now();
    for _ in 0..COPIES {
        staging.send(BUFFER)?;
    }
    synchronise(device)?;
    tell("floor: pinned memory to the GPU", COPIES * BUFFER, began);
    let paths = folder.read_dir()?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    let files: Vec<(File, usize)> = paths
        .iter()
        .map(|path| Ok((File::open(path)?, path.metadata()?.len() as usize)))
        .collect::<std::io::Result<_>>()?;
    let bytes = files.iter().map(|(_, length)| length / PIECE * PIECE).sum();
    for threads in [1, 4, 8, 16] {
        let next = AtomicUsize::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| read_pieces(&files, &next));
            }
        });
        let name = format!("floor: file cache to memory, {threads} threads");
        tell(&name, bytes, began);
    }
    Ok(())
}

fn read_pieces(files: &[(File, usize)], next: &AtomicUsize) {
    let mut piece = vec![0; PIECE];
    loop {
        let mut place = next.fetch_add(1, Ordering::Relaxed);
        let found = files.iter().find(|(_, length)| {
            let pieces = length / PIECE;
            let here = place < pieces;
            if !here {
                place -= pieces;
            }
            here
        });
        let Some((file, _)) = found else {
            return;
        };
        file.read_exact_at(&mut piece, (place * PIECE) as u64)
            .expect("a file that was just written");
    }
}

/// Waits for everything that was enqueued.
fn synchronise(device: &Detoured<Watched>) -> anyhow::Result<()> {
    let mut readback = device.readback(16)?;
    let small = device.allocate(16, "a few bytes")?;
    readback.fetch(small.view(0, 1, 16, DType::U8), 0)?;
    readback.seal()?;
    readback.wait()?;
    Ok(())
}

fn tell(what: &str, bytes: usize, began: Instant) {
    let (seconds, gigabytes) = (began.elapsed().as_secs_f64(), bytes as f64 / 1e9);
    let rate = gigabytes / seconds;
    println!("{what:42} {gigabytes:6.2} GB in {seconds:6.3} s, {rate:6.1} GB/s");
}
