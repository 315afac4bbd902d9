//! Tiny models on the GPU against what the reference library computed for them: logits within what bf16 allows, and
//! greedy tokens wherever the reference is sure. Or a large checkpoint that nobody trained, to see how it is loaded.
//!
//! `gpu_goldens FOLDER [--libraries FOLDER]…`; the folder is `crates/models/tests/goldens` or a copy of it.
//! `gpu_goldens --loading FOLDER [--libraries FOLDER]…`; the folder is made, filled with five gigabytes and removed.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

mod files;
mod loading;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{Encoding, WeightSource as _, widen};
use cuda::{CudaDevice, CudaOptions};
use models::{LoadOptions, Model, Step};
use ops::{Device as _, KvCache, RaggedBatch, Staging};
use tensor::{Buffer, DType, Scratch, View};

const PAGE: usize = 4;
const PAGES_A_ROW: usize = 32;
const ROWS: usize = 2;
/// Relative distance of logits that sums of bf16 may have; the mean over positions counts.
const MEAN: f64 = 0.02;
/// A token is judged when the reference prefers it by this share of the logits' size.
const SURE: f32 = 0.1;

/// One tiny model and its results.
struct Golden {
    name: String,
    model: PathBuf,
    tokens: Vec<u32>,
    prompt_length: usize,
    logits: Vec<Vec<f32>>,
}

impl Golden {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let file = SafetensorsSource::open(&folder.join("golden.safetensors"))?;
        let integers = |name: &str| -> anyhow::Result<Vec<u32>> {
            let words = file.bytes(name)?.chunks_exact(4);
            Ok(words
                .map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
                .collect())
        };
        let logits = file.find("logits").expect("goldens have logits");
        let mut numbers = vec![0.0; logits.elements()];
        widen(
            Encoding::Plain(DType::F32),
            file.bytes("logits")?,
            &mut numbers,
        )?;
        let gguf = folder.join("model.gguf");
        Ok(Self {
            name: folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            model: if gguf.exists() {
                gguf
            } else {
                folder.to_owned()
            },
            tokens: integers("tokens")?,
            prompt_length: integers("prompt_length")?[0] as usize,
            logits: numbers
                .chunks(logits.shape[1])
                .map(<[f32]>::to_vec)
                .collect(),
        })
    }
}

/// A model on the GPU with memory for a few sequences.
struct Runner<'d> {
    device: &'d CudaDevice,
    model: Box<dyn Model>,
    caches: Vec<(Buffer, Buffer)>,
    page_table: Vec<u32>,
    lengths: Vec<usize>,
    staging: Box<dyn Staging>,
    scratch: Scratch,
}

/// Arrays of one step, back to back in staging.
#[derive(Default)]
struct Arrays(Vec<u32>);

impl Arrays {
    fn put(&mut self, values: &[u32]) -> (usize, usize) {
        // Views begin at multiples of sixteen bytes.
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        let place = (4 * self.0.len(), values.len());
        self.0.extend_from_slice(values);
        place
    }
}

impl<'d> Runner<'d> {
    fn load(device: &'d CudaDevice, path: &Path) -> anyhow::Result<Self> {
        let opened = models::open(path)?;
        let options = LoadOptions {
            max_positions: PAGE * PAGES_A_ROW,
        };
        let source = opened.checkpoint.weights();
        let model = models::load(opened.spec.clone(), source, device, options, &mut |_, _| {})?;
        let spec = model.spec();
        let bytes = ROWS * PAGES_A_ROW * PAGE * spec.heads.kv_width() * device.info().kv.size();
        let memory = || device.allocate(bytes, "keys and values");
        let caches = (0..spec.layers)
            .map(|_| Ok((memory()?, memory()?)))
            .collect::<anyhow::Result<_>>()?;
        let page = |row: usize, place: usize| ((PAGES_A_ROW - 1 - place) * ROWS + row) as u32;
        Ok(Self {
            page_table: (0..ROWS)
                .flat_map(|row| (0..PAGES_A_ROW).map(move |place| page(row, place)))
                .collect(),
            lengths: vec![0; ROWS],
            staging: device.staging(1 << 16)?,
            scratch: Scratch::new(device.allocate(64 << 20, "scratch")?),
            device,
            model,
            caches,
        })
    }

    /// Adds tokens to sequences in one step; gives the logits of every added token.
    fn step(&mut self, additions: &[(usize, &[u32])]) -> anyhow::Result<Vec<Vec<f32>>> {
        let (mut ids, mut positions, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut starts, mut lengths, mut rows) = (vec![0u32], Vec::new(), Vec::new());
        for &(row, tokens) in additions {
            for &token in tokens {
                let position = self.lengths[row];
                let page = self.page_table[row * PAGES_A_ROW + position / PAGE] as usize;
                ids.push(token);
                positions.push(position as u32);
                slots.push((page * PAGE + position % PAGE) as u32);
                self.lengths[row] += 1;
            }
            starts.push(ids.len() as u32);
            lengths.push(self.lengths[row] as u32);
            rows.push(row as u32);
        }
        let mut arrays = Arrays::default();
        let places = [
            &ids,
            &positions,
            &slots,
            &starts,
            &lengths,
            &rows,
            &self.page_table,
        ];
        let places = places.map(|values| arrays.put(values));
        let bytes: Vec<u8> = arrays
            .0
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        self.staging.host()?[..bytes.len()].copy_from_slice(&bytes);
        self.staging.send(bytes.len())?;
        self.forward(
            &places,
            additions.iter().map(|a| a.1.len()).max().unwrap_or(0),
        )
    }

