//! Runs steps of several sequences over paged keys and values, as an executor would.

use std::path::Path;
use std::sync::Arc;

use models::{LoadOptions, Model};
use ops::program::{Arena, Input, InputViews, Leaves, Output, Sampled};
use ops::{Device, KvCache, RaggedBatch, Staging, Step, StepClass};
use tensor::{Buffer, DType, View};

/// Small, so that sequences cross many pages.
const PAGE: usize = 4;
const PAGES_A_ROW: usize = 32;

/// A model on a device, with memory for a few sequences.
pub struct Runner<'d> {
    device: &'d dyn Device,
    model: Model,
    keys_and_values: Vec<(Buffer, Buffer)>,
    page_table: Vec<u32>,
    lengths: Vec<usize>,
    staging: Box<dyn Staging>,
    arena: Buffer,
    last: Buffer,
}

/// The arrays of a step, back to back.
#[derive(Default)]
struct Arrays(Vec<u8>);

/// Where one of them lies.
#[derive(Clone, Copy)]
struct Place {
    offset: usize,
    count: usize,
}

impl Arrays {
    fn put(&mut self, values: &[u32]) -> Place {
        let offset = self.0.len().next_multiple_of(64);
        self.0.resize(offset, 0);
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.0.extend(bytes);
        Place {
            offset,
            count: values.len(),
        }
    }
}

impl Place {
    fn view(self, staged: View<'_>) -> View<'_> {
        staged.cast(self.offset, 1, self.count, DType::U32)
    }
}

/// Where the arrays of a step were staged.
struct Staged {
    ids: Place,
    positions: Place,
    slots: Place,
    starts: Place,
    lengths: Place,
    table_rows: Place,
    page_table: Place,
    wanted: Option<Place>,
    max_query: usize,
}

impl<'d> Runner<'d> {
    /// Loads a model, with memory for so many sequences.
    pub fn load(device: &'d dyn Device, path: &Path, rows: usize) -> Self {
        let opened = models::open(path).expect("a readable model");
        let options = LoadOptions {
            max_positions: PAGE * PAGES_A_ROW,
            fold: true,
        };
        let source = opened.checkpoint.weights();
        let model = models::load(opened.spec.clone(), source, device, options, &mut |_, _| {})
            .expect("a loadable model");
        let spec = model.spec();
        let bytes = rows * PAGES_A_ROW * PAGE * spec.heads.kv_width() * device.info().kv.size();
        let memory = |bytes, what| device.allocate(bytes, what).expect("enough memory");
        let cache = || memory(bytes, "keys and values");
        // Pages of all sequences lie scattered among each other, last ones first.
        let page = |row: usize, place: usize| ((PAGES_A_ROW - 1 - place) * rows + row) as u32;
        Self {
            keys_and_values: (0..spec.layers.len()).map(|_| (cache(), cache())).collect(),
            page_table: (0..rows)
                .flat_map(|row| (0..PAGES_A_ROW).map(move |place| page(row, place)))
                .collect(),
            lengths: vec![0; rows],
            staging: device.staging(1 << 16).expect("enough memory"),
            arena: memory(16 << 20, "values"),
            last: memory(4, "last tokens"),
            device,
            model,
        }
    }

    /// Adds tokens to sequences in one step; gives the logits of every added token.
    pub fn step(&mut self, additions: &[(usize, &[u32])]) -> Vec<Vec<f32>> {
        let staged = self.stage(additions, None);
        self.run(&staged)
    }

    /// The same, of the tokens at these places of the step alone.
    pub fn step_for(&mut self, additions: &[(usize, &[u32])], wanted: &[u32]) -> Vec<Vec<f32>> {
        let staged = self.stage(additions, Some(wanted));
        self.run(&staged)
    }

