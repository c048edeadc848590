//! Saving and loading trees.

use expect_test::{Expect, expect};
use oxidax::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Tree, Clone, Debug)]
struct Model {
    layers: Vec<nn::Linear>,
    scale: Array,
}

fn message(error: Error, folder: &Path) -> String {
    error.to_string().replace(&folder.display().to_string(), "DIR")
}

fn refused(outcome: Result<impl Sized, Error>, folder: &Path, expected: Expect) {
    match outcome {
        Ok(_) => panic!("it was not refused"),
        Err(error) => expected.assert_eq(&message(error, folder)),
    }
}

#[test]
fn files_that_are_no_checkpoints_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let template = Array::of_type(Aval::new(DType::F32, [2]));
    let refuse = |expected| refused(checkpoint::load(&path, &template), folder.path(), expected);
    refuse(expect![[
        r#"error[io]: DIR/model.safetensors: No such file or directory (os error 2)"#
    ]]);
    std::fs::write(&path, b"").unwrap();
    refuse(expect![[
        r#"error[checkpoint]: DIR/model.safetensors: the 0 bytes are not a whole safetensors file: header too small"#
    ]]);
    std::fs::write(&path, b"this is some text, not a checkpoint").unwrap();
    refuse(expect![[
        r#"error[checkpoint]: DIR/model.safetensors: the 35 bytes are not a whole safetensors file: header too large"#
    ]]);
    let header = br#"{"array":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend([0; 7]);
    std::fs::write(&path, &file).unwrap();
    refuse(expect![[
        r#"error[checkpoint]: DIR/model.safetensors: the 73 bytes are not a whole safetensors file: incomplete metadata, file not fully covered"#
    ]]);
}

mod on_cpu {
    use super::*;

    fn model(n_out: usize) -> Model {
        let head = nn::Linear::new(random::key(0), 2, n_out);
        let tail = nn::Linear::new(random::key(1), n_out, 1).without_bias();
        Model { layers: vec![head, tail], scale: full([], 2.5) }
    }

    #[test]
    fn a_model_comes_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let saved = model(3);
        checkpoint::save(&path, &saved).unwrap();
        // Over the old file, and from types alone.
        checkpoint::save(&path, &saved).unwrap();
        let template = tree::map(&saved, |leaf| Array::of_type(leaf.aval().clone()));
        let loaded = checkpoint::load(&path, &template).unwrap();
        for (a, b) in tree::leaves(&saved).iter().zip(tree::leaves(&loaded)) {
            assert_eq!(a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
        }
        let names: Vec<String> = checkpoint::arrays(&path).unwrap().into_keys().collect();
        let expected = ["layers[0].bias", "layers[0].weight", "layers[1].weight", "scale"];
        assert_eq!(names, expected);
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(files.len(), 1, "no temporary file is left: {files:?}");
    }

    #[test]
    fn every_dtype_of_the_format_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dtypes.safetensors");
        let names = [
            "bool",
            "i8",
            "i16",
            "i32",
            "i64",
            "u8",
            "u16",
            "u32",
            "u64",
            "f16",
            "bf16",
            "f32",
            "f64",
            "c64",
            "f8_e5m2",
            "f8_e4m3fn",
            "f8_e4m3fnuz",
            "f8_e5m2fnuz",
            "f8_e8m0fnu",
            "f4_e2m1fn",
        ];
        let saved: BTreeMap<String, Array> = names
            .iter()
            .map(|name| {
                let dtype = DType::from_name(name).unwrap();
                // Ones and zeros have every byte of a bool; other bits are as good as any.
                let bytes: Vec<u8> = (0..4 * dtype.host_bytes()).map(|at| (at % 2) as u8).collect();
                (name.to_string(), Array::from_bytes(&bytes, dtype, [2, 2]).unwrap())
            })
            .collect();
        checkpoint::save(&path, &saved).unwrap();
        let loaded = checkpoint::load(&path, &saved).unwrap();
        for (name, array) in &saved {
            assert_eq!(array.aval(), loaded[name].aval());
            assert_eq!(array.to_bytes().unwrap(), loaded[name].to_bytes().unwrap(), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_listed_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        checkpoint::save(&path, &model(3)).unwrap();
        let mut other = model(4);
        other.layers[1].bias = Some(zeros([1], DType::F32));
        other.layers[0].bias = None;
        other.scale = zeros([], DType::BF16);
        refused(
            checkpoint::load(&path, &other),
            folder.path(),
            expect![[r#"
            error[checkpoint]: DIR/model.safetensors: leaf `layers[0].weight` is f32[2,3], expected f32[2,4]
              leaf `layers[1].weight` is f32[3,1], expected f32[4,1]
              leaf `layers[1].bias` (f32[1]) is missing
              leaf `scale` is f32[], expected bf16[]
              `layers[0].bias` (f32[3]) belongs to no leaf"#]],
        );
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused_and_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        checkpoint::save(&path, &model(3)).unwrap();
        let before = std::fs::read(&path).unwrap();
        let wide = vec![zeros([2], DType::C128)];
        refused(
            checkpoint::save(&path, &wide),
            folder.path(),
            expect![[
                r#"error[checkpoint]: DIR/model.safetensors: leaf `[0]` is c128[2]: safetensors files have no such dtype; convert it with `astype` before saving"#
            ]],
        );
        let leaf = |name: &str| BTreeMap::from([(name.to_string(), zeros([1], DType::F32))]);
        let twice =
            BTreeMap::from([("a".to_string(), leaf("b.c")), ("a.b".to_string(), leaf("c"))]);
        refused(
            checkpoint::save(&path, &twice),
            folder.path(),
            expect![[r#"error[checkpoint]: DIR/model.safetensors: two leaves are called `a.b.c`"#]],
        );
        let nowhere = folder.path().join("nowhere").join("model.safetensors");
        refused(
            checkpoint::save(&nowhere, &model(3)),
            folder.path(),
            expect![[
                r#"error[io]: DIR/nowhere/model.safetensors: No such file or directory (os error 2)"#
            ]],
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