    fn forward(
        &mut self,
        places: &[(usize, usize); 7],
        max_query: usize,
    ) -> anyhow::Result<Vec<Vec<f32>>> {
        let staged = self.staging.device();
        let row = |index: usize| -> View<'_> {
            staged.cast(places[index].0, 1, places[index].1, DType::U32)
        };
        let (spec, info) = (self.model.spec(), self.device.info());
        let (cache_rows, width) = (ROWS * PAGES_A_ROW * PAGE, spec.heads.kv_width());
        let caches: Vec<KvCache<'_>> = self
            .caches
            .iter_mut()
            .map(|(keys, values)| {
                KvCache::new(
                    keys.view_mut(0, cache_rows, width, info.kv),
                    values.view_mut(0, cache_rows, width, info.kv),
                )
            })
            .collect();
        let step = Step {
            kernels: self.device.kernels(),
            scratch: &self.scratch,
            dtype: info.activation,
            ids: row(0),
            positions: row(1),
            slots: row(2),
            batch: RaggedBatch {
                starts: row(3),
                lengths: row(4),
                table_rows: row(5),
                page_table: staged.cast(places[6].0, ROWS, PAGES_A_ROW, DType::U32),
                page_size: PAGE,
                max_query,
            },
            kv: &caches,
        };
        let tokens = places[0].1;
        let scope = self.scratch.scope();
        let mut hidden = scope.matrix(tokens, spec.hidden, info.activation);
        let mut logits = scope.matrix(tokens, spec.vocabulary, DType::F32);
        self.model.forward(&step, hidden.reborrow())?;
        self.model.head(
            step.kernels,
            &self.scratch,
            hidden.view(),
            logits.reborrow(),
        )?;
        let mut readback = self.device.readback(4 * tokens * spec.vocabulary)?;
        readback.fetch(logits.view(), 0)?;
        readback.seal()?;
        let numbers: Vec<f32> = readback.wait()?[..4 * tokens * spec.vocabulary]
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        Ok(numbers
            .chunks(spec.vocabulary)
            .map(<[f32]>::to_vec)
            .collect())
    }
}

/// What was found for one model.
struct Verdict {
    mean: f64,
    worst: f64,
    judged: usize,
    wrong: usize,
}

fn check(device: &CudaDevice, golden: &Golden) -> anyhow::Result<Verdict> {
    let mut runner = Runner::load(device, &golden.model)?;
    let (prompt, chosen) = golden.tokens.split_at(golden.prompt_length);
    let (first, rest) = prompt.split_at(prompt.len() / 3);
    let mut logits = runner.step(&[(1, first)])?;
    // The other sequence is a witness: it must disturb nothing.
    let mixed = runner.step(&[(0, rest), (1, rest)])?;
    logits.extend_from_slice(&mixed[rest.len()..]);
    for token in chosen {
        logits.extend(runner.step(&[(1, &[*token])])?);
    }
    let mut verdict = Verdict {
        mean: 0.0,
        worst: 0.0,
        judged: 0,
        wrong: 0,
    };
    for (found, expected) in logits.iter().zip(&golden.logits) {
        let distance = distance(found, expected);
        verdict.mean += distance / golden.logits.len() as f64;
        verdict.worst = verdict.worst.max(distance);
        let (token, lead) = best(expected);
        let size = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
        if lead > SURE * size {
            verdict.judged += 1;
            verdict.wrong += usize::from(best(found).0 != token);
        }
    }
    Ok(verdict)
}

fn distance(found: &[f32], expected: &[f32]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let pairs = found.iter().zip(expected);
    let error = squares(&mut pairs.map(|(&f, &e)| f64::from(f) - f64::from(e)));
    let distance = (error / squares(&mut expected.iter().map(|&e| f64::from(e)))).sqrt();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}

/// The token with the largest logit, and by how much it leads.
fn best(logits: &[f32]) -> (usize, f32) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0], logits[order[0]] - logits[order[1]])
}

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let mut folder = None;
    let mut library_folders = Vec::new();
    let mut loading = false;
    while let Some(word) = words.next() {
        if word == "--libraries" {
            library_folders.extend(words.next().map(PathBuf::from));
        } else if word == "--loading" {
            loading = true;
        } else {
            folder = Some(PathBuf::from(word));
        }
    }
    let Some(folder) = folder else {
        anyhow::bail!("usage: gpu_goldens [--loading] FOLDER [--libraries FOLDER]…")
    };
    let options = CudaOptions {
        library_folders,
        max_step_tokens: 64,
        ..CudaOptions::default()
    };
    let device = match cuda::open(&options) {
        Ok(device) => device,
        Err(absent) => {
            eprintln!("skipped: {absent}");
            return Ok(ExitCode::from(3));
        }
    };
    let well = if loading {
        loading::run(device, &folder)?
    } else {
        compare(&device, &folder)?
    };
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Checks all models of a folder; true when all is well.
fn compare(device: &CudaDevice, folder: &Path) -> anyhow::Result<bool> {
    let mut folders: Vec<PathBuf> = folder
        .read_dir()?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    folders.sort();
    let mut well = true;
    for folder in folders {
        let golden = Golden::read(&folder)?;
        let Verdict {
            mean,
            worst,
            judged,
            wrong,
        } = check(device, &golden)?;
        let passed = mean < MEAN && wrong == 0;
        let word = if passed { "passed" } else { "FAILED" };
        let positions = golden.logits.len();
        println!(
            "{:24} {word}: logits off by {mean:.1e} on average, {worst:.1e} at most; {wrong} of {judged} sure tokens differ ({positions} positions)",
            golden.name
        );
        well &= passed;
    }
    Ok(well)
}
