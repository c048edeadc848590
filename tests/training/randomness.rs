//! Keys and samplers: types, errors, locations. Values are checked against JAX's in `tests/parity`.

use expect_test::{Expect, expect};
use oxidax::prelude::*;
use oxidax::random::Key;

fn refused(f: fn(Key) -> Array, expected: Expect) {
    let error = eval_shape(f, Key::of_type()).unwrap_err().to_string();
    assert!(error.contains(file!()), "{error}");
    let lines: Vec<&str> = error
        .lines()
        .filter(|line| !line.contains("-->") && !line.contains("while tracing"))
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn samplers_refuse_what_they_cannot_draw() {
    refused(
        |key| random::bits(key, [3], DType::I32),
        expect![[r#"error[dtype]: bits: draws u8, u16, u32 or u64, not i32"#]],
    );
    refused(
        |key| random::uniform(key, [3], DType::I32, 0.0..1.0),
        expect![[r#"error[dtype]: uniform: draws f16, bf16, f32 or f64, not i32"#]],
    );
    refused(
        |key| random::uniform(key, [3], DType::F32, zeros([2], DType::F32)..ones([2], DType::F32)),
        expect![[r#"
            error[shape]: uniform: f32[2] does not broadcast to the shape [3]
              lhs: f32[2]
              rhs: f32[2]"#]],
    );
    refused(
        |key| random::randint(key, [3], DType::F32, 0..10),
        expect![[r#"error[dtype]: randint: draws integers of 8, 16, 32 or 64 bits, not f32"#]],
    );
    refused(
        |key| random::randint(key, [3], DType::I32, 0.0..10.0),
        expect![[
            r#"error[dtype]: randint: the ends of the range must be integers, got Float(0.0)"#
        ]],
    );
    refused(
        |key| random::normal(key, [3], DType::F8E4M3FN),
        expect![[r#"error[dtype]: normal: draws f16, bf16, f32 or f64, not f8_e4m3fn"#]],
    );
    refused(
        |key| random::permute(key, &zeros([3, 4], DType::F32), 2),
        expect![[r#"
            error[shape]: permute: axis 2 is out of range for an array of rank 2
              operand: f32[3,4]"#]],
    );
    refused(
        |key| random::categorical_shape(key, &zeros([3, 4], DType::F32), 1, [3, 2]),
        expect![[r#"
            error[shape]: categorical: the shape [3,2] must end with [3], that of the distributions
              operand: f32[3,4]"#]],
    );
    refused(
        |key| random::fold_in(key, 0.5).data().clone(),
        expect![[r#"error[value]: fold_in: needs an integer, got Float(0.5)"#]],
    );
    refused(
        |key| random::bits(random::split_batch(key, [5]), [3], DType::U32),
        expect![[r#"
            error[shape]: bits: draws from one key, got an array of keys of shape [5]
              help: map over the keys with `vmap`"#]],
    );
    refused(
        |_| Key::from_data(zeros([2], DType::I32)).data().clone(),
        expect![[r#"
            error[dtype]: Key::from_data: a key is two words of u32, got i32[2]
              operand: i32[2]"#]],
    );
    refused(
        |_| Key::from_data(zeros([3], DType::U32)).data().clone(),
        expect![[r#"
            error[shape]: Key::from_data: a key has a last axis of 2, got u32[3]
              operand: u32[3]"#]],
    );
}

#[test]
fn a_key_is_a_tree_of_one_leaf() {
    assert_eq!(tree::paths(&Key::of_type()), [""]);
    let keys = eval_shape(|key: Key| random::split_batch(key, [4, 5]), Key::of_type()).unwrap();
    assert_eq!(keys.data().aval().to_string(), "u32[4,5,2]");
    assert_eq!(keys.shape().dims(), [4, 5]);
}

#[test]
fn operations_bear_the_line_of_the_sampler() {
    let line = line!() + 1;
    let program = make_program(|key: Key| random::normal(key, [3], DType::F32), Key::of_type());
    for eqn in program.unwrap().eqns() {
        let location = eqn.location.expect("traced here");
        assert_eq!((location.file(), location.line()), (file!(), line));
    }
}

#[test]
fn a_seed_inside_a_trace_is_a_constant() {
    let program = make_program(|_: Array| random::key(7).data().clone(), Aval::new(DType::F32, []));
    assert_eq!(program.unwrap().avals_out()[0].to_string(), "u32[2]");
}

mod on_cpu {
    use super::*;

    #[test]
    fn a_seed_inside_a_trace_gives_the_same_key() {
        let inner = jit(|x: Array| (random::key(-3).data().clone(), x));
        let (words, _) = inner.call(zeros([], DType::F32)).unwrap();
        let outer = random::key(-3).data().to_vec::<u32>().unwrap();
        assert_eq!(words.to_vec::<u32>().unwrap(), outer);
    }

    #[test]
    fn vmap_over_keys_is_a_loop_over_keys() {
        let draw = |key: Key| {
            let [a, b] = key.split();
            let weights = random::normal(a, [3], DType::F32);
            let order = random::permutation(random::fold_in(b, 3), 5);
            (weights, order)
        };
        let keys = random::split_batch(random::key(3), [4]);
        let (weights, orders) = vmap(draw).call(keys);
        let (weights, orders) = (weights.to_vec::<f32>().unwrap(), orders.to_vec::<i32>().unwrap());
        for (at, key) in random::split(random::key(3), 4).into_iter().enumerate() {
            let (weight, order) = draw(key);
            assert_eq!(weight.to_vec::<f32>().unwrap(), weights[3 * at..][..3]);
            assert_eq!(order.to_vec::<i32>().unwrap(), orders[5 * at..][..5]);
        }
    }

    #[test]
    fn samplers_are_differentiable_in_their_range() {
        let high = Array::from_slice(&[3.0f32], []).unwrap();
        let unit = random::uniform(random::key(1), [], DType::F32, 0.0..1.0);
        let slope = grad(|high: &Array| {
            random::uniform(random::key(1), [], DType::F32, zeros([], DType::F32)..high.clone())
        })(&high);
        assert_eq!(slope.item::<f32>().unwrap(), unit.item::<f32>().unwrap());
    }
}
