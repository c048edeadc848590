//! Cumulative operations, windows, convolutions, selections and special functions of `jax.lax`.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::ops::{dtype, list, whole};
use oxidax::prelude::*;
use oxidax::primitives::{
    ConvDimensionNumbers, ConvGeneralDilated, ConvTransposeOptions, Window, igamma_grad_a,
    random_gamma_grad,
};
use serde_json::Value;

fn size(value: &Value) -> usize {
    usize::try_from(whole(value)).unwrap()
}

fn axis(params: &Value) -> isize {
    isize::try_from(whole(&params["axis"])).unwrap()
}

/// Converts a list; JAX's `None` becomes an empty list.
fn sizes(value: &Value) -> Vec<usize> {
    if value.is_null() { Vec::new() } else { list(value) }
}

fn padding(value: &Value) -> Padding {
    match value.as_str() {
        Some("VALID") => Padding::Valid,
        Some("SAME") => Padding::Same,
        Some("SAME_LOWER") => Padding::SameLower,
        Some(other) => panic!("no padding is called {other}"),
        None => {
            let pair = |pair: &Value| (whole(&pair[0]) as isize, whole(&pair[1]) as isize);
            Padding::Explicit(value.as_array().unwrap().iter().map(pair).collect())
        }
    }
}

fn window(params: &Value) -> Window {
    Window {
        dimensions: list(&params["dimensions"]),
        strides: list(&params["strides"]),
        padding: padding(&params["padding"]),
        base_dilation: list(&params["base_dilation"]),
        window_dilation: list(&params["window_dilation"]),
    }
}

pub(crate) fn convolution(params: &Value) -> ConvGeneralDilated {
    let numbers = match params["dimension_numbers"].as_array() {
        Some(layouts) => {
            let [lhs, rhs, out] = [0, 1, 2].map(|at| layouts[at].as_str().unwrap());
            ConvDimensionNumbers::of(lhs, rhs, out)
        }
        None => ConvDimensionNumbers::default(),
    };
    let groups = |name: &str| if params[name].is_null() { 1 } else { size(&params[name]) };
    ConvGeneralDilated {
        window_strides: sizes(&params["window_strides"]),
        padding: padding(&params["padding"]),
        lhs_dilation: sizes(&params["lhs_dilation"]),
        rhs_dilation: sizes(&params["rhs_dilation"]),
        dimension_numbers: numbers,
        feature_group_count: groups("feature_group_count"),
        batch_group_count: groups("batch_group_count"),
        preferred_element_type: match &params["preferred_element_type"] {
            Value::Null => None,
            name => Some(dtype(name)),
        },
        ..ConvGeneralDilated::default()
    }
}

fn mode(params: &Value) -> ConvolveMode {
    match params["mode"].as_str().unwrap() {
        "full" => ConvolveMode::Full,
        "same" => ConvolveMode::Same,
        _ => ConvolveMode::Valid,
    }
}

fn running(op: &str, x: &Array, params: &Value) -> Option<Array> {
    let function: fn(&Array, isize, RunningTotalOptions) -> Array = match op {
        "cumsum" => cumsum_with,
        "cumprod" => cumprod_with,
        "cummax" => cummax_with,
        "cummin" => cummin_with,
        "cumlogsumexp" => cumlogsumexp_with,
        "cumulative_sum" | "cumulative_prod" => {
            let include_initial = params["include_initial"].as_bool().unwrap();
            let function =
                if op == "cumulative_sum" { cumulative_sum_with } else { cumulative_prod_with };
            return Some(function(
                x,
                axis(params),
                CumulativeOptions { include_initial, ..Default::default() },
            ));
        }
        _ => {
            let name = op.strip_prefix("jnp.")?;
            return Some(match (name, params["axis"].is_null()) {
                ("cumsum", true) => x.cumsum(),
                ("cumprod", true) => x.cumprod(),
                ("nancumsum", true) => x.nancumsum(),
                ("nancumprod", true) => x.nancumprod(),
                ("cumsum", false) => x.cumsum_axis(axis(params)),
                ("cumprod", false) => x.cumprod_axis(axis(params)),
                ("nancumsum", false) => x.nancumsum_axis(axis(params)),
                ("nancumprod", false) => x.nancumprod_axis(axis(params)),
                _ => panic!("no operation is called {op}"),
            });
        }
    };
    let reverse = params["reverse"].as_bool().unwrap();
    Some(function(x, axis(params), RunningTotalOptions { reverse }))
}

fn windowed(op: &str, x: &Array, params: &Value) -> Option<Array> {
    Some(match op {
        "reduce_window_sum" => reduce_window_sum(x, &window(params)),
        "reduce_window_prod" => reduce_window_prod(x, &window(params)),
        "reduce_window_max" => reduce_window_max(x, &window(params)),
        "reduce_window_min" => reduce_window_min(x, &window(params)),
        "reduce_window" => reduce_window(x, whole(&params["init"]), |a, b| a + b, &window(params)),
        "conv_general_dilated_patches" => {
            conv_general_dilated_patches(x, &list(&params["filter_shape"]), &convolution(params))
        }
        _ => return None,
    })
}

