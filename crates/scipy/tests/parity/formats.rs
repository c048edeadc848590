//! Functions of sparse formats, as `python-compat/recorder/scipy_formats_suite.py` has them.

use crate::{check, mapped, size, sizes};
use oxidax::prelude::*;
use oxidax::primitives::{ConvGeneralDilated, DotGeneral, GatherDimensionNumbers, Padding};
use oxidax_scipy::sparse::{Bcoo, Bcsr, Coo, Csr, FromDenseOptions, SparseArray};
use serde_json::Value;

fn shape(params: &Value) -> Vec<usize> {
    sizes(&params["shape"]).unwrap()
}

fn product() -> DotGeneral {
    DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotGeneral::default() }
}

fn from_dense(params: &Value) -> FromDenseOptions {
    FromDenseOptions {
        nse: size(&params["nse"]),
        n_batch: size(&params["n_batch"]).unwrap_or(0),
        ..FromDenseOptions::default()
    }
}

/// Functions of rows. The data are first, `indices` and `indptr` last.
fn rows(op: &str, params: &Value, x: &[Array]) -> Array {
    if op == "bcsr_fromdense" {
        return Bcsr::fromdense_with(&x[0], from_dense(params)).data;
    }
    let (indices, indptr) = (&x[x.len() - 2], &x[x.len() - 1]);
    let m = Bcsr::new(&x[0], indices, indptr, shape(params));
    match op {
        "bcsr_todense" => m.todense(),
        "bcsr_broadcast_in_dim" => {
            let (new, dims) = (sizes(&params["new"]).unwrap(), sizes(&params["dims"]).unwrap());
            m.broadcast_in_dim(new, &dims).todense()
        }
        "bcsr_concatenate" => {
            let twice = Bcsr::new(&(&x[0] * 2.0), indices, indptr, shape(params));
            Bcsr::concatenate([&m, &twice], size(&params["axis"]).unwrap()).todense()
        }
        "bcsr_sum_duplicates" => m.sum_duplicates_to(size(&params["nse"]).unwrap()).todense(),
        "bcsr_dot_general" => m.dot_general(&x[1], &product()),
        other => panic!("no function of rows is called {other}"),
    }
}

fn extracted(params: &Value, x: &[Array]) -> Array {
    let data = zeros((x[1].shape(), x[0].dtype()));
    Bcsr::new(&data, &x[1], &x[2], shape(params)).extract(&x[0]).data
}

/// Functions of a matrix of one of two formats.
fn matrices(op: &str, params: &Value, x: &[Array]) -> Array {
    let nse = size(&params["nse"]);
    let is_coo = params["format"] == "coo";
    let is_transposed = params["transpose"] == true;
    if op == "fromdense" {
        return if is_coo {
            Coo::fromdense(&x[0], nse).data
        } else {
            Csr::fromdense(&x[0], nse).data
        };
    }
    let at = &x[x.len() - 2..];
    let dims: [usize; 2] = shape(params).try_into().unwrap();
    if is_coo {
        let m = Coo::new(&x[0], &at[0], &at[1], dims);
        return match (op, is_transposed) {
            ("todense", _) => m.todense(),
            ("matvec", false) => m.matvec(&x[1]),
            ("matvec", true) => m.matvec_transposed(&x[1]),
            (_, false) => m.matmat(&x[1]),
            (_, true) => m.matmat_transposed(&x[1]),
        };
    }
    let m = Csr::new(&x[0], &at[0], &at[1], dims);
    match (op, is_transposed) {
        ("todense", _) => m.todense(),
        ("matvec", false) => m.matvec(&x[1]),
        ("matvec", true) => m.matvec_transposed(&x[1]),
        (_, false) => m.matmat(&x[1]),
        (_, true) => m.matmat_transposed(&x[1]),
    }
}

/// Functions of coordinates. The data are first, the indices last.
fn coordinates(op: &str, params: &Value, x: &[Array]) -> Array {
    if op == "bcoo_fromdense" {
        return Bcoo::fromdense_with(&x[0], from_dense(params)).data;
    }
    let m = Bcoo::new(&x[0], &x[x.len() - 1], shape(params));
    match op {
        "bcoo_todense" => m.todense(),
        "bcoo_sort_indices" => m.sort_indices().todense(),
        "bcoo_sum_duplicates" => m.sum_duplicates_to(size(&params["nse"]).unwrap()).todense(),
        "bcoo_transpose" => m.transpose(&[1, 0]).todense(),
        "bcoo_reshape" => m.reshape([2, 10]).todense(),
        "bcoo_update_layout" => m.update_layout(1, 0).todense(),
        "bcoo_dot_general" => m.dot_general(&x[1], &product()),
        "bcoo_multiply_dense" => m.multiply_dense(&x[1]).data,
        "bcoo_gather" => {
            let numbers = GatherDimensionNumbers {
                collapsed_slice_dims: vec![0],
                start_index_map: vec![0],
                offset_dims: vec![0],
                ..GatherDimensionNumbers::default()
            };
            m.gather(&x[1], &numbers, &[1, 5]).todense()
        }
        other => panic!("no function of coordinates is called {other}"),
    }
}

/// Functions of two arrays: the data of both, then the indices of both.
fn pairs(op: &str, params: &Value, x: &[Array]) -> Array {
    if op == "bcoo_multiply_sparse" {
        let of = |data: &Array, indices: &Array| Bcoo::new(data, indices, shape(params));
        return of(&x[0], &x[2]).multiply_sparse(&of(&x[1], &x[3])).todense();
    }
    let padding = match &params["padding"] {
        Value::String(name) if name == "SAME" => Padding::Same,
        Value::String(_) => Padding::Valid,
        _ => Padding::Explicit(vec![(2, 1)]),
    };
    let options = ConvGeneralDilated { padding, ..ConvGeneralDilated::default() };
    let (signal, kernel) = (Bcoo::new(&x[0], &x[2], [1, 1, 9]), Bcoo::new(&x[1], &x[3], [1, 1, 4]));
    signal.conv_general_dilated(&kernel, &options).todense()
}

fn plain(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    vec![match op {
        "bcsr_extract" => extracted(params, x),
        "bcoo_multiply_sparse" | "bcoo_conv" => pairs(op, params, x),
        _ if op.starts_with("bcsr_") => rows(op, params, x),
        _ if op.starts_with("bcoo_") => coordinates(op, params, x),
        _ => matrices(op, params, x),
    }]
}

mod on_cpu {
    use super::*;

    #[test]
    fn sparse_formats() {
        check("scipy_formats", |op, params, operands| mapped(plain, op, params, operands));
    }
}
