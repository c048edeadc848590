//! Exports without a plugin. `python-compat/export_check.py` calls them in JAX.

use super::flat::{FlatFunction, LeafType, ResultLeaf, Source};
use super::*;
use crate::control_flow::registries;
use crate::core::{Exemplar, Loc, Program};
use crate::passes::{Plan, PlanInput};
use expect_test::expect;
use oxidax::prelude::*;
use oxidax_vhlo::PortableArtifact;
use std::collections::{BTreeMap, BTreeSet};

fn module(exported: &Exported) -> PortableArtifact {
    PortableArtifact::read(&exported.module).expect("the module is an artifact")
}

#[test]
fn structs_and_maps_are_dictionaries_in_the_order_of_their_keys() {
    #[derive(Tree)]
    struct Layer {
        weight: Array,
        bias: Array,
    }
    let layer = Layer {
        weight: Array::of_type(Aval::new(DType::F32, [2, 3])),
        bias: Array::of_type(Aval::new(DType::BF16, [3])),
    };
    let table = BTreeMap::from([("z".to_owned(), Array::of_type(Aval::new(DType::I32, [1])))]);
    let f = jit(|layer: &Layer, table: &BTreeMap<String, Array>| {
        (vec![layer.weight.clone()], table.clone(), layer.bias.clone())
    });
    let exported = f.lower(layer, table).unwrap().export().to_exported().unwrap();
    let inputs = exported.input_tree.paths().into_iter().zip(&exported.inputs);
    let inputs: Vec<String> = inputs.map(|(path, input)| format!("{path}: {input}")).collect();
    expect![[r#"
        [0][0]['bias']: bfloat16[3]
        [0][0]['weight']: float32[2,3]
        [0][1]['z']: int32[1]"#]]
    .assert_eq(&inputs.join("\n"));
    let outputs = exported.output_tree.paths().into_iter().zip(&exported.outputs);
    let outputs: Vec<String> = outputs.map(|(path, output)| format!("{path}: {output}")).collect();
    expect![[r#"
        [0][0]: float32[2,3]
        [1]['z']: int32[1]
        [2]: bfloat16[3]"#]]
    .assert_eq(&outputs.join("\n"));
    let text = module(&exported).to_text().unwrap();
    let main = "@\"main\"(%0: tensor<3xbf16>, %1: tensor<2x3xf32>, %2: tensor<1xi32>) -> \
                (tensor<2x3xf32>, tensor<1xi32>, tensor<3xbf16>) {";
    assert!(text.contains(main), "{text}");
}

#[test]
fn platforms_that_differ_are_a_choice() {
    let x = Aval::new(DType::F32, [8]);
    let same = jit(|x: Array| x + 1.0).lower(&x).unwrap().export();
    let same = same.platforms(["cpu", "tpu"]).to_exported().unwrap();
    let text = module(&same).to_text().unwrap();
    assert!(text.contains("jax.global_constant = \"_platform_index\"") && !text.contains(".case"));
    assert!(same.uses_global_constants);
    let differing = jit(|x: Array| cumsum(&x, 0)).lower(&x).unwrap().export();
    let differing = differing.platforms(["tpu", "cpu"]).to_exported().unwrap();
    let text = module(&differing).to_text().unwrap();
    let calls = ["@\"tpu.exported\"", "@\"cpu.exported\""].map(|name| text.find(name));
    assert!(text.contains("stablehlo.case") && calls[0] < calls[1], "{text}");
    let error = jit(|x: Array| x + 1.0).lower(x).unwrap().export().platforms(["gpu"]).to_bytes();
    let error = error.unwrap_err().to_string();
    assert!(error.contains(r#"the platforms are ["gpu"], and each must be one of"#), "{error}");
}

#[test]
fn derivatives_have_float0_for_integers() {
    let (x, n) = (Aval::new(DType::F32, [4]), Aval::new(DType::I32, [2]));
    let f = jit(|x: &Array, n: &Array| (take(x, n, 0) * 2.0, n + 1));
    let exported = f.lower(x, n).unwrap().export().vjp_order(2).to_exported().unwrap();
    let types = |avals: &[oxidax_jax_export::AbstractValue]| {
        avals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let vjp = exported.vjp.as_deref().unwrap();
    assert_eq!(types(&vjp.inputs), "float32[4], int32[2], float32[2], float0[2]");
    assert_eq!(types(&vjp.outputs), "float32[4], float0[2]");
    assert_eq!(vjp.used_inputs, [0, 1, 2]);
    let second = vjp.vjp.as_deref().unwrap();
    assert_eq!(
        types(&second.inputs),
        "float32[4], int32[2], float32[2], float0[2], float32[4], float0[2]"
    );
    assert_eq!(types(&second.outputs), "float32[4], float0[2], float32[2], float0[2]");
    assert!(second.vjp.is_none());
    assert_eq!(Exported::read(&exported.to_bytes().unwrap()).unwrap(), exported);
}

#[test]
fn shardings_are_those_of_the_function() {
    let mesh = Mesh::without_devices([("data", 4), ("model", 2)]).unwrap();
    let rows = mesh.sharding(p!["data"]).unwrap();
    let f = jit(|x: &Array| x * 2.0).in_shardings(&rows).out_shardings(&rows);
    let exported = f.lower(Aval::new(DType::F32, [8, 2])).unwrap().export();
    let exported = exported.vjp_order(1).to_exported().unwrap();
    assert_eq!(exported.devices, 8);
    let rows = types::sharding(&rows);
    assert_eq!(exported.input_shardings, [Some(rows.clone())]);
    assert_eq!(exported.output_shardings, [Some(rows.clone())]);
    let vjp = exported.vjp.as_deref().unwrap();
    assert_eq!(vjp.input_shardings, [Some(rows.clone()), Some(rows.clone())]);
    assert_eq!(vjp.output_shardings, [Some(rows)]);
    let text = module(&exported).to_text().unwrap();
    assert!(text.contains("#sdy.sharding<@\"mesh\", [{\"data\"}, {}]>"), "{text}");
}

#[test]
fn calls_of_the_host_are_refused_with_their_line() {
    let f = jit(|x: Array| {
        debug_print!("x = {x}");
        x * 2.0
    });
    let error = f.lower(Aval::new(DType::F32, [2])).unwrap().export().to_bytes().unwrap_err();
    let error = error.to_string();
    assert!(error.contains("calls a function of this process"), "{error}");
    assert!(error.contains("src/export/tests.rs:"), "{error}");
}

#[test]
fn versions_are_the_oldest_that_have_the_operations() {
    let x = Aval::new(DType::F32, [2]);
    let lowered = jit(|x: Array| exp(&x)).lower(&x).unwrap();
    let producer = |export: Export| module(&export.to_exported().unwrap()).producer().to_owned();
    assert_eq!(producer(lowered.export()), "StableHLO_v1.4.0");
    let newer = lowered.export().stablehlo_version(VhloVersion::new(1, 13, 0));
    assert_eq!(producer(newer), "StableHLO_v1.13.0");
    let error = jit(|x: Array| bessel_i1e(&x)).lower(x).unwrap().export();
    let error = error.stablehlo_version(VhloVersion::new(1, 9, 0)).to_bytes().unwrap_err();
    assert!(error.to_string().contains("`chlo.bessel_i1e` needs StableHLO 1.11.0"), "{error}");
}

/// Returns the function of an exemplar's equation alone.
fn function_of(exemplar: &Exemplar) -> Result<FlatFunction, Error> {
    let avals: Vec<Aval> = exemplar.operands.iter().map(|of| of.aval.clone()).collect();
    let results = catch(|| exemplar.primitive.abstract_eval(&avals))?.expect("the types fit");
    let primitive = exemplar.primitive.clone();
    let program = Program::of_operation(primitive, avals, results, Loc::caller());
    let plan =
        Plan::new("law", &program, &vec![PlanInput::default(); program.inputs().len()], &[])?;
    Ok(FlatFunction {
        name: exemplar.primitive.name().to_owned(),
        plan,
        sources: (0..program.inputs().len()).map(Source::Argument).collect(),
        arguments: program.avals_in().into_iter().map(LeafType::Array).collect(),
        results: (0..program.outputs().len()).map(ResultLeaf::Output).collect(),
        program,
    })
}

/// Parses and writes the module of a function. Returns the error of a module that is refused.
fn write(function: &FlatFunction, platform: &str) -> Result<(), String> {
    let modules = function.modules(&[platform.to_owned()]).map_err(|error| error.to_string())?;
    let parse = |text: &str| PortableArtifact::parse(text).map_err(|error| error.to_string());
    let artifact = parse(&modules[0].text)?;
    let bytes = artifact.to_bytes().map_err(|error| error.to_string())?;
    let text = PortableArtifact::read(&bytes).and_then(|copy| copy.to_text());
    let text = text.map_err(|error| error.to_string())?;
    let again = parse(&text)?.to_bytes().map_err(|error| error.to_string())?;
    match PortableArtifact::read(&again).and_then(|copy| copy.to_text()) {
        Ok(copy) if copy == text => Ok(()),
        other => Err(format!("{text}\n{other:?}")),
    }
}

#[test]
fn the_modules_of_all_primitives_are_written() {
    let mut refused = BTreeSet::new();
    let mut count = 0;
    for entry in registries().into_iter().flatten() {
        for exemplar in (entry.exemplars)().iter().filter(|exemplar| exemplar.axes.is_empty()) {
            let function = function_of(exemplar).unwrap();
            for platform in ["cpu", "cuda", "tpu"] {
                match write(&function, platform) {
                    Ok(()) => count += 1,
                    Err(error) => {
                        let line = error.lines().next().unwrap_or_default();
                        refused.insert(format!("{} for {platform}: {line}", entry.name));
                    }
                }
            }
        }
    }
    let refused: Vec<String> = refused.into_iter().collect();
    expect![[
        r#"ffi_call for tpu: error[unsupported]: lower(ffi_call) for tpu: tpu programs cannot call the handler of a closure on the host"#
    ]]
    .assert_eq(&refused.join("\n"));
    assert!(count > 1000, "{count} modules");
}
