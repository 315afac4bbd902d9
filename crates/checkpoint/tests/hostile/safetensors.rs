use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{CheckpointError, WeightSource, check_finite, widen};

use crate::allocator::largest_allocation;
use crate::files::{safetensors, small_safetensors};
use crate::mutate::{Random, damage};

fn read_all(bytes: Vec<u8>) -> Result<(), CheckpointError> {
    let source = SafetensorsSource::from_bytes("damaged", bytes)?;
    for tensor in source.tensors() {
        let bytes = source.bytes(&tensor.name)?;
        let _ = check_finite(tensor, bytes);
        let mut values = vec![0.0; tensor.elements().min(bytes.len())];
        let _ = widen(tensor.encoding, bytes, &mut values);
    }
    Ok(())
}

fn refusal(bytes: Vec<u8>) -> String {
    let error = SafetensorsSource::from_bytes("hostile", bytes).expect_err("should be refused");
    let source = std::error::Error::source(&error).expect("the rule that is broken");
    source.to_string()
}

#[test]
fn the_undamaged_file_is_read() {
    read_all(small_safetensors()).expect("a valid file");
}

#[test]
fn forty_thousand_damaged_files_neither_panic_nor_allocate_what_they_claim() {
    let whole = small_safetensors();
    let mut random = Random(2);
    let mut refused = 0;
    for _ in 0..40_000 {
        let damaged = damage(&whole, &mut random);
        let largest = largest_allocation(|| refused += u32::from(read_all(damaged).is_err()));
        assert!(largest < 1 << 18, "an allocation of {largest} bytes");
    }
    assert!((10_000..40_000).contains(&refused), "{refused} refused");
}

#[test]
fn every_truncation_is_refused() {
    let whole = small_safetensors();
    for length in 0..whole.len() {
        refusal(whole[..length].to_vec());
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let tensor = |shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"U8","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let half = "9223372036854775808";
    let two = format!(
        r#"{{"a":{{"dtype":"U8","shape":[{half}],"data_offsets":[0,{half}]}},
            "b":{{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[{half},18446744073709551615]}}}}"#
    );
    for (bytes, message) in [
        (
            u64::MAX.to_le_bytes().to_vec(),
            "its header claims 18446744073709551615 bytes, the limit is 100000000",
        ),
        (
            99u64.to_le_bytes().to_vec(),
            "it has 8 bytes, its header claims 99",
        ),
        (vec![0; 3], "it has 3 bytes, its header claims 8"),
        (safetensors("nonsense", 0), "its header is broken"),
        (
            safetensors(&tensor("[4]", "[4,8]"), 8),
            "its header is broken",
        ),
        (
            safetensors(&tensor("[4]", "[8,4]"), 8),
            "its header is broken",
        ),
        (
            safetensors(&tensor("[5]", "[0,4]"), 4),
            "its header is broken",
        ),
        (
            safetensors(&tensor("[4294967296,4294967296,2]", "[0,0]"), 0),
            "its header is broken",
        ),
        (
            safetensors(&tensor("[4]", "[0,4]"), 3),
            "its tensors end after 4 bytes of data, the file has 3",
        ),
        (
            safetensors(&tensor("[4]", "[0,4]"), 5),
            "its tensors end after 4 bytes of data, the file has 5",
        ),
        (safetensors(&two, 7), "its header is broken"),
        (
            safetensors(
                r#"{"t":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#,
                8,
            ),
            "tensor t has element type F64, which is not read",
        ),
    ] {
        assert_eq!(refusal(bytes), message);
    }
}
