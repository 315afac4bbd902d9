//! Every kernel of attention, of sampling and what is around it, and of our GEMMs once, on shapes small enough for
//! a tool that watches every access.

use cuda::CudaDevice;
use ops::{
    CopyPages, CountTokens, Device as _, Draw, EditLogits, GatherRows, Heads, LogProbs, OpError,
    Penalise, ResolveTokens, Sample, SampleParams, TopLogProbs, UpdatePages,
};
use tensor::DType;

use crate::attention::{Case, Scene};
use crate::bench::{Matrix, linear, normals, sync, takes_heads, weight};
use crate::{argmax, bf12, decode, float8, layers, narrow, small};

/// More than one segment of a row, and rows that do not begin at multiples of four.
const VOCABULARY: usize = 13_003;

pub(crate) fn run(device: &CudaDevice) -> bool {
    attention(device);
    let heads = |query, kv, dim| Heads { query, kv, dim };
    let well = decode::agrees(device, heads(8, 2, 128), &[200, 1, 33], DType::BF16)
        && decode::agrees(device, heads(8, 2, 128), &[200, 1, 33], DType::F8E4M3)
        && decode::agrees(device, heads(8, 2, 128), &[200, 1], DType::F8E4M3)
        && narrow::agrees(device, heads(4, 1, 128), &[(130, 1), (33, 1)])
        && narrow::agrees(device, heads(4, 1, 64), &[(40, 1)])
        && narrow::agrees(device, heads(4, 1, 128), &[(200, 150), (33, 1), (40, 40)])
        && narrow::agrees(device, heads(2, 1, 64), &[(70, 70), (20, 1)]);
    tables(device).expect("tables");
    edits(device).expect("edited logits");
    for temperature in [0.0, 0.8] {
        for (top_k, top_p, min_p) in [
            (u32::MAX, 1.0, 0.0),
            (50, 0.95, 0.0),
            (u32::MAX, 0.999, 0.0),
            (u32::MAX, 1.0, 0.1),
            (50, 0.95, 1e-4),
        ] {
            let params = SampleParams {
                seed: 5,
                temperature,
                top_p,
                min_p,
                top_k,
                ..SampleParams::GREEDY
            };
            sample(device, &params).expect("sampling");
        }
    }
    log_probs(device).expect("log-probabilities");
    gemms(device).expect("GEMMs");
    let well =
        layers::replays_small(device) && bf12::small(device) && argmax::small(device) && well;
    sync(device);
    well
}

/// The same of GEMMs with eight-bit floats: autotuning them takes such a tool long.
pub(crate) fn narrow_gemms(device: &CudaDevice) -> bool {
    float8::agrees(device, (192, 384), [128, 128], &[3]) && layers::narrow_small(device)
}

/// The same of bf12 weights.
pub(crate) fn bf12_gemms(device: &CudaDevice) -> bool {
    bf12::turning(device) && layers::bf12_small(device)
}

fn attention(device: &CudaDevice) {
    let heads = |query, kv, dim| Heads { query, kv, dim };
    let scenes: [Case; 5] = [
        (heads(4, 1, 128), 64, &[(200, 150), (140, 1), (40, 40)]),
        (heads(12, 1, 128), 16, &[(300, 1), (10, 1)]),
        (heads(2, 1, 64), 16, &[(100, 100), (70, 1)]),
        (heads(2, 1, 256), 16, &[(100, 100), (70, 1)]),
        // Pages so long that three rows might not fit where narrow ones are widened.
        (heads(2, 1, 64), 1 << 20, &[(100, 100), (70, 1), (30, 9)]),
    ];
    for kv in [DType::BF16, DType::F8E4M3] {
        for scene in scenes {
            attend(device, scene, kv);
        }
    }
}

fn attend(device: &CudaDevice, (heads, page_size, sequences): Case, kv: DType) {
    if !takes_heads(device, heads) {
        return;
    }
    let mut scene = Scene::of(device, heads, page_size, sequences, (1, kv));
    let width = heads.query_width();
    let query = Matrix::random(device, scene.tokens, width, 77);
    // An odd place in memory goes to the kernel that takes any.
    for margin in [0, 1] {
        let mut out = Matrix::new(device, scene.tokens, width + margin, DType::BF16);
        let out = out.view_mut().columns(0..width);
        scene
            .attend(device, 0, query.view(), out)
            .expect("attention");
    }
}

/// What a step is given: tokens, some of them the last ones of rows, pages of sequences, and pages that are copied.
fn tables(device: &CudaDevice) -> Result<(), OpError> {
    let kernels = device.kernels();
    let staged = Matrix::ints(device, &[7, ResolveTokens::LAST + 1, ResolveTokens::LAST]);
    let last = Matrix::ints(device, &[3, 4]);
    let mut out = Matrix::new(device, 1, 3, DType::U32);
    kernels.resolve_tokens(ResolveTokens {
        staged: staged.view(),
        last: last.view(),
        out: out.view_mut(),
    })?;
    let [rows, columns, pages] =
        [[0, 1, 1], [2, 0, 6], [9, 8, 7]].map(|values| Matrix::ints(device, &values));
    let mut table = Matrix::new(device, 2, 7, DType::U32);
    kernels.update_pages(UpdatePages {
        rows: rows.view(),
        columns: columns.view(),
        pages: pages.view(),
        table: table.view_mut(),
    })?;
    let [from, to, tokens] =
        [[16, 0], [32, 80], [15, 16]].map(|values| Matrix::ints(device, &values));
    // Pieces of sixteen bytes, and rows that are not made of them.
    for width in [256, 5] {
        let mut memory = Matrix::new(device, 3 * 96, width, DType::BF16);
        kernels.copy_pages(CopyPages {
            from: from.view(),
            to: to.view(),
            tokens: tokens.view(),
            planes: 3,
            memory: memory.view_mut(),
        })?;
    }
    Ok(())
}

