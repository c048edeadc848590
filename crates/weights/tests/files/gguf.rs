//! GGUF files, and the values that the package `gguf` computes from their blocks.

use super::recorded::{bytes, compare, expected, open};
use oxidax_weights::{
    GgmlType, GgufDType, StoredTensor, WeightDType, WeightFormat, WeightMetadata, Weights,
};

#[test]
fn every_block_type_is_dequantized_exactly() {
    let (weights, expected) = (open("gguf_types.gguf"), expected("gguf_types"));
    assert_eq!(weights.format(), WeightFormat::Gguf);
    assert_eq!(weights.tensors().len(), GgmlType::ALL.len() - 1, "all but q1_0");
    for (name, tensor) in weights.tensors() {
        assert_eq!(tensor.dtype().name(), name);
        let found = tensor.read_f32().unwrap();
        let wanted = expected.get(name).unwrap();
        assert_eq!(tensor.shape(), wanted.shape());
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        // Zeros of both signs are equal.
        let wanted = wanted.read_f32().unwrap();
        let apart = found.iter().zip(&wanted).position(|(x, y)| x != y);
        assert_eq!(apart, None, "{name}: {:?}", &bits(&found)[..4]);
    }
}

#[test]
fn integers_and_scales_give_the_dequantized_values() {
    let weights = open("gguf_types.gguf");
    let mut read = Vec::new();
    for (name, tensor) in weights.tensors() {
        let Ok(parts) = tensor.read_quantized() else { continue };
        let value = |(index, &integer): (usize, &i8)| {
            let part = index / parts.block;
            let minimum = parts.minimums.as_ref().map_or(0.0, |minimums| minimums[part]);
            parts.scales[part] * f32::from(integer) + minimum
        };
        let found: Vec<f32> = parts.integers.iter().enumerate().map(value).collect();
        assert_eq!(found, tensor.read_f32().unwrap(), "{name}");
        read.push(name.as_str());
    }
    assert_eq!(read, ["q4_0", "q4_1", "q5_0", "q5_1", "q6_k", "q8_0", "q8_1"]);
    let error = weights.get("iq4_nl").unwrap().read_quantized().unwrap_err();
    assert!(error.message().starts_with("iq4_nl[2,64] has no integers of 8 bits"), "{error}");
}

#[test]
fn one_bit_is_the_sign_of_the_scale() {
    let mut block = half::f16::from_f32(0.25).to_le_bytes().to_vec();
    block.extend([0b0000_0101; 16]);
    let dtype = WeightDType::Ggml(GgmlType::Q1_0);
    let values = StoredTensor::from_bytes(dtype, &[128], block).unwrap().read_f32().unwrap();
    assert_eq!(values[..4], [0.25, -0.25, 0.25, -0.25]);
    assert_eq!(values.iter().filter(|&&x| x > 0.0).count(), 32);
}

#[test]
fn both_byte_orders_and_all_metadata_are_read() {
    for name in ["gguf_little.gguf", "gguf_big.gguf"] {
        let weights = open(name);
        let value = |key: &str| weights.metadata()[key].clone();
        for (key, number) in [
            ("a.u8", 200),
            ("a.i8", -3),
            ("a.u16", 60000),
            ("a.i16", -300),
            ("a.u32", 4_000_000_000),
            ("a.i32", -70000),
            ("a.i64", -(1 << 40)),
        ] {
            assert_eq!(value(key), WeightMetadata::Int(number), "{name} {key}");
        }
        assert_eq!(value("a.u64"), WeightMetadata::Unsigned(u64::MAX));
        assert_eq!(value("a.f32"), WeightMetadata::Float(0.5));
        assert_eq!(value("a.f64"), WeightMetadata::Float(0.1));
        assert_eq!(value("a.bool"), WeightMetadata::Bool(true));
        assert_eq!(value("a.string").as_str(), Some("naïve"));
        assert_eq!(value("a.array").to_string(), r#"["x", "y", "z"]"#);
        let floats = |weights: &Weights| weights.get("q8_0").unwrap().read_f32().unwrap();
        let expected = expected("gguf_little");
        assert_eq!(floats(&weights), floats(&expected));
        let plain = |weights: &Weights| {
            let tensors = weights.tensors().iter().filter(|pair| pair.0 != "q8_0");
            Weights::from_tensors(tensors.map(|(name, tensor)| (name.clone(), tensor.clone())))
        };
        compare(&plain(&weights).unwrap(), &plain(&expected).unwrap());
    }
}

#[test]
fn quantized_blocks_equal_those_of_the_package() {
    let recorded = expected("gguf_quantized");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let values = recorded.get("values").unwrap().clone();
    let weights = Weights::from_tensors([("w", values)]).unwrap();
    for kind in [GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1, GgmlType::Q8_0] {
        let dtype = GgufDType::Floats(WeightDType::Ggml(kind));
        weights.save_gguf(&path, dtype).unwrap();
        let written = Weights::open(&path).unwrap();
        let written = written.get("w").unwrap();
        assert_eq!(written.to_string(), format!("{kind}[3,64]"));
        let expected = recorded.get(kind.name()).unwrap().read().unwrap();
        assert_eq!(written.read().unwrap(), expected, "{kind}");
    }
    let refused = weights.save_gguf(&path, GgufDType::Floats(WeightDType::Ggml(GgmlType::Q4_K)));
    assert!(refused.is_ok(), "rows of 64 are not blocks of 256, so they stay f32");
}

#[test]
fn written_files_have_the_same_tensors_and_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for name in ["gguf_types.gguf", "gguf_little.gguf", "gguf_big.gguf"] {
        let weights = open(name);
        weights.save_gguf(&path, GgufDType::Keep).unwrap();
        let again = Weights::open(&path).unwrap();
        compare(&again, &weights);
        let keys: Vec<_> = again.metadata().keys().collect();
        assert_eq!(keys, weights.metadata().keys().collect::<Vec<_>>());
        assert_eq!(again.metadata().get("a.u64"), weights.metadata().get("a.u64"));
    }
}

#[test]
fn types_that_cannot_be_written_are_refused() {
    let complex = StoredTensor::from_bytes(WeightDType::C64, &[1], vec![0; 8]).unwrap();
    let weights = Weights::from_tensors([("c", complex)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let error = weights.save_gguf(&path, GgufDType::Keep).unwrap_err();
    let expected = "tensor `c`: GGUF cannot hold c64; a rule `cast` converts it, or drop it";
    assert_eq!(error.message(), expected);
    assert!(!path.exists());
}

#[test]
fn damage_is_an_error_with_its_position() {
    let mut wrong = bytes("gguf_little.gguf");
    wrong[4] = 9;
    let error = Weights::from_bytes(wrong).unwrap_err();
    assert_eq!(error.message(), "GGUF, byte 8: unknown version 9");
    let mut cut = bytes("gguf_little.gguf");
    cut.truncate(cut.len() - 200);
    let error = Weights::from_bytes(cut).unwrap_err();
    assert!(error.message().contains("is not in the file of"), "{error}");
}
