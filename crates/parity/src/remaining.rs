//! Functions of `jax.numpy` that no other suite has: values, derivatives, and both under `vmap`. An
//! operation's name stands for one call with its options.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::fixtures::{Case, by_example};
use crate::remaining_lax;
use oxidax::ops::linalg::{MatrixNorm, VectorNorm, matrix_norm, vector_norm};
use oxidax::prelude::*;
use serde_json::Value;

/// The dtypes of the tables, in the order of `recorder/remaining_arrays.py`.
const DTYPES: [DType; 15] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

fn elementwise(op: &str, x: &[Array]) -> Option<Array> {
    Some(match op {
        "absolute" => abs(&x[0]),
        "arccos" => acos(&x[0]),
        "arccosh" => acosh(&x[0]),
        "arcsin" => asin(&x[0]),
        "arcsinh" => asinh(&x[0]),
        "arctan" => atan(&x[0]),
        "arctanh" => atanh(&x[0]),
        "negative" => neg(&x[0]),
        "radians" => deg2rad(&x[0]),
        "rint" => round_with(&x[0], RoundOptions::default()),
        "rint_complex" => round_with(&complex(&x[0], &x[0] * 2.0), RoundOptions::default()),
        "around" => round_with(&x[0], RoundOptions { decimals: 1 }),
        "fmod" | "fmod_integers" => fmod(&x[0], &x[1]),
        "mod" | "mod_integers" => remainder(&x[0], &x[1]),
        "true_divide" | "true_divide_integers" => &x[0] / &x[1],
        "greater" => gt(&x[0], &x[1]),
        "less_equal" => le(&x[0], &x[1]),
        "not_equal" => ne(&x[0], &x[1]),
        "invert" | "bitwise_invert" => bitwise_not(&x[0]),
        "bitwise_count" | "bitwise_count_u8" => bitwise_count(&x[0]),
        _ => match op.rsplit_once('_')?.0 {
            "bitwise_and" => bitwise_and(&x[0], &x[1]),
            "bitwise_or" => bitwise_or(&x[0], &x[1]),
            "bitwise_xor" => bitwise_xor(&x[0], &x[1]),
            "left_shift" | "bitwise_left_shift" => shift_left(&x[0], &x[1]),
            "right_shift" | "bitwise_right_shift" => shift_right(&x[0], &x[1]),
            _ => return None,
        },
    })
}

/// Returns the column 3 of `x`, and the sorted parts before and after it.
fn parts(x: &Array) -> Vec<Array> {
    let part = |range: [isize; 2]| sort(&slice_in_dim(x, range[0], range[1], 1, 1), 1);
    vec![x.index(i![.., 3]), part([0, 3]), part([4, 7])]
}

fn reductions(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "amax" => vec![x[0].max_axes(1)],
        "amin" => vec![x[0].min_axes(axes(0).keepdims())],
        "count_nonzero" => vec![x[0].count_nonzero_axes(1)],
        "count_nonzero_all" => vec![x[0].count_nonzero()],
        "partition" => parts(&partition(&x[0], 3, 1)),
        "argpartition" => parts(&argpartition(&x[0], 3, 1)),
        "unique_values" => vec![unique(&x[0], 6, 9)],
        "unique_counts" => {
            let (values, counts) = unique_counts(&x[0], 6, 9);
            vec![values, counts]
        }
        "unique_inverse" => {
            let (values, inverse) = unique_inverse(&x[0], 6, 9);
            vec![values, inverse]
        }
        "unique_all" => {
            let found = unique_all(&x[0], 4, 0);
            vec![found.values, found.indices, found.inverse, found.counts]
        }
        _ => return None,
    })
}

/// Returns a table with a row for each dtype.
fn table<T: Element>(row: impl Fn(DType) -> Vec<T>) -> Vec<Array> {
    let rows: Vec<Vec<T>> = DTYPES.into_iter().map(row).collect();
    let shape = [rows.len(), rows[0].len()];
    vec![Array::from_slice(&rows.concat(), shape).unwrap()]
}

fn tables(op: &str) -> Option<Vec<Array>> {
    let kinds = [
        DTypeKind::Bool,
        DTypeKind::SignedInteger,
        DTypeKind::UnsignedInteger,
        DTypeKind::Integral,
        DTypeKind::RealFloating,
        DTypeKind::ComplexFloating,
        DTypeKind::Numeric,
    ];
    Some(match op {
        "can_cast" => table(|from| DTYPES.map(|to| can_cast(from, to)).to_vec()),
        "isdtype" => table(|dtype| kinds.map(|kind| isdtype(dtype, kind)).to_vec()),
        "result_type" => table(|first| {
            let index = |second| {
                let common = result_type((&zeros((1, first)), &zeros((1, second))));
                DTYPES.iter().position(|&dtype| dtype == common).unwrap() as i32
            };
            DTYPES.map(index).to_vec()
        }),
        "properties" => {
            let list = |values: &[bool]| Array::from_slice(values, [values.len()]).unwrap();
            let ranks = [vec![], vec![1], vec![1, 1]].map(|shape| zeros(shape).rank());
            vec![
                list(&DTYPES.map(|dtype| !dtype.is_complex())),
                list(&DTYPES.map(|dtype| dtype.is_complex())),
                list(&ranks.map(|rank| rank == 0)),
            ]
        }
        _ => return None,
    })
}

