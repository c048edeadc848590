//! Nested transforms of named functions. `python-compat/README.md` gives both as formulas.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::verify::Computation;
use oxidax::prelude::*;
use serde_json::Value;
use std::sync::Arc;

/// A function of `x` and additional operands.
type Named = fn(&Array, &[Array]) -> Array;

/// A function of one array, owned so that `jit` and `vmap` can store it.
type Owned = Arc<dyn Fn(&Array) -> Array + Send + Sync>;

fn function(name: &str) -> Named {
    match name {
        "sin_cube" => |x, _| integer_pow(&sin(x), 3),
        "rational" => |x, _| (x * x + 1.0) / (x + 3.0) - exp(&-x),
        "logsumexp_chain" => |x, _| logsumexp(&(tanh(x) * x), -1),
        "matrix_quadratic" => {
            |x, rest| x.dot(&rest[0].dot(x)) / 2.0 + integer_pow(x, 3).sum() / 6.0
        }
        "tanh_mlp" => |x, rest| tanh(&(x.matmul(&rest[0]) + &rest[1])).matmul(&rest[2]).sum(),
        "where_gather" => |x, _| {
            let order = Array::from_slice(&[2i32, 0, 1, 2], [4]).unwrap();
            let shuffled = take(x, &order, 0);
            where_(gt(x, 0.0), log(&(x * x + 1.0)), shuffled * x).sum()
        },
        "max_cumulative" => |x, _| {
            let weights = Array::from_slice(&[1i32, 2, 3, 4], [4]).unwrap().astype(x.dtype());
            x.max() * x.prod() + (sort(x, 0) * weights).sum()
        },
        "softmax_rows" => |x, _| softmax(x, -1) * x,
        "stop_gradient" => |x, _| (integer_pow(&stop_gradient(x), 2) * x).sum(),
        "integer_operand" => |x, rest| integer_pow(&take(x, &rest[0], 0), 2).sum(),
        other => panic!("no function is called {other}"),
    }
}

/// Returns the `n`-th derivative of a scalar function.
fn repeated(f: &dyn Fn(&Array) -> Array, n: usize, x: &Array) -> Array {
    match n {
        0 => f(x),
        _ => grad(|x: &Array| repeated(f, n - 1, x))(x),
    }
}

/// Applies a function to each row and stacks the results.
fn mapped(f: impl Fn(&Array) -> Array + Send + Sync + 'static, x: &Array) -> Array {
    vmap(move |x: Array| f(&x)).apply(x)
}

fn hessian(f: &Owned, x: &Array) -> Array {
    let (f, at) = (f.clone(), x.clone());
    let along = move |v: &Array| jvp(grad(|x: &Array| f(x)), &at, v).1;
    mapped(along, &eye((x.size(), x.dtype())))
}

/// Computes one nesting of transforms at `x`; `extra` holds tangents or a cotangent.
fn nest(op: &str, owned: &Owned, x: &Array, extra: &[Array]) -> Vec<Array> {
    let f = |x: &Array| owned(x);
    let pair = |(first, second): (Array, Array)| vec![first, second];
    let again = owned.clone();
    match op {
        "call" => vec![f(x)],
        "grad" => vec![grad(f)(x)],
        "value_and_grad" => pair(value_and_grad(f)(x)),
        "jvp" => pair(jvp(f, x, &extra[0])),
        "jvp(grad)" => pair(jvp(grad(f), x, &extra[0])),
        "grad(dot(grad))" => vec![grad(|x: &Array| (grad(f)(x) * &extra[0]).sum())(x)],
        "jvp(jvp)" => pair(jvp(|x: &Array| jvp(f, x, &extra[0]).1, x, &extra[1])),
        "grad(jvp)" => vec![grad(|x: &Array| jvp(f, x, &extra[0]).1)(x)],
        "vjp" => vec![vjp(f, x).1.apply(&extra[0])],
        "linearize" => {
            let (value, linear) = linearize(f, x);
            vec![value, linear.apply(&extra[0]), linear.apply(&(&extra[0] * 2.0))]
        }
        "vmap" => vec![mapped(move |x| again(x), x)],
        "vmap(grad)" => vec![mapped(move |x| grad(|x: &Array| again(x))(x), x)],
        "grad(sum(vmap))" => {
            let total = |x: &Array| {
                let f = owned.clone();
                mapped(move |x| f(x), x).sum()
            };
            vec![grad(total)(x)]
        }
        "vmap(jvp(grad))" => {
            let both = move |x: Array, v: Array| jvp(grad(|x: &Array| again(x)), &x, &v);
            pair(vmap(both).apply(x, &extra[0]))
        }
        "hessian" => vec![hessian(owned, x)],
        "vmap(hessian)" => vec![mapped(move |x| hessian(&again, x), x)],
        // A compiled function inside the transform: a call that is differentiated and mapped.
        "grad(jit)" | "vmap(grad(jit))" => {
            let inner = jit(move |x: Array| again(&x));
            match op {
                "grad(jit)" => vec![grad(|x: &Array| inner.apply(x))(x)],
                _ => vec![mapped(move |x| grad(|x: &Array| inner.apply(x))(x), x)],
            }
        }
        _ => panic!("no nesting is called {op}"),
    }
}

