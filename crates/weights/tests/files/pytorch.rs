//! Files of `torch.save`.

use super::recorded::{bytes, compare, expected, open};
use oxidax_weights::{WeightFormat, WeightMetadata, Weights};

#[test]
fn every_dtype_is_read() {
    let weights = open("torch_dtypes.pt");
    assert_eq!(weights.format(), WeightFormat::PyTorch);
    assert_eq!(weights.tensors().len(), 16);
    compare(&weights, &expected("torch_dtypes"));
}

#[test]
fn views_of_storages_are_gathered() {
    for name in ["torch_views.pt", "torch_views_protocol4.pt", "torch_views_legacy.pt"] {
        let weights = open(name);
        compare(&weights, &expected("torch_views"));
        let metadata = weights.metadata();
        assert_eq!(metadata["epoch"], WeightMetadata::Int(12), "{name}");
        assert_eq!(metadata["optimizer.param_groups.0.lr"], WeightMetadata::Float(0.5));
        assert_eq!(metadata["name"].as_str(), Some("run"));
        // Objects of other classes are named and not made.
        assert_eq!(weights.skipped(), ["`path` is an object of pathlib.PosixPath"]);
    }
}

#[test]
fn modules_have_the_names_of_their_state_dict() {
    let weights = open("torch_module.pt");
    compare(&weights, &expected("torch_module"));
    assert!(weights.get("2.0.weight").is_some());
}

#[test]
fn torch_script_modules_have_the_names_of_their_state_dict() {
    let weights = open("torch_script.pt");
    compare(&weights, &expected("torch_module"));
    assert_eq!(weights.metadata()["training"], WeightMetadata::Bool(true));
}

#[test]
fn a_file_with_one_tensor_calls_it_tensor() {
    let weights = open("torch_tensor.pt");
    assert_eq!(weights.get("tensor").unwrap().to_string(), "f32[4,6]");
}

#[test]
fn other_pickles_are_refused() {
    // pickle.dumps({"a": 1})
    let error = Weights::from_bytes(b"\x80\x02}q\0U\x01aq\x01K\x01s.".to_vec()).unwrap_err();
    assert!(error.to_string().contains("a pickle that `torch.save` did not write"), "{error}");
}

#[test]
fn a_cut_file_is_an_error() {
    let whole = bytes("torch_views_legacy.pt");
    for length in [3, 20, 200, 900, whole.len() - 1] {
        let error = Weights::from_bytes(whole[..length].to_vec()).unwrap_err().to_string();
        assert!(error.starts_with("bytes in memory: "), "{length}: {error}");
    }
}
