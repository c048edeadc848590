//! Safetensors files and their indices.

use super::recorded::{bytes, compare, expected, open};
use oxidax_weights::{WeightFormat, Weights};
use std::collections::BTreeMap;

fn index(map: &str) -> Vec<u8> {
    format!("{{\"metadata\":{{}},\"weight_map\":{{{map}}}}}").into_bytes()
}

#[test]
fn an_index_joins_files() {
    let files = BTreeMap::from([
        ("model.safetensors.index.json".to_owned(), index(r#""q4_0":"a","whole":"b""#)),
        ("a".to_owned(), bytes("gguf_quantized.expected.safetensors")),
        ("b".to_owned(), bytes("torch_views.pt")),
    ]);
    let error = Weights::from_files(files.clone()).unwrap_err();
    assert!(error.message().ends_with("`b` has no tensor `whole`"), "{error}");
    let mut files = files;
    let name = "model.safetensors.index.json".to_owned();
    files.insert(name.clone(), index(r#""q4_0":"a","model.whole":"b""#));
    let weights = Weights::from_files(files.clone()).unwrap();
    assert_eq!(weights.format(), WeightFormat::Safetensors);
    let names: Vec<&String> = weights.tensors().keys().collect();
    assert_eq!(names, ["model.whole", "q4_0"]);
    for (map, expected) in [
        (r#""a":"c""#, "the file `c` of the index is missing"),
        (r#""a":"../c""#, "the file name `../c` leads out of the folder"),
        (r#""a":"model.safetensors.index.json""#, "is an index itself"),
        ("", "the index lists no files"),
    ] {
        files.insert(name.clone(), index(map));
        let error = Weights::from_files(files.clone()).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
}

#[test]
fn written_files_have_the_same_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for name in ["torch_dtypes", "torch_views", "numpy"] {
        let weights = expected(name).with_metadata("format", "pt");
        weights.save_safetensors(&path).unwrap();
        let again = Weights::open(&path).unwrap();
        compare(&again, &weights);
        assert_eq!(again.metadata()["format"].as_str(), Some("pt"));
    }
    // Blocks are dequantized.
    open("gguf_types.gguf").save_safetensors(&path).unwrap();
    compare(&Weights::open(&path).unwrap(), &expected("gguf_types"));
}

#[test]
fn contradictory_headers_are_refused() {
    for (json, data, expected) in [
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#, 12, "behind byte 0"),
        (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#, 9, "the header states 8"),
        (r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#, 8, "the type `F99`"),
        (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1}"#, 4, "`a` appears twice"),
    ] {
        let mut file = (json.len() as u64).to_le_bytes().to_vec();
        file.extend(json.as_bytes());
        file.extend(vec![0; data]);
        let error = Weights::from_bytes(file).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
}
