//! A reduction by ordinary operations: neighbours are combined until one element is left.

use crate::core::{Array, BatchAxis, Program, Shape};
use crate::primitives::rules::{batch_at_front, without_axes};
use crate::primitives::{broadcast_in_dim, concatenate, reshape_to, slice_in_dim, transpose};
use crate::transforms::batch::batch_program;

/// Reduces the arrays along `axes`, starting from `inits`. The last inputs of `combine` are
/// `captures`, the same for all elements.
pub(super) fn reduce_by_halving(
    combine: &Program,
    arrays: &[Array],
    inits: &[Array],
    captures: &[Array],
    axes: &[usize],
) -> Vec<Array> {
    let shape = arrays[0].shape();
    let result_shape = without_axes(shape, axes);
    let n: usize = axes.iter().map(|&axis| shape[axis]).product();
    let inits: Vec<Array> =
        inits.iter().map(|init| broadcast_in_dim(init, result_shape.clone(), &[])).collect();
    if n == 0 {
        return inits;
    }
    let rest = (0..shape.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = axes.iter().copied().chain(rest).collect();
    let flat = result_shape.insert(0, n);
    let mut xs: Vec<Array> =
        arrays.iter().map(|x| reshape_to(&transpose(x, &order), &flat)).collect();
    let mut n = n;
    while n > 1 {
        let slice = |start: usize, stop: usize, stride: usize| -> Vec<Array> {
            let slice = |x| slice_in_dim(x, start as isize, stop as isize, stride, 0);
            xs.iter().map(slice).collect()
        };
        let even = n - n % 2;
        let pairs = elementwise(combine, &slice(0, even, 2), &slice(1, even, 2), captures);
        xs = if even == n {
            pairs
        } else {
            let last = slice(even, n, 1);
            pairs.iter().zip(&last).map(|(a, b)| concatenate([a, b], 0)).collect()
        };
        n = n.div_ceil(2);
    }
    let reduced: Vec<Array> = xs.iter().map(|x| reshape_to(x, &result_shape)).collect();
    elementwise(combine, &inits, &reduced, captures)
}

/// Applies a program of scalars to each element.
fn elementwise(combine: &Program, a: &[Array], b: &[Array], captures: &[Array]) -> Vec<Array> {
    let shape = a[0].shape().clone();
    let axis = BatchAxis::new(shape.size());
    let flat = Shape::from(vec![axis.size]);
    let mut inputs: Vec<Array> = a.iter().chain(b).map(|x| reshape_to(x, &flat)).collect();
    let mut axes = vec![Some(0); inputs.len()];
    inputs.extend_from_slice(captures);
    axes.resize(inputs.len(), None);
    let (outputs, axes) = batch_program(combine, &inputs, &axes, &axis);
    batch_at_front(&outputs, &axes, &axis).iter().map(|x| reshape_to(x, &shape)).collect()
}