fn on_rows(label: &str, operands: &[Array]) -> Vec<Array> {
    let f = |x: &Array| softmax(x, -1) * x;
    let x = &operands[0];
    let pairwise = |x: &Array, y: &Array| {
        let columns = y.clone();
        let row = move |a: &Array| {
            let a = a.clone();
            mapped(move |b| (softmax(&(&a * b), -1) * (&a * b)).sum(), &columns)
        };
        mapped(row, x)
    };
    let identity = || eye((x.size(), x.dtype()));
    match label {
        "call" => vec![f(x)],
        "jvp" => {
            let (value, tangent) = jvp(f, x, &operands[1]);
            vec![value, tangent]
        }
        "vjp" => vec![vjp(f, x).1.apply(&operands[1])],
        "jacfwd" => {
            let at = x.clone();
            let along = move |v: Array| jvp(f, &at, &v).1;
            vec![vmap(along).out_axes([Some(-1)]).apply(identity())]
        }
        "jacrev" => {
            let at = x.clone();
            vec![mapped(move |ct| vjp(f, &at).1.apply(ct), &identity())]
        }
        "vmap_columns" => {
            vec![vmap(move |x: Array| f(&x)).in_axes([Some(1)]).out_axes([Some(1)]).apply(x)]
        }
        "vmap_out_last" => vec![vmap(move |x: Array| f(&x)).out_axes([Some(-1)]).apply(x)],
        "vmap(vmap)" => vec![pairwise(x, &operands[1])],
        "grad(sum(vmap(vmap)))" => {
            let total = |(x, y): &(Array, Array)| integer_pow(&pairwise(x, y), 2).sum();
            let (dx, dy) = grad(total)(&(x.clone(), operands[1].clone()));
            vec![dx, dy]
        }
        _ => panic!("no case of softmax_rows is called {label}"),
    }
}

type Weights = (Array, Array, Array);

fn with_aux((w1, b1, w2): &Weights, x: &Array) -> (Array, Array) {
    let hidden = tanh(&(x.matmul(w1) + b1));
    (integer_pow(&hidden.matmul(w2), 2).sum(), hidden)
}

fn grads_with_aux(weights: &Weights, x: &Array) -> Vec<Array> {
    let ((value, aux), (w1, b1, w2)) = value_and_grad_aux(|w: &Weights| with_aux(w, x))(weights);
    vec![value, aux, w1, b1, w2]
}

fn several(op: &str, operands: &[Array]) -> Vec<Array> {
    let [w1, b1, w2, x] = operands else { panic!("{op} takes four operands") };
    let weights = (w1.clone(), b1.clone(), w2.clone());
    match op {
        "value_and_grad(aux)" => grads_with_aux(&weights, x),
        _ => vmap(move |x: Array| grads_with_aux(&weights, &x)).apply(x),
    }
}

fn compute(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let name = params["function"].as_str().unwrap();
    match name {
        "with_aux" => return several(op, operands),
        "softmax_rows" => return on_rows(op, operands),
        _ => {}
    }
    let names = params["operands"].as_array().unwrap();
    let is_extra = |name: &Value| matches!(name.as_str(), Some("v" | "w" | "ct"));
    let first_extra = names.iter().position(is_extra).unwrap_or(names.len());
    let (x, rest, extra) = (&operands[0], &operands[1..first_extra], &operands[first_extra..]);
    let (f, captured) = (function(name), rest.to_vec());
    let owned: Owned = Arc::new(move |x: &Array| f(x, &captured));
    match op {
        "grad_all" => grad(|all: &Vec<Array>| f(&all[0], &all[1..]))(&operands.to_vec()),
        "confusion" => {
            let inner = |x: &Array| x * grad(|y: &Array| x * f(y, &[]))(&(x * 2.0));
            vec![grad(inner)(x)]
        }
        _ if op.contains("(f)") => vec![repeated(&|x| f(x, &[]), op.matches("grad(").count(), x)],
        _ => nest(op, &owned, x, extra),
    }
}

fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let Some(inner) = op.strip_prefix("jit(").and_then(|op| op.strip_suffix(')')) else {
        return compute(op, params, operands);
    };
    let (inner, params) = (inner.to_owned(), params.clone());
    let program = jit(move |operands: Vec<Array>| compute(&inner, &params, &operands));
    match program.call(operands.to_vec()) {
        Ok(results) => results,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn computation(op: &str) -> Computation {
    match op.starts_with("jit(") {
        true => Computation::Joined(apply),
        false => Computation::Alone(|case| Ok(apply(case.op(), case.params(), &case.inputs()))),
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    #[test]
    fn nested_transforms_match_jax() {
        Suite::load("transforms").check_each(|op| !op.starts_with("jit("), apply);
    }

    #[test]
    fn compiled_nested_transforms_match_jax() {
        Suite::load("transforms").check_ops(|op| op.starts_with("jit("), apply);
    }
}