fn shapes(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let pair = |(rows, columns)| vec![rows, columns];
    Some(match op {
        "permute_dims" => vec![transpose(&x[0], &[2, 0, 1])],
        "index_exp" => vec![x[0].index(i![..., None, 1..3])],
        "s_" => vec![x[0].index(i![(1..4).step_by(2), ::-1])],
        "ix_" => {
            let at = ix_((&x[1], &x[2]));
            vec![x[0].index(i![&at[0], &at[1]])]
        }
        "mgrid" => vec![indices([3, 4])],
        "ogrid" => ix_((arange(3), arange(4))),
        "tri" => vec![tri([3, 4], 1)],
        "diag_indices_from" => diag_indices_from(&x[0]),
        "tril_indices_from" => pair(tril_indices_from(&x[0], 1)),
        "mask_indices" => pair(mask_indices(4, triu, 1, 8)),
        "empty_like" => {
            let options = LikeOptions { dtype: Some(DType::BF16), ..LikeOptions::default() };
            vec![zeros_like_with(&x[0], options)]
        }
        _ => return tables(op),
    })
}

fn matrix_order(name: &str) -> MatrixNorm {
    match name {
        "fro" | "bf16" => MatrixNorm::Frobenius,
        "nuc" => MatrixNorm::Nuclear,
        "1" => MatrixNorm::L1,
        "-1" => MatrixNorm::NegL1,
        "2" => MatrixNorm::Spectral,
        "-2" => MatrixNorm::NegSpectral,
        "inf" => MatrixNorm::Inf,
        "-inf" => MatrixNorm::NegInf,
        other => panic!("no norm is called {other}"),
    }
}

fn vector_order(name: &str) -> VectorNorm {
    match name {
        "0" => VectorNorm::Zero,
        "1" => VectorNorm::L1,
        "2" | "bf16" => VectorNorm::L2,
        "3" => VectorNorm::P(3.0),
        "inf" => VectorNorm::Inf,
        "-inf" => VectorNorm::NegInf,
        other => panic!("no norm is called {other}"),
    }
}

fn norms(op: &str, x: &Array) -> Option<Array> {
    if let Some(order) = op.strip_prefix("matrix_norm_") {
        return Some(matrix_norm(x, matrix_order(order)));
    }
    if let Some(order) = op.strip_prefix("vector_norm_") {
        let axes = if order == "bf16" { Axes::all() } else { axes(1) };
        return Some(vector_norm(x, vector_order(order), axes));
    }
    let wide = || complex(x, zeros_like(x));
    Some(match op {
        "fft2" => fft::fft2(x),
        "ifft2" => fft::ifft2(&wide()),
        "rfft2" => fft::rfft2(x),
        "irfft2" => fft::irfft2(&wide()),
        _ => return None,
    })
}

fn one_case(family: &str, op: &str, x: &[Array]) -> Option<Vec<Array>> {
    match family {
        "elementwise" => elementwise(op, x).map(|y| vec![y]),
        "reductions" => reductions(op, x),
        "shapes" => shapes(op, x).or_else(|| remaining_lax::shapes(op, x)),
        "linalg" => norms(op, &x[0]).map(|y| vec![y]),
        "indexing" => remaining_lax::indexing(op, x),
        "products" => remaining_lax::products(op, x),
        "activations" => remaining_lax::activations(op, x).map(|y| vec![y]),
        _ => None,
    }
}

/// Computes a case's operation.
pub(crate) fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let family = params["family"].as_str().unwrap();
    by_example(params, x, |x| {
        one_case(family, op, x).unwrap_or_else(|| panic!("no operation {op}"))
    })
}

/// Computes a case of `trim_zeros`, which needs concrete values.
pub(crate) fn trimmed(case: Case<'_>) -> Result<Vec<Array>, String> {
    let ends = match case.op() {
        "trim_zeros_front" => TrimEnds::Front,
        "trim_zeros_back" => TrimEnds::Back,
        _ => TrimEnds::Both,
    };
    oxidax::catch(|| vec![trim_zeros(&case.input(0), ends)]).map_err(|error| error.to_string())
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    recorded_families!(
        "remaining": elementwise, reductions, shapes, linalg, indexing, products, activations
    );

    #[test]
    fn trimmed_arrays() {
        let suite = Suite::load("remaining");
        suite.check(|op| op.starts_with("trim_zeros"), |case| case.expect_outputs(&trimmed(case)?));
    }
}
