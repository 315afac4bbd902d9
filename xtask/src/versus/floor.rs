//! What physics allows: bytes that must be read and products that must be computed.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::load::{CONCURRENT, TOKENS_IN, TOKENS_OUT};
use super::model;

/// Matrix elements of the default model's layers, and of its output head.
const LAYER_PRODUCTS: f64 = 106_168_320.0;
const HEAD_PRODUCTS: f64 = 28_311_552.0;

/// The best figures this machine could give for the default model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Floor {
    /// Tokens a second of one stream: every weight is read once a token.
    pub(crate) decode: f64,
    /// Prompt tokens a second: every product of the layers is computed once a token.
    pub(crate) prompt: f64,
    /// Output tokens a second of the concurrent load: products of a prompt and an output token.
    pub(crate) concurrent: f64,
    /// Bytes of the weights.
    pub(crate) memory: f64,
    /// Integer products a second that the second and third figure assume.
    pub(crate) products: f64,
}

/// The floor, if this is the model whose sizes are known.
pub(crate) fn of(path: &Path, speed: f64, threads: usize) -> anyhow::Result<Option<Floor>> {
    let bytes = fs::metadata(path)
        .context("cannot read the model file")?
        .len();
    if bytes != model::BYTES {
        return Ok(None);
    }
    let cpu = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let products = products_per_cycle(&cpu) * clock(&cpu) * threads as f64;
    Ok(Some(floor(bytes as f64, speed, products)))
}

fn floor(bytes: f64, speed: f64, products: f64) -> Floor {
    let decode = speed / bytes;
    let inputs_per_output = TOKENS_IN as f64 / TOKENS_OUT as f64;
    let per_output = LAYER_PRODUCTS * (1.0 + inputs_per_output) + HEAD_PRODUCTS;
    Floor {
        decode,
        prompt: products / LAYER_PRODUCTS,
        concurrent: (products / per_output).min(decode * CONCURRENT as f64),
        memory: bytes,
        products,
    }
}

/// 8-bit products a core starts in a cycle: two vector units, one instruction each.
fn products_per_cycle(cpu: &str) -> f64 {
    if cpu.contains("avx512_vnni") || cpu.contains("avx512bw") {
        128.0
    } else if cpu.contains("avx2") {
        64.0
    } else {
        32.0
    }
}

/// Cycles a second of the first core.
fn clock(cpu: &str) -> f64 {
    let line = cpu.lines().find_map(|line| line.strip_prefix("cpu MHz"));
    let megahertz = line.and_then(|rest| rest.trim_start_matches([' ', '\t', ':']).parse().ok());
    megahertz.unwrap_or(2000.0) * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_follows_from_bytes_and_products() {
        let floor = floor(100e6, 20e9, 300e9);
        assert!((floor.decode - 200.0).abs() < 1e-9);
        assert!((floor.prompt - 300e9 / LAYER_PRODUCTS).abs() < 1e-9);
        let per_output = 2.0 * LAYER_PRODUCTS + HEAD_PRODUCTS;
        assert!((floor.concurrent - 300e9 / per_output).abs() < 1e-9);
    }

    #[test]
    fn the_clock_and_the_vector_units_are_read_from_the_kernel() {
        let cpu = "flags\t: fma avx2\ncpu MHz\t\t: 2595.124\n";
        assert!((clock(cpu) - 2595.124e6).abs() < 1.0);
        assert!((products_per_cycle(cpu) - 64.0).abs() < 1e-9);
    }
}
