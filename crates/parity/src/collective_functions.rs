//! The functions of `python-compat/recorder/collective_functions.py`, in Rust.

use oxidax::prelude::*;

pub(crate) type Function = fn(&[Array]) -> Vec<Array>;

pub(crate) fn function(name: &str) -> Function {
    let (_, function) = FUNCTIONS.iter().find(|(other, _)| *other == name).expect(name);
    *function
}

macro_rules! listed {
    ($($name:ident),* $(,)?) => {
        const FUNCTIONS: &[(&str, Function)] = &[$((stringify!($name), $name)),*];
    };
}

listed!(
    softmax_over_examples,
    batch_norm,
    gradient_inside,
    gradient_of_a_mixture_inside,
    second_derivative_inside,
    data_parallel_step,
    sums_over_two_axes,
    gathered,
    scattered,
    scattered_in_tiles,
    exchanged,
    exchanged_in_tiles,
    exchanged_over_two_axes,
    swapped,
    around_the_ring,
    permuted,
    ranks,
    the_same_for_all,
    exchanged_the_same,
    without_a_mapped_operand,
    inside_a_scan,
    carry_that_comes_to_differ,
    choice_of_all,
    choice_of_each,
    choice_of_each_with_a_sum,
    until_all_are_small,
    until_each_has_its_rank,
    jit_inside,
    rematerialized,
    model_parallel_gradient,
    own_rule_outside,
    own_rule_of_a_sum_outside,
    shadowed,
    another_axis_between,
    other_places,
    counts,
    trees,
);

const PLAIN: Tiling = Tiling::Untiled;
const TILED: Tiling = Tiling::Tiled;

fn square(x: &Array) -> Array {
    integer_pow(x, 2)
}

/// Returns `axis_index` in the dtype of `x`.
fn rank_as(x: &Array, name: &str) -> Array {
    axis_index(name).astype(x.dtype())
}

