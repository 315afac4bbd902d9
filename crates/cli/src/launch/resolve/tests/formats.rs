//! What becomes of weights, and what is said of wishes that cannot be followed.

use super::*;

#[test]
fn a_name_of_a_format_that_the_weights_do_not_have_is_told() {
    let float8 = || Quantisation::Float8 {
        block: None,
        skipped: Vec::new(),
    };
    let kept = "--quantization accepted, no effect: weights keep the format they are stored in";
    let own = format!("{kept}, which is fp8");
    for (quantisation, line, expected) in [
        (float8(), "", ""),
        (float8(), "--quantization fp8", ""),
        (float8(), "--quantization awq", &own),
        (float8(), "--quantization compressed-tensors", &own),
        (Quantisation::OnlineFloat8, "--quantization fp8", ""),
        (Quantisation::AsStored, "--quantization awq", kept),
    ] {
        let spec = ModelSpec {
            quantisation,
            ..spec()
        };
        let launch = launch_of(&spec, &device("cpu", 16 << 30, 8 << 30), line).unwrap();
        assert_eq!(told(&launch), expected, "{line}");
    }
}

#[test]
fn a_gpu_without_kernels_for_eight_bit_weights_says_what_becomes_of_them() {
    let float8 = || Quantisation::Float8 {
        block: None,
        skipped: Vec::new(),
    };
    let wide = "--quantization accepted, no effect: this GPU has no kernels for weights of eight bits, they are bfloat16";
    let gpu = DeviceInfo {
        float8: false,
        activation: DType::BF16,
        ..device("cuda", 80 << 30, 79 << 30)
    };
    for (quantisation, line, expected) in [
        (Quantisation::OnlineFloat8, "--quantization fp8", wide),
        (float8(), "--quantization fp8", wide),
        (float8(), "", ""),
    ] {
        let spec = ModelSpec {
            quantisation,
            ..spec()
        };
        let launch = launch_of(&spec, &gpu, line).unwrap();
        assert_eq!(told(&launch), expected, "{line}");
        let resolved = launch
            .values
            .iter()
            .find(|value| value.name == "quantization");
        assert!(
            resolved.is_none_or(|value| value.value == "bfloat16"),
            "{line}"
        );
    }
}
