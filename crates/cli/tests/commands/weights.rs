//! Tests of `oxidax weights`.

use crate::user::User;

/// Returns the path of a recorded file of `crates/weights`.
fn data(name: &str) -> String {
    format!("{}/../weights/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tensors_and_metadata_are_listed() {
    let user = User::new();
    let listed = user.oxidax(&["weights", "list", &data("torch_views.pt"), "--metadata"]);
    assert!(listed.succeeded, "{}", listed.stderr);
    for line in [
        "model.columns           f32[4,3]",
        "optimizer.state.0.step  f32[]",
        "epoch = 12",
        "name = \"run\"",
        "PyTorch: 11 tensors, 380 bytes",
        "skipped: `path` is an object of pathlib.PosixPath",
    ] {
        assert!(listed.stdout.lines().any(|found| found == line), "{line}\n{}", listed.stdout);
    }
    let damaged = user.path("damaged");
    std::fs::write(&damaged, b"nothing known").unwrap();
    let refused = user.oxidax(&["weights", "list", damaged.to_str().unwrap()]);
    assert!(!refused.succeeded);
    assert!(refused.stderr.contains("has no known format\n  help: "), "{}", refused.stderr);
}

#[test]
fn a_dry_run_prints_the_mapping() {
    let user = User::new();
    let rules = user.path("rules");
    let text = "# The prefix is optional.\nrename transformer.* -> *\ndrop lm_head.weight\n";
    std::fs::write(&rules, text).unwrap();
    let (file, like) = (data("gpt2/pytorch_model.bin"), data("gpt2/model.safetensors"));
    let arguments = ["weights", "map", &file, "--rules", rules.to_str().unwrap()];
    let mapped = user.oxidax(&arguments);
    assert!(mapped.succeeded, "{}", mapped.stderr);
    let line = "h.0.attn.c_attn.bias    f32[48]     transformer.h.0.attn.c_attn.bias";
    assert!(mapped.stdout.lines().any(|found| found == line), "{}", mapped.stdout);

    let compared = user.oxidax(&[&arguments[..], &["--like", &like]].concat());
    assert!(!compared.succeeded);
    let line = compared.stdout.lines().find(|line| line.starts_with("h.1.attn.bias")).unwrap();
    assert!(line.ends_with("missing"), "{line}");
    let expected = "`h.0.attn.bias` (f32[1,1,16,16]) is missing";
    assert!(compared.stderr.contains(expected), "{}", compared.stderr);

    let wrong = user.oxidax(&["weights", "map", &file, "--rule", "rename a"]);
    assert!(wrong.stderr.contains("line 1: `rename a`: expected"), "{}", wrong.stderr);
}

#[test]
fn files_are_converted() {
    let user = User::new();
    let arguments = ["weights", "convert"];
    let file = data("gpt2_flax");
    let rule = ["--rule", "transpose *.kernel 1,0", "--rule", "rename *.kernel -> *.weight"];
    let output = user.path("model.gguf");
    let output = output.to_str().unwrap();
    let all = [&arguments[..], &[&file, output, "--dtype", "q8_0"], &rule].concat();
    let converted = user.oxidax(&all);
    assert!(converted.succeeded, "{}", converted.stderr);
    assert_eq!(converted.stdout, format!("wrote 28 tensors to {output}\n"));
    let listed = user.oxidax(&["weights", "list", output]).stdout;
    let is_narrow = |line: &&str| line.contains("c_proj.weight") && line.ends_with("f32[64,16]");
    assert!(listed.lines().any(|line| is_narrow(&line)), "{listed}");
    assert!(listed.contains("q8_0[16,64]"), "{listed}");
    let again = user.path("model.safetensors");
    let all = ["weights", "convert", output, again.to_str().unwrap(), "--dtype", "f16"];
    assert!(user.oxidax(&all).succeeded);
    let listed = user.oxidax(&["weights", "list", again.to_str().unwrap()]).stdout;
    assert!(listed.contains("f16[16,64]") && listed.contains("safetensors: 28"), "{listed}");
    let refused = user.oxidax(&["weights", "convert", output, "model.bin"]);
    let expected = "ends with neither `.safetensors` nor `.gguf`";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
}
