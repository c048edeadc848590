//! Fixtures of models that `transformers` saved, and comparisons with them.

use oxidax::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Weights by their names in the files.
pub type Weights = BTreeMap<String, Array>;

/// Returns a folder of `python-compat/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "python-compat", "fixtures", name].iter().collect()
}

/// Returns the notes in a recorded folder.
pub fn notes(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("recorded.json")).unwrap()).unwrap()
}

/// Returns the arrays in a recorded folder.
pub fn arrays(folder: &Path) -> BTreeMap<String, Array> {
    checkpoint::arrays(folder.join("recorded.safetensors")).unwrap()
}

/// Returns the largest difference, relative to the largest element of `recorded`.
pub fn difference(found: &Array, recorded: &Array) -> f64 {
    assert_eq!(found.shape(), recorded.shape());
    let (found, recorded) = (found.to_vec::<f32>().unwrap(), recorded.to_vec::<f32>().unwrap());
    assert!(found.iter().all(|x| x.is_finite()), "an element is not finite");
    let largest = recorded.iter().fold(0.0f64, |most, &y| most.max(f64::from(y).abs()));
    let differences =
        found.iter().zip(&recorded).map(|(&x, &y)| (f64::from(x) - f64::from(y)).abs());
    differences.fold(0.0, f64::max) / largest
}

/// Loads the weights of a recorded folder from its `n` shards, by name.
pub fn shards(recorded: &Path, n: usize) -> Weights {
    let file = |at| recorded.join(format!("model-0000{at}-of-0000{n}.safetensors"));
    (1..=n).flat_map(|at| checkpoint::arrays(file(at)).unwrap()).collect()
}

/// Writes a copy of a recorded folder with a changed `config.json` and with `weights` in one file.
pub fn folder_with(recorded: &Path, weights: &Weights, change: (&str, &str)) -> tempfile::TempDir {
    let made = tempfile::tempdir().unwrap();
    let config = std::fs::read_to_string(recorded.join("config.json")).unwrap();
    let changed = config.replacen(change.0, change.1, 1);
    assert!(change.0 == change.1 || changed != config, "{} is not in config.json", change.0);
    std::fs::write(made.path().join("config.json"), changed).unwrap();
    checkpoint::save(made.path().join("model.safetensors"), weights).unwrap();
    made
}
