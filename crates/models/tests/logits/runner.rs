//! Runs steps of several sequences over paged keys and values, as an executor would.

use models::{LoadOptions, Model, Step};
use ops::{Device, KvCache, RaggedBatch};
use tensor::{Buffer, DType, Scratch, View};

/// Small, so that sequences cross many pages.
const PAGE: usize = 4;
const PAGES_A_ROW: usize = 32;

/// A model on a device, with memory for a few sequences.
pub(crate) struct Runner {
    device: Box<dyn Device>,
    model: Box<dyn Model>,
    keys_and_values: Vec<(Buffer, Buffer)>,
    page_table: Vec<u32>,
    lengths: Vec<usize>,
}

impl Runner {
    pub(crate) fn load(path: &std::path::Path, device: Box<dyn Device>, rows: usize) -> Self {
        let opened = models::open(path).expect("a readable model");
        let options = LoadOptions {
            max_positions: PAGE * PAGES_A_ROW,
        };
        let source = opened.checkpoint.weights();
        let model = models::load(
            opened.spec.clone(),
            source,
            device.as_ref(),
            options,
            &mut |_, _| {},
        );
        Self::new(device, model.expect("a loadable model"), rows)
    }

    fn new(device: Box<dyn Device>, model: Box<dyn Model>, rows: usize) -> Self {
        let spec = model.spec();
        let pages = rows * PAGES_A_ROW;
        let bytes = pages * PAGE * spec.heads.kv_width() * device.info().kv.size();
        let memory = || {
            device
                .allocate(bytes, "keys and values")
                .expect("enough memory")
        };
        let keys_and_values = (0..spec.layers).map(|_| (memory(), memory())).collect();
        // Pages of all sequences lie scattered among each other, last ones first.
        let page = |row: usize, place: usize| ((PAGES_A_ROW - 1 - place) * rows + row) as u32;
        let page_table =
            (0..rows).flat_map(|row| (0..PAGES_A_ROW).map(move |place| page(row, place)));
        let page_table = page_table.collect();
        Self {
            device,
            model,
            keys_and_values,
            page_table,
            lengths: vec![0; rows],
        }
    }

    /// Adds tokens to sequences in one step; gives the logits of every added token.
    pub(crate) fn step(&mut self, additions: &[(usize, &[u32])]) -> Vec<Vec<f32>> {
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
        let spec = self.model.spec();
        let kv_shape = (
            self.lengths.len() * PAGES_A_ROW * PAGE,
            spec.heads.kv_width(),
        );
        let kv_dtype = self.device.info().kv;
        let caches: Vec<KvCache<'_>> = self
            .keys_and_values
            .iter_mut()
            .map(|(keys, values)| {
                KvCache::new(
                    keys.view_mut(0, kv_shape.0, kv_shape.1, kv_dtype),
                    values.view_mut(0, kv_shape.0, kv_shape.1, kv_dtype),
                )
            })
            .collect();
        let batch = RaggedBatch {
            starts: View::of(&starts),
            lengths: View::of(&lengths),
            table_rows: View::of(&table_rows),
            page_table: View::of_matrix(&self.page_table, self.lengths.len(), PAGES_A_ROW),
            page_size: PAGE,
            max_query: additions
                .iter()
                .map(|(_, tokens)| tokens.len())
                .max()
                .unwrap_or(0),
        };
        let scratch = Scratch::new(Buffer::host(16 << 20));
        let dtype = self.device.info().activation;
        let step = Step {
            kernels: self.device.kernels(),
            scratch: &scratch,
            dtype,
            ids: View::of(&ids),
            positions: View::of(&positions),
            slots: View::of(&slots),
            batch,
            kv: &caches,
        };
        let scope = scratch.scope();
        let mut hidden = scope.matrix(ids.len(), spec.hidden, dtype);
        let mut logits = scope.matrix(ids.len(), spec.vocabulary, DType::F32);
        self.model
            .forward(&step, hidden.reborrow())
            .expect("a step that fits");
        self.model
            .head(step.kernels, &scratch, hidden.view(), logits.reborrow())
            .expect("rows that fit");
        (0..ids.len())
            .map(|row| logits.row::<f32>(row).to_vec())
            .collect()
    }
}
