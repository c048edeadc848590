//! Primitives that compute with elements: elementwise functions, conversions, reductions and
//! products.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::ops_moving;
use oxidax::core::bind1;
use oxidax::prelude::*;
use oxidax::primitives::{ArgMax, ArgMin, ComparisonDirection, Div, DotGeneral, compare_total};
use serde_json::Value;

pub(crate) fn whole(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} should be an integer"))
}

/// Converts a list of integers, or one integer, to indices.
pub(crate) fn list(value: &Value) -> Vec<usize> {
    let integers = value.as_array().unwrap_or_else(|| panic!("{value} should be a list"));
    integers.iter().map(|item| usize::try_from(whole(item)).unwrap()).collect()
}

pub(crate) fn axes(value: &Value) -> Vec<isize> {
    list(value).into_iter().map(|axis| isize::try_from(axis).unwrap()).collect()
}

pub(crate) fn dtype(value: &Value) -> DType {
    DType::from_name(value.as_str().unwrap()).unwrap()
}

fn unary(op: &str, x: &Array) -> Option<Array> {
    Some(match op {
        "neg" => neg(x),
        "sign" => sign(x),
        "abs" => abs(x),
        "floor" => floor(x),
        "ceil" => ceil(x),
        "exp" => exp(x),
        "expm1" => expm1(x),
        "log" => log(x),
        "log1p" => log1p(x),
        "sqrt" => sqrt(x),
        "rsqrt" => rsqrt(x),
        "cbrt" => cbrt(x),
        "logistic" => logistic(x),
        "tanh" => tanh(x),
        "sin" => sin(x),
        "cos" => cos(x),
        "tan" => tan(x),
        "asin" => asin(x),
        "acos" => acos(x),
        "atan" => atan(x),
        "sinh" => sinh(x),
        "cosh" => cosh(x),
        "asinh" => asinh(x),
        "acosh" => acosh(x),
        "atanh" => atanh(x),
        "erf" => erf(x),
        "erf_inv" => erf_inv(x),
        "square" => square(x),
        "is_finite" => is_finite(x),
        "not" => bitwise_not(x),
        "popcnt" => population_count(x),
        "clz" => count_leading_zeros(x),
        "real" => real(x),
        "imag" => imag(x),
        "conj" => conj(x),
        _ => return None,
    })
}

fn binary(op: &str, x: &Array, y: &Array) -> Option<Array> {
    Some(match op {
        "add" => add(x, y),
        "sub" => sub(x, y),
        "mul" => mul(x, y),
        // `div` converts integers to floats; JAX recorded `lax.div`, which corresponds to the
        // primitive.
        "div" => bind1(Div, [x, y]),
        "rem" => rem(x, y),
        "max" => maximum(x, y),
        "min" => minimum(x, y),
        "pow" => pow(x, y),
        "atan2" => atan2(x, y),
        "nextafter" => nextafter(x, y),
        "complex" => complex(x, y),
        "and" => bitwise_and(x, y),
        "or" => bitwise_or(x, y),
        "xor" => bitwise_xor(x, y),
        "shift_left" => shift_left(x, y),
        "shift_right_logical" => shift_right_logical(x, y),
        "shift_right_arithmetic" => shift_right_arithmetic(x, y),
        "eq" => eq(x, y),
        "ne" => ne(x, y),
        "lt" => lt(x, y),
        "le" => le(x, y),
        "gt" => gt(x, y),
        "ge" => ge(x, y),
        "eq_to" => compare_total(ComparisonDirection::Eq, x, y),
        "lt_to" => compare_total(ComparisonDirection::Lt, x, y),
        "le_to" => compare_total(ComparisonDirection::Le, x, y),
        _ => return None,
    })
}

