//! Functions of `jax.export` under transforms, their errors, and modules run as they are.

use oxidax::import::{ImportedFunction, ImportedModule, ModuleFormat, PyTree};
use oxidax::prelude::*;
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns a function that JAX 0.10.2 has exported.
fn recorded(name: &str) -> ImportedFunction {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-compat/fixtures/imported");
    let bytes = std::fs::read(folder.join("0.10.2.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    ImportedFunction::read(file.tensor(name).unwrap().data()).unwrap()
}

#[derive(Tree)]
struct Layer {
    weight: Array,
    bias: Array,
}

fn layers(sizes: &[usize]) -> Vec<Layer> {
    let each = sizes.windows(2).enumerate().map(|(at, pair)| Layer {
        weight: random::normal(random::key(at as i64), [pair[0], pair[1]]),
        bias: ones([pair[1]]),
    });
    each.collect()
}

fn close(x: &Array, y: &Array) {
    assert_eq!(x.aval(), y.aval());
    let largest = abs(&(x - y)).max().item::<f32>().unwrap();
    assert!(largest < 1e-5, "they differ by {largest}");
}

#[test]
fn structs_stand_for_dictionaries_with_the_names_of_their_fields() {
    let predict = recorded("mlp/relu");
    let params = layers(&[4, 8, 8, 3]);
    let x = random::normal(random::key(9), [5, 4]);
    let y = predict.call((&params, &x)).unwrap().into_array().unwrap();
    // The fields are in another order than the keys of the dictionary in Python.
    let mut expected = x.clone();
    for (at, Layer { weight, bias }) in params.iter().enumerate() {
        expected = expected.matmul(weight) + bias;
        expected = if at < 2 { relu(&expected) } else { expected };
    }
    close(&y, &expected);
    let dictionaries: Vec<PyTree> = params
        .iter()
        .map(|layer| {
            let (bias, weight) = (layer.bias.clone().into(), layer.weight.clone().into());
            PyTree::dict([("weight", weight), ("bias", bias)])
        })
        .collect();
    close(&predict.apply((PyTree::List(dictionaries), x)).into_array().unwrap(), &expected);
}

#[test]
fn leaves_that_are_missing_or_surplus_are_listed_together() {
    let predict = recorded("mlp/relu");
    let x = ones([5, 4]);
    let weights = |name: &str, sizes: &[[usize; 2]]| -> Vec<BTreeMap<String, Array>> {
        let each = sizes.iter().map(|size| [(name.to_owned(), ones(*size))].into());
        each.collect()
    };
    let params = weights("kernel", &[[4, 8], [8, 8], [8, 3]]);
    let error = predict.call((params, x)).unwrap_err().to_string();
    let first = error.lines().next().unwrap();
    assert_eq!(
        first,
        "error[exchange]: `f`: missing leaves: [0][0]['bias'], [0][0]['weight'], \
         [0][1]['bias'], [0][1]['weight'], [0][2]['bias'], [0][2]['weight']; surplus leaves: \
         0.0.kernel, 0.1.kernel, 0.2.kernel"
    );
    assert!(error.contains("importing.rs:"), "{error}");
}

#[test]
fn leaves_of_other_types_are_listed_together() {
    let predict = recorded("mlp/relu");
    let error = predict.call((layers(&[4, 8, 9, 3]), ones([5, 4]))).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "error[exchange]: `f`: [0][1]['bias'] is f32[9], it was exported for float32[8]; \
             [0][1]['weight'] is f32[8,9], it was exported for float32[8,8]; \
             [0][2]['weight'] is f32[9,3], it was exported for float32[8,3]"
        ),
        "{error}"
    );
}

#[test]
fn sizes_that_do_not_satisfy_the_dimensions_are_an_error() {
    let two = recorded("symbolic/two");
    let error = two.call((ones([2, 4]), ones([5, 3]))).unwrap_err().to_string();
    assert!(error.contains("[1], axis 0 has size 5, and n is 4 for b = 2, n = 4"), "{error}");
    let even = recorded("symbolic/even");
    let error = even.call((ones([5, 4]),)).unwrap_err().to_string();
    assert!(error.contains("[0], axis 0: no size `b` gives 2*b = 5"), "{error}");
    // The module itself states the constraint `b >= 3`.
    let slices = recorded("symbolic/slices");
    let error = slices.call((ones([2, 4]),)).unwrap_err().to_string();
    assert!(error.contains("b"), "{error}");
    assert!(slices.call((ones([3, 4]),)).is_ok());
}

