//! Optimizers: state trees, errors, and leaves that are not trained. `crates/parity` compares
//! values with Optax.

use expect_test::{Expect, expect};
use oxidax::optim::State;
use oxidax::prelude::*;
use std::collections::BTreeMap;

fn of(dtype: DType, dims: &[usize]) -> Array {
    Array::of_type(Aval::new(dtype, dims))
}

fn model() -> BTreeMap<String, Array> {
    let leaves = [("w", of(DType::BF16, &[3, 4])), ("b", of(DType::F32, &[4]))];
    let mut model: BTreeMap<String, Array> =
        leaves.into_iter().map(|(name, leaf)| (name.into(), leaf)).collect();
    model.insert("steps".into(), of(DType::I32, &[]));
    model
}

type Model = BTreeMap<String, Array>;

#[test]
fn state_leaves_are_named_after_the_model() {
    let state = eval_shape(|model: Model| optim::adamw(1e-3).init(&model), model()).unwrap();
    let leaves: Vec<String> = tree::paths(&state)
        .iter()
        .zip(tree::leaves(&state))
        .map(|(path, leaf)| format!("{path} {}", leaf.aval()))
        .collect();
    let expected =
        ["count i32[]", "mu.b f32[4]", "mu.w bf16[3,4]", "nu.b f32[4]", "nu.w bf16[3,4]"];
    assert_eq!(leaves, expected);
    assert_eq!(state.accumulators().collect::<Vec<_>>(), ["mu", "nu"]);
    assert_eq!(state.get("nu", "w").unwrap().dtype(), DType::BF16);
    assert!(state.get("nu", "steps").is_none());
}

#[test]
fn update_keeps_dtypes_and_shapes() {
    for optimizer in [optim::sgd(0.1), optim::momentum(0.1, 0.9), optim::adamw(0.1)] {
        let start = optimizer.clone();
        let state = eval_shape(move |model: Model| start.init(&model), model()).unwrap();
        let (next, updates) = eval_shape(
            move |model: Model, state: State| {
                let (updates, next) = optimizer.update(&model, &state, &model);
                (next, optim::apply_updates(&model, &updates))
            },
            (model(), state.clone()),
        )
        .unwrap();
        let avals = |leaves: Vec<Array>| -> Vec<Aval> {
            leaves.iter().map(|leaf| leaf.aval().clone()).collect()
        };
        assert_eq!(avals(tree::leaves(&next)), avals(tree::leaves(&state)));
        assert_eq!(avals(tree::leaves(&updates)), avals(tree::leaves(&model())));
    }
}

fn refused(gradients: Model, state_of: Model, optimizer: optim::Optimizer, expected: Expect) {
    let state = eval_shape(|model: Model| optim::adam(0.1).init(&model), state_of).unwrap();
    let outcome = eval_shape(
        move |gradients: Model, state: State, model: Model| {
            optimizer.update(&gradients, &state, &model).0
        },
        (gradients, state, model()),
    );
    let error = outcome.unwrap_err();
    expected.assert_eq(&crate::training::message_of(&error, file!()));
}

#[test]
fn errors_name_the_leaf_that_differs() {
    let mut without = model();
    without.remove("w");
    let mut other = model();
    other.insert("b".into(), of(DType::F32, &[5]));
    refused(
        without.clone(),
        model(),
        optim::adam(0.1),
        expect![[r#"
            error[tree]: $.w: the model has `$.w`, the updates no leaf 2
              help: create both from the model that is trained"#]],
    );
    refused(
        other.clone(),
        model(),
        optim::adam(0.1),
        expect![[r#"
            error[tree]: $.b: the parameter is f32[4], its update f32[5]
              help: take the gradient with respect to this model"#]],
    );
    refused(
        model(),
        without,
        optim::adam(0.1),
        expect![[r#"
            error[tree]: $.w: the model has `$.w`, the state no leaf 1
              help: create both from the model that is trained"#]],
    );
    refused(
        model(),
        other,
        optim::adam(0.1),
        expect![[r#"
            error[tree]: $.b: the parameter is f32[4], the state's `mu` f32[5]
              help: create the state with `init` of the same model"#]],
    );
    refused(
        model(),
        model(),
        optim::momentum(0.1, 0.9),
        expect![[r#"
            error[tree]: $: the optimizer needs `trace`, the state has [mu, nu]
              help: create the state with `init` of the same optimizer"#]],
    );
}

mod on_cpu {
    use super::*;

    fn f32s(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    #[test]
    fn integer_leaves_get_zero_updates() {
        let model = (f32s(&[1.0, 2.0]), Array::from_slice(&[7i32], [1]).unwrap());
        let optimizer = optim::adamw(0.1);
        let gradients = (f32s(&[1.0, -1.0]), Array::from_slice(&[3i32], [1]).unwrap());
        let (updates, _) = optimizer.update(&gradients, &optimizer.init(&model), &model);
        assert_eq!(updates.1.to_vec::<i32>().unwrap(), [0]);
        let next = optim::apply_updates(&model, &updates);
        assert_eq!(next.1.to_vec::<i32>().unwrap(), [7]);
        let moved = next.0.to_vec::<f32>().unwrap();
        assert!((moved[0] - 0.9).abs() < 1e-4 && (moved[1] - 2.1).abs() < 1e-4, "{moved:?}");
    }

    #[test]
    fn weight_decay_applies_to_the_mask_only() {
        let mask = optim::Mask::new(|path, _| path == "[0]");
        let options =
            optim::AdamWOptions { weight_decay: 0.5, mask, ..optim::AdamWOptions::default() };
        let optimizer = optim::adamw_with(1.0, options);
        let model = (f32s(&[2.0]), f32s(&[2.0]));
        let still = (f32s(&[0.0]), f32s(&[0.0]));
        let (updates, _) = optimizer.update(&still, &optimizer.init(&model), &model);
        assert_eq!(updates.0.to_vec::<f32>().unwrap(), [-1.0]);
        assert_eq!(updates.1.to_vec::<f32>().unwrap(), [0.0]);
    }

    #[test]
    fn transformations_apply_in_chain_order() {
        let optimizer = optim::add_decayed_weights(0.5).chain(optim::sgd(0.1));
        let model = f32s(&[2.0]);
        let (updates, state) = optimizer.update(&f32s(&[1.0]), &optimizer.init(&model), &model);
        assert_eq!(updates.to_vec::<f32>().unwrap(), [-0.2]);
        assert_eq!(state.count().item::<i32>().unwrap(), 1);
    }
}
