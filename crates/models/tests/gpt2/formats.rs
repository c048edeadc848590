//! GPT-2 in the formats and layouts of other libraries, mapped by rules. `python-compat/
//! weight_files.py` trains the models and records their logits.

use super::transformers::difference;
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config};
use oxidax_weights::{GgmlType, GgufDType, Rules, WeightDType, WeightFormat, Weights};
use std::path::PathBuf;

/// Hugging Face's names, with and without the prefix.
const HUGGING_FACE: &str = "
    drop *.attn.bias
    drop lm_head.weight
    rename transformer.* -> *
    rename h.{i}.* -> h.layers[{i}].*
    rename *ln_{n}.weight -> *ln_{n}.scale
";

/// The names of `FlaxGPT2LMHeadModel`, whose matrices are transposed: `[out, in]`.
const FLAX: &str = "
    rename transformer.* -> *
    rename h.{i}.* -> h.layers[{i}].*
    rename {table}.embedding -> {table}.weight
    transpose *.kernel 1,0
    rename *.kernel -> *.weight
";

/// llama.cpp's names. Its matrices are `[out, in]` too.
const GGUF: &str = "
    rename token_embd.weight -> wte.weight
    rename position_embd.weight -> wpe.weight
    rename output_norm.weight -> ln_f.scale
    rename output_norm.bias -> ln_f.bias
    rename blk.{i}.* -> h.layers[{i}].*
    transpose h.*qkv.weight 1,0
    transpose h.*output.weight 1,0
    transpose h.*up.weight 1,0
    transpose h.*down.weight 1,0
    rename *.attn_norm.weight -> *.ln_1.scale
    rename *.attn_norm.bias -> *.ln_1.bias
    rename *.ffn_norm.weight -> *.ln_2.scale
    rename *.ffn_norm.bias -> *.ln_2.bias
    rename *.attn_qkv.* -> *.attn.c_attn.*
    rename *.attn_output.* -> *.attn.c_proj.*
    rename *.ffn_up.* -> *.mlp.c_fc.*
    rename *.ffn_down.* -> *.mlp.c_proj.*
";

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "weights", "tests", "data", name].iter().collect()
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap()
}

fn open(name: &str) -> Weights {
    Weights::open(data(name)).unwrap()
}

/// Returns the types of the model's leaves.
fn template(folder: &str) -> Gpt2 {
    let config = Gpt2Config::load(data(folder)).unwrap();
    eval_shape(move |key: random::Key| Gpt2::new(key, &config), random::Key::of_type()).unwrap()
}

mod on_cpu {
    use super::*;

    fn logits(model: &Gpt2) -> Array {
        let tokens = Array::from_slice(&[1, 5, 9, 2, 39, 0, 7, 11], [1, 8]).unwrap();
        let logits = jit(|model: Gpt2, tokens: Array| model.forward(&tokens, None));
        logits.call(model, &tokens).unwrap()
    }

    fn recorded(folder: &str) -> Array {
        open(&format!("{folder}/logits.safetensors")).array("logits").unwrap()
    }

    #[test]
    fn hugging_face_files_give_the_logits_of_the_loader() {
        let expected = logits(&Gpt2::load(data("gpt2")).unwrap());
        assert!(difference(&expected, &recorded("gpt2")) < 1e-5);
        for (name, format, rules_text) in [
            ("gpt2/model.safetensors", WeightFormat::Safetensors, HUGGING_FACE),
            ("gpt2/pytorch_model.bin", WeightFormat::PyTorch, HUGGING_FACE),
            ("gpt2/pytorch_model.bin.index.json", WeightFormat::PyTorch, HUGGING_FACE),
            ("gpt2/gpt2.gguf", WeightFormat::Gguf, GGUF),
        ] {
            let weights = open(name);
            assert_eq!(weights.format(), format, "{name}");
            let mapped = rules(rules_text).apply(&weights).unwrap();
            let model = mapped.load(&template("gpt2")).unwrap();
            let found = logits(&model);
            assert_eq!(found.to_bytes().unwrap(), expected.to_bytes().unwrap(), "{name}");
        }
    }

