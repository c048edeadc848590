//! Collectives over groups of indices, and permutations over several axes.

use super::{close, counting, mesh, values};
use oxidax::ops::Tiling;
use oxidax::prelude::*;

/// Returns the axis `i` in these groups.
fn groups<const N: usize>(groups: [&[usize]; N]) -> AxisNames {
    AxisNames::from("i").axis_index_groups(groups.map(<[usize]>::to_vec))
}

/// Returns a mesh of two devices.
fn pair() -> Mesh {
    Mesh::new(&super::eight()[..2], [("b", 2)]).unwrap()
}

fn quarters() -> AxisNames {
    groups([&[0, 5, 2, 7], &[1, 6, 3, 4]])
}

/// Applies every collective over groups, of one device or example.
fn all_of(x: &Array) -> (Array, Array, Array, Array, (Array, Array), (Array, Array)) {
    let (rows, cells) = (reshape(x, [4]), reshape(x, [2, 2]));
    (
        psum(x, quarters()),
        pmax(x, quarters()) - pmin(x, quarters()),
        pmean(x, quarters()),
        all_gather(&cells, quarters(), 1, Tiling::Untiled),
        (
            all_to_all(&rows, quarters(), 0, 0, Tiling::Untiled),
            psum_scatter(&rows, quarters(), 0, Tiling::Untiled),
        ),
        (
            psum(x, groups([&[0, 1, 2, 3, 4], &[6, 5], &[7]])),
            pmax(x, groups([&[0, 1, 2, 3, 4], &[6, 5], &[7]])),
        ),
    )
}

#[test]
fn devices_in_groups_equal_examples_in_groups() {
    let mesh = mesh([("i", 8)]);
    let x = sin(counting(&[8, 4]));
    let one = |x: Array| all_of(&reshape(&x, [4]));
    let rows = |x: Array| {
        let (a, b, c, d, (e, f), (g, h)) = one(x);
        let all = [&a, &b, &c, &reshape(&d, [16]), &e, &reshape(&f, [1]), &g, &h];
        reshape(&concatenate(all.map(Clone::clone), 0), [1, 41])
    };
    let expected = vmap(move |x: Array| reshape(&rows(x), [41])).axis_name("i").apply(&x);
    let sharded = shard_map(rows, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
    close(&sharded.apply(&x), &expected, 1e-6);
    let mapped = pmap(move |x: Array| reshape(&rows(x), [41])).axis_name("i");
    close(&mapped.call(&x).unwrap(), &expected, 1e-6);
    // The first group by hand: the sum of rows 0, 5, 2 and 7.
    let rows: Vec<Array> =
        [0, 5, 2, 7].map(|row| slice_in_dim(&x, row, row + 1, 1, 0)).into_iter().collect();
    let sum = concatenate(&rows, 0).sum_axes([0]);
    let first = slice_in_dim(&slice_in_dim(&expected, 0, 1, 1, 0), 0, 4, 1, 1);
    close(&reshape(&first, [4]), &sum, 1e-6);
}

#[test]
fn gradients_of_collectives_in_groups_equal_those_of_examples() {
    let mesh = mesh([("i", 8)]);
    let x = sin(counting(&[8, 4]));
    let loss = |x: Array| {
        let (a, b, c, d, (e, f), (g, h)) = all_of(&reshape(&x, [4]));
        let index = axis_index("i") + 1;
        let total = (&a * &a).sum() + (&b * &b).sum() + (&c * &c * &c).sum() + (&d * &d).sum();
        let total = total + (&e * &e).sum() + &f * &f + (&g * &g).sum() + (&h * &h).sum();
        reshape(&(total * index), [1])
    };
    let sharded =
        move |x: &Array| shard_map(loss, &mesh).in_specs(p!["i"]).out_specs(p!["i"]).apply(x).sum();
    let batched = move |x: &Array| vmap(move |x: Array| loss(x)).axis_name("i").apply(x).sum();
    close(&grad(sharded)(&x), &grad(batched)(&x), 1e-4);
}

#[test]
fn groups_over_two_axes_have_linear_indices() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[4, 2]);
    let pairs = || AxisNames::from(["a", "b"]).axis_index_groups([[0, 7], [1, 2], [3, 4], [6, 5]]);
    let one = move |x: Array| {
        let gathered = all_gather(&reshape(&x, [1]), pairs(), 0, Tiling::Tiled);
        psum(&x, pairs()) + gathered.sum() * 100.0
    };
    let sharded = shard_map(one, &mesh).in_specs(p!["a", "b"]).out_specs(p!["a", "b"]).apply(&x);
    let expected = [7.0, 3.0, 3.0, 7.0, 7.0, 11.0, 11.0, 7.0].map(|sum| sum * 101.0);
    assert_eq!(values(&sharded), expected);
    // Both axes of `vmap`, in either order, and one of a mesh and one of `vmap`.
    let outer = vmap(move |x: Array| vmap(one).axis_name("b").apply(&x)).axis_name("a");
    assert_eq!(values(&outer.apply(&x)), expected);
    let inner = vmap(move |x: Array| vmap(one).axis_name("a").apply(&x)).axis_name("b");
    assert_eq!(values(&inner.in_axes(1).out_axes(1).apply(&x)), expected);
    let keep = move |x: Array| {
        vmap(move |x: Array| reshape(&one(reshape(&x, [])), [1])).axis_name("a").apply(&x)
    };
    let keep = shard_map(keep, &pair()).in_specs(p![None, "b"]);
    assert_eq!(values(&keep.out_specs(p![None, "b"]).apply(&x)), expected);
}

