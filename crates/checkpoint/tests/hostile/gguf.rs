use checkpoint::gguf::{GgufError, GgufSource, HyperParameters, Value};
use checkpoint::{CheckpointError, RowOrder, WeightSource, check_finite, widen};

use crate::allocator::largest_allocation;
use crate::files::{GgufWriter, small_gguf, text};
use crate::mutate::{Random, damage};

/// Reads everything a file offers; what is refused is refused.
fn read_all(bytes: Vec<u8>) -> Result<(), CheckpointError> {
    let source = GgufSource::from_bytes("damaged", bytes)?;
    let metadata = source.metadata();
    let _ = metadata.hyper_parameters();
    let _ = metadata.vocabulary();
    let _ = metadata.token_id("eos");
    for key in metadata.keys() {
        let _ = (
            metadata.text(key),
            metadata.unsigned(key),
            metadata.float(key),
            metadata.flag(key),
        );
        if let Ok(Some(array)) = metadata.array(key) {
            assert!(array.texts().count() + array.numbers().count() <= array.len());
        }
    }
    for tensor in source.tensors() {
        let bytes = source.bytes(&tensor.name)?;
        let mut values = vec![0.0; tensor.elements()];
        if widen(tensor.encoding, bytes, &mut values).is_ok() && check_finite(tensor, bytes).is_ok()
        {
            assert!(
                values.iter().all(|value| value.is_finite()),
                "{}",
                tensor.name
            );
        }
        if let Some(&rows) = tensor.shape.first() {
            assert!((0..rows).all(|row| tensor.row_order.stored_row(row) < rows));
        }
    }
    Ok(())
}

fn refusal(bytes: Vec<u8>) -> GgufError {
    match GgufSource::from_bytes("hostile", bytes) {
        Err(CheckpointError::Gguf { source, .. }) => source,
        other => panic!("should have been refused: {other:?}"),
    }
}

#[test]
fn the_undamaged_file_is_read() {
    for version in [2, 3] {
        let mut file = small_gguf();
        file.version = version;
        read_all(file.finish()).expect("a valid file");
    }
}

#[test]
fn values_are_read_as_they_were_written() {
    let source = GgufSource::from_bytes("small", small_gguf().finish()).expect("a valid file");
    let metadata = source.metadata();
    assert_eq!(
        metadata.hyper_parameters(),
        Ok(HyperParameters {
            architecture: "llama".to_owned(),
            block_count: 1,
            context_length: 128,
            embedding_length: 32,
            feed_forward_length: 64,
            head_count: 2,
            head_count_kv: 1,
            key_length: None,
            value_length: None,
            rope_dimension_count: None,
            rope_freq_base: Some(10_000.0),
            rope_freq_base_swa: None,
            rope_scaling: None,
            rms_epsilon: 1e-5,
            vocab_size: None,
            sliding_window: None,
        })
    );
    for (key, expected) in [
        ("a.u8", Value::Integer(200)),
        ("a.i8", Value::Integer(-56)),
        ("a.u16", Value::Integer(513)),
        ("a.i16", Value::Integer(1 - (56 << 8))),
        ("a.i32", Value::Integer(-5)),
        ("a.u64", Value::Integer(u64::MAX.into())),
        ("a.i64", Value::Integer(-5)),
        ("a.f64", Value::Float(2.5)),
        ("a.bool", Value::Bool(true)),
    ] {
        assert_eq!(metadata.value(key), Some(&expected), "{key}");
    }
    let vocabulary = metadata.vocabulary().expect("readable").expect("present");
    assert_eq!(
        vocabulary.tokens.texts().collect::<Vec<_>>(),
        [&b"<s>"[..], b"a", b"b", b"ab"]
    );
    let scores = vocabulary
        .scores
        .expect("present")
        .numbers()
        .map(|value| match value {
            Value::Float(score) => score,
            other => panic!("{other:?} is no score"),
        });
    assert_eq!(scores.collect::<Vec<_>>(), [0.5, 1.0, -2.0, 3.0]);
    assert_eq!(metadata.token_id("eos"), Ok(Some(2)));
    assert_eq!(metadata.token_id("bos"), Ok(None));
    let query = source
        .find("model.layers.0.self_attn.q_proj.weight")
        .expect("present");
    assert_eq!(query.shape, [32, 32]);
    assert_eq!(
        query.row_order,
        RowOrder::InterleavedHalves { head_rows: 16 }
    );
    let down = source
        .find("model.layers.0.mlp.down_proj.weight")
        .expect("present");
    assert_eq!(
        (&down.shape[..], down.row_order),
        (&[2, 256][..], RowOrder::Plain)
    );
}