fn special(op: &str, operands: &[Array]) -> Option<Array> {
    Some(match (op, operands) {
        ("lgamma", [x]) => lgamma(x),
        ("digamma", [x]) => digamma(x),
        ("bessel_i0e", [x]) => bessel_i0e(x),
        ("bessel_i1e", [x]) => bessel_i1e(x),
        ("polygamma", [m, x]) => polygamma(m, x),
        ("zeta", [x, q]) => zeta(x, q),
        ("igamma", [a, x]) => igamma(a, x),
        ("igammac", [a, x]) => igammac(a, x),
        ("igamma_grad_a", [a, x]) => igamma_grad_a(a, x),
        ("random_gamma_grad", [a, x]) => random_gamma_grad(a, x),
        ("betainc", [a, b, x]) => betainc(a, b, x),
        _ => return None,
    })
}

/// Computes a case without `vmap`.
fn plain(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let pair = |(values, positions)| vec![values, positions];
    if let Some(y) = special(op, operands) {
        return vec![y];
    }
    if let Some(results) = crate::lax_products::apply(op, params, operands) {
        return results;
    }
    vec![match (op, operands) {
        ("top_k", [x]) => return pair(top_k(x, size(&params["k"]), axis(params))),
        ("top_k_values", [x]) => top_k(x, size(&params["k"]), axis(params)).0,
        ("approx_max_k", [x]) => return pair(approx_max_k(x, size(&params["k"]), -1, 0.95)),
        ("approx_min_k", [x]) => return pair(approx_min_k(x, size(&params["k"]), -1, 0.95)),
        ("reduce_precision", [x]) => {
            let bits = |name: &str| size(&params[name]) as u32;
            reduce_precision(x, bits("exponent_bits"), bits("mantissa_bits"))
        }
        ("select_n", [which, cases @ ..]) => select_n(which, cases),
        ("conv_general_dilated", [x, y]) => conv_general_dilated(x, y, convolution(params)),
        ("conv_transpose", [x, y]) => {
            let how = ConvTransposeOptions {
                strides: list(&params["strides"]),
                padding: padding(&params["padding"]),
                rhs_dilation: list(&params["rhs_dilation"]),
                transpose_kernel: params["transpose_kernel"].as_bool().unwrap(),
                ..ConvTransposeOptions::default()
            };
            conv_transpose(x, y, &how)
        }
        ("convolve", [x, y]) => convolve(x, y, mode(params)),
        ("correlate", [x, y]) => correlate(x, y, mode(params)),
        (_, [x]) => running(op, x, params)
            .or_else(|| windowed(op, x, params))
            .unwrap_or_else(|| panic!("no operation is called {op}")),
        _ => panic!("no operation of {} operands is called {op}", operands.len()),
    }]
}

/// Computes any case. If the case has a list `in_axes`, `vmap` maps axis 0 of the marked operands.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    let Some(axes) = params["in_axes"].as_array() else { return plain(op, params, operands) };
    let mapped: Vec<bool> = axes.iter().map(|axis| !axis.is_null()).collect();
    let split = |wanted: bool| -> Vec<Array> {
        let pairs = operands.iter().zip(&mapped).filter(|(_, mapped)| **mapped == wanted);
        pairs.map(|(x, _)| x.clone()).collect()
    };
    let (op, params, fixed, varying) = (op.to_owned(), params.clone(), split(false), split(true));
    let one = move |examples: Vec<Array>| {
        let (mut examples, mut fixed) = (examples.into_iter(), fixed.iter().cloned());
        let operands = mapped.iter().map(|mapped| match mapped {
            true => examples.next().expect("one for each mapped operand"),
            false => fixed.next().expect("one for each operand that is not mapped"),
        });
        plain(&op, &params, &operands.collect::<Vec<_>>())
    };
    vmap(one).apply(varying)
}

/// Returns the name of the test below that covers an operation. Every operation has exactly one.
#[cfg(test)]
fn family(op: &str) -> &'static str {
    match op {
        "ragged_dot"
        | "ragged_dot_general"
        | "mulhi"
        | "rng_bit_generator"
        | "conv_general_dilated_local" => "products",
        "conv_general_dilated" => "convolutions",
        "conv_transpose" | "conv_general_dilated_patches" | "convolve" | "correlate" => {
            "functions_of_convolutions"
        }
        _ if op.starts_with("reduce_window") => "windows",
        _ if op.contains("cum") => "running_totals",
        _ => "choices",
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    families!(
        Suite::load("lax").with_narrow_defaults(); convolutions, functions_of_convolutions, windows,
        running_totals, choices, products
    );

    #[test]
    fn special_functions() {
        Suite::load("special").check_ops(|_| true, apply);
    }
}
