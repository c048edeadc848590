//! Keys and samplers: types, errors and locations. `crates/parity` compares values with JAX.

use expect_test::{Expect, expect};
use oxidax::prelude::*;
use oxidax::random::{CategoricalOptions, ChoiceOptions, Key, RandomMode};

fn refused(f: fn(Key) -> Array, expected: Expect) {
    let error = eval_shape(f, Key::of_type()).unwrap_err();
    expected.assert_eq(&crate::training::message_of(&error, file!()));
}

#[test]
fn samplers_reject_invalid_arguments() {
    refused(
        |key| random::bits(key, ([3], DType::I32)),
        expect![[r#"error[dtype]: bits: draws u8, u16, u32 or u64, not i32"#]],
    );
    refused(
        |key| random::uniform(key, ([3], DType::I32), 0.0..1.0),
        expect![[r#"error[dtype]: uniform: draws f16, bf16, f32 or f64, not i32"#]],
    );
    refused(
        |key| random::uniform(key, [3], zeros([2])..ones([2])),
        expect![[r#"
            error[shape]: uniform: f32[2] does not broadcast to the shape [3]
              lhs: f32[2]
              rhs: f32[2]"#]],
    );
    refused(
        |key| random::randint(key, ([3], DType::F32), 0..10),
        expect![[r#"error[dtype]: randint: draws integers of 8, 16, 32 or 64 bits, not f32"#]],
    );
    refused(
        |key| random::randint(key, [3], 0.0..10.0),
        expect![[
            r#"error[dtype]: randint: the ends of the range must be integers, got Float(0.0)"#
        ]],
    );
    refused(
        |key| random::normal(key, ([3], DType::F8E4M3FN)),
        expect![[r#"error[dtype]: normal: draws f16, bf16, f32 or f64, not f8_e4m3fn"#]],
    );
    refused(
        |key| {
            random::permutation_with(
                key,
                zeros([3, 4]),
                random::PermutationOptions { axis: 2, independent: false },
            )
        },
        expect![[r#"
            error[shape]: permutation: axis 2 is out of range for an array of rank 2
              operand: f32[3,4]"#]],
    );
    refused(
        |key| {
            let options =
                random::CategoricalOptions { shape: Some([3, 2].into()), ..Default::default() };
            random::categorical_with(key, &zeros([3, 4]), options)
        },
        expect![[r#"
            error[shape]: categorical: distributions of shape [3] do not broadcast to [3,2]
              operand: f32[3,4]"#]],
    );
    refused(
        |key| random::fold_in(key, 0.5).data().clone(),
        expect![[r#"error[value]: fold_in: needs an integer, got Float(0.5)"#]],
    );
    refused(
        |key| random::bits(random::split(key, [5]), [3]),
        expect![[r#"
            error[shape]: bits: draws from one key, got an array of keys of shape [5]
              help: map over the keys with `vmap`"#]],
    );
    refused(
        |_| Key::from_data(zeros(([2], DType::I32))).data().clone(),
        expect![[r#"
            error[dtype]: Key::from_data: a key is two words of u32, got i32[2]
              operand: i32[2]"#]],
    );
    refused(
        |_| Key::from_data(zeros(([3], DType::U32))).data().clone(),
        expect![[r#"
            error[shape]: Key::from_data: a key has a last axis of 2, got u32[3]
              operand: u32[3]"#]],
    );
}

fn f32s(shape: &[usize]) -> Array {
    ones(shape)
}

#[test]
fn samplers_reject_parameters_that_do_not_broadcast() {
    refused(
        |key| random::gamma(key, [3], f32s(&[2])),
        expect![[r#"
        error[shape]: gamma: f32[2] does not broadcast to the shape [3]
          operand: f32[2]"#]],
    );
    refused(
        |key| random::beta(key, .., f32s(&[2]), f32s(&[3])),
        expect![[r#"
        error[shape]: beta: the shapes [2], [3] of the distributions do not broadcast together
          lhs: f32[2]
          rhs: f32[3]"#]],
    );
    refused(
        |key| random::poisson(key, [4, 3], f32s(&[2, 4, 3])),
        expect![[r#"
        error[shape]: poisson: f32[2,4,3] does not broadcast to the shape [4,3]
          operand: f32[2,4,3]"#]],
    );
    refused(
        |key| random::weibull_min(key, [], f32s(&[2]), 1.0),
        expect![[r#"
        error[shape]: weibull_min: f32[2] does not broadcast to the shape []
          lhs: f32[2]
          rhs: f32[]"#]],
    );
    refused(
        |key| random::dirichlet(key, [3], &f32s(&[])),
        expect![[r#"
        error[shape]: dirichlet: needs alpha of rank 1 and more, got a scalar
          operand: f32[]"#]],
    );
    refused(
        |key| random::dirichlet(key, [3], &f32s(&[2, 4])),
        expect![[r#"
        error[shape]: dirichlet: distributions of shape [2] do not broadcast to [3]
          operand: f32[2,4]"#]],
    );
    refused(
        |key| random::multivariate_normal(key, .., &f32s(&[3]), &f32s(&[3, 2])),
        expect![[r#"
            error[shape]: multivariate_normal: needs a mean […, n] and a covariance […, n, n], got f32[3] and f32[3,2]
              lhs: f32[3]
              rhs: f32[3,2]"#]],
    );
    refused(
        |key| random::multivariate_normal(key, .., &f32s(&[2, 3]), &f32s(&[4, 3, 3])),
        expect![[r#"
            error[shape]: multivariate_normal: the shapes [2], [4] of the distributions do not broadcast together
              lhs: f32[2,3]
              rhs: f32[4,3,3]"#]],
    );
    refused(
        |key| random::multinomial(key, .., f32s(&[3]), &f32s(&[2, 4])),
        expect![[r#"
            error[shape]: multinomial: f32[3] does not broadcast to the shape [2]
              operand: f32[3]"#]],
    );
    refused(
        |key| random::multinomial(key, .., 10, &f32s(&[])),
        expect![[r#"
        error[shape]: multinomial: needs p of rank 1 and more, got a scalar
          operand: f32[]"#]],
    );
    refused(
        |key| random::ball(key, [5], 3, f32s(&[2])),
        expect![[r#"
        error[shape]: ball: needs one number p, got f32[2]
          operand: f32[2]"#]],
    );
    refused(
        |key| random::binomial(key, [2], f32s(&[3]), 0.5),
        expect![[r#"
        error[shape]: binomial: f32[3] does not broadcast to the shape [2]
          lhs: f32[3]
          rhs: f32[]"#]],
    );
}

#[test]
fn samplers_reject_unsupported_dtypes() {
    refused(
        |key| random::pareto(key, [3], ones(([3], DType::F64))),
        expect![[r#"
        error[dtype]: pareto: draws f32, which f64[3] does not promote to
          operand: f64[3]
          help: convert the parameter, or draw its dtype"#]],
    );
    refused(
        |key| random::t(key, ([3], DType::I32), 2.0),
        expect!["error[dtype]: t: draws f16, bf16, f32 or f64, not i32"],
    );
    refused(
        |key| random::poisson(key, ([3], DType::F32), 2.0),
        expect!["error[dtype]: poisson: draws integers of 8, 16, 32 or 64 bits, not f32"],
    );
    refused(
        |key| random::geometric(key, ([3], DType::Bool), 0.5),
        expect!["error[dtype]: geometric: draws integers of 8, 16, 32 or 64 bits, not bool"],
    );
    refused(
        |key| random::rademacher(key, ([3], DType::Bool)),
        expect!["error[dtype]: rademacher: draws integers of 8, 16, 32 or 64 bits, not bool"],
    );
    refused(
        |key| random::orthogonal(key, ([], DType::BF16), 3),
        expect!["error[dtype]: orthogonal: draws f32, f64, c64 or c128, not bf16"],
    );
    refused(
        |key| random::lognormal(key, ([3], DType::I32), 2.0),
        expect!["error[dtype]: lognormal: draws f16, bf16, f32 or f64, not i32"],
    );
    refused(
        |key| random::bernoulli(key, [3], ones(([3], DType::I32))),
        expect!["error[dtype]: bernoulli: draws f16, bf16, f32 or f64, not i32"],
    );
    refused(
        |key| {
            random::bernoulli_with(
                key,
                [3],
                0.5,
                random::BernoulliOptions { mode: RandomMode::Highest },
            )
        },
        expect!["error[value]: bernoulli: supports the modes Low and High, not Highest"],
    );
}

#[test]
fn choice_rejects_invalid_axes_and_sizes() {
    refused(
        |key| random::choice(key, [2], 0),
        expect!["error[value]: choice: cannot choose 2 elements from an empty array"],
    );
    refused(
        |key| random::choice(key, [2], -3),
        expect!["error[value]: choice: chooses among `0..n`, n up to 2³¹ - 1, got Int(-3)"],
    );
    refused(
        |key| random::choice(key, [2], f32s(&[])),
        expect![[r#"
        error[shape]: choice: chooses among slices, got f32[]
          operand: f32[]
          help: pass a number for the choice among `0..n`"#]],
    );
    refused(
        |key| random::choice(key, [2], f32s(&[0, 3])),
        expect![[r#"
        error[value]: choice: cannot choose 2 elements from an empty array
          operand: f32[0,3]"#]],
    );
    refused(
        |key| {
            let options = ChoiceOptions { replace: false, ..Default::default() };
            random::choice_with(key, [4, 2], 7, options)
        },
        expect!["error[value]: choice: cannot choose 8 of 7 elements without replacement"],
    );
    refused(
        |key| {
            let p = f32s(&[6]);
            random::choice_with(key, [4], 7, ChoiceOptions { p: Some(&p), ..Default::default() })
        },
        expect![[r#"
            error[shape]: choice: the probabilities must be floats of shape [7], got f32[6]
              operand: f32[6]"#]],
    );
    refused(
        |key| {
            let options = ChoiceOptions { axis: 2, ..Default::default() };
            random::choice_with(key, [4], f32s(&[2, 3]), options)
        },
        expect![[r#"
            error[shape]: choice: axis 2 is out of range for an array of rank 2
              operand: f32[2,3]"#]],
    );
    refused(
        |key| {
            let shape = Some([6, 3].into());
            let options = CategoricalOptions { shape, replace: false, ..Default::default() };
            random::categorical_with(key, &f32s(&[3, 5]), options)
        },
        expect![[r#"
            error[shape]: categorical: cannot draw [6,3] of 5 classes without replacement, from distributions [3]
              operand: f32[3,5]"#]],
    );
}

#[test]
fn a_key_is_a_tree_of_one_leaf() {
    assert_eq!(tree::paths(&Key::of_type()), [""]);
    let keys = eval_shape(|key: Key| random::split(key, [4, 5]), Key::of_type()).unwrap();
    assert_eq!(keys.data().aval().to_string(), "u32[4,5,2]");
    assert_eq!(keys.shape().dims(), [4, 5]);
}

#[test]
fn sampler_operations_have_the_location_of_the_call() {
    let line = line!() + 1;
    let program = make_program(|key: Key| random::normal(key, [3]), Key::of_type());
    for eqn in program.unwrap().eqns() {
        let loc = eqn.loc.get().expect("traced here");
        assert_eq!((loc.file(), loc.line()), (file!(), line));
    }
}

#[test]
fn a_seed_inside_a_trace_is_a_constant() {
    let program = make_program(|_: Array| random::key(7).data().clone(), Aval::new(DType::F32, []));
    assert_eq!(program.unwrap().avals_out()[0].to_string(), "u32[2]");
}

#[test]
fn seeds_that_are_arrays_are_checked() {
    let message = |seed: Aval| {
        let error = eval_shape(|seed: Array| Key::from_seed(&seed), seed).unwrap_err();
        error.to_string()
    };
    let text = message(Aval::new(DType::F32, []));
    assert!(text.contains("Key::from_seed: a seed is an integer, got f32[]"), "{text}");
    let text = message(Aval::new(DType::I32, [3]));
    assert!(text.contains("Key::from_seed: a seed is a scalar, got i32[3]"), "{text}");
}

mod on_cpu {
    use super::*;

    /// Words of `jax.random.key_data(jax.random.key(seed))` for seeds in arrays.
    #[test]
    fn seeds_may_be_arrays() {
        let words = |key: Key| key.data().to_vec::<u32>().unwrap();
        let seeds = Array::from_slice(&[1i32, -1], [2]).unwrap();
        let keys = vmap(|seed: Array| Key::from_seed(&seed)).apply(&seeds);
        assert_eq!(words(keys), [0, 1, 0, u32::MAX]);
        let wide = Array::from_slice(&[(7i64 << 32) + 5], []).unwrap();
        assert_eq!(words(Key::from_seed(&wide)), [7, 5]);
        let narrow = Array::from_slice(&[200u8], []).unwrap();
        assert_eq!(words(Key::from_seed(&narrow)), [0, 200]);
        let options = random::KeyOptions { implementation: random::KeyImpl::Rbg };
        let rbg = jit(move |seed: Array| Key::from_seed_with(&seed, options).data().clone());
        assert_eq!(rbg.call(42).unwrap().to_vec::<u32>().unwrap(), [0, 42, 0, 42]);
    }

    #[test]
    fn key_under_jit_equals_eager_key() {
        let inner = jit(|x: Array| (random::key(-3).data().clone(), x));
        let (words, _) = inner.call(zeros([])).unwrap();
        let outer = random::key(-3).data().to_vec::<u32>().unwrap();
        assert_eq!(words.to_vec::<u32>().unwrap(), outer);
    }

    #[test]
    fn vmap_over_keys_equals_a_loop() {
        let draw = |key: Key| {
            let [a, b] = key.split();
            let weights = random::normal(a, [3]);
            let order = random::permutation(random::fold_in(b, 3), 5);
            (weights, order)
        };
        let keys = random::split(random::key(3), [4]);
        let (weights, orders) = vmap(draw).apply(keys);
        let (weights, orders) = (weights.to_vec::<f32>().unwrap(), orders.to_vec::<i32>().unwrap());
        for (at, key) in random::split(random::key(3), 4).into_iter().enumerate() {
            let (weight, order) = draw(key);
            assert_eq!(weight.to_vec::<f32>().unwrap(), weights[3 * at..][..3]);
            assert_eq!(order.to_vec::<i32>().unwrap(), orders[5 * at..][..5]);
        }
    }

    #[test]
    fn samplers_are_differentiable_in_their_parameters() {
        let high = Array::from_slice(&[3.0f32], []).unwrap();
        let unit = random::uniform(random::key(1), [], 0.0..1.0);
        let slope =
            grad(|high: &Array| random::uniform(random::key(1), [], zeros([])..high.clone()))(
                &high,
            );
        assert_eq!(slope.item::<f32>().unwrap(), unit.item::<f32>().unwrap());
    }
}
