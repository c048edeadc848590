//! The functions of `python-compat/recorder/parallel_sharded_steps.py`.

use super::listed;
use super::running::grid;
use super::sharded::{Program, follow, put, same_convolution, square};
use oxidax::prelude::*;

listed!(
    slopes_of_a_network,
    slopes_of_softmax,
    slopes_of_running_totals,
    slopes_of_rows_taken,
    slopes_of_a_convolution,
    slopes_of_scanned_layers,
    put_where_asked,
    moved_by_the_program,
    constrained,
    slopes_through_a_constraint,
    batch_of_constraints,
    shards_inside_of_a_program,
    training_step,
);

/// Returns the gradients of the sum of squares.
fn slopes(x: &[Array], specs: &[PartitionSpec], f: Program) -> Vec<Array> {
    let loss = move |x: &Vec<Array>| {
        let sums = f(x).into_iter().map(|y| square(&y).sum());
        sums.reduce(|a, b| a + b).unwrap()
    };
    jit(move |x: Vec<Array>| grad(loss)(&x)).call(put(&grid(), x, specs)).unwrap()
}

fn slopes_of_a_network(x: &[Array]) -> Vec<Array> {
    let specs = [p!["a"], p![None, "b"], p!["b"]];
    slopes(x, &specs, |x| vec![tanh(x[0].matmul(&x[1])).matmul(&x[2])])
}

fn slopes_of_softmax(x: &[Array]) -> Vec<Array> {
    slopes(x, &[p!["a", "b"]], |x| vec![softmax(&x[0], -1)])
}

fn slopes_of_running_totals(x: &[Array]) -> Vec<Array> {
    slopes(x, &[p!["a", "b"]], |x| vec![cumsum(&x[0], 1), x[0].max_axes([0])])
}

fn slopes_of_rows_taken(x: &[Array]) -> Vec<Array> {
    follow(x, &[p![None, "b"], p![]], |x| {
        let at = remainder(abs(&x[1]), 8);
        vec![grad(|x: &Array| integer_pow(&take(x, &at, 0), 3).sum())(&x[0])]
    })
}

fn slopes_of_a_convolution(x: &[Array]) -> Vec<Array> {
    slopes(x, &[p!["a"], p![None, None, "b"]], same_convolution)
}

fn slopes_of_scanned_layers(x: &[Array]) -> Vec<Array> {
    slopes(x, &[p!["a"], p![]], |x| {
        let step = |h: Array, w: Array| (tanh(h.matmul(&w)), ());
        vec![scan(step, &x[0], &x[1]).0]
    })
}

fn put_where_asked(x: &[Array]) -> Vec<Array> {
    let on = |spec: PartitionSpec| grid().sharding(spec).unwrap();
    let f = jit(|x: Array, w: Array| (x.matmul(&w), x.sum_axes([0])));
    let f = f.in_shardings((on(p!["a"]), on(p![None, "b"])));
    let (y, sums) = f.out_shardings((on(p!["b", "a"]), on(p!["a"]))).call(&x[0], &x[1]).unwrap();
    vec![y, sums]
}

fn moved_by_the_program(x: &[Array]) -> Vec<Array> {
    let on = |spec: PartitionSpec| grid().sharding(spec).unwrap();
    let f = jit(|x: Array| (&x * 2, &x + 1)).out_shardings((on(p![None, "b"]), on(p![])));
    let (doubled, more) = f.call(&put(&grid(), x, &[p![["a", "b"]]])[0]).unwrap();
    vec![doubled, more]
}

fn constrained(x: &[Array]) -> Vec<Array> {
    follow(x, &[p!["a"], p![]], |x| {
        let on = |spec: PartitionSpec| grid().sharding(spec).unwrap();
        let h = with_sharding_constraint(&tanh(x[0].matmul(&x[1])), on(p!["b", "a"]));
        vec![&h * 2, with_sharding_constraint(&h.sum_axes([0]), on(p!["b"]))]
    })
}

fn slopes_through_a_constraint(x: &[Array]) -> Vec<Array> {
    slopes(x, &[p!["a"], p![]], |x| {
        let on = grid().sharding(p!["a", "b"]).unwrap();
        vec![with_sharding_constraint(&tanh(x[0].matmul(&x[1])), on)]
    })
}

fn batch_of_constraints(x: &[Array]) -> Vec<Array> {
    follow(x, &[p![]], |x| {
        let on = grid().sharding(p!["a", "b"]).unwrap();
        vec![vmap(move |x: Array| with_sharding_constraint(&sin(&x), &on)).apply(&x[0])]
    })
}

fn shards_inside_of_a_program(x: &[Array]) -> Vec<Array> {
    follow(x, &[p!["a"]], |x| {
        let inner = shard_map(|x: Array| psum(&x, "a") * &x, &grid());
        let inner = inner.in_specs(p!["a", "b"]).out_specs(p!["a", "b"]);
        vec![inner.apply(sin(&x[0])) * 2, inner.apply(&x[0]).sum_axes([1])]
    })
}

fn training_step(x: &[Array]) -> Vec<Array> {
    let (examples, wanted, weights) = (x[0].clone(), x[1].clone(), x[2].clone());
    follow(&[weights, examples, wanted], &[p![], p!["a"], p!["a"]], |x| {
        let loss = |w: &Array| square(&(tanh(x[1].dot(w)) - &x[2])).mean();
        let (value, slope) = value_and_grad(loss)(&x[0]);
        vec![value, &x[0] - slope * 0.1]
    })
}
