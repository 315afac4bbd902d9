use tensor::DType;

use super::super::bench::Bench;
use super::super::compare::Kind;
use crate::{CopyPages, CountTokens, ResolveTokens, UpdatePages};

pub(super) fn resolve_tokens(bench: &mut Bench<'_>) {
    const LAST: u32 = ResolveTokens::LAST;
    for staged in [&[5u32, LAST, 7, LAST + 3] as &[u32], &[], &[LAST + 1]] {
        let last = bench.ints(&[10, 11, 12, 13]);
        let mut out = bench.typed_output(1, staged.len(), DType::U32);
        let case = format!("{} tokens", staged.len());
        let staged = bench.ints(staged);
        ResolveTokens {
            staged: staged.host(),
            last: last.host(),
            out: out.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().resolve_tokens(ResolveTokens {
            staged: staged.device(),
            last: last.device(),
            out: out.device_mut(),
        });
        bench.compare("resolve_tokens", &case, Kind::Exact, &ran, &out);
    }
}

pub(super) fn update_pages(bench: &mut Bench<'_>) {
    for count in [0, 1, 8] {
        let mut table = bench.typed_output(4, 5, DType::U32);
        let rows: Vec<u32> = (0..count).map(|i| i % 4).collect();
        let columns: Vec<u32> = (0..count).map(|i| i % 5).collect();
        let pages: Vec<u32> = (100..100 + count).collect();
        let rows = bench.ints(&rows);
        let (columns, pages) = (bench.ints(&columns), bench.ints(&pages));
        UpdatePages {
            rows: rows.host(),
            columns: columns.host(),
            pages: pages.host(),
            table: table.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().update_pages(UpdatePages {
            rows: rows.device(),
            columns: columns.device(),
            pages: pages.device(),
            table: table.device_mut(),
        });
        let case = format!("{count} pages");
        bench.compare("update_pages", &case, Kind::Exact, &ran, &table);
    }
}

pub(super) fn copy_pages(bench: &mut Bench<'_>) {
    const PLANES: usize = 3;
    const SLOTS: usize = 160;
    // Rows of the last two are not made of pieces of sixteen bytes.
    for (width, dtype) in [
        (256, DType::BF16),
        (8, DType::BF16),
        (5, DType::BF16),
        (3, DType::F32),
    ] {
        for (from, to, tokens) in [
            (&[] as &[u32], &[] as &[u32], &[] as &[u32]),
            (&[64], &[0], &[63]),
            (&[0, 0, 96], &[64, 130, 32], &[16, 1, 31]),
        ] {
            let numbers = bench.normals(PLANES * SLOTS * width);
            let mut memory = bench.floats(PLANES * SLOTS, width, dtype, &numbers);
            let case = format!("{} copies of {width} {dtype}", from.len());
            let (from, to, tokens) = (bench.ints(from), bench.ints(to), bench.ints(tokens));
            CopyPages {
                from: from.host(),
                to: to.host(),
                tokens: tokens.host(),
                planes: PLANES,
                memory: memory.host_mut(),
            }
            .reference();
            let ran = bench.device.kernels().copy_pages(CopyPages {
                from: from.device(),
                to: to.device(),
                tokens: tokens.device(),
                planes: PLANES,
                memory: memory.device_mut(),
            });
            bench.compare("copy_pages", &case, Kind::Exact, &ran, &memory);
        }
    }
}

pub(super) fn count_tokens(bench: &mut Bench<'_>) {
    let before: Vec<u8> = (0..3 * 40u16)
        .flat_map(|i| (if i == 45 { u16::MAX } else { i % 3 }).to_le_bytes())
        .collect();
    // Many at once, most of them the same few.
    let many: Vec<u32> = (0..700).collect();
    let many_rows: Vec<u32> = many.iter().map(|i| i % 5 % 3).collect();
    let many_tokens: Vec<u32> = many.iter().map(|i| i % 7 * (i % 2)).collect();
    for (clear, rows, tokens) in [
        (&[2u32] as &[u32], &many_rows[..], &many_tokens[..]),
        (&[], &[1, 1, 0, 1], &[5, 5, 39, 4]),
        (&[0, 2], &[2], &[7]),
        (&[1], &[], &[]),
    ] {
        let mut counts = bench.bytes(3, 40, DType::U16, &before);
        let case = format!("{} cleared, {} counted", clear.len(), rows.len());
        let clear = bench.ints(clear);
        let (rows, tokens) = (bench.ints(rows), bench.ints(tokens));
        CountTokens {
            clear: clear.host(),
            rows: rows.host(),
            tokens: tokens.host(),
            counts: counts.host_mut(),
        }
        .reference();
        let ran = bench.device.kernels().count_tokens(CountTokens {
            clear: clear.device(),
            rows: rows.device(),
            tokens: tokens.device(),
            counts: counts.device_mut(),
        });
        bench.compare("count_tokens", &case, Kind::Exact, &ran, &counts);
    }
}
