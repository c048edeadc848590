//! Models in several files, in Hugging Face's layout.

use crate::checkpoint::support::refused;
use expect_test::expect;
use oxidax::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

fn index(folder: &Path, weight_map: &str) {
    let text = format!(r#"{{"metadata": {{"total_size": 48}}, "weight_map": {weight_map}}}"#);
    std::fs::write(folder.join("model.safetensors.index.json"), text).unwrap();
}

const MAP: &str = r#"{"a.weight": "model-00001-of-00002.safetensors",
    "b.weight": "model-00002-of-00002.safetensors", "b.bias": "model-00002-of-00002.safetensors"}"#;

#[test]
fn invalid_indices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |expected| refused(checkpoint::open(folder.path()), folder.path(), expected);
    refuse(expect![[r#"
        error[checkpoint]: DIR: the folder has none of `manifest.jsonl`, `model.safetensors` and `model.safetensors.index.json`
          help: open the file by its own name"#]]);
    index(folder.path(), r#"{"a": "x.safetensors", "a": "y.safetensors"}"#);
    refuse(expect![
        "error[checkpoint]: DIR/model.safetensors.index.json: this is not an index of safetensors files: `a` appears twice at line 1 column 91"
    ]);
    index(folder.path(), "{}");
    refuse(expect![
        "error[checkpoint]: DIR/model.safetensors.index.json: this is not an index of safetensors files: the `weight_map` is empty"
    ]);
    index(folder.path(), r#"["a"]"#);
    refuse(expect![
        "error[checkpoint]: DIR/model.safetensors.index.json: this is not an index of safetensors files: invalid type: sequence, expected an object from arrays to files at line 1 column 47"
    ]);
    std::fs::write(folder.path().join("model.safetensors.index.json"), "{}").unwrap();
    refuse(expect![
        "error[checkpoint]: DIR/model.safetensors.index.json: this is not an index of safetensors files: missing field `weight_map` at line 1 column 2"
    ]);
    index(folder.path(), MAP);
    refuse(expect![[r#"
        error[checkpoint]: DIR/model.safetensors.index.json: the file `model-00001-of-00002.safetensors` is missing, which should contain `a.weight`
          help: download it into the folder of the index"#]]);
}

#[test]
fn files_outside_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("model");
    std::fs::create_dir(&inner).unwrap();
    let header = br#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    let target = folder.path().join("x.safetensors");
    std::fs::write(&target, bytes).unwrap();
    // The file exists and is intact, so the name alone is refused.
    assert!(checkpoint::open(&target).is_ok());
    for name in
        ["../x.safetensors", target.to_str().unwrap(), "model/../../x.safetensors", "..", ""]
    {
        index(&inner, &format!(r#"{{"a": "{name}"}}"#));
        let error = checkpoint::open(&inner).unwrap_err().to_string();
        let expected = format!(
            "it names the file `{name}`, which is not in the same folder; files elsewhere are not read"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
}

mod on_cpu {
    use super::*;
    use crate::checkpoint::support::{bits, counted};

    type Arrays = BTreeMap<String, Array>;

    fn arrays(names: &[(&str, &[usize])]) -> Arrays {
        let numbered = names.iter().enumerate();
        numbered
            .map(|(at, (name, dims))| (name.to_string(), counted(dims, 10.0 * at as f32)))
            .collect()
    }

    fn first() -> Arrays {
        arrays(&[("a.weight", &[2, 3])])
    }

    fn second() -> Arrays {
        arrays(&[("b.bias", &[2]), ("b.weight", &[2, 2])])
    }

    fn write(folder: &Path) {
        checkpoint::save(folder.join("model-00001-of-00002.safetensors"), &first()).unwrap();
        checkpoint::save(folder.join("model-00002-of-00002.safetensors"), &second()).unwrap();
        index(folder, MAP);
    }

    #[test]
    fn model_in_two_files_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        let mut all = first();
        all.extend(second());
        let loaded = checkpoint::load(folder.path(), &all).unwrap();
        assert_eq!(bits(&loaded), bits(&all));
        // The index can be opened by name.
        let index = folder.path().join("model.safetensors.index.json");
        assert_eq!(bits(&checkpoint::arrays(index).unwrap()), bits(&all));
        // Hugging Face's cache contains links into another folder.
        let elsewhere = tempfile::tempdir().unwrap();
        let shard = folder.path().join("model-00001-of-00002.safetensors");
        std::fs::rename(&shard, elsewhere.path().join("blob")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("blob"), &shard).unwrap();
        assert_eq!(bits(&checkpoint::load(folder.path(), &all).unwrap()), bits(&all));
    }

    #[derive(Tree)]
    struct Block {
        ln_1: nn::LayerNorm,
        qkv: nn::Linear,
        out: nn::Linear,
    }

    #[derive(Tree)]
    struct Gpt2 {
        wte: nn::Embedding,
        blocks: Vec<Block>,
    }

    /// A tiny GPT-2 in four files (`python-compat/checkpoint_files.py`). Element `i` of the `k`-th
    /// array is `k + i / 1024`.
    #[test]
    fn files_of_transformers_are_loaded() {
        let folder =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpu/checkpoint/published"));
        let arrays = checkpoint::arrays(folder).unwrap();
        assert_eq!(arrays.len(), 28);
        for (k, (name, array)) in arrays.iter().enumerate() {
            let expected = (0..array.size()).map(|i| k as f32 + i as f32 / 1024.0);
            assert_eq!(array.to_vec::<f32>().unwrap(), expected.collect::<Vec<f32>>(), "{name}");
        }
        let model = || {
            let linear = |n_out| nn::Linear::new(random::key(0), 8, n_out);
            let block = |_| Block { ln_1: nn::LayerNorm::new(8), qkv: linear(24), out: linear(8) };
            let wte = nn::Embedding::new(random::key(0), 20, 8);
            Gpt2 { wte, blocks: (0..2).map(block).collect() }
        };
        let template = eval_shape(model, ()).unwrap();
        let reader = checkpoint::open(folder).unwrap().rename("transformer.*", "*");
        let reader = reader.rename("h.*.*", "blocks[*].*");
        let reader =
            reader.rename("*.attn.c_attn.*", "*.qkv.*").rename("*.attn.c_proj.*", "*.out.*");
        let reader = reader.rename("*.ln_1.weight", "*.ln_1.scale");
        let reader = reader.ignore(["*.mlp.*", "*.ln_2.*", "ln_f.*", "wpe.*"]);
        let loaded = reader.load(&template).unwrap();
        let stored = |name: &str| bits(&arrays[&format!("transformer.{name}")]);
        assert_eq!(bits(&loaded.wte), stored("wte.weight"));
        assert_eq!(bits(&loaded.blocks[1].qkv.weight), stored("h.1.attn.c_attn.weight"));
        assert_eq!(bits(&loaded.blocks[0].out.bias), stored("h.0.attn.c_proj.bias"));
    }

    #[test]
    fn folder_with_a_single_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        checkpoint::save(folder.path().join("model.safetensors"), &first()).unwrap();
        assert_eq!(bits(&checkpoint::load(folder.path(), &first()).unwrap()), bits(&first()));
        // An index left by an older, larger model is ignored.
        index(folder.path(), "{}");
        assert_eq!(bits(&checkpoint::load(folder.path(), &first()).unwrap()), bits(&first()));
    }

    #[test]
    fn shards_that_contradict_the_index_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refuse = |expected| refused(checkpoint::open(folder.path()), folder.path(), expected);
        let shard = folder.path().join("model-00002-of-00002.safetensors");
        write(folder.path());
        std::fs::remove_file(&shard).unwrap();
        refuse(expect![[r#"
            error[checkpoint]: DIR/model.safetensors.index.json: the file `model-00002-of-00002.safetensors` is missing, which should contain `b.bias` and 1 more
              help: download it into the folder of the index"#]]);
        // The file also contains an array of the other file.
        let mut both = second();
        both.extend(first());
        checkpoint::save(&shard, &both).unwrap();
        refuse(expect![
            "error[checkpoint]: DIR/model.safetensors.index.json: array `a.weight` is in two files, `model-00001-of-00002.safetensors` and `model-00002-of-00002.safetensors`"
        ]);
        checkpoint::save(&shard, &arrays(&[("b.weight", &[2, 2])])).unwrap();
        refuse(expect![
            "error[checkpoint]: DIR/model.safetensors.index.json: `b.bias` is not in `model-00002-of-00002.safetensors`"
        ]);
        let bytes = std::fs::read(&shard).unwrap();
        std::fs::write(&shard, &bytes[..bytes.len() - 1]).unwrap();
        refuse(expect![
            "error[checkpoint]: DIR/model-00002-of-00002.safetensors: the 87 bytes are not a whole safetensors file: 15 bytes of elements, the header says 16"
        ]);
    }
}
