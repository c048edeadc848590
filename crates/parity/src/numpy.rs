//! Functions above the primitives: operators, products, activations and statistics.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::numpy_arrays;
use crate::ops::{dtype, whole};
use oxidax::ops::linalg::{VectorNorm, norm, vector_norm};
use oxidax::prelude::*;
use serde_json::Value;

pub(crate) fn axis(value: &Value) -> isize {
    isize::try_from(whole(value)).unwrap()
}

/// Converts a list of integers that may be negative.
pub(crate) fn signed(value: &Value) -> Vec<isize> {
    value.as_array().unwrap().iter().map(axis).collect()
}

pub(crate) fn along(params: &Value) -> Axes {
    let list = match &params["axis"] {
        Value::Null => Axes::all(),
        Value::Array(_) => axes(signed(&params["axis"])),
        one => axes(axis(one)),
    };
    match params["keepdims"].as_bool() {
        Some(true) => list.keepdims(),
        _ => list,
    }
}

fn binary(op: &str, x: &Array, y: &Array) -> Option<Array> {
    Some(match op {
        "add" => x + y,
        "subtract" => x - y,
        "multiply" => x * y,
        "divide" => x / y,
        "maximum" => x.maximum(y),
        "minimum" => x.minimum(y),
        "power" => power(x, y),
        "remainder" => remainder(x, y),
        "floor_divide" => floor_divide(x, y),
        "arctan2" => atan2(x, y),
        "equal" => x.equal(y),
        "less" => x.less(y),
        "greater_equal" => x.greater_equal(y),
        "logical_and" => bitwise_and(ne(x, 0), ne(y, 0)),
        "logical_or" => bitwise_or(ne(x, 0), ne(y, 0)),
        "logical_xor" => bitwise_xor(ne(x, 0), ne(y, 0)),
        "matmul" => matmul(x, y),
        "dot" => dot(x, y),
        "vdot" => vdot(x, y),
        "outer" => outer(x, y),
        "inner" => inner(x, y),
        _ => return None,
    })
}

fn unary(op: &str, x: &Array, params: &Value) -> Option<Array> {
    let alpha = |default: f64| params["alpha"].as_f64().unwrap_or(default);
    Some(match op {
        "sign" => sign(x),
        "square" => x.square(),
        "isnan" => isnan(x),
        "signbit" => signbit(x),
        "isinf" => isinf(x),
        "isfinite" => isfinite(x),
        "abs" => abs(x),
        "reciprocal" => 1.0 / x,
        "where_sqrt" => where_(x.greater(0.0), sqrt(x), zeros_like(x)),
        "power_scalar" => match params["y"].as_i64() {
            Some(y) => x.powi(i32::try_from(y).unwrap()),
            None => x.powf(params["y"].as_f64().unwrap()),
        },
        "relu" => relu(x),
        "gelu_tanh" => gelu(x),
        "gelu_erf" => gelu_with(x, GeluOptions { approximate: false }),
        "silu" => silu(x),
        "sigmoid" => sigmoid(x),
        "softplus" => softplus(x),
        "elu" => elu(x, alpha(1.0)),
        "leaky_relu" => leaky_relu(x, alpha(0.01)),
        "tanh" => tanh(x),
        "log_sigmoid" => log_sigmoid(x),
        "relu6" => relu6(x),
        "soft_sign" => soft_sign(x),
        "softmax" => softmax(x, along(params)),
        "log_softmax" => log_softmax(x, along(params)),
        "logsumexp" => logsumexp(x, along(params)),
        "one_hot" => {
            let classes = usize::try_from(whole(&params["num_classes"])).unwrap();
            let (axis, dtype) = (axis(&params["axis"]), dtype(&params["dtype"]));
            one_hot_with(x, classes, OneHotOptions { axis, dtype })
        }
        "sum" => x.sum_axes(along(params)),
        "prod" => x.prod_axes(along(params)),
        "mean" => x.mean_axes(along(params)),
        "max" => x.max_axes(along(params)),
        "min" => x.min_axes(along(params)),
        "any" => x.any_axes(along(params)),
        "all" => x.all_axes(along(params)),
        "var" => x.var_axes(along(params).ddof(params["ddof"].as_f64().unwrap())),
        "std" => x.std_axes(along(params).ddof(params["ddof"].as_f64().unwrap())),
        "norm" => normed(x, params),
        "argmax" | "argmin" => match (op, &params["axis"]) {
            ("argmax", Value::Null) => x.argmax(),
            ("argmin", Value::Null) => x.argmin(),
            ("argmax", at) => x.argmax_axis(axis(at)),
            (_, at) => x.argmin_axis(axis(at)),
        },
        _ => return None,
    })
}

fn normed(x: &Array, params: &Value) -> Array {
    let order = match &params["ord"] {
        Value::String(_) => VectorNorm::Inf,
        Value::Number(one) if one.as_i64() == Some(1) => VectorNorm::L1,
        _ => VectorNorm::L2,
    };
    match (&params["ord"], &params["axis"]) {
        (Value::Null, Value::Null) => norm(x),
        _ => vector_norm(x, order, along(params)),
    }
}

pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    if let Some(results) = numpy_arrays::apply(op, params, operands) {
        return results;
    }
    let result = match (op, operands) {
        ("einsum", operands) => {
            let operands: Vec<&Array> = operands.iter().collect();
            einsum(params["spec"].as_str().unwrap(), operands)
        }
        ("tensordot", [x, y]) => match &params["axes"] {
            Value::Array(pairs) => {
                let pairs = TensorDotAxes::Pairs(signed(&pairs[0]), signed(&pairs[1]));
                tensordot(x, y, pairs)
            }
            count => tensordot(x, y, usize::try_from(whole(count)).unwrap()),
        },
        ("logsumexp", [x, weights]) => logsumexp_with(
            x,
            along(params),
            LogsumexpOptions { b: Some(weights), ..Default::default() },
        ),
        ("clip", [x, low, high]) => clip(x, low, high),
        ("where", [mask, x, y]) => where_(mask, x, y),
        (_, [x]) => unary(op, x, params).unwrap_or_else(|| panic!("no function is called {op}")),
        (_, [x, y]) => binary(op, x, y).unwrap_or_else(|| panic!("no function is called {op}")),
        _ => panic!("no function of {} operands is called {op}", operands.len()),
    };
    vec![result]
}

#[cfg(test)]
fn family(op: &str) -> &'static str {
    match op {
        "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum" | "power"
        | "remainder" | "floor_divide" | "arctan2" => "operators",
        "matmul" | "einsum" | "dot" | "vdot" | "outer" | "inner" | "tensordot" => "products",
        "sum" | "prod" | "mean" | "max" | "min" | "any" | "all" | "var" | "std" | "norm" => {
            "statistics"
        }
        "index" | "take" | "take_along_axis" => "indexing",
        _ if op.starts_with("at_") => "updates",
        _ => "functions",
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    families!(
        Suite::load("numpy").with_narrow_defaults(); operators, products, statistics, indexing,
        updates, functions
    );
}
