//! Concatenation, splitting, rotation, diagonals, indices, products of vectors, polynomials and
//! windows.

use oxidax::prelude::*;

fn pair((a, b): (Array, Array)) -> Vec<Array> {
    vec![a, b]
}

fn moved(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "atleast_1d" => atleast_1d(&x[0]),
        "atleast_2d" => atleast_2d(&x[0]),
        "atleast_3d" | "atleast_3d_matrix" => atleast_3d(&x[0]),
        "append" => append(&x[0], &x[1], 0),
        "hstack" | "hstack_vectors" => hstack([&x[0], &x[1]]),
        "vstack" => vstack([&x[0], &x[1]]),
        "dstack" => dstack([&x[0], &x[1]]),
        "column_stack" => column_stack([&x[0], &x[1]]),
        "block" => block(([&x[0], &x[1]], [&x[2]])),
        "broadcast_arrays" => return Some(broadcast_arrays([&x[0], &x[1]])),
        "array_split" => return Some(array_split(&x[0], 3, 0)),
        "hsplit" => return Some(hsplit(&x[0], 2)),
        "vsplit" => return Some(vsplit(&x[0], 2)),
        "dsplit" => return Some(dsplit(&x[0], 2)),
        "unstack" => return Some(unstack(&x[0], 1)),
        "rot90" => rot90(&x[0], 1, [0, 1]),
        "rot90_2" => rot90(&x[0], 2, [0, 1]),
        "rot90_back" => rot90(&x[0], -1, [1, 2]),
        "fliplr" => fliplr(&x[0]),
        "flipud" => flipud(&x[0]),
        "rollaxis" => rollaxis(&x[0], 2, 0),
        "rollaxis_1_3" => rollaxis(&x[0], 1, 3),
        "matrix_transpose" => matrix_transpose(&x[0]),
        "resize" => resize(&x[0], [5, 3]),
        "delete" => delete(&x[0], [0, -1], 1),
        "insert" => insert(&x[0], [1, 4], &x[1], 1),
        "diff" => diff(&diff(&x[0], 1), 1),
        "ediff1d" => ediff1d(&x[0]),
        _ => return None,
    };
    Some(vec![result])
}

fn placed(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "diag_vector" => diag(&x[0], 0),
        "diag_above" => diag(&x[0], 2),
        "diag_below" => diag(&x[0], -1),
        "diag_matrix" => diag(&x[0], 1),
        "diagflat" => diagflat(&x[0], 1),
        "fill_diagonal" => fill_diagonal(&x[0], &x[1]),
        "vander" => vander(&x[0], 4),
        "vander_int" => vander(&x[0], 3),
        "diag_indices" => return Some(diag_indices(3, 2)),
        "tril_indices" => return Some(pair(tril_indices(4, 5, -1))),
        "tril_indices_above" => return Some(pair(tril_indices(3, 4, 1))),
        "triu_indices" => return Some(pair(triu_indices(4, 4, 1))),
        "triu_indices_from" => return Some(pair(triu_indices_from(&x[0], -1))),
        "indices" => indices([2, 3]),
        "fromfunction" => fromfunction(|at: &[Array]| &at[0] * 10 + &at[1], ([3, 4], DType::I32)),
        "ravel_multi_index" => ravel_multi_index([&x[0], &x[1]], &[3, 4], IndexMode::Clip),
        "ravel_multi_index_wrap" => ravel_multi_index([&x[0], &x[1]], &[3, 4], IndexMode::Wrap),
        "unravel_index" => return Some(unravel_index(&x[0], &[3, 4])),
        "linspace_open" => linspace_with(
            &x[0],
            &x[1],
            5,
            LinspaceOptions { endpoint: false, ..Default::default() },
        ),
        "logspace" => logspace(&x[0], &x[1], 5),
        "geomspace" => geomspace(&x[0], &x[1], 6),
        _ => return None,
    };
    Some(vec![result])
}

fn multiplied(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "vecdot" => vecdot(&x[0], &x[1], -1),
        "vecdot_axis_c64" => {
            let (a, b) =
                (num_complex::Complex32::new(1.0, 2.0), num_complex::Complex32::new(2.0, -1.0));
            vecdot(&(&x[0] * a), &(&x[1] * b), 0)
        }
        "matvec" => matvec(&x[0], &x[1]),
        "vecmat" => vecmat(&x[0], &x[1]),
        "cross" | "cross_plane" | "cross_mixed" => cross(&x[0], &x[1], -1),
        "cross_axis" => cross(&x[0], &x[1], 0),
        "kron" | "kron_vector" => kron(&x[0], &x[1]),
        "polyval" => polyval(&x[0], &x[1]),
        "polyadd" => polyadd(&x[0], &x[1]),
        "polysub" => polysub(&x[0], &x[1]),
        "polymul" => polymul(&x[0], &x[1]),
        "polydiv" => return Some(pair(polydiv(&x[0], &x[1]))),
        "polyder" => polyder(&x[0], 2),
        "polyint" => polyint(&x[0], &[0.5, 1.0]),
        "poly" => poly(&x[0]),
        "bartlett" => bartlett(7),
        "blackman" => blackman(8),
        "hamming" => hamming(8),
        "hanning" => hanning(1),
        "kaiser" => kaiser(9, 14.0),
        "apply_along_axis" => apply_along_axis(|v: &Array| outer(v, v), &x[0], 1),
        "apply_over_axes" => {
            apply_over_axes(|x: &Array, axis| x.sum_axes(axes(axis).keepdims()), &x[0], [0, 2])
        }
        "vectorize" => {
            let product = vectorize("(m,n),(n)->(m)", |xs| vec![matmul(&xs[0], &xs[1])]);
            return Some(product(&[&x[0], &x[1]]));
        }
        _ => return None,
    };
    Some(vec![result])
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    moved(op, x).or_else(|| placed(op, x)).or_else(|| multiplied(op, x))
}