    #[test]
    fn a_trained_flax_model_gives_its_logits() {
        let weights = open("gpt2_flax");
        assert_eq!(weights.format(), WeightFormat::Flax);
        let mapped = rules(FLAX).apply(&weights).unwrap();
        let model = mapped.load(&template("gpt2_flax")).unwrap();
        assert!(difference(&logits(&model), &recorded("gpt2_flax")) < 1e-5);
    }

    #[test]
    fn fused_projections_are_split_and_joined_again() {
        let whole = rules(HUGGING_FACE).apply(&open("gpt2/pytorch_model.bin")).unwrap();
        let parts = rules("split *.c_attn.{p} axis 1 -> *.q.{p}, *.k.{p}, *.v.{p}");
        let refused = parts.apply(&whole).unwrap_err().to_string();
        assert!(refused.contains("`h.layers[0].attn.c_attn.bias`: split: f32[48] has no axis 1"));
        let parts = rules(
            "split *.c_attn.weight axis 1 -> *.q.weight, *.k.weight, *.v.weight
             split *.c_attn.bias axis 0 -> *.q.bias, *.k.bias, *.v.bias",
        );
        let split = parts.apply(&whole).unwrap();
        assert_eq!(split.get("h.layers[1].attn.k.weight").unwrap().to_string(), "f32[16,16]");
        let joins = rules(
            "join *.q.weight, *.k.weight, *.v.weight axis 1 -> *.c_attn.weight
             join *.q.bias, *.k.bias, *.v.bias axis 0 -> *.c_attn.bias",
        );
        let joined = joins.apply(&split).unwrap();
        for (name, tensor) in whole.tensors() {
            let again = joined.get(name).unwrap();
            assert_eq!(again.read().unwrap(), tensor.read().unwrap(), "{name}");
        }
        assert_eq!(joined.tensors().len(), whole.tensors().len());
    }

    #[test]
    fn a_quantized_gguf_file_is_close() {
        let whole = rules(HUGGING_FACE).apply(&open("gpt2/model.safetensors")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let dtype = GgufDType::Floats(WeightDType::Ggml(GgmlType::Q8_0));
        // Rows of 16 elements are no blocks of 32, so only the wide matrices are quantized.
        whole.save_gguf(&path, dtype).unwrap();
        let weights = Weights::open(&path).unwrap();
        let quantized = weights.tensors().values().filter(|t| t.dtype() != WeightDType::F32);
        assert_eq!(quantized.count(), 2, "c_fc of two layers");
        let mapped = Rules::new().cast("*", WeightDType::F32).apply(&weights).unwrap();
        let model = mapped.load(&template("gpt2")).unwrap();
        let apart = difference(&logits(&model), &recorded("gpt2"));
        assert!((1e-5..2e-2).contains(&apart), "{apart}");
    }

    #[test]
    fn all_differences_are_listed_together() {
        let text = HUGGING_FACE.replace("drop lm_head.weight", "transpose lm_head.weight 1,0")
            + "rename h.layers[1].ln_2.bias -> h.layers[1].norm.bias\ntranspose wte.weight 1,0\n";
        let mapped = rules(&text).apply(&open("gpt2/pytorch_model.bin")).unwrap();
        let refused = mapped.load(&template("gpt2")).unwrap_err().to_string();
        for expected in [
            "`h.layers[1].ln_2.bias` (f32[16]) is missing",
            "`h.layers[1].norm.bias` (f32[16]) is surplus, from \
             `transformer.h.1.ln_2.bias`",
            "`lm_head.weight` (f32[16,40]) is surplus",
            "`wte.weight` is f32[16,40], expected f32[40,16], from \
             `transformer.wte.weight, transpose 1,0`",
        ] {
            assert!(refused.contains(expected), "{refused}");
        }
        let table = mapped.table(&oxidax_weights::expected_tensors(&template("gpt2")).unwrap());
        let line = table.lines().find(|line| line.starts_with("h.layers[1].norm.bias")).unwrap();
        assert!(line.ends_with("surplus"), "{table}");
        assert!(table.contains("missing"), "{table}");
    }
}
