//! Transforms with options compared with JAX: Taylor mode, user-defined rules, Jacobians, linear
//! maps, recomputation, loops, host functions and trees. An operation's name stands for one
//! function of all operands; see `recorder/autodiff_suite.py`.

use crate::autodiff_programs::program;
use crate::autodiff_rules::rule;
#[cfg(test)]
use crate::fixtures::Suite;
use crate::fixtures::by_example;
use oxidax::prelude::*;
use serde_json::Value;

/// The value, then the derivatives along the curve.
fn taylor(f: impl Fn(&Array) -> Array, x: &[Array]) -> Vec<Array> {
    let (value, derivatives) = jet(|x: &Array| f(x), &x[0], x[1..].to_vec());
    [vec![value], derivatives].concat()
}

fn curve(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match name {
        "exp_sin" => taylor(|x| exp(sin(x)), x),
        "rational" => taylor(|x| (x * x + 1.0) / (x + 3.0), x),
        "log_tanh" => taylor(|x| log(&(x * x + 2.0)) * tanh(x), x),
        "roots" => taylor(|x| sqrt(&(x + 3.0)) + integer_pow(x, 5), x),
        "logistic" => taylor(|x| logistic(x) * x, x),
        "cumsum_max" => taylor(|x| cumsum(&sin(x), 0) * x.max(), x),
        "softmax" => taylor(|x| softmax(&(x * x), -1), x),
        "entire" => taylor(|z| exp(sin(z)) / (z + 3.0), x),
        "mlp" => {
            let f = |p: &Array| tanh(p.matmul(&x[1])).sum();
            let (value, derivatives) = jet(f, &x[0], x[2..].to_vec());
            [vec![value], derivatives].concat()
        }
        "two" => {
            let f = |x: &Array, y: &Array| sin(x) * y / (y * y + 1.0);
            let term = |at: usize| (x[at].clone(), x[at + 2].clone());
            let (value, derivatives) = jet(f, (&x[0], &x[1]), [term(2), term(3)]);
            [vec![value], derivatives].concat()
        }
        _ => return None,
    })
}

/// A holomorphic function of a vector.
fn entire(z: &Array, w: &Array) -> Array {
    sin(w.matmul(z)) * z
}

fn holomorphic(name: &str, x: &[Array]) -> Option<Vec<Array>> {
    let options = GradOptions { holomorphic: true, ..GradOptions::default() };
    let (f, total) = (|z: &Array| entire(z, &x[1]), |z: &Array| entire(z, &x[1]).sum());
    let z = &x[0];
    Some(match name {
        "grad" => vec![grad_with(total, options)(z)],
        "value_and_grad" => {
            let (value, slope) = value_and_grad_with(total, options)(z);
            vec![value, slope]
        }
        "jacfwd" => vec![jacfwd_with(f, options)(z)],
        "jacrev" => vec![jacrev_with(f, options)(z)],
        "hessian" => vec![hessian_with(total, options)(z)],
        _ => return None,
    })
}

type Pair = (Array, Array);

/// A layer with two outputs and a pair of auxiliary values.
fn layer((w, b): &Pair, x: &Array) -> (Pair, Pair) {
    let hidden = tanh(&(x.matmul(w) + b));
    let total = (&hidden * &hidden).sum();
    ((hidden.clone(), total), (x * 2.0, hidden.sum()))
}

fn scalar_layer(p: &Pair, x: &Array) -> (Array, Pair) {
    let ((_, total), aux) = layer(p, x);
    (total, aux)
}

fn with_aux(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let p = (x[0].clone(), x.get(1)?.clone());
    let f = |p: &Pair| layer(p, &x[2]);
    let scalar = |p: &Pair| scalar_layer(p, &x[2]);
    Some(match op {
        "jacfwd_aux" => tree::leaves(&jacfwd_aux(f)(&p)),
        "jacrev_aux" => tree::leaves(&jacrev_aux(f)(&p)),
        "hessian_aux" => tree::leaves(&hessian_aux(f)(&p)),
        "grad_aux" => tree::leaves(&grad_aux(scalar)(&p)),
        "value_and_grad_aux" => tree::leaves(&value_and_grad_aux(scalar)(&p)),
        _ => return None,
    })
}

fn linear(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "linearize" => {
            let (value, tangent) = linearize(|v: &Array| tanh(x[1].matmul(v)) * v, &x[0]);
            let rows = vmap(&tangent).apply(&x[3]);
            vec![value, tangent(&x[2]), tangent(&(&x[2] * 2.0)), rows]
        }
        "linearize_aux" => {
            let f = |v: &Array| (tanh(x[1].matmul(v)), exp(v));
            let (value, aux, tangent) = linearize_aux(f, &x[0]);
            vec![value, tangent(&x[2]), aux]
        }
        "vjp_aux" => {
            let f = |v: &Array| (tanh(x[1].matmul(v)), exp(v));
            let (value, aux, pullback) = vjp_aux(f, &x[0]);
            let rows = vmap(&pullback).apply(&x[3]);
            vec![value, aux, pullback(&x[2]), rows]
        }
        "linear_transpose" => {
            let example = zeros(([3], x[0].dtype()));
            let f = |v: &Array| cumsum(&x[0].matmul(v), 0) * 2.0;
            vec![linear_transpose(f, &example)(&x[1])]
        }
        "grad_complex" => {
            let f = |v: &Array| integer_pow(&abs(&(v * &x[1])), 2).sum() + real(exp(v)).sum();
            vec![grad(f)(&x[0])]
        }
        _ => return None,
    })
}

fn plain(op: &str, x: &[Array]) -> Vec<Array> {
    let part = |prefix: &str| op.strip_prefix(prefix);
    let found = part("jet_").and_then(|name| curve(name, x));
    let found = found.or_else(|| part("holomorphic_").and_then(|name| holomorphic(name, x)));
    let found = found.or_else(|| linear(op, x)).or_else(|| rule(op, x));
    let found = found.or_else(|| program(op, x)).or_else(|| with_aux(op, x));
    found.unwrap_or_else(|| panic!("no function is called {op}"))
}

pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    by_example(params, operands, |operands| plain(op, operands))
}

#[cfg(test)]
mod on_cpu {
    use super::*;
    use crate::autodiff_programs::residuals;

    macro_rules! families {
        ($($name:ident),*) => {$(
            #[test]
            fn $name() {
                let suite = Suite::load("autodiff");
                let suite = suite.without(|_, params, _| params["family"] != stringify!($name));
                suite.check_ops(|_| true, apply);
            }
        )*};
    }

    families!(derivatives, rules, programs);

    #[test]
    fn stored_values_are_those_of_jax() {
        Suite::load("autodiff").check(
            |op| op.starts_with("residuals_"),
            |case| {
                let recorded = case.json["residuals"].as_array().unwrap();
                let recorded: Vec<&str> = recorded.iter().map(|x| x.as_str().unwrap()).collect();
                let policy = case.op().strip_prefix("residuals_").unwrap();
                let mut found = residuals(policy, &case.inputs());
                if case.json["only_named"] == true {
                    found.retain(|line| line.contains("named") || line.contains("argument"));
                }
                match found == recorded {
                    true => Ok(()),
                    false => Err(format!("{found:?}, recorded {recorded:?}")),
                }
            },
        );
    }
}
