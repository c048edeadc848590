//! Chains of gradient transformations: states, errors and compilation.

use expect_test::{Expect, expect};
use oxidax::optim::{AdafactorOptions, FactoredRmsOptions, Mask, MuonOptions, Optimizer, State};
use oxidax::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<String, Array>;

fn model() -> Model {
    let leaf = |dtype, dims: &[usize]| Array::of_type(Aval::new(dtype, dims));
    let leaves = [
        ("embed", leaf(DType::F32, &[6, 4])),
        ("head", leaf(DType::F32, &[4, 2])),
        ("bias", leaf(DType::BF16, &[2])),
        ("seen", leaf(DType::I32, &[])),
    ];
    leaves.into_iter().map(|(name, leaf)| (name.into(), leaf)).collect()
}

/// Returns the paths and types of a state.
fn state_of(optimizer: Optimizer) -> Result<String, Error> {
    let state = eval_shape(move |model: Model| optimizer.init(&model), model())?;
    let leaves = tree::paths(&state).into_iter().zip(tree::leaves(&state));
    let lines: Vec<String> = leaves.map(|(path, leaf)| format!("{path} {}", leaf.aval())).collect();
    Ok(lines.join("\n"))
}

fn expect_state(optimizer: Optimizer, expected: Expect) {
    expected.assert_eq(&state_of(optimizer).unwrap());
}