#[test]
fn imported_functions_are_called_inside_of_transforms() {
    let predict = recorded("mlp/gelu");
    let params = layers(&[4, 8, 8, 3]);
    let x = random::normal(random::key(9), [2, 5, 4]);
    let one = |at: usize| predict.apply((&params, &x.index(i![at]))).into_array().unwrap();
    let expected = stack(&[one(0), one(1)], 0);
    let inside = jit(|params: &Vec<Layer>, x: &Array| {
        predict.apply((params, x)).into_array().unwrap() * 2.0
    });
    close(&inside.call(&params, x.index(i![0])).unwrap(), &(one(0) * 2.0));
    let mapped = vmap(|x: Array| predict.apply((&params, &x)).into_array().unwrap()).apply(&x);
    close(&mapped, &expected);
    let stepped = map(|x: Array| predict.apply((&params, &x)).into_array().unwrap(), &x);
    close(&stepped, &expected);
}

#[test]
fn a_function_without_exported_derivative_refuses_to_be_differentiated() {
    let predict = recorded("mlp/silu");
    assert!(!predict.has_derivative());
    let params = layers(&[4, 8, 8, 3]);
    let x = random::normal(random::key(9), [5, 4]);
    let of = |predict: &ImportedFunction| {
        oxidax::catch(|| {
            let loss = |x: &Array| predict.apply((&params, x)).into_array().unwrap().sum();
            grad(loss)(&x)
        })
    };
    let error = of(&predict).unwrap_err().to_string();
    assert!(error.contains("`f` has no derivative"), "{error}");
    assert!(error.contains("vjp_order=1"), "{error}");
    let gradient = of(&predict.with_derivative_of_operations()).unwrap();
    let ours = grad(|x: &Array| {
        let mut y = x.clone();
        for (at, Layer { weight, bias }) in params.iter().enumerate() {
            y = y.matmul(weight) + bias;
            y = if at < 2 { silu(&y) } else { y };
        }
        y.sum()
    })(&x);
    close(&gradient, &ours);
}

#[test]
fn exported_derivatives_of_derivatives_are_used() {
    let predict = recorded("gradient/mlp");
    let params = layers(&[4, 8, 3]);
    let x = random::normal(random::key(9), [3, 4]);
    let loss = |x: &Array| predict.apply((&params, x)).into_array().unwrap().square().sum();
    let ours = |x: &Array| {
        let hidden = gelu(&(x.matmul(&params[0].weight) + &params[0].bias));
        (hidden.matmul(&params[1].weight) + &params[1].bias).square().sum()
    };
    let norm = |gradient: Array| gradient.square().sum();
    let second = grad(|x: &Array| norm(grad(loss)(x)))(&x);
    let expected = grad(|x: &Array| norm(grad(ours)(x)))(&x);
    let scale = abs(&expected).max();
    close(&(second / &scale), &(expected / &scale));
    // The rule of `custom_vjp` in Python, which clips.
    let clipped = recorded("gradient/custom_vjp");
    let gradient = grad(|x: &Array| clipped.apply(x).into_array().unwrap().sum())(&ones([3, 4]));
    let expected: Vec<f32> = vec![0.1 * 2.0 + 1.0; 12];
    for (found, expected) in gradient.to_vec::<f32>().unwrap().iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found}");
    }
}

#[test]
fn results_have_the_containers_of_python() {
    let tree = recorded("results/tree");
    let result = tree.call((ones([3, 4]), ones([3, 4]))).unwrap();
    assert_eq!(oxidax::tree::paths(&result), ["one", "parts[0]", "parts[1][0]", "same", "sum"]);
    assert_eq!(result["sum"].array().unwrap().to_vec::<f32>().unwrap(), [2.0; 12]);
    #[derive(Tree)]
    struct Outcome {
        sum: Array,
        parts: (Array, (Array, Option<Array>)),
        same: Array,
        one: Array,
    }
    let x = || zeros([1]);
    let example = Outcome { sum: x(), parts: (x(), (x(), None)), same: x(), one: x() };
    let outcome = tree.call_as((ones([3, 4]), ones([3, 4])), &example).unwrap();
    assert_eq!(outcome.sum.shape().dims(), [3, 4]);
    assert_eq!(outcome.parts.0.to_vec::<f32>().unwrap(), [3.0; 4]);
    assert_eq!(outcome.parts.1.0.shape(), outcome.same.shape());
    assert_eq!(outcome.one.item::<f32>().unwrap(), 1.0);
    let error = tree.call_as((ones([3, 4]), ones([3, 4])), &x()).unwrap_err().to_string();
    assert!(error.contains("the result: missing leaves: ['one']"), "{error}");
}

