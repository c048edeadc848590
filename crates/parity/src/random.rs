//! Keys, bits and samplers compared with JAX bit for bit.

use crate::fixtures::Case;
#[cfg(test)]
use crate::fixtures::Suite;
#[cfg(test)]
use crate::ops::{dtype, list};
use oxidax::core::Scalar;
use oxidax::prelude::*;
use oxidax::random::{self, Key};
#[cfg(test)]
use serde_json::Value;
use std::ops::Range;

#[cfg(test)]
fn suite() -> Suite {
    Suite::load("random")
}

fn key(case: Case<'_>) -> Key {
    Key::from_data(case.input(0))
}

/// Returns the ends of a range: two recorded arrays, or two parameters.
fn arrays(case: Case<'_>) -> Option<Range<Array>> {
    (case.n_inputs() == 3).then(|| case.input(1)..case.input(2))
}

pub(crate) fn sample(case: Case<'_>) -> Vec<Array> {
    let numbers = |low: &str, high: &str| case.number(low)..case.number(high);
    let drawn = match case.op() {
        "key" => random::key(case.integer("seed") as i64).data().clone(),
        "split" => {
            let shape = case.dims("shape");
            let batch = random::split(key(case), Shape::new(&shape)).data().clone();
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
            let third = random::split(b.clone(), 3).get(2);
            let c = random::fold_in(third, 11);
            let words = [a.data().clone(), b.data().clone(), c.data().clone()];
            return [&words[..], &[random::bits(c, [4])]].concat();
        }
        "bits" => random::bits(key(case), (case.dims("shape"), case.dtype())),
        "bits_vmap" => {
            let keys = random::split(key(case), [5]);
            vmap(|key: Key| random::bits(key, [3])).apply(keys)
        }
        "uniform" => match arrays(case) {
            Some(range) => random::uniform(key(case), (case.dims("shape"), case.dtype()), range),
            None => {
                let range = numbers("minval", "maxval");
                random::uniform(key(case), (case.dims("shape"), case.dtype()), range)
            }
        },
        "normal" => random::normal(key(case), (case.dims("shape"), case.dtype())),
        "exponential" => random::exponential(key(case), (case.dims("shape"), case.dtype())),
        "gumbel" => random::gumbel(key(case), (case.dims("shape"), case.dtype())),
        "truncated_normal" => {
            let shape = case.dims("shape");
            match arrays(case) {
                Some(range) => random::truncated_normal(key(case), (shape, case.dtype()), range),
                None => {
                    let range = numbers("lower", "upper");
                    random::truncated_normal(key(case), (shape, case.dtype()), range)
                }
            }
        }
        "randint" => {
            let shape = case.dims("shape");
            match arrays(case) {
                Some(range) => random::randint(key(case), (shape, case.dtype()), range),
                None => {
                    let end = |name| Scalar::Int(case.integer(name));
                    let range = end("minval")..end("maxval");
                    random::randint(key(case), (shape, case.dtype()), range)
                }
            }
        }
        "bernoulli" => random::bernoulli(key(case), case.dims("shape"), case.input(1)),
        "permutation" if case.n_inputs() == 1 => {
            random::permutation(key(case), case.integer("n") as i64)
        }
        "permutation" => {
            let axis = case.integer("axis") as isize;
            let independent = case.param("independent").as_bool() == Some(true);
            let options = random::PermutationOptions { axis, independent };
            random::permutation_with(key(case), case.input(1), options)
        }
        "categorical" => {
            let (logits, axis) = (case.input(1), case.integer("axis") as isize);
            let shape = match case.param("shape").is_null() {
                true => None,
                false => Some(case.dims("shape").into()),
            };
            let options = random::CategoricalOptions { axis, shape, ..Default::default() };
            random::categorical_with(key(case), &logits, options)
        }
        "choice_without_replacement" => {
            let [count] = case.dims("shape")[..] else { panic!("one count") };
            let order = random::permutation(key(case), case.integer("n") as i64);
            slice(&order, &[0], &[count], &[1])
        }
        other => panic!("no function for {other}"),
    };
    vec![drawn]
}

#[cfg(test)]
fn check(ops: &[&str]) {
    suite().check(|op| ops.contains(&op), |case| case.expect_outputs(&sample(case)));
}

#[cfg(test)]
const KEYS: &[&str] = &["key", "split", "fold_in", "chain"];
#[cfg(test)]
const BITS: &[&str] = &["bits", "bits_vmap"];
#[cfg(test)]
const UNIFORM: &[&str] = &["uniform", "bernoulli"];
#[cfg(test)]
const NORMAL: &[&str] = &["normal", "truncated_normal"];
#[cfg(test)]
const LOGARITHMS: &[&str] = &["exponential", "gumbel", "categorical"];
#[cfg(test)]
const INTEGERS: &[&str] = &["randint", "permutation", "choice_without_replacement"];

#[test]
fn every_operation_has_its_test() {
    let all = [KEYS, BITS, UNIFORM, NORMAL, LOGARITHMS, INTEGERS].concat();
    let suite = suite();
    let without: Vec<&str> = suite.ops().filter(|op| !all.contains(op)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[cfg(test)]
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
    fn samplers_that_use_logarithms() {
        check(LOGARITHMS);
    }

    #[test]
    fn integers_and_orders() {
        check(INTEGERS);
    }

    /// Draws with one key, and with a key mapped by `vmap`.
    fn drawn_twice(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
        let (shape, dtype) = (list(&params["shape"]), dtype(&params["dtype"]));
        let number = |name: &str| params[name].as_f64().unwrap();
        let integer = |name: &str| {
            let wide = params[name].as_i64().map(i128::from);
            Scalar::Int(wide.or(params[name].as_u64().map(i128::from)).unwrap())
        };
        let once = |key: Key| match op {
            "uniform" => random::uniform(key, (&shape, dtype), number("minval")..number("maxval")),
            "randint" => {
                random::randint(key, (&shape, dtype), integer("minval")..integer("maxval"))
            }
            "normal" => random::normal(key, (&shape, dtype)),
            _ => random::exponential(key, (&shape, dtype)),
        };
        let keys = Key::from_data(operands[0].reshape([1, 2]));
        let rows = vmap(once).apply(keys).reshape(shape.clone());
        vec![once(Key::from_data(operands[0].clone())), rows]
    }

    /// Operations inside a compiled program return the bits that they return outside.
    #[test]
    fn samplers_under_jit_and_vmap() {
        let ops = ["uniform", "randint", "normal", "exponential"];
        let plain = |case: Case<'_>| {
            ops.contains(&case.op()) && case.n_inputs() == 1 && case.dims("shape").len() == 1
        };
        suite().check_values(plain, drawn_twice, |case, drawn| {
            drawn.iter().try_for_each(|drawn| case.expect_outputs(std::slice::from_ref(drawn)))
        });
    }
}
