//! The functions of `python-compat/recorder/parallel_collectives.py`.

use super::listed;
use super::running::{PLAIN, TILED, first, grid, own, ring, row, split, square};
use oxidax::prelude::*;

listed!(
    sums,
    sums_that_meet_shards,
    means,
    extrema,
    shifted_softmax,
    gathered_in_front,
    gathered_between,
    gathered_behind,
    gathered_in_tiles,
    scattered,
    scattered_behind,
    scattered_in_tiles,
    exchanged,
    exchanged_with_another_axis,
    exchanged_in_tiles,
    swapped,
    around_the_ring,
    sent_to_some,
    shuffled,
    ranks,
    ranks_on_a_grid,
    sums_over_one_axis_of_a_grid,
    sums_over_both_axes,
    one_axis_is_not_mentioned,
    gathered_over_both_axes,
    scattered_over_both_axes,
    exchanged_over_both_axes,
    moved_along_one_axis_of_a_grid,
    moved_along_both_axes_of_a_grid,
    in_groups,
    in_another_order_of_the_mesh,
    sums_of_bf16,
    sums_of_f64,
    sums_of_complex_numbers,
    integers,
    booleans,
    any_and_all,
    moved_in_narrow_types,
    of_what_is_the_same,
    trees,
);

/// Adds a leading axis.
fn in_a_list(x: &Array) -> Array {
    expand_dims(x, &[0])
}

/// Makes the gathered values distinct.
fn ranked(y: Array) -> Array {
    y * (axis_index("i") + 1)
}

fn sums(x: &[Array]) -> Vec<Array> {
    split(row(), &[p!["i"]], &[p![]], |x| vec![psum(&sin(&x[0]), "i")])(x)
}

fn sums_that_meet_shards(x: &[Array]) -> Vec<Array> {
    own(x, |x| psum(&(x * x), "i") * x)
}

fn means(x: &[Array]) -> Vec<Array> {
    own(x, |x| square(&(x - pmean(x, "i"))))
}

fn extrema(x: &[Array]) -> Vec<Array> {
    split(row(), &[p!["i"]], &[p![]], |x| vec![pmax(&x[0], "i"), pmin(&x[0], "i")])(x)
}

fn shifted_softmax(x: &[Array]) -> Vec<Array> {
    own(x, |x| {
        let e = exp(&(x - pmax(&stop_gradient(x), "i")));
        &e / psum(&e, "i")
    })
}

fn gathered_in_front(x: &[Array]) -> Vec<Array> {
    own(x, |x| ranked(all_gather(&square(&first(x)), "i", 0, PLAIN)))
}

fn gathered_between(x: &[Array]) -> Vec<Array> {
    own(x, |x| ranked(all_gather(x, "i", 1, PLAIN)))
}

fn gathered_behind(x: &[Array]) -> Vec<Array> {
    own(x, |x| ranked(all_gather(&sin(x), "i", -1, PLAIN)))
}

fn gathered_in_tiles(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| [0, 1].map(|at| ranked(all_gather(&x[0], "i", at, TILED))).to_vec();
    split(row(), &[p!["i"]], &[p!["i"]], each)(x)
}

fn scattered(x: &[Array]) -> Vec<Array> {
    own(x, |x| in_a_list(&psum_scatter(&square(&first(x)), "i", 0, PLAIN)))
}

fn scattered_behind(x: &[Array]) -> Vec<Array> {
    own(x, |x| psum_scatter(&sin(x), "i", 2, PLAIN))
}

fn scattered_in_tiles(x: &[Array]) -> Vec<Array> {
    own(x, |x| psum_scatter(x, "i", 1, TILED) * x.sum())
}

fn exchanged(x: &[Array]) -> Vec<Array> {
    own(x, |x| all_to_all(&square(x), "i", 1, 1, PLAIN))
}

fn exchanged_with_another_axis(x: &[Array]) -> Vec<Array> {
    own(x, |x| all_to_all(x, "i", 1, 2, PLAIN) * x.sum())
}

fn exchanged_in_tiles(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| vec![all_to_all(&sin(&x[0]), "i", 1, 0, TILED)];
    split(row(), &[p!["i"]], &[p![None, "i"]], each)(x)
}