fn reduction(op: &str, x: &Array, params: &Value) -> Option<Array> {
    let function: fn(&Array, &[isize]) -> Array = match op {
        "reduce_sum" => reduce_sum,
        "reduce_prod" => reduce_prod,
        "reduce_max" => reduce_max,
        "reduce_min" => reduce_min,
        "reduce_and" => reduce_and,
        "reduce_or" => reduce_or,
        "reduce_xor" => reduce_xor,
        "argmax" | "argmin" => {
            let (axis, index_dtype) = (list(&params["axes"])[0], dtype(&params["index_dtype"]));
            return Some(match op {
                "argmax" => bind1(ArgMax { axis, index_dtype }, [x]),
                _ => bind1(ArgMin { axis, index_dtype }, [x]),
            });
        }
        _ => return None,
    };
    Some(function(x, &axes(&params["axes"])))
}

fn dot(x: &Array, y: &Array, params: &Value) -> Array {
    let precision = match params["precision"].as_str() {
        None | Some("default") => Precision::Default,
        Some("high") => Precision::High,
        Some("highest") => Precision::Highest,
        Some(other) => panic!("no precision is called {other}"),
    };
    let how = DotGeneral {
        lhs_contracting: list(&params["contracting"][0]),
        rhs_contracting: list(&params["contracting"][1]),
        lhs_batch: list(&params["batch"][0]),
        rhs_batch: list(&params["batch"][1]),
        precision: [precision; 2],
        preferred_element_type: params["preferred_element_type"]
            .as_str()
            .map(|name| DType::from_name(name).unwrap()),
        ..DotGeneral::default()
    };
    dot_general(x, y, how)
}

/// Computes any case of the suite.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    if let Some(results) = ops_moving::apply(op, params, operands) {
        return results;
    }
    let result = match (op, operands) {
        ("round", [x]) => match params["rounding_method"].as_str() {
            Some("to_nearest_even") => round(x),
            _ => round_half_away(x),
        },
        ("integer_pow", [x]) => integer_pow(x, i32::try_from(whole(&params["y"])).unwrap()),
        ("convert_element_type", [x]) => convert_element_type(x, dtype(&params["new_dtype"])),
        ("dot_general", [x, y]) => dot(x, y, params),
        ("select", [mask, x, y]) => select(mask, x, y),
        ("clamp", [low, x, high]) => clamp(low, x, high),
        (_, [x]) => unary(op, x)
            .or_else(|| reduction(op, x, params))
            .unwrap_or_else(|| panic!("no operation is called {op}")),
        (_, [x, y]) => binary(op, x, y).unwrap_or_else(|| panic!("no operation is called {op}")),
        _ => panic!("no operation of {} operands is called {op}", operands.len()),
    };
    vec![result]
}

/// Returns the name of the test below that covers an operation. Every operation has exactly one.
#[cfg(test)]
fn family(op: &str) -> &'static str {
    match op {
        "convert_element_type" | "bitcast_convert_type" => "conversions",
        "dot_general" => "products",
        "gather" => "gathers",
        "broadcast_in_dim"
        | "reshape"
        | "transpose"
        | "rev"
        | "iota"
        | "pad"
        | "concatenate"
        | "slice"
        | "dynamic_slice"
        | "dynamic_update_slice"
        | "sort" => "moves",
        _ if op.starts_with("scatter") => "scatters",
        _ if op.starts_with("reduce_") || op.starts_with("arg") => "reductions",
        "complex" | "real" | "imag" | "conj" | "select" | "clamp" | "round" | "integer_pow" => {
            "choices"
        }
        _ if binary_names().contains(&op) => "binaries",
        _ => "unaries",
    }
}

#[cfg(test)]
fn binary_names() -> [&'static str; 25] {
    [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "max",
        "min",
        "pow",
        "atan2",
        "nextafter",
        "and",
        "or",
        "xor",
        "shift_left",
        "shift_right_logical",
        "shift_right_arithmetic",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "eq_to",
        "lt_to",
        "le_to",
    ]
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    families!(
        Suite::load("ops"); unaries, binaries, choices, conversions, reductions, products, moves,
        gathers, scatters
    );
}