fn softmax_over_examples(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let still = stop_gradient(&x);
        let e = exp(&(&x - pmax(&still, "i")));
        vec![&e / psum(&e, "i"), &x * pmin(&still, "i")]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn batch_norm(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let centred = &x - pmean(&x, "i");
        &centred * rsqrt(&(pmean(&square(&centred), "i") + 0.1))
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn gradient_inside(x: &[Array]) -> Vec<Array> {
    let w = x[1].clone();
    let each = |x: Array| grad(|w: &Array| psum(&sin(&(w * &x)), "i"))(&w);
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn gradient_of_a_mixture_inside(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| grad(|x: &Array| sin(psum(&square(x), "i")) * x)(&x);
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn second_derivative_inside(x: &[Array]) -> Vec<Array> {
    let f = |x: &Array| tanh(psum(&integer_pow(x, 3), "i")) * pmean(x, "i");
    let each = |x: Array| jvp(grad(f), &x, cos(&x)).1;
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn data_parallel_step(x: &[Array]) -> Vec<Array> {
    let w = &x[0];
    let each = |x: Array, y: Array| {
        let loss = |w: &Array| square(&(tanh(x.dot(w)) - &y));
        let (loss, slope) = pmean(&value_and_grad(loss)(w), "batch");
        vec![loss, w - &slope * 0.1]
    };
    vmap(each).axis_name("batch").out_axes([None]).apply(&x[1], &x[2])
}

fn sums_over_two_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let both = psum(&x, ["i", "j"]);
        let rest = psum(&square(&x), "j") - &both;
        vec![&both * &x, psum(&x, "i") * &x, rest, pmean(&sin(&x), ["j", "i"])]
    };
    let rows = |x: Array| vmap(each).axis_name("j").apply(x);
    vmap(rows).axis_name("i").apply(&x[0])
}

fn gathered(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let k = rank_as(&x, "i") + 1.0;
        let stacked = [0, 1, -1].map(|at| all_gather(&x, "i", at, PLAIN) * &k);
        let tiled = [0, 1].map(|at| all_gather(&x, "i", at, TILED) * &k);
        stacked.into_iter().chain(tiled).collect::<Vec<_>>()
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn scattered(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let first = psum_scatter(&sin(&x), "i", 0, PLAIN);
        vec![first, psum_scatter(&square(&transpose(&x, &[1, 0])), "i", 1, PLAIN)]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn scattered_in_tiles(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| [0, 1].map(|at| psum_scatter(&sin(&x), "i", at, TILED)).to_vec();
    vmap(each).axis_name("i").apply(&x[0])
}

fn exchanged(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)];
        places.map(|(split, concat)| all_to_all(&square(&x), "i", split, concat, PLAIN)).to_vec()
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn exchanged_in_tiles(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
        places.map(|(split, concat)| all_to_all(&square(&x), "i", split, concat, TILED)).to_vec()
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn exchanged_over_two_axes(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| all_to_all(&sin(&x), ["i", "j"], 0, 0, PLAIN);
    let rows = |x: Array| vmap(each).axis_name("j").apply(x);
    vec![vmap(rows).axis_name("i").apply(&x[0])]
}

fn swapped(x: &[Array]) -> Vec<Array> {
    vec![vmap(|x: Array| pswapaxes(&x, "i", 1) * x.sum()).axis_name("i").apply(&x[0])]
}

fn around_the_ring(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let n = axis_size("i");
        let ring: Vec<(usize, usize)> = (0..n).map(|k| (k, (k + 1) % n)).collect();
        let step = |(total, visitor): (Array, Array), k: Array| {
            let visitor = ppermute(&visitor, "i", &ring);
            ((&total + &k * &visitor * &x, visitor.clone()), visitor)
        };
        let ks = arange_dtype(1, n as i32, 1, x.dtype());
        let ((total, _), seen) = scan(step, (zeros_like(&x), x.clone()), ks);
        vec![total, seen]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn permuted(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let back = ppermute(&x, "i", &[(0, 3), (1, 2), (2, 1), (3, 0)]);
        vec![&back * &x, pshuffle(&sin(&x), "i", &[2, 0, 3, 1])]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn ranks(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let sizes = axis_size("i") * 10 + axis_size("j") + axis_size(["i", "j"]) * 100;
        let names: [&[&str]; 4] = [&["i"], &["j"], &["i", "j"], &["j", "i"]];
        let mut all = names.map(|names| &x * axis_index(names)).to_vec();
        all.push(&x * sizes as i32);
        all
    };
    let rows = |x: Array| vmap(each).axis_name("j").apply(x);
    vmap(rows).axis_name("i").apply(&x[0])
}

fn the_same_for_all(x: &[Array]) -> Vec<Array> {
    let a = &x[0];
    let each = |x: Array| {
        let spread =
            [psum(&sin(a), "i"), psum_scatter(a, "i", 0, PLAIN), all_gather(a, "i", 0, PLAIN)];
        let mut all = spread.map(|y| y * &x).to_vec();
        all.extend([pmean(a, "i"), pshuffle(a, "i", &[1, 2, 0])]);
        all
    };
    vmap(each).axis_name("i").apply(&x[1])
}

fn exchanged_the_same(x: &[Array]) -> Vec<Array> {
    let each = |y: Array| all_to_all(&x[0], "i", 0, 0, PLAIN) * &y;
    vec![vmap(each).axis_name("i").apply(&x[1])]
}

fn without_a_mapped_operand(x: &[Array]) -> Vec<Array> {
    let a = &x[0];
    vmap(|| vec![psum(a, "i"), a * axis_index("i")]).axis_name("i").axis_size(4).apply()
}

fn inside_a_scan(x: &[Array]) -> Vec<Array> {
    let h = &x[1];
    let each = |xs: Array| {
        let step = |h: Array, x: Array| {
            let h = tanh(&(pmean(&h, "i") + &x));
            (h.clone(), psum(&(&h * &x), "i"))
        };
        let (last, sums) = scan(step, h, xs);
        vec![last, sums]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn carry_that_comes_to_differ(x: &[Array]) -> Vec<Array> {
    let xs = &x[0];
    let each = || {
        let step = |h: Array, x: Array| (&h * 0.5 + &x * axis_index("i"), psum(&h, "i"));
        let (last, sums) = scan(step, zeros(([], xs.dtype())), xs);
        vec![last, sums]
    };
    vmap(each).axis_name("i").axis_size(3).apply()
}

fn choice_of_all(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let positive = gt(psum(&x, "i"), 0);
        cond(&positive, |x: Array| psum(&square(&x), "i") * &x, |x: Array| pmean(&x, "i") - &x, x)
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn choice_of_each(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let total = psum(&x, "i");
        let even = eq(remainder(axis_index("i"), 2), 0);
        cond(&even, |x: Array| sin(&x) * &total, |x: Array| square(&x), x)
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn choice_of_each_with_a_sum(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let even = eq(remainder(axis_index("i"), 2), 0);
        cond(&even, |x: Array| sin(&x) * psum(&x, "i"), |x: Array| square(&x), x)
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn until_all_are_small(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let step = |(n, y): (Array, Array)| (&n + 1, &y * 0.5 + pmean(&y, "i") * 0.01);
        let large = |(_, y): (Array, Array)| gt(pmax(&abs(&y), "i"), 0.1);
        let (n, y) = while_loop(large, step, (zeros_like(&x), x));
        vec![n, y]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn until_each_has_its_rank(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let rank = axis_index("i");
        let below = |(k, _): (Array, Array)| lt(&k, &rank);
        let step = |(k, y): (Array, Array)| (&k + 1, cos(&y) * 2);
        let (_, y) = while_loop(below, step, (scalar(0), x));
        psum(&y, "i") - y
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn jit_inside(x: &[Array]) -> Vec<Array> {
    // One function for axes of two sizes.
    let share = jit(|x: Array| exp(&x) / psum(&exp(&x), "i"));
    let two = vmap(|x: Array| share.apply(&x) * share.apply(&(&x * 2)));
    let two = two.axis_name("i").apply(slice_in_dim(&x[0], 0, 2, 1, 0));
    vec![two, vmap(|x: Array| share.apply(&x)).axis_name("i").apply(&x[0])]
}

fn rematerialized(x: &[Array]) -> Vec<Array> {
    let f = remat(|x: &Array| sin(psum(&sin(x), "i")) * x);
    let values = vmap(|x: Array| f(&x) * axis_index("i")).axis_name("i").apply(&x[0]);
    vec![values, vmap(|x: Array| grad(&f)(&x)).axis_name("i").apply(&x[0])]
}

/// The identity; its cotangents are summed over the axis.
fn copied_to_all(x: &Array) -> Array {
    let forward = |x: &Array| (x.clone(), ());
    custom_vjp(|x: &Array| x.clone(), forward, |(): &(), ct: &Array| psum(ct, "model"))(x)
}

/// The sum over the axis; its cotangents are not summed.
fn summed_once(x: &Array) -> Array {
    let forward = |x: &Array| (psum(x, "model"), ());
    custom_vjp(|x: &Array| psum(x, "model"), forward, |(): &(), ct: &Array| ct.clone())(x)
}

fn model_parallel_gradient(x: &[Array]) -> Vec<Array> {
    let x = x.to_vec();
    let each = |w: Array, v: Array| {
        let loss = |(x, w, v): &(Array, Array, Array)| {
            let hidden = tanh(copied_to_all(x).dot(w));
            square(&summed_once(&hidden.dot(v))).sum()
        };
        let (x, w, v) = grad(loss)(&(x[0].clone(), w, v));
        vec![x, w, v]
    };
    vmap(each).axis_name("model").apply(&x[1], &x[2])
}

fn own_rule_outside(x: &[Array]) -> Vec<Array> {
    let f = |x: &Array| vmap(|x: Array| sin(copied_to_all(&x))).axis_name("model").apply(x);
    let (value, pull) = vjp(f, &x[0]);
    vec![value, pull.apply(&square(&x[0]))]
}

fn own_rule_of_a_sum_outside(x: &[Array]) -> Vec<Array> {
    let f = |x: &Array| vmap(|x: Array| &x * summed_once(&x)).axis_name("model").apply(x);
    let (value, pull) = vjp(f, &x[0]);
    vec![value, pull.apply(&cos(&x[0]))]
}

fn shadowed(x: &[Array]) -> Vec<Array> {
    let each = |row: Array| {
        let inner = vmap(|x: Array| psum(&x, "i") * &x).axis_name("i").apply(&row);
        inner * axis_index("i") + psum(&row, "i")
    };
    vec![vmap(each).axis_name("i").apply(&x[0])]
}

fn another_axis_between(x: &[Array]) -> Vec<Array> {
    let plain = |x: Array| {
        vec![
            psum(&x, "i"),
            all_gather(&x, "i", 1, PLAIN),
            all_gather(&x, "i", 0, TILED),
            psum_scatter(&x, "i", 0, PLAIN),
            all_to_all(&x, "i", 0, 0, PLAIN),
            ppermute(&x, "i", &[(0, 1), (1, 2), (2, 0)]),
            axis_index("i") * &x,
        ]
    };
    let each = |x: Array| {
        let weighted = |y: Array| {
            let mut shape = vec![1; y.rank()];
            shape[0] = 2;
            &y * arange_dtype(1, 3, 1, y.dtype()).reshape(shape)
        };
        vmap(plain).apply(x).into_iter().map(weighted).collect::<Vec<_>>()
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn other_places(x: &[Array]) -> Vec<Array> {
    let each =
        |x: Array| vec![psum(&x, "i") * &x, all_gather(&x, "i", 1, PLAIN), axis_index("i") * &x];
    vmap(each).axis_name("i").in_axes([Some(1)]).out_axes([Some(-1)]).apply(&x[0])
}

fn counts(x: &[Array]) -> Vec<Array> {
    let each = |n: Array| {
        let odd = eq(remainder(&n, 2), 1);
        vec![psum(&n, "i"), psum(&odd, "i"), pmean(&n, "i"), pmax(&n, "i"), pmin(&odd, "i")]
    };
    vmap(each).axis_name("i").apply(&x[0])
}

fn trees(x: &[Array]) -> Vec<Array> {
    let each = |x: Array| {
        let tree = (x.clone(), vec![sin(&x), squeeze(&dynamic_index_in_dim(&x, 0, 0), &[0])]);
        let mut all = tree::leaves(&psum(&tree, "i"));
        all.extend(tree::leaves(&all_gather(&tree, "i", 0, PLAIN)));
        all
    };
    vmap(each).axis_name("i").out_axes([None]).apply(&x[0])
}