fn swapped(x: &[Array]) -> Vec<Array> {
    own(x, |x| in_a_list(&pswapaxes(&first(x), "i", 0)) * x.sum())
}

fn around_the_ring(x: &[Array]) -> Vec<Array> {
    own(x, |x| ppermute(x, "i", &ring()) * x)
}

fn sent_to_some(x: &[Array]) -> Vec<Array> {
    own(x, |x| ppermute(&square(x), "i", &[(0, 3), (3, 1), (5, 6), (7, 0)]))
}

fn shuffled(x: &[Array]) -> Vec<Array> {
    own(x, |x| pshuffle(&sin(x), "i", &[2, 0, 3, 1, 7, 6, 5, 4]) * x)
}

fn ranks(x: &[Array]) -> Vec<Array> {
    own(x, |x| x * axis_index("i") + axis_size("i") as i32)
}

fn ranks_on_a_grid(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let names: [&[&str]; 4] = [&["a"], &["b"], &["a", "b"], &["b", "a"]];
        let mut all = names.map(|names| x * axis_index(names)).to_vec();
        let sizes = axis_size("a") * 10 + axis_size("b") + axis_size(["a", "b"]) * 100;
        all.push(x * sizes as i32);
        all
    };
    split(grid(), &[p![["a", "b"]]], &[p![["a", "b"]]], each)(x)
}

fn sums_over_one_axis_of_a_grid(x: &[Array]) -> Vec<Array> {
    let cut = [p!["a", "b"]];
    let over_a = split(grid(), &cut, &[p![None, "b"]], |x| vec![psum(&square(&x[0]), "a")]);
    let over_b = split(grid(), &cut, &[p!["a"]], |x| vec![psum(&sin(&x[0]), "b")]);
    [over_a(x), over_b(x)].concat()
}

fn sums_over_both_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let mean = pmean(x, ["b", "a"]);
        vec![psum(&square(x), ["a", "b"]), mean, psum(x, "a") * psum(x, "b")]
    };
    split(grid(), &[p!["a", "b"]], &[p![], p![], p!["a", "b"]], each)(x)
}

fn one_axis_is_not_mentioned(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        vec![psum(x, "a"), x * x, psum(&(x * (axis_index("b") + 1)), ["a", "b"])]
    };
    split(grid(), &[p!["a"]], &[p![], p!["a"], p![]], each)(x)
}

fn gathered_over_both_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let k = axis_index(["a", "b"]) + 1;
        let both = [["a", "b"], ["b", "a"]].map(|names| all_gather(x, names, 0, TILED) * &k);
        [&both[..], &[all_gather(x, ["a", "b"], 1, PLAIN) * &k]].concat()
    };
    split(grid(), &[p![["a", "b"]]], &[p![["a", "b"]]], each)(x)
}

fn scattered_over_both_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let front = slice_in_dim(&x[0], 0, 8, 1, 1);
        let tiled = psum_scatter(&square(&x[0]), ["a", "b"], 1, TILED);
        vec![tiled, psum_scatter(&front, ["b", "a"], 1, PLAIN)]
    };
    split(grid(), &[p![["a", "b"]]], &[p![["a", "b"]]], each)(x)
}

fn exchanged_over_both_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let tiled = all_to_all(&sin(&x[0]), ["a", "b"], 1, 0, TILED);
        vec![all_to_all(&x[0], ["a", "b"], 1, 1, PLAIN), tiled]
    };
    split(grid(), &[p![["a", "b"]]], &[p![["a", "b"]]], each)(x)
}

fn moved_along_one_axis_of_a_grid(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let ring = ppermute(x, "a", &[(0, 1), (1, 2), (2, 3), (3, 0)]);
        let swapped = ppermute(x, "b", &[(0, 1), (1, 0)]);
        vec![&ring * x, swapped * &ring, all_to_all(x, "b", 0, 1, TILED)]
    };
    split(grid(), &[p!["a", "b"]], &[p!["a", "b"]], each)(x)
}

fn moved_along_both_axes_of_a_grid(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let shift: Vec<(usize, usize)> = (0..7).map(|index| (index, index + 1)).collect();
        let shuffled = pshuffle(&cos(x), ["a", "b"], &[3, 0, 7, 1, 5, 2, 6, 4]);
        vec![ppermute(x, ["a", "b"], &shift) * x, shuffled]
    };
    split(grid(), &[p!["a", "b"]], &[p!["a", "b"]], each)(x)
}