/// Counts of tokens, the same one several times in one call, and what penalties and single additions make of logits.
fn edits(device: &CudaDevice) -> Result<(), OpError> {
    let (kernels, rows) = (device.kernels(), 3);
    let mut counts = Matrix::new(device, rows, VOCABULARY, DType::U16);
    let clear = Matrix::ints(device, &[1]);
    let counted: Vec<u32> = (0..300).map(|i| i % 3).collect();
    let tokens: Vec<u32> = (0..300).map(|i| VOCABULARY as u32 - 1 - i % 4).collect();
    let (counted, tokens) = (
        Matrix::ints(device, &counted),
        Matrix::ints(device, &tokens),
    );
    kernels.count_tokens(CountTokens {
        clear: clear.view(),
        rows: counted.view(),
        tokens: tokens.view(),
        counts: counts.view_mut(),
    })?;
    let logits = normals(rows * VOCABULARY, 3);
    let mut logits = Matrix::floats(device, rows, VOCABULARY, DType::F32, &logits);
    let penalised = SampleParams {
        frequency: 0.5,
        presence: 0.25,
        repetition: 1.2,
        ..SampleParams::GREEDY
    };
    let each = [penalised, SampleParams::GREEDY, penalised];
    let bytes: Vec<u8> = each.iter().flat_map(small::bytes_of).collect();
    let params = Matrix::of_bytes(device, rows, SampleParams::BYTES, DType::U8, &bytes);
    let table_rows = Matrix::ints(device, &[2, 0, 1]);
    kernels.penalise(Penalise {
        counts: counts.view(),
        table_rows: table_rows.view(),
        params: params.view(),
        logits: logits.view_mut(),
    })?;
    let places = Matrix::ints(device, &[0, 2, 2]);
    let edited = Matrix::ints(device, &[0, VOCABULARY as u32 - 1, VOCABULARY as u32 - 1]);
    let values = Matrix::floats(device, 1, 3, DType::F32, &[1.0, -2.0, f32::NEG_INFINITY]);
    kernels.edit_logits(EditLogits {
        rows: places.view(),
        tokens: edited.view(),
        values: values.view(),
        logits: logits.view_mut(),
    })
}

fn sample(device: &CudaDevice, params: &SampleParams) -> Result<(), OpError> {
    let rows = 2;
    let logits = normals(rows * VOCABULARY, 3);
    let logits = Matrix::floats(device, rows, VOCABULARY, DType::F32, &logits);
    let bytes: Vec<u8> = (0..rows).flat_map(|_| small::bytes_of(params)).collect();
    let params = Matrix::of_bytes(device, rows, SampleParams::BYTES, DType::U8, &bytes);
    let numbers = Matrix::ints(device, &[0, 1]);
    let mut out = Matrix::new(device, 1, rows, DType::U32);
    let mut last = Matrix::new(device, 1, rows, DType::U32);
    device.kernels().sample(Sample {
        logits: logits.view(),
        draw: Draw {
            params: params.view(),
            positions: numbers.view(),
            table_rows: numbers.view(),
            out: out.view_mut(),
            last: last.view_mut(),
        },
    })
}

fn log_probs(device: &CudaDevice) -> Result<(), OpError> {
    let rows = 2;
    let logits = normals(rows * VOCABULARY, 3);
    let logits = Matrix::floats(device, rows, VOCABULARY, DType::F32, &logits);
    let temperatures = Matrix::floats(device, 1, rows, DType::F32, &[1.0, 0.5]);
    let targets = Matrix::int_matrix(device, rows, 1, &[9, 13_000]);
    let mut log_probs = Matrix::new(device, rows, 1, DType::F32);
    let mut tokens = Matrix::new(device, rows, 5, DType::U32);
    let mut tops = Matrix::new(device, rows, 5, DType::F32);
    device.kernels().log_probs(LogProbs {
        logits: logits.view(),
        targets: targets.view(),
        temperatures: temperatures.view(),
        log_probs: log_probs.view_mut(),
        top: Some(TopLogProbs {
            tokens: tokens.view_mut(),
            log_probs: tops.view_mut(),
        }),
    })
}

/// Rows gathered, then multiplied by our own candidate.
fn gemms(device: &CudaDevice) -> Result<(), OpError> {
    let (inputs, outputs, rows) = (512, 192, 3);
    let weight = weight(device, outputs, inputs, 1);
    let source = Matrix::random(device, 8, inputs, 2);
    let mut x = Matrix::new(device, rows, inputs, DType::BF16);
    let mut out = Matrix::new(device, rows, outputs, DType::BF16);
    let indices = Matrix::ints(device, &[7, 0, 3]);
    device.kernels().gather_rows(GatherRows {
        x: source.view(),
        indices: indices.view(),
        out: x.view_mut(),
    })?;
    linear(device, x.view(), &weight, out.view_mut())
}