#[test]
fn forty_thousand_damaged_files_neither_panic_nor_allocate_what_they_claim() {
    let whole = small_gguf().finish();
    let mut random = Random(1);
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
    let whole = small_gguf().finish();
    // The last bytes are padding that no tensor needs.
    for length in 0..whole.len() - 32 {
        refusal(whole[..length].to_vec());
    }
}

fn too_many(what: &'static str, count: u64, limit: u64) -> GgufError {
    GgufError::TooMany { what, count, limit }
}

#[test]
fn counts_beyond_the_file_are_refused_with_the_numbers() {
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let counts = |tensors: u64, keys: u64| {
        [
            &b"GGUF"[..],
            &3u32.to_le_bytes(),
            &tensors.to_le_bytes(),
            &keys.to_le_bytes(),
        ]
        .concat()
    };
    let new = GgufWriter::new;
    let truncated = |what, length| GgufError::Truncated { what, length };
    for (bytes, expected) in [
        (counts(u64::MAX, 0), too_many("tensors", u64::MAX, 262_144)),
        (counts(0, 1 << 40), too_many("keys", 1 << 40, 65_536)),
        (counts(9, 0), truncated("a tensor's name", 24)),
        (
            new().key("k", 8, &u64::MAX.to_le_bytes()).finish(),
            truncated("a text value", 64),
        ),
        (
            new().key("k", 9, &array(8, 1 << 60)).finish(),
            too_many("elements of an array", 1 << 60, 1),
        ),
        (
            new().tensor_at("t", &[1; 5], 0, 0).finish(),
            too_many("dimensions of a tensor", 5, 4),
        ),
    ] {
        assert_eq!(refusal(bytes), expected);
    }
}

#[test]
fn files_of_another_kind_are_refused_by_name() {
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let deep = (0..5).fold(Vec::new(), |inner, _| [array(9, 1), inner].concat());
    let new = GgufWriter::new;
    let duplicate = |what, name: &str| GgufError::Duplicate {
        what,
        name: name.to_owned(),
    };
    for (bytes, expected) in [
        (b"GGML".to_vec(), GgufError::Magic),
        (Vec::new(), GgufError::Magic),
        (b"GGUF\x01\0\0\0".to_vec(), GgufError::Version { found: 1 }),
        (
            b"GGUF\0\0\0\x03".to_vec(),
            GgufError::Version { found: 0x0300_0000 },
        ),
        (
            new().key("k", 9, &deep).finish(),
            GgufError::Depth {
                key: "k".to_owned(),
                limit: 4,
            },
        ),
        (
            new().key("k", 13, &[]).finish(),
            GgufError::ValueType {
                key: "k".to_owned(),
                found: 13,
            },
        ),
        (
            new().u32("general.alignment", 48).finish(),
            GgufError::Alignment { found: 48 },
        ),
        (
            new().u32("general.alignment", 0).finish(),
            GgufError::Alignment { found: 0 },
        ),
        (
            new().key("split.count", 2, &[3, 0]).finish(),
            GgufError::Split { count: 3 },
        ),
        (
            new().u32("k", 1).u32("k", 2).finish(),
            duplicate("key", "k"),
        ),
        (
            new()
                .tensor("t", &[1], 0, &[0; 4])
                .tensor("t", &[1], 0, &[0; 4])
                .finish(),
            duplicate("tensor", "t"),
        ),
        (
            new().tensor_at("t", &[32], 99, 0).finish(),
            GgufError::Encoding {
                name: "t".to_owned(),
                found: 99,
            },
        ),
    ] {
        assert_eq!(refusal(bytes), expected);
    }
}

