//! Weights, configuration and tokenizer at addresses. `cargo xtask stores` installs the servers.

use super::recorded::{folder, model};
use super::start;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config, Gpt2Tokenizer};
use std::process::Command;

/// Folder of the child process.
const FOLDER: &str = "OXIDAX_TEST_MODELS";

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn models_are_loaded_from_and_saved_to_every_store() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return copy_to_stores(&folder);
    }
    let (s3, gs) = (start::s3(), start::gs());
    let copy = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "stores::models_are_loaded_from_and_saved_to_every_store"])
        .args(["--ignored", "--nocapture"])
        .env(FOLDER, copy.path())
        .env("AWS_ENDPOINT_URL", format!("http://{}", s3.host))
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("STORAGE_EMULATOR_HOST", &gs.host)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn copy_to_stores(copy: &str) {
    let expected = model();
    let config = Gpt2Config::load(folder()).unwrap();
    let pairs = Gpt2Tokenizer::load(folder()).unwrap();
    let text = "object stores, and files";
    let tokens = pairs.encode(text).unwrap();
    for place in [format!("file://{copy}/model"), "s3://numbers/m".into(), "gs://numbers/m".into()]
    {
        let error = Gpt2Config::load(&place).err().unwrap().to_string();
        assert!(error.contains("config.json"), "{error}");
        let error = Gpt2Tokenizer::load(&place).err().unwrap().to_string();
        assert!(error.contains("has no tokenizer"), "{error}");
        expected.save(&place, &config).unwrap();
        pairs.save(&place).unwrap();
        assert_eq!(Gpt2Config::load(&place).unwrap(), config, "{place}");
        let loaded = Gpt2::load(&place).unwrap();
        for (leaf, expected) in tree::leaves(&loaded).iter().zip(tree::leaves(&expected)) {
            assert_eq!(leaf.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{place}");
        }
        assert_eq!(Gpt2Tokenizer::load(&place).unwrap().encode(text).unwrap(), tokens, "{place}");
        let characters = Gpt2Tokenizer::characters("abc");
        let place = format!("{place}/characters");
        characters.save(&place).unwrap();
        assert_eq!(Gpt2Tokenizer::load(&place).unwrap().encode("cab").unwrap(), [2, 0, 1]);
    }
}