#[test]
fn permutations_over_two_axes_have_linear_indices() {
    let mesh = mesh([("a", 4), ("b", 2)]);
    let x = counting(&[4, 2]);
    let shift: Vec<(usize, usize)> = (0..7).map(|index| (index, index + 1)).collect();
    let one = move |x: Array| ppermute(&x, ["a", "b"], &shift);
    let sharded =
        shard_map(one.clone(), &mesh).in_specs(p!["a", "b"]).out_specs(p!["a", "b"]).apply(&x);
    let expected = [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    assert_eq!(values(&sharded), expected);
    let both = one.clone();
    let nested = vmap(move |x: Array| vmap(both.clone()).axis_name("b").apply(&x)).axis_name("a");
    assert_eq!(values(&nested.apply(&x)), expected);
    let mixed = move |x: Array| {
        let one = one.clone();
        vmap(move |x: Array| one(x)).axis_name("a").apply(&x)
    };
    let mixed = shard_map(mixed, &pair());
    let mixed = mixed.in_specs(p![None, "b"]).out_specs(p![None, "b"]);
    assert_eq!(values(&mixed.apply(&x)), expected);
    // The transpose sends cotangents back.
    let weights = counting(&[4, 2]);
    let loss = move |x: &Array| (mixed.apply(x) * &weights).sum();
    assert_eq!(values(&grad(loss)(&x)), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
    let back = move |x: Array| pshuffle(&x, ["b", "a"], &[7, 6, 5, 4, 3, 2, 1, 0]);
    let mesh = super::mesh([("a", 4), ("b", 2)]);
    let back = shard_map(back, &mesh).in_specs(p!["a", "b"]).out_specs(p!["a", "b"]);
    assert_eq!(values(&back.apply(&x)), [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn groups_that_do_not_fit_are_refused() {
    let message = |axes: AxisNames, f: fn(&Array, AxisNames) -> Array| {
        let x = counting(&[4]);
        let mapped = vmap(move |x: Array| f(&x, axes.clone())).axis_name("i");
        let error = oxidax::core::catch(|| mapped.apply(&x)).unwrap_err().to_string();
        assert!(error.contains("grouped.rs"), "{error}");
        error
    };
    let sum: fn(&Array, AxisNames) -> Array = |x, axes| psum(x, axes);
    let error = message(groups([&[0, 1], &[3]]), sum);
    assert!(error.contains("do not contain 2, and `i` has the size 4"), "{error}");
    let error = message(groups([&[0, 1, 2, 3], &[4, 5]]), sum);
    assert!(error.contains("contain 4, and `i` has the size 4"), "{error}");
    let gather: fn(&Array, AxisNames) -> Array = |x, axes| all_gather(x, axes, 0, Tiling::Untiled);
    let error = message(groups([&[0, 1, 2], &[3]]), gather);
    assert!(error.contains("differ in size"), "{error}");
    let error = message(groups([&[0, 1], &[2, 3]]), |x, axes| ppermute(x, axes, &[(0, 1)]));
    assert!(error.contains("axis_index_groups divide them"), "{error}");
}
