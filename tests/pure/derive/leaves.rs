//! Derived trees with array leaves, passed through transforms.

use expect_test::expect;
use oxidax::prelude::*;
use std::collections::{BTreeMap, HashMap};

#[derive(Tree, Clone)]
struct Linear {
    weight: Array,
    bias: Option<Array>,
    #[tree(static)]
    name: &'static str,
}

#[derive(Tree, Clone)]
enum Norm {
    None,
    Scale(Array),
    Affine { scale: Array, shift: Array },
}

#[derive(Tree, Clone)]
struct Block<T> {
    attn: T,
    norms: [Norm; 3],
}

#[derive(Tree, Clone)]
struct Model {
    blocks: Vec<Block<Linear>>,
    heads: BTreeMap<String, Linear>,
    extra: HashMap<u32, (Array, Box<Array>)>,
    deterministic: bool,
}

/// Returns an array of this shape without elements.
fn leaf<const N: usize>(shape: [usize; N]) -> Array {
    eval_shape(|x: Array| x, Aval::new(DType::F32, shape)).expect("the identity fits every shape")
}

fn linear(inputs: usize, outputs: usize, bias: bool) -> Linear {
    let bias = bias.then(|| leaf([outputs]));
    Linear { weight: leaf([inputs, outputs]), bias, name: "linear" }
}

fn model() -> Model {
    let norms =
        [Norm::Affine { scale: leaf([2]), shift: leaf([1]) }, Norm::None, Norm::Scale(leaf([]))];
    let extra = [30, 4, 100].map(|key| (key, (leaf([key as usize]), Box::new(leaf([0])))));
    Model {
        blocks: vec![Block { attn: linear(2, 3, true), norms }],
        heads: ["value", "policy"].map(|key| (key.into(), linear(3, 1, false))).into(),
        extra: extra.into(),
        deterministic: true,
    }
}

fn listing<T: Tree>(tree: &T) -> String {
    let lines = tree::paths(tree).into_iter().zip(tree::leaves(tree));
    lines.map(|(path, leaf)| format!("{path}: {}\n", leaf.aval())).collect()
}

#[test]
fn paths_name_every_leaf() {
    expect![[r#"
        blocks[0].attn.weight: f32[2,3]
        blocks[0].attn.bias: f32[3]
        blocks[0].norms[0].scale: f32[2]
        blocks[0].norms[0].shift: f32[1]
        blocks[0].norms[2][0]: f32[]
        heads.policy.weight: f32[3,1]
        heads.value.weight: f32[3,1]
        extra.4[0]: f32[4]
        extra.4[1]: f32[0]
        extra.30[0]: f32[30]
        extra.30[1]: f32[0]
        extra.100[0]: f32[100]
        extra.100[1]: f32[0]
    "#]]
    .assert_eq(&listing(&model()));
}

#[test]
fn model_roundtrips_through_a_program() {
    let model = model();
    let out = eval_shape(|model: Model| model, &model).unwrap();
    assert_eq!(listing(&out), listing(&model));
    assert_eq!(tree::structure(&out), tree::structure(&model));
    assert_eq!(out.heads["value"].name, "linear");
    assert!(out.deterministic);
    let program = make_program(|model: Model| tree::map(&model, |leaf| leaf * 2.0), &model);
    let program = program.unwrap();
    assert_eq!(program.avals_in().len(), 13);
    assert_eq!(program.avals_out(), program.avals_in());
}

#[test]
fn unflatten_takes_leaves_in_path_order() {
    let model = model();
    let renumbered = tree::leaves(&model).into_iter().enumerate().map(|(n, _)| leaf([n]));
    let renumbered = tree::unflatten(&model, renumbered);
    assert_eq!(renumbered.blocks[0].attn.bias.as_ref().unwrap().size(), 1);
    assert!(matches!(&renumbered.blocks[0].norms[2], Norm::Scale(scale) if scale.size() == 4));
    assert_eq!(renumbered.heads["policy"].weight.size(), 5);
    assert_eq!(renumbered.extra[&100].1.size(), 12);
}

#[test]
fn zip_map_names_first_difference_and_line() {
    let model = model();
    let mut other = model.clone();
    other.blocks[0].norms[1] = Norm::Scale(leaf([2]));
    let line = line!() + 1;
    let outcome = oxidax::catch(|| tree::zip_map(&model, &other, |a, _| a.clone()));
    let error = outcome.err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "error[tree]: $.blocks[0].norms[1]: the structures differ: the first tree has \
             `Norm::None`, the second has `Norm::Scale`\n   --> {}:{line}:36\n  help: build both \
             trees the same way",
            file!()
        )
    );
}

#[test]
fn static_field_is_part_of_the_traced_function() {
    let power = |layer: Linear| match layer.name {
        "square" => &layer.weight * &layer.weight,
        _ => layer.weight,
    };
    let linear = linear(1, 1, false);
    assert_eq!(make_program(power, &linear).unwrap().eqns().len(), 0);
    let square = Linear { name: "square", ..linear };
    assert_eq!(make_program(power, &square).unwrap().eqns().len(), 1);
}
