use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use super::MANY_ROWS;
use crate::{Draw, EditLogits, LogProbs, Penalise, Sample, SampleParams, TopLogProbs};

const VOCABULARIES: [usize; 4] = [1, 17, 1000, 49_152];

/// Rows of logits of different character: spread, flat, tied, sharp, mostly forbidden.
fn logits(bench: &mut Bench<'_>, rows: usize, vocabulary: usize) -> Twin {
    let mut values = bench.normals(rows * vocabulary);
    for (row, values) in values.chunks_exact_mut(vocabulary).enumerate() {
        for (token, value) in values.iter_mut().enumerate() {
            *value = match row % 6 {
                0 => *value * 4.0,
                1 => *value * 0.01,
                2 => (*value * 2.0).round(),
                3 => *value * 30.0,
                4 if token % 5 != 0 => f32::NEG_INFINITY,
                4 => *value,
                _ => 0.0,
            };
        }
    }
    bench.floats(rows, vocabulary, DType::F32, &values)
}

pub(super) fn params(bench: &mut Bench<'_>, params: &[SampleParams]) -> Twin {
    let bytes = bytemuck::cast_slice(params);
    bench.bytes(params.len(), SampleParams::BYTES, DType::U8, bytes)
}

pub(super) fn edit_logits(bench: &mut Bench<'_>) {
    for count in [0, 1, 9] {
        let mut logits = logits(bench, 3, 100);
        let rows: Vec<u32> = (0..count).map(|i| i % 3).collect();
        let tokens: Vec<u32> = (0..count).map(|i| i * 11).collect();
        let mut values = bench.normals(count as usize);
        if let Some(value) = values.last_mut() {
            *value = f32::NEG_INFINITY;
        }
        let (rows, tokens) = (bench.ints(&rows), bench.ints(&tokens));
        let values = bench.floats(1, values.len(), DType::F32, &values);
        EditLogits {
            rows: rows.host(),
            tokens: tokens.host(),
            values: values.host(),
            logits: logits.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().edit_logits(EditLogits {
            rows: rows.device(),
            tokens: tokens.device(),
            values: values.device(),
            logits: logits.device_mut(),
        });
        bench.compare(
            "edit_logits",
            &format!("{count} places"),
            Kind::Exact,
            &ran,
            &logits,
        );
    }
}

pub(super) fn penalise(bench: &mut Bench<'_>) {
    let few = VOCABULARIES.map(|vocabulary| (4, vocabulary));
    for (rows, vocabulary) in few.into_iter().chain([(MANY_ROWS, 2)]) {
        let penalty = |frequency, presence, repetition| SampleParams {
            frequency,
            presence,
            repetition,
            ..SampleParams::GREEDY
        };
        let each = [
            SampleParams::GREEDY,
            penalty(0.5, 0.0, 1.0),
            penalty(0.0, -1.0, 1.0),
            penalty(0.3, 0.2, 1.3),
        ];
        let each: Vec<_> = each.into_iter().cycle().take(rows).collect();
        let mut logits = logits(bench, rows, vocabulary);
        let params = params(bench, &each);
        let counts: Vec<u8> = (0..5 * vocabulary)
            .flat_map(|i| (if i % 7 == 3 { (i % 5) as u16 } else { 0 }).to_le_bytes())
            .collect();
        let counts = bench.bytes(5, vocabulary, DType::U16, &counts);
        let table_rows: Vec<u32> = [4, 0, 2, 1].into_iter().cycle().take(rows).collect();
        let table_rows = bench.ints(&table_rows);
        Penalise {
            counts: counts.host(),
            table_rows: table_rows.host(),
            params: params.host(),
            logits: logits.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().penalise(Penalise {
            counts: counts.device(),
            table_rows: table_rows.device(),
            params: params.device(),
            logits: logits.device_mut(),
        });
        let kind = Kind::Float(DType::F32);
        bench.compare(
            "penalise",
            &format!("{rows} rows, vocabulary {vocabulary}"),
            kind,
            &ran,
            &logits,
        );
    }
}

/// Every filter alone, and all of them.
fn ways(seed: u64) -> Vec<SampleParams> {
    let drawn = SampleParams {
        seed,
        temperature: 1.0,
        ..SampleParams::GREEDY
    };
    let mut ways = vec![SampleParams::GREEDY, drawn];
    ways.extend([0.3, 1.7].map(|temperature| SampleParams {
        temperature,
        ..drawn
    }));
    ways.extend([1, 2, 40, 5000].map(|top_k| SampleParams { top_k, ..drawn }));
    ways.extend([0.0, 0.1, 0.9, 0.999].map(|top_p| SampleParams { top_p, ..drawn }));
    ways.extend([0.05, 0.5, 1.0].map(|min_p| SampleParams { min_p, ..drawn }));
    ways.push(SampleParams {
        temperature: 0.8,
        top_k: 50,
        top_p: 0.95,
        min_p: 0.02,
        ..drawn
    });
    ways
}

pub(super) fn sample(bench: &mut Bench<'_>) {
    for vocabulary in VOCABULARIES {
        for seed in [0, 7, u64::MAX] {
            let ways = ways(seed);
            // Every way meets every character of logits.
            let all: Vec<SampleParams> = ways.iter().flat_map(|way| [*way; 6]).collect();
            // The reference sorts: few rows of a large vocabulary must do.
            let all: Vec<SampleParams> = match vocabulary {
                0..2000 => all,
                _ if seed == 7 => all.into_iter().step_by(7).collect(),
                _ => continue,
            };
            let rows = all.len();
            let logits = logits(bench, rows, vocabulary);
            let params = params(bench, &all);
            let positions: Vec<u32> = (0..rows as u32).map(|row| row * 3).collect();
            let positions = bench.ints(&positions);
            let table_rows: Vec<u32> = (0..rows as u32).rev().collect();
            let table_rows = bench.ints(&table_rows);
            let mut out = bench.typed_output(1, rows, DType::U32);
            let mut last = bench.typed_output(1, rows + 2, DType::U32);
            Sample {
                logits: logits.host(),
                draw: Draw {
                    params: params.host(),
                    positions: positions.host(),
                    table_rows: table_rows.host(),
                    out: out.host_mut(),
                    last: last.host_mut(),
                },
            }
            .reference();
            let ran = bench.device.kernels().sample(Sample {
                logits: logits.device(),
                draw: Draw {
                    params: params.device(),
                    positions: positions.device(),
                    table_rows: table_rows.device(),
                    out: out.device_mut(),
                    last: last.device_mut(),
                },
            });
            let case = format!("vocabulary {vocabulary}, seed {seed}");
            bench.compare("sample", &case, Kind::Exact, &ran, &out);
            bench.compare("sample", &format!("{case} last"), Kind::Exact, &ran, &last);
        }
    }
    not_numbers(bench);
}

/// Rows without a largest number draw token 0 when greedy.
fn not_numbers(bench: &mut Bench<'_>) {
    for value in [f32::NAN, f32::NEG_INFINITY] {
        let logits = bench.floats(2, 33, DType::F32, &[value; 66]);
        let params = params(bench, &[SampleParams::GREEDY; 2]);
        let rows = bench.ints(&[0, 1]);
        let mut out = bench.typed_output(1, 2, DType::U32);
        let mut last = bench.typed_output(1, 2, DType::U32);
        Sample {
            logits: logits.host(),
            draw: Draw {
                params: params.host(),
                positions: rows.host(),
                table_rows: rows.host(),
                out: out.host_mut(),
                last: last.host_mut(),
            },
        }
        .reference();
        let ran = bench.device.kernels().sample(Sample {
            logits: logits.device(),
            draw: Draw {
                params: params.device(),
                positions: rows.device(),
                table_rows: rows.device(),
                out: out.device_mut(),
                last: last.device_mut(),
            },
        });
        bench.compare("sample", &format!("all {value}"), Kind::Exact, &ran, &out);
    }
}

pub(super) fn log_probs(bench: &mut Bench<'_>) {
    for vocabulary in VOCABULARIES {
        for k in [0, 1, 5, 20] {
            // The reference sorts: one list of a large vocabulary must do.
            if k > vocabulary || (vocabulary > 2000 && k != 5) {
                continue;
            }
            let rows = 6;
            let logits = logits(bench, rows, vocabulary);
            let asked = 1 + k % 3;
            let targets: Vec<u32> = (0..rows * asked)
                .map(|_| bench.below(vocabulary) as u32)
                .collect();
            let targets = bench.int_matrix(rows, asked, &targets);
            let temperatures = [0.0, 1.0, 0.7, 2.0, 1.0, 0.5];
            let temperatures = bench.floats(1, rows, DType::F32, &temperatures);
            let mut out = bench.typed_output(rows, asked, DType::F32);
            let mut tokens = bench.typed_output(rows, k, DType::U32);
            let mut tops = bench.typed_output(rows, k, DType::F32);
            LogProbs {
                logits: logits.host(),
                targets: targets.host(),
                temperatures: temperatures.host(),
                log_probs: out.host_mut(),
                top: (k > 0).then(|| TopLogProbs {
                    tokens: tokens.host_mut(),
                    log_probs: tops.host_mut(),
                }),
            }
            .reference();
            let ran = bench.device.kernels().log_probs(LogProbs {
                logits: logits.device(),
                targets: targets.device(),
                temperatures: temperatures.device(),
                log_probs: out.device_mut(),
                top: (k > 0).then(|| TopLogProbs {
                    tokens: tokens.device_mut(),
                    log_probs: tops.device_mut(),
                }),
            });
            let case = format!("vocabulary {vocabulary}, top {k}");
            let kind = Kind::Float(DType::F32);
            bench.compare("log_probs", &case, kind, &ran, &out);
            if k > 0 {
                bench.compare("log_probs", &format!("{case} tops"), kind, &ran, &tops);
                bench.compare(
                    "log_probs",
                    &format!("{case} tokens"),
                    Kind::Exact,
                    &ran,
                    &tokens,
                );
            }
        }
    }
}