fn in_groups(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let groups = || AxisNames::from("i").axis_index_groups([[0, 5, 2, 7], [1, 6, 3, 4]]);
        let x = &reshape(&x[0], [4]);
        let row = |y: &Array| reshape(y, y.shape().insert(0, 1));
        vec![
            row(&psum(x, groups())) * x,
            row(&pmean(x, groups())) * x,
            row(&pmax(&stop_gradient(x), groups())) * x,
            row(&pmin(&stop_gradient(x), groups())) * x,
            row(&all_gather(x, groups(), 1, PLAIN)),
            row(&all_to_all(x, groups(), 0, 0, PLAIN)),
            row(&psum_scatter(x, groups(), 0, PLAIN)),
        ]
    };
    split(self::row(), &[p!["i"]], &[p!["i"]], each)(x)
}

fn in_another_order_of_the_mesh(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| vec![psum(&(&x[0] * (axis_index("b") + 1)), "a")];
    let twice = repeat(&x[0], 2, 1);
    split(grid(), &[p![None, ["b", "a"]]], &[p![None, "b"]], each)(&[twice])
}

fn sums_of_bf16(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| vec![psum(&x[0], "i"), pmean(&x[0], "i") * &x[0]];
    split(row(), &[p!["i"]], &[p![], p!["i"]], each)(x)
}

fn sums_of_f64(x: &[Array]) -> Vec<Array> {
    own(x, |x| psum(&sin(x), "i") * x)
}

fn sums_of_complex_numbers(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let gathered = all_gather(&first(x), "i", 0, PLAIN);
        let scattered = in_a_list(&psum_scatter(&gathered, "i", 0, PLAIN));
        vec![psum(&(x * x), "i"), pmean(x, "i"), scattered]
    };
    split(row(), &[p!["i"]], &[p![], p![], p!["i"]], each)(x)
}

fn integers(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let both = x.iter().flat_map(|x| [pmax(x, "i"), pmin(x, "i")]);
        [psum(&x[0], "i"), psum(&x[1], "i")].into_iter().chain(both).collect()
    };
    let cut = p!["i"];
    split(row(), &[cut.clone(), cut.clone(), cut], &[p![]], each)(x)
}

fn booleans(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let swapped = ppermute(x, "i", &[(0, 1), (1, 0)]);
        vec![psum(x, "i") + x, all_gather(x, "i", 1, PLAIN), swapped]
    };
    split(row(), &[p!["i"]], &[p!["i"]], each)(x)
}

fn any_and_all(x: &[Array]) -> Vec<Array> {
    extrema(x)
}

fn moved_in_narrow_types(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let ring: Vec<(usize, usize)> = (0..8).map(|k| (k, (k + 3) % 8)).collect();
        let moved = x.iter().map(|x| ppermute(x, "i", &ring));
        let gathered = x.iter().map(|x| slice_in_dim(&all_gather(x, "i", 1, TILED), 0, 32, 5, 1));
        moved.chain(gathered).collect()
    };
    let cut = p!["i"];
    split(row(), &[cut.clone(), cut.clone(), cut], &[p!["i"]], each)(x)
}

fn of_what_is_the_same(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let (x, w) = (&x[0], &x[1]);
        let gathered = all_gather(w, "i", 0, PLAIN).sum_axes([0]);
        vec![psum(&sin(w), "i") * x, in_a_list(&gathered) * x, pmean(w, "i") * x]
    };
    split(row(), &[p!["i"], p![]], &[p!["i"]], each)(x)
}

fn trees(x: &[Array]) -> Vec<Array> {
    let each = |x: Vec<Array>| {
        let x = &x[0];
        let tree = (x.clone(), vec![sin(x), first(x)]);
        let (a, b) = psum(&tree, "i");
        let moved = ppermute(&tree, "i", &[(0, 1), (1, 2)]);
        vec![a * x, &b[0] * x, &b[1] * x, &moved.0 + &moved.1[0] + &moved.1[1]]
    };
    split(row(), &[p!["i"]], &[p!["i"]], each)(x)
}
