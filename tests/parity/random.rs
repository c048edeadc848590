//! Keys, bits and samplers against JAX's, bit for bit.

use crate::fixtures::{Case, Suite};
use oxidax::core::Scalar;
use oxidax::prelude::*;
use oxidax::random::{self, Key};
use std::ops::Range;

fn suite() -> Suite {
    Suite::load("random")
}

fn key(case: Case<'_>) -> Key {
    Key::from_data(case.input(0))
}

/// The ends of a range: two recorded arrays, or two parameters.
fn arrays(case: Case<'_>) -> Option<Range<Array>> {
    (case.n_inputs() == 3).then(|| case.input(1)..case.input(2))
}

fn sample(case: Case<'_>) -> Vec<Array> {
    let numbers = |low: &str, high: &str| case.number(low)..case.number(high);
    let drawn = match case.op() {
        "key" => random::key(case.integer("seed") as i64).data().clone(),
        "split" => {
            let shape = case.dims("shape");
            let batch = random::split_batch(key(case), &shape).data().clone();
            if let [n] = shape[..] {
                for (at, one) in random::split(key(case), n).iter().enumerate().take(3) {
                    let row = slice(&batch, &[at, 0], &[at + 1, 2], &[1, 1]);
                    assert_eq!(one.data().to_vec::<u32>().unwrap(), row.to_vec::<u32>().unwrap());
                }
            }
            batch
        }
        "fold_in" => random::fold_in(key(case), case.integer("data") as i64).data().clone(),
        "chain" => {
            let [a, b] = key(case).split();
            let third = random::split(b.clone(), 3).swap_remove(2);
            let c = random::fold_in(third, 11);
            let words = [a.data().clone(), b.data().clone(), c.data().clone()];
            return [&words[..], &[random::bits(c, [4], DType::U32)]].concat();
        }
        "bits" => random::bits(key(case), case.dims("shape"), case.dtype()),
        "bits_vmap" => {
            let keys = random::split_batch(key(case), [5]);
            vmap(|key: Key| random::bits(key, [3], DType::U32)).call(keys)
        }
        "uniform" => match arrays(case) {
            Some(range) => random::uniform(key(case), case.dims("shape"), case.dtype(), range),
            None => {
                let range = numbers("minval", "maxval");
                random::uniform(key(case), case.dims("shape"), case.dtype(), range)
            }
        },
        "normal" => random::normal(key(case), case.dims("shape"), case.dtype()),
        "exponential" => random::exponential(key(case), case.dims("shape"), case.dtype()),
        "gumbel" => random::gumbel(key(case), case.dims("shape"), case.dtype()),
        "truncated_normal" => {
            let shape = case.dims("shape");
            match arrays(case) {
                Some(range) => random::truncated_normal(key(case), shape, case.dtype(), range),
                None => {
                    let range = numbers("lower", "upper");
                    random::truncated_normal(key(case), shape, case.dtype(), range)
                }
            }
        }
        "randint" => {
            let shape = case.dims("shape");
            match arrays(case) {
                Some(range) => random::randint(key(case), shape, case.dtype(), range),
                None => {
                    let end = |name| Scalar::Int(case.integer(name));
                    let range = end("minval")..end("maxval");
                    random::randint(key(case), shape, case.dtype(), range)
                }
            }
        }
        "bernoulli" => random::bernoulli(key(case), case.dims("shape"), case.input(1)),
        "permutation" if case.n_inputs() == 1 => {
            random::permutation(key(case), case.integer("n") as usize)
        }
        "permutation" => {
            let axis = case.integer("axis") as isize;
            match case.param("independent").as_bool() {
                Some(true) => random::permute_independent(key(case), &case.input(1), axis),
                _ => random::permute(key(case), &case.input(1), axis),
            }
        }
        "categorical" => {
            let (logits, axis) = (case.input(1), case.integer("axis") as isize);
            match case.param("shape").is_null() {
                true => random::categorical(key(case), &logits, axis),
                false => random::categorical_shape(key(case), &logits, axis, case.dims("shape")),
            }
        }
        "choice_without_replacement" => {
            let [count] = case.dims("shape")[..] else { panic!("one count") };
            let order = random::permutation(key(case), case.integer("n") as usize);
            slice(&order, &[0], &[count], &[1])
        }
        other => panic!("no function for {other}"),
    };
    vec![drawn]
}

fn check(ops: &[&str]) {
    suite().check(|op| ops.contains(&op), |case| case.expect_outputs(&sample(case)));
}

const KEYS: &[&str] = &["key", "split", "fold_in", "chain"];
const BITS: &[&str] = &["bits", "bits_vmap"];
const UNIFORM: &[&str] = &["uniform", "bernoulli"];
const NORMAL: &[&str] = &["normal", "truncated_normal"];
const LOGARITHMS: &[&str] = &["exponential", "gumbel", "categorical"];
const INTEGERS: &[&str] = &["randint", "permutation", "choice_without_replacement"];

#[test]
fn every_operation_has_its_test() {
    let all = [KEYS, BITS, UNIFORM, NORMAL, LOGARITHMS, INTEGERS].concat();
    let suite = suite();
    let without: Vec<&str> = suite.ops().filter(|op| !all.contains(op)).collect();
    assert!(without.is_empty(), "{without:?}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn keys() {
        check(KEYS);
    }

    #[test]
    fn bits() {
        check(BITS);
    }

    #[test]
    fn uniform_numbers() {
        check(UNIFORM);
    }

    #[test]
    fn normal_numbers() {
        check(NORMAL);
    }

    #[test]
    fn what_logarithms_make() {
        check(LOGARITHMS);
    }

    #[test]
    fn integers_and_orders() {
        check(INTEGERS);
    }

    /// Inside a compiled program the same operations give the same bits.
    #[test]
    fn samplers_under_jit_and_vmap() {
        let ops = ["uniform", "randint", "normal", "exponential"];
        let plain = |case: Case<'_>| case.n_inputs() == 1;
        suite().check(
            |op| ops.contains(&op),
            |case| {
                if !plain(case) || case.dims("shape").len() != 1 {
                    return Ok(());
                }
                let (shape, dtype) = (case.dims("shape"), case.dtype());
                let once: Box<dyn Fn(Key) -> Array + Send + Sync> = match case.op() {
                    "uniform" => {
                        let range = case.number("minval")..case.number("maxval");
                        Box::new(move |key| random::uniform(key, &shape, dtype, range.clone()))
                    }
                    "randint" => {
                        let end = |name| Scalar::Int(case.integer(name));
                        let range = end("minval")..end("maxval");
                        Box::new(move |key| random::randint(key, &shape, dtype, range.clone()))
                    }
                    "normal" => Box::new(move |key| random::normal(key, &shape, dtype)),
                    _ => Box::new(move |key| random::exponential(key, &shape, dtype)),
                };
                let once = std::sync::Arc::new(once);
                let inner = once.clone();
                let compiled = jit(move |key: Key| inner(key));
                let drawn = compiled.call(key(case)).map_err(|error| error.to_string())?;
                case.expect_outputs(&[drawn])?;
                let keys = key(case).data().reshape([1, 2]);
                let rows = vmap(move |key: Key| once(key)).call(Key::from_data(keys));
                case.expect_outputs(&[rows.reshape(case.dims("shape"))])
            },
        );
    }
}