#[test]
fn impossible_shapes_and_places_are_refused() {
    let new = GgufWriter::new;
    let shape = |shape: &[u64], encoding| GgufError::Shape {
        name: "t".to_owned(),
        shape: shape.to_vec(),
        encoding,
    };
    for (file, expected) in [
        (new().tensor_at("t", &[0], 0, 0), shape(&[0], "F32")),
        (
            new().tensor_at("t", &[33, 2], 3, 0),
            shape(&[2, 33], "Q4_1"),
        ),
        (new().tensor_at("t", &[], 3, 0), shape(&[], "Q4_1")),
        (
            new().tensor_at("t", &[1 << 33, 1 << 33], 0, 0),
            shape(&[1 << 33, 1 << 33], "F32"),
        ),
        (
            new().tensor_at("t", &[1 << 62], 0, 0),
            shape(&[1 << 62], "F32"),
        ),
        (
            new().tensor_at("t", &[8], 0, 8),
            GgufError::Misaligned {
                name: "t".to_owned(),
                offset: 8,
                alignment: 32,
            },
        ),
        (
            new().tensor_at("t", &[8], 0, 32),
            GgufError::PastEnd {
                name: "t".to_owned(),
                bytes: 32,
                offset: 96,
                length: 64,
            },
        ),
        (
            new().tensor_at("t", &[8], 0, u64::MAX - 31),
            GgufError::PastEnd {
                name: "t".to_owned(),
                bytes: 32,
                offset: u64::MAX,
                length: 64,
            },
        ),
        (
            new()
                .text("general.architecture", "llama")
                .u32("llama.attention.head_count", 3)
                .tensor("blk.0.attn_q.weight", &[1, 8], 0, &[0; 32]),
            GgufError::Shape {
                name: "blk.0.attn_q.weight".to_owned(),
                shape: vec![8, 1],
                encoding: "F32",
            },
        ),
    ] {
        assert_eq!(refusal(file.finish()), expected);
    }
}

#[test]
fn tensors_that_share_bytes_are_refused() {
    let file = |offset| {
        GgufWriter::new()
            .tensor("a", &[8], 0, &[0; 32])
            .tensor("b", &[8], 0, &[0; 32])
            .tensor_at("c", &[16], 0, offset)
            .tensor("d", &[32], 0, &[0; 128])
            .finish()
    };
    for (offset, first, second) in [(0, "a", "c"), (32, "b", "c"), (128, "d", "c")] {
        let GgufError::Overlap {
            first: found_first,
            second: found_second,
            ..
        } = refusal(file(offset))
        else {
            panic!("not refused for its overlap");
        };
        assert_eq!(
            (found_first.as_str(), found_second.as_str()),
            (first, second)
        );
    }
}

#[test]
fn texts_that_are_not_utf8_are_errors_only_where_text_is_needed() {
    let broken = [1u64.to_le_bytes().to_vec(), vec![0xff]].concat();
    let file = GgufWriter::new()
        .key("tokenizer.chat_template", 8, &broken)
        .array("tokenizer.ggml.tokens", 8, &[broken.clone(), text("b")]);
    let source = GgufSource::from_bytes("odd", file.finish()).expect("a valid file");
    let metadata = source.metadata();
    let what = "tokenizer.chat_template".to_owned();
    assert_eq!(
        metadata.text("tokenizer.chat_template"),
        Err(GgufError::Text { what })
    );
    let tokens = metadata
        .array("tokenizer.ggml.tokens")
        .expect("an array")
        .expect("present");
    assert_eq!(tokens.texts().collect::<Vec<_>>(), [&[0xff][..], b"b"]);
}

#[test]
fn scales_that_are_not_finite_are_found() {
    let mut block = vec![0u8; 20];
    block[..2].copy_from_slice(&0x7e00u16.to_le_bytes());
    let file = GgufWriter::new().tensor("w", &[32, 2], 3, &[vec![0; 20], block].concat());
    let source = GgufSource::from_bytes("nan", file.finish()).expect("a valid file");
    let error = check_finite(&source.tensors()[0], source.bytes("w").expect("present"));
    assert_eq!(
        error.expect_err("a scale is not a number").to_string(),
        "tensor w has a weight or scale that is not finite, at element 32"
    );
}
