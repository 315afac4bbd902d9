//! A replayed graph does what its ops do, with whatever its inputs hold then.

use cuda::CudaDevice;
use ops::{AddRmsNorm, Device as _, GatedActivation, OpError};
use tensor::DType;

use crate::bench::{Matrix, linear, normals, sync, weight};

const ROWS: usize = 3;
const HIDDEN: usize = 1536;
const INNER: usize = 2048;

/// x becomes down(silu(gate) · up) of its norm, many times over: results of one layer feed the next.
fn layers(
    device: &CudaDevice,
    (gate_up, down): (&ops::Weight, &ops::Weight),
    norm: &Matrix,
    (x, residual): (&mut Matrix, &mut Matrix),
    scratch: &mut [Matrix; 3],
) -> Result<(), OpError> {
    let kernels: &dyn ops::Kernels = device.kernels();
    let [normed, wide, inner] = scratch;
    for _ in 0..24 {
        kernels.add_rms_norm(AddRmsNorm {
            x: x.view(),
            residual: residual.view_mut(),
            weight: norm.view(),
            eps: 1e-6,
            out: normed.view_mut(),
        })?;
        linear(device, normed.view(), gate_up, wide.view_mut())?;
        kernels.gated_activation(GatedActivation {
            gate_up: wide.view(),
            activation: ops::Activation::Silu,
            out: inner.view_mut(),
        })?;
        linear(device, inner.view(), down, x.view_mut())?;
    }
    Ok(())
}

pub(crate) fn run(device: &CudaDevice) -> bool {
    let weights = (
        &weight(device, 2 * INNER, HIDDEN, 1),
        &weight(device, HIDDEN, INNER, 2),
    );
    let norm = Matrix::floats(device, 1, HIDDEN, DType::F32, &vec![1.0; HIDDEN]);
    let mut scratch =
        [HIDDEN, 2 * INNER, INNER].map(|cols| Matrix::new(device, ROWS, cols, DType::BF16));
    let (mut x, mut residual) = (
        Matrix::random(device, ROWS, HIDDEN, 3),
        Matrix::new(device, ROWS, HIDDEN, DType::BF16),
    );
    let graph = device
        .capture(&mut || {
            layers(
                device,
                weights,
                &norm,
                (&mut x, &mut residual),
                &mut scratch,
            )
        })
        .expect("a capture")
        .expect("this device captures");
    let mut well = true;
    for seed in 10..14 {
        let values = normals(ROWS * HIDDEN, seed);
        let put = |x: &mut Matrix, residual: &mut Matrix| {
            let new = Matrix::floats(device, ROWS, HIDDEN, DType::BF16, &values);
            device.copy(new.view(), x.view_mut()).expect("a copy");
            device
                .copy(new.view(), residual.view_mut())
                .expect("a copy");
            sync(device);
        };
        put(&mut x, &mut residual);
        layers(
            device,
            weights,
            &norm,
            (&mut x, &mut residual),
            &mut scratch,
        )
        .expect("ops");
        let eager = x.read(device);
        put(&mut x, &mut residual);
        graph.replay().expect("a replay");
        let replayed = x.read(device);
        let same = eager
            .iter()
            .zip(&replayed)
            .all(|(a, b)| a.to_bits() == b.to_bits());
        let finite =
            eager.iter().all(|value| value.is_finite()) && eager.iter().any(|value| *value != 0.0);
        println!("inputs {seed}: equal bits {same}, finite {finite}");
        well &= same && finite;
    }
    well & crate::layers::replay_as_they_run(device)
}
