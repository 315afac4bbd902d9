//! A few launches of the kernels that matter, for a profiler to look at.

use cuda::CudaDevice;
use ops::Heads;
use tensor::DType;

use crate::attention::Scene;
use crate::bench::{Matrix, sync};

const HEADS: Heads = Heads {
    query: 32,
    kv: 8,
    dim: 128,
};

pub(crate) fn run(device: &CudaDevice) -> bool {
    let sequences: [&[(usize, usize)]; 3] = [&[(4096, 1); 64], &[(4096, 1)], &[(2048, 2048); 8]];
    for sequences in sequences {
        let mut scene = Scene::new(device, HEADS, 64, sequences, 1);
        let query = Matrix::random(device, scene.tokens, HEADS.query_width(), 5);
        let mut out = Matrix::new(device, scene.tokens, HEADS.query_width(), DType::BF16);
        for _ in 0..2 {
            scene
                .attend(device, 0, query.view(), out.view_mut())
                .expect("attention");
        }
        sync(device);
    }
    true
}