    fn stage(&mut self, additions: &[(usize, &[u32])], wanted: Option<&[u32]>) -> Staged {
        let (mut ids, mut positions, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let (mut starts, mut lengths, mut table_rows) = (vec![0u32], Vec::new(), Vec::new());
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
            table_rows.push(row as u32);
        }
        let mut arrays = Arrays::default();
        let staged = Staged {
            ids: arrays.put(&ids),
            positions: arrays.put(&positions),
            slots: arrays.put(&slots),
            starts: arrays.put(&starts),
            lengths: arrays.put(&lengths),
            table_rows: arrays.put(&table_rows),
            page_table: arrays.put(&self.page_table),
            wanted: wanted.map(|wanted| arrays.put(wanted)),
            max_query: additions.iter().map(|a| a.1.len()).max().unwrap_or(0),
        };
        let bytes = arrays.0;
        let host = self.staging.host().expect("memory that can be written");
        host[..bytes.len()].copy_from_slice(&bytes);
        self.staging.send(bytes.len()).expect("a device that reads");
        staged
    }

    fn run(&mut self, staged: &Staged) -> Vec<Vec<f32>> {
        let (inputs, rows) = (self.staging.device(), self.lengths.len());
        let (spec, info) = (self.model.spec(), self.device.info());
        let (slots, width) = (rows * PAGES_A_ROW * PAGE, spec.heads.kv_width());
        let caches = self.keys_and_values.iter_mut().map(|(keys, values)| {
            KvCache::new(
                keys.view_mut(0, slots, width, info.kv),
                values.view_mut(0, slots, width, info.kv),
            )
        });
        let caches: Vec<KvCache<'_>> = caches.collect();
        let tokens = staged.ids.count;
        let sampled = staged.wanted.unwrap_or(staged.ids).count;
        let class = StepClass {
            tokens,
            is_exact: true,
            sampled: match (staged.wanted, sampled) {
                (None, _) => Sampled::All,
                (Some(_), 0) => Sampled::None,
                (Some(_), sampled) => Sampled::Some(sampled),
            },
            leaves: Leaves::Logits,
            hidden: false,
        };
        let program = self.model.program().for_class(&class);
        program.verify().expect("a program that can run");
        let list = self.device.lower(Arc::new(program), &class);
        let mut given = InputViews::default()
            .with(Input::StagedTokens, staged.ids.view(inputs))
            .with(Input::LastTokens, self.last.view(0, 1, 1, DType::U32))
            .with(Input::Positions, staged.positions.view(inputs))
            .with(Input::Slots, staged.slots.view(inputs));
        if let Some(wanted) = staged.wanted {
            given = given.with(Input::SampledPlaces, wanted.view(inputs));
        }
        let bytes = self.arena.bytes();
        let arena = Arena::new(self.arena.view_mut(0, 1, bytes, DType::U8));
        let step = Step {
            arena,
            tokens,
            sampled,
            inputs: given,
            batch: Some(RaggedBatch {
                starts: staged.starts.view(inputs),
                lengths: staged.lengths.view(inputs),
                table_rows: staged.table_rows.view(inputs),
                page_table: inputs.cast(staged.page_table.offset, rows, PAGES_A_ROW, DType::U32),
                page_size: PAGE,
                max_query: staged.max_query,
            }),
            caches: &caches,
            drawing: None,
        };
        let ran = self.device.run(&list, self.model.weights(), &step);
        ran.expect("a step that fits");
        let logits = list.output(Output::Logits, arena, (tokens, sampled));
        logits.map_or_else(Vec::new, |logits| fetch(self.device, logits.view()))
    }
}

/// Rows of numbers from the device.
fn fetch(device: &dyn Device, from: View<'_>) -> Vec<Vec<f32>> {
    let bytes = 4 * from.rows() * from.cols();
    let mut readback = device.readback(bytes).expect("enough memory");
    readback.fetch(from, 0).expect("a device that runs");
    readback.seal().expect("a device that runs");
    let (words, _) = readback.wait().expect("a device that runs")[..bytes].as_chunks();
    let numbers: Vec<f32> = words.iter().map(|four| f32::from_le_bytes(*four)).collect();
    numbers.chunks(from.cols()).map(<[f32]>::to_vec).collect()
}