#[test]
fn modules_of_each_format_run_as_they_are() {
    let text = "module @pair {
  func.func public @main(%a: tensor<3xf32>, %b: tensor<i32>) -> (tensor<3xf32>, tensor<i32>) {
    %0 = stablehlo.multiply %a, %a : tensor<3xf32>
    %1 = stablehlo.add %b, %b : tensor<i32>
    return %0, %1 : tensor<3xf32>, tensor<i32>
  }
}";
    let module = ImportedModule::read("pair", text.as_bytes()).unwrap();
    assert_eq!(module.format(), ModuleFormat::StableHloText);
    assert_eq!(format!("{module:?}"), "pair (StableHLO text): (f32[3], i32[]) -> (f32[3], i32[])");
    let a = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
    let b = Array::from_slice(&[4i32], []).unwrap();
    let results = module.call(&[a.clone(), b.clone()]).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [1.0, 4.0, 9.0]);
    assert_eq!(results[1].item::<i32>().unwrap(), 8);
    let error = module.call(&[b.clone(), a]).unwrap_err().to_string();
    let first = error.lines().next().unwrap();
    assert_eq!(
        first,
        "error[exchange]: pair: argument 0 is i32[], it takes f32[3]; argument 1 is f32[3], it \
         takes i32[]"
    );
    let error = module.call(&[b]).unwrap_err().to_string();
    assert!(error.contains("it takes 2 arguments, got 1"), "{error}");
}

#[test]
fn portable_artifacts_run_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/vhlo/tests/data");
    let bytes = std::fs::read(folder.join("dots.bc")).unwrap();
    let module = ImportedModule::read("dots", &bytes).unwrap();
    assert_eq!(module.format(), ModuleFormat::PortableArtifact);
    let inputs: Vec<Array> = module.inputs().iter().map(|aval| full(aval.clone(), 1)).collect();
    assert_eq!(module.call(&inputs).unwrap().len(), module.outputs().len());
}

#[test]
fn bytes_of_no_format_are_an_error() {
    for bytes in [&b"\x00\x01\x02"[..], b"", b"HloModule add", b"ML\xefRxyz", b"\xff\xfe\xfd"] {
        let error = ImportedModule::read("file", bytes).unwrap_err().to_string();
        assert!(error.contains("file: "), "{error}");
    }
}

#[test]
fn computations_of_the_builder_of_xla_return_what_they_return_in_jaxlib() {
    let file = "python-compat/fixtures/xla_computations.safetensors";
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let cases = metadata.metadata().clone().unwrap().remove("cases").unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&cases).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let array = |name: String| {
        let view = file.tensor(&name).unwrap();
        let dtype = match view.dtype() {
            safetensors::Dtype::I32 => DType::I32,
            _ => DType::F32,
        };
        Array::from_bytes(view.data(), dtype, view.shape()).unwrap()
    };
    assert_eq!(cases.len(), 5);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let count = |key: &str| case[key].as_u64().unwrap() as usize;
        let module = ImportedModule::read(name, file.tensor(name).unwrap().data()).unwrap();
        assert_eq!(module.format(), ModuleFormat::HloProto);
        let inputs: Vec<Array> =
            (0..count("inputs")).map(|index| array(format!("{name}.in{index}"))).collect();
        let results = module.call(&inputs).unwrap();
        assert_eq!(results.len(), count("outputs"), "{name}");
        for (index, result) in results.iter().enumerate() {
            let expected = array(format!("{name}.out{index}"));
            match result.dtype() {
                DType::F32 => close(result, &expected),
                _ => assert_eq!(result.to_vec::<i32>().unwrap(), expected.to_vec::<i32>().unwrap()),
            }
        }
    }
}
