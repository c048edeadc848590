//! Functions that select elements by value, with static sizes.

use oxidax::prelude::*;

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "nonzero" => return Some(nonzero(&x[0], 9, -1)),
        "nonzero_cut" => return Some(nonzero(&x[0], 2, 0)),
        "flatnonzero" => flatnonzero(&x[0], 15, -1),
        "argwhere" => argwhere(&x[0], 9, -1),
        "compress" => compress(&x[0], &x[1], 3, 0, 1),
        "compress_short" => compress(&x[0], &x[1], 2, 0, 0),
        "extract" => extract(&x[0], &x[1], 8, 0),
        "select_first" => select_first([&x[0], &x[1]], [&x[2], &x[3]], 7.0),
        "choose" => choose(&x[0], [&x[1], &x[2], &x[3]], IndexMode::Clip),
        "choose_clip" => choose(&x[0], [&x[1], &x[2]], IndexMode::Clip),
        "choose_wrap" => choose(&x[0], [&x[1], &x[2]], IndexMode::Wrap),
        "piecewise" => {
            let (below, above) = (lt(&x[0], 0), gt(&x[0], 1));
            let square = |v: &Array| v * v;
            piecewise(&x[0], [&below, &above], &[&square, &|v| sin(v), &|v| v * 2])
        }
        "place" => place(&x[0], &x[1], &x[2]),
        "put" => put(&x[0], &x[1], &x[2], IndexMode::Clip),
        "put_wrap" => put(&x[0], &x[1], &x[2], IndexMode::Wrap),
        "put_along_axis" => put_along_axis(&x[0], &x[1], &x[2], 1),
        "unique" => unique(&x[0], 7, -1),
        "unique_cut" => unique(&x[0], 2, 0),
        "unique_nan" => unique(&x[0], 5, 9),
        "unique_all" => {
            let found = unique_all(&x[0], 4, 0);
            return Some(vec![found.values, found.counts]);
        }
        "unique_index" => return Some(listed(unique_all(&x[0], 3, 0))),
        "unique_along" => {
            return Some(listed(unique_with(&x[0], 3, 0, UniqueOptions { axis: Some(1) })));
        }
        "isin" | "isin_float" => isin(&x[0], &x[1]),
        "union1d" => union1d(&x[0], &x[1], 8, -1),
        "intersect1d" => intersect1d(&x[0], &x[1], 4, -1),
        "setdiff1d" => setdiff1d(&x[0], &x[1], 5, -1),
        "setxor1d" => setxor1d(&x[0], &x[1], 8, -1),
        "lexsort" => lexsort([&x[0], &x[1]], -1),
        "partition_sorted" => partition(&x[0], 3, -1),
        "sort_complex" => sort_complex(&x[0]),
        _ => return None,
    };
    Some(vec![result])
}

/// Returns the results in JAX's order.
fn listed(found: Unique) -> Vec<Array> {
    vec![found.values, found.indices, found.inverse, found.counts]
}
