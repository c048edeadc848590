//! A kernel as a loop over its grid, of ordinary operations. It runs on every platform, and is the
//! form of kernels on CPUs.

use super::kernel_call::{BlockMapping, KernelCall, padded_shape};
use super::spec::BlockDim;
use crate::control_flow::fori_loop;
use crate::core::{Array, Aval, DType, Program, Scalar, Shape, bind, bind1};
use crate::passes;
use crate::primitives::{
    Div, DynamicSlice, DynamicUpdateSlice, PaddingDim, convert_to, fill_of, lax_pad, mul, rem,
    reshape, slice,
};
use crate::transforms::staging::trace_rules;

/// Returns the value of memory that nothing was written to: NaN, the least integer, or false.
pub(super) fn undefined(dtype: DType) -> Scalar {
    if dtype.is_bool() {
        Scalar::Bool(false)
    } else if dtype.is_integer() {
        Scalar::Int(dtype.int_range().0)
    } else {
        Scalar::Float(f64::NAN)
    }
}

/// Returns an array of [`undefined`] elements.
fn undefined_array(aval: &Aval) -> Array {
    fill_of(undefined(aval.dtype), aval)
}

/// Returns the program of the loop. Its inputs are the operands of the kernel.
pub(super) fn program(kernel: &KernelCall) -> Program {
    let prefetched = kernel.body.avals_in();
    let prefetched = prefetched[kernel.rank()..kernel.first_input()].iter().cloned();
    let inputs = kernel.inputs.iter().map(|window| window.array.clone());
    let program = trace_rules(prefetched.chain(inputs), |operands| run(kernel, operands));
    passes::dce(&program)
}

fn run(kernel: &KernelCall, operands: &[Array]) -> Vec<Array> {
    let (prefetched, inputs) = operands.split_at(kernel.n_prefetch);
    let initial = |(index, window): (usize, &BlockMapping)| match kernel.alias_of_output(index) {
        Some(input) => padded(&inputs[input], window),
        None => undefined_array(&window.array.with_shape(padded_shape(window))),
    };
    let outputs: Vec<Array> = kernel.outputs.iter().enumerate().map(initial).collect();
    let scratch = kernel.scratch.iter().map(|scratch| undefined_array(scratch.aval()));
    let padded_inputs: Vec<Array> =
        inputs.iter().zip(&kernel.inputs).map(|(input, window)| padded(input, window)).collect();
    let mut carry: Vec<Array> = outputs.into_iter().chain(scratch).collect();
    let step = |index: Array, carry: Vec<Array>| {
        run_program(kernel, &index, prefetched, &padded_inputs, carry)
    };
    let n_programs = kernel.n_programs();
    carry = match n_programs {
        0 => carry,
        1 => step(fill_of(Scalar::Int(0), &Aval::new(DType::I32, [])), carry),
        _ => fori_loop(0, n_programs as i64, step, carry),
    };
    let whole = |(output, window): (Array, &BlockMapping)| {
        let shape = window.array.shape.dims();
        slice(&output, &vec![0; shape.len()], shape, &vec![1; shape.len()])
    };
    carry.into_iter().zip(&kernel.outputs).map(whole).collect()
}

/// Returns the array with axes that are multiples of the blocks. The elements that are added are
/// undefined.
fn padded(array: &Array, window: &BlockMapping) -> Array {
    if !window.is_ragged() {
        return array.clone();
    }
    let shape = padded_shape(window);
    let value = undefined_array(&array.aval().with_shape(Shape::scalar()));
    let added = shape.iter().zip(array.shape().iter()).map(|(&padded, &size)| PaddingDim {
        low: 0,
        high: (padded - size) as isize,
        interior: 0,
    });
    lax_pad(array, &value, &added.collect::<Vec<_>>())
}

/// Returns the grid indices of a program from its number, the last axis fastest.
fn grid_indices(sizes: &[usize], index: &Array) -> Vec<Array> {
    let mut indices = Vec::with_capacity(sizes.len());
    let mut rest = index.clone();
    for (axis, &size) in sizes.iter().enumerate().rev() {
        let is_first = sizes[..axis].iter().all(|&outer| outer == 1);
        if size == 1 {
            indices.push(fill_of(Scalar::Int(0), index.aval()));
        } else if is_first {
            indices.push(rest.clone());
        } else {
            indices.push(rem(&rest, size as i32));
            let size = fill_of(Scalar::Int(size as i128), rest.aval());
            rest = bind1(Div, [&rest, &size]);
        }
    }
    indices.reverse();
    indices
}

/// Runs one program of the grid.
fn run_program(
    kernel: &KernelCall,
    index: &Array,
    prefetched: &[Array],
    inputs: &[Array],
    mut carry: Vec<Array>,
) -> Vec<Array> {
    let index = convert_to(index, DType::I32, false);
    let mut body_inputs = grid_indices(&kernel.grid, &index);
    body_inputs.extend(prefetched.iter().cloned());
    let map_inputs = body_inputs.clone();
    let starts = |window: &BlockMapping| starts_of(window, &map_inputs);
    for (input, window) in inputs.iter().zip(&kernel.inputs) {
        body_inputs.push(block(input, window, &starts(window)));
    }
    let output_starts: Vec<Vec<Array>> = kernel.outputs.iter().map(starts).collect();
    for ((output, window), starts) in carry.iter().zip(&kernel.outputs).zip(&output_starts) {
        body_inputs.push(block(output, window, starts));
    }
    body_inputs.extend(carry[kernel.outputs.len()..].iter().cloned());
    let mut results = passes::eval(&kernel.body, &body_inputs);
    for (index, (window, starts)) in kernel.outputs.iter().zip(&output_starts).enumerate() {
        let update = reshape(&results[index], window.block_sizes());
        results[index] = if window.block_sizes() == carry[index].shape().dims() {
            update
        } else {
            let operands: Vec<&Array> =
                [&carry[index], &update].into_iter().chain(starts).collect();
            bind(DynamicUpdateSlice, &operands).swap_remove(0)
        };
    }
    std::mem::swap(&mut carry, &mut results);
    carry
}

/// Returns the index of the first element of a program's block along each axis.
fn starts_of(window: &BlockMapping, map_inputs: &[Array]) -> Vec<Array> {
    let indices = passes::eval(&window.index_map, map_inputs);
    let start = |(index, block): (&Array, &BlockDim)| match block.size() {
        1 => index.clone(),
        size => mul(index, size as i32),
    };
    indices.iter().zip(&window.block).map(start).collect()
}

/// Returns a program's block of an array.
fn block(array: &Array, window: &BlockMapping, starts: &[Array]) -> Array {
    let sizes = window.block_sizes();
    let shape = window.ref_aval().shape;
    if sizes == array.shape().dims() {
        return reshape(array, shape);
    }
    let slice = DynamicSlice { slice_sizes: sizes };
    let operands: Vec<&Array> = std::iter::once(array).chain(starts).collect();
    reshape(&bind(slice, &operands).swap_remove(0), shape)
}