#[test]
fn states_name_their_leaves() {
    expect_state(
        optim::muon_with(
            0.1,
            MuonOptions { matrices: Mask::paths(["head"]), ..MuonOptions::default() },
        ),
        expect![[r#"
            count i32[]
            muon.mu.head f32[4,2]
            adam.mu.bias bf16[2]
            adam.mu.embed f32[6,4]
            adam.nu.bias bf16[2]
            adam.nu.embed f32[6,4]"#]],
    );
    let factored_rms =
        FactoredRmsOptions { min_dim_size_to_factor: 4, ..FactoredRmsOptions::default() };
    expect_state(
        optim::adafactor_with(0.1, AdafactorOptions { factored_rms, ..Default::default() }),
        expect![[r#"
            count i32[]
            v_row.embed f32[4]
            v_col.embed f32[6]
            v.bias bf16[2]
            v.head f32[4,2]"#]],
    );
    let rate = optim::join_schedules([optim::hyperparam("rate", 0.1), 0.01.into()], [10]);
    let (mu_dtype, nu_dtype) = (Some(DType::F32), Some(DType::F32));
    let options = optim::AdamOptions { mu_dtype, nu_dtype, ..optim::AdamOptions::default() };
    expect_state(
        optim::masked(optim::adam_with(rate, options), Mask::paths(["bias"]))
            .chain(optim::masked(optim::adam(0.1), Mask::paths(["bias"])))
            .chain(optim::params_ema(0.99)),
        expect![[r#"
            count i32[]
            hyperparams.rate f32[]
            mu.bias f32[2]
            nu.bias f32[2]
            mu_1.bias bf16[2]
            nu_1.bias bf16[2]
            params_ema.bias f32[2]
            params_ema.embed f32[6,4]
            params_ema.head f32[4,2]"#]],
    );
    let inner = optim::masked(optim::trace(0.9), Mask::paths(["bias"]));
    expect_state(
        optim::apply_if_finite(
            optim::masked(optim::multi_steps(inner, 2), Mask::paths(["bias"])),
            3,
        ),
        expect![[r#"
            count i32[]
            notfinite_count i32[]
            last_finite bool[]
            total_notfinite i32[]
            inner.count i32[]
            inner.mini_step i32[]
            inner.acc_grads.bias f32[2]
            inner.inner.count i32[]
            inner.inner.trace.bias bf16[2]"#]],
    );
}

fn refused(optimizer: Optimizer, expected: Expect) {
    let error = state_of(optimizer).unwrap_err();
    expected.assert_eq(&crate::training::message_of(&error, file!()));
}

#[test]
fn errors_name_the_leaf_without_a_part() {
    refused(
        optim::partition([
            ("embed", Mask::paths(["embed"]), optim::sgd(0.1)),
            ("head", Mask::paths(["head"]), optim::adam(0.1)),
        ]),
        expect![[r#"
            error[tree]: $.bias: no part of the partition contains it: [embed, head]
              help: use `Mask::all()` for the last part"#]],
    );
    refused(
        optim::muon_with(0.1, MuonOptions { matrices: Mask::all(), ..MuonOptions::default() }),
        expect![[r#"
            error[tree]: $.bias: it is bf16[2], not a matrix
              help: leave it out of `matrices`, or give its `dimension_numbers`"#]],
    );
    refused(
        optim::momentum(optim::hyperparam("rate", 0.1), 0.9)
            .chain(optim::scale(optim::hyperparam("rate", 0.2))),
        expect![[r#"
            error[tree]: $.hyperparams.rate: its first value is 0.1 and 0.2
              help: one name is one number: rename one of the two"#]],
    );
}

#[test]
fn schedules_reject_invalid_steps() {
    let message = |f: fn() -> optim::Schedule| {
        let error = catch(f).unwrap_err().to_string();
        error.lines().next().unwrap_or_default().to_owned()
    };
    expect![[r#"
        error[value]: cosine_decay_schedule: decay_steps is 0, it must be positive
        error[value]: join_schedules: 1 schedules have 1 boundaries between them
        error[value]: piecewise_constant_schedule: the scale at 3 is -1, which is negative
        error[value]: warmup_cosine_decay_schedule: the warm-up takes 5 of 5 steps, no step is left"#]]
    .assert_eq(
        &[
            message(|| optim::cosine_decay_schedule(0.1, 0, 0.0)),
            message(|| optim::join_schedules([0.1.into()], [3])),
            message(|| optim::piecewise_constant_schedule(0.1, [(3, -1.0)])),
            message(|| optim::warmup_cosine_decay_schedule(0.0, 0.1, 5, 5, 0.0)),
        ]
        .join("\n"),
    );
}

#[test]
fn traced_update_is_part_of_the_program() {
    let optimizer = optim::adamw(0.1);
    let program = make_program(
        move |w: Array, g: Array| {
            let state = optimizer.init(&w);
            optimizer.update(&g, &state, &w).0
        },
        (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [3])),
    )
    .unwrap();
    assert!(!program.to_string().contains("call"), "{program}");
}

mod on_cpu {
    use super::*;

    fn f32s(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    #[test]
    fn eager_update_equals_compiled_update() {
        let model = vec![f32s(&[1.0, -2.0, 3.0]), f32s(&[0.5])];
        let gradient = vec![f32s(&[0.1, 0.2, -0.3]), f32s(&[4.0])];
        let optimizer = optim::clip_by_global_norm(1.0).chain(optim::adamw(0.1));
        let state = optimizer.init(&model);
        let compiled = optimizer.clone();
        let step = jit(move |gradient: Vec<Array>, state: State, model: Vec<Array>| {
            compiled.update(&gradient, &state, &model)
        });
        let (expected, _) = step.call(&gradient, &state, &model).unwrap();
        let (updates, next) = optimizer.update(&gradient, &state, &model);
        for (a, b) in updates.iter().zip(&expected) {
            assert_eq!(a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
        }
        // The arguments are not donated, and each step returns a new state.
        let (_, after) = optimizer.update(&gradient, &next, &model);
        assert_eq!(after.count().item::<i32>().unwrap(), 2);
        assert_eq!(state.count().item::<i32>().unwrap(), 0);
    }

    #[test]
    fn eager_update_error_names_the_callers_line() {
        let model = f32s(&[1.0]);
        let state = optim::adam(0.1).init(&model);
        let update = || optim::momentum(0.1, 0.9).update(&model, &state, &model);
        let error = catch(update).unwrap_err().to_string();
        assert!(error.contains(file!()) && error.contains("needs `trace`"), "{error}");
    }

    #[test]
    fn set_hyperparam_does_not_recompile() {
        let optimizer = optim::sgd(optim::hyperparam("learning_rate", 0.5));
        let model = f32s(&[1.0]);
        let mut state = optimizer.init(&model);
        let step = jit(move |gradient: Array, state: State, model: Array| {
            optimizer.update(&gradient, &state, &model)
        });
        let mut updates = Vec::new();
        for rate in [0.5, 0.25] {
            state.set_hyperparam("learning_rate", rate);
            let update;
            (update, state) = step.call(&model, state, &model).unwrap();
            updates.push(update.to_vec::<f32>().unwrap()[0]);
        }
        assert_eq!(updates, [-0.5, -0.25]);
        assert_eq!(step.stats().compiles, 1);
        assert_eq!(state.hyperparam("learning_rate").unwrap().item::<f32>().unwrap(), 0.25);
        let error = catch(move || state.set_hyperparam("rate", 0.1)).unwrap_err().to_string();
        let first = error.lines().next().unwrap_or_default();
        expect![
            "error[tree]: $.hyperparams: `rate` is not a hyperparameter, there are [learning_rate]"
        ]
        .assert_eq(first);
    }

    #[test]
    fn apply_if_finite_skips_until_the_limit() {
        let optimizer = optim::apply_if_finite(optim::momentum(1.0, 0.5), 2);
        let model = f32s(&[0.0]);
        let mut state = optimizer.init(&model);
        let mut seen = Vec::new();
        for gradient in [1.0, f32::NAN, f32::INFINITY, 2.0, f32::NAN, f32::NAN, f32::NAN] {
            let updates;
            (updates, state) = optimizer.update(&f32s(&[gradient]), &state, &model);
            seen.push(updates.to_vec::<f32>().unwrap()[0]);
        }
        // The trace stays 1 during the two skipped steps: 2 + 0.5.
        assert_eq!(seen[..6], [-1.0, 0.0, 0.0, -2.5, 0.0, 0.0]);
        assert!(seen[6].is_nan(), "the third in a row is let through");
        assert_eq!(state.value("total_notfinite").unwrap().item::<i32>().unwrap(), 5);
        assert!(!state.value("last_finite").unwrap().item::<bool>().unwrap());
    }

    #[test]
    fn params_ema_averages_parameters() {
        let optimizer = optim::sgd(1.0).chain(optim::params_ema(0.75));
        let mut model = (f32s(&[4.0]), Array::from_slice(&[7i32], [1]).unwrap());
        let mut state = optimizer.init(&model);
        let gradient = (f32s(&[4.0]), Array::from_slice(&[0i32], [1]).unwrap());
        let mut expected = 4.0;
        for _ in 0..3 {
            let updates;
            (updates, state) = optimizer.update(&gradient, &state, &model);
            model = optim::apply_updates(&model, &updates);
            expected = 0.75 * expected + 0.25 * model.0.to_vec::<f32>().unwrap()[0];
        }
        let average = state.params_ema(&model);
        assert_eq!(average.0.to_vec::<f32>().unwrap(), [expected]);
        assert_eq!(average.1.to_vec::<i32>().unwrap(), [7]);
        let mixed = optim::incremental_update(&model, &average, 0.5);
        assert_eq!(mixed.0.to_vec::<f32>().unwrap(), [(expected - 8.0) / 2.0]);
    }

    #[test]
    fn moments_can_be_wider_than_parameters() {
        let (mu_dtype, nu_dtype) = (Some(DType::F32), Some(DType::F32));
        let options = optim::AdamOptions { mu_dtype, nu_dtype, ..optim::AdamOptions::default() };
        let optimizer = optim::adam_with(0.1, options);
        let model = f32s(&[1.0, 2.0]).astype(DType::BF16);
        let (updates, state) = optimizer.update(&model, &optimizer.init(&model), &model);
        assert_eq!(state.get("nu", "").unwrap().dtype(), DType::F32);
        assert_eq!(updates.dtype(), DType::F32);
        assert_eq!(optim::apply_updates(&model, &updates).dtype(), DType::BF16);
    }

    #[test]
    fn state_survives_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let optimizer = optim::apply_if_finite(
            optim::muon(optim::hyperparam("learning_rate", 0.1)).chain(optim::params_ema(0.9)),
            3,
        );
        let model = BTreeMap::from([("w".to_owned(), ones([2, 3])), ("b".to_owned(), ones([3]))]);
        let fresh = optimizer.init(&model);
        let (_, state) = optimizer.update(&model, &fresh, &model);
        checkpoint::save(&path, &state).unwrap();
        let loaded = checkpoint::load(&path, &fresh).unwrap();
        let (again, expected) = (tree::leaves(&loaded), tree::leaves(&state));
        assert_eq!(again.len(), expected.len());
        for (a, b) in again.iter().zip(&expected) {
            assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
        }
        // The optimizer accepts the loaded state.
        let (_, next) = optimizer.update(&model, &loaded, &model);
        assert_eq!(next.count().item::<i32>().unwrap(), 2);
    }
}
