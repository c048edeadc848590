//! A reduction as ordinary operations: neighbours are combined until one element is left.

use crate::core::{Array, BatchAxis, Program, Shape};
use crate::primitives::rules::{batch_at_front, without_axes};
use crate::primitives::{broadcast_in_dim, concatenate, reshape_to, slice_in_dim, transpose};
use crate::transforms::batch::batch_program;

/// The arrays reduced along `axes`, `inits` in front of everything.
pub(super) fn reduced(
    combine: &Program,
    arrays: &[Array],
    inits: &[Array],
    axes: &[usize],
) -> Vec<Array> {
    let shape = arrays[0].shape();
    let kept = without_axes(shape, axes);
    let n: usize = axes.iter().map(|&axis| shape[axis]).product();
    let begun: Vec<Array> =
        inits.iter().map(|init| broadcast_in_dim(init, kept.clone(), &[])).collect();
    if n == 0 {
        return begun;
    }
    let rest = (0..shape.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = axes.iter().copied().chain(rest).collect();
    let lines = kept.insert(0, n);
    let mut xs: Vec<Array> =
        arrays.iter().map(|x| reshape_to(&transpose(x, &order), &lines)).collect();
    let mut n = n;
    while n > 1 {
        let part = |start: usize, stop: usize, stride: usize| -> Vec<Array> {
            let of = |x| slice_in_dim(x, start as isize, stop as isize, stride, 0);
            xs.iter().map(of).collect()
        };
        let even = n - n % 2;
        let pairs = elementwise(combine, &part(0, even, 2), &part(1, even, 2));
        xs = match n % 2 {
            0 => pairs,
            _ => {
                let last = part(even, n, 1);
                pairs.iter().zip(&last).map(|(a, b)| concatenate(&[a, b], 0)).collect()
            }
        };
        n = n.div_ceil(2);
    }
    let all: Vec<Array> = xs.iter().map(|x| reshape_to(x, &kept)).collect();
    elementwise(combine, &begun, &all)
}

/// The program of scalars on each element.
fn elementwise(combine: &Program, a: &[Array], b: &[Array]) -> Vec<Array> {
    let shape = a[0].shape().clone();
    let axis = BatchAxis::new(shape.size());
    let flat = Shape::from(vec![axis.size]);
    let inputs: Vec<Array> = a.iter().chain(b).map(|x| reshape_to(x, &flat)).collect();
    let (outputs, axes) = batch_program(combine, &inputs, &vec![Some(0); inputs.len()], &axis);
    batch_at_front(&outputs, &axes, &axis).iter().map(|x| reshape_to(x, &shape)).collect()
}
