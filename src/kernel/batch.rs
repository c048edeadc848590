//! Batching of kernels: the batch is a new first axis of the grid.

use super::kernel_call::{BlockMapping, KernelCall};
use super::spec::{BlockDim, DimensionSemantics};
use crate::control_flow::map;
use crate::core::{Array, Aval, BatchAxis, Batched, DType, Program, RuleResult, bind};
use crate::passes;
use crate::primitives::rules::batch_at;
use crate::transforms::batch::batch_program;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Applies a kernel to a batch.
pub(super) fn batch(
    kernel: &KernelCall,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> RuleResult<Batched> {
    let is_prefetch_mapped = axes[..kernel.n_prefetch].iter().any(Option::is_some);
    let outputs = if is_prefetch_mapped {
        one_by_one(kernel, operands, axes, axis)
    } else {
        bind_batched(kernel, operands, axes, axis)
    };
    let axes = vec![Some(0); outputs.len()];
    Ok(Batched { outputs, axes })
}

/// Runs the kernel for one example after the other: blocks that prefetched operands choose differ
/// between examples.
fn one_by_one(
    kernel: &KernelCall,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> Vec<Array> {
    let mapped: Vec<Array> = operands
        .iter()
        .zip(axes)
        .filter(|(_, position)| position.is_some())
        .map(|(x, &position)| batch_at(x, position, 0, axis))
        .collect();
    map(
        |examples: Vec<Array>| {
            let mut examples = examples.into_iter();
            let operands: Vec<Array> = operands
                .iter()
                .zip(axes)
                .map(|(x, position)| match position {
                    Some(_) => examples.next().expect("there is an example for each operand"),
                    None => x.clone(),
                })
                .collect();
            bind(kernel.clone(), &operands.iter().collect::<Vec<_>>())
        },
        &mapped,
    )
}

fn bind_batched(
    kernel: &KernelCall,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> Vec<Array> {
    let (prefetched, inputs) = operands.split_at(kernel.n_prefetch);
    let mut is_mapped: Vec<bool> = axes[kernel.n_prefetch..].iter().map(Option::is_some).collect();
    // An output has the batch, so the input that shares its memory does too.
    for &(input, _) in &kernel.aliases {
        is_mapped[input] = true;
    }
    let inputs: Vec<Array> = inputs
        .iter()
        .zip(&axes[kernel.n_prefetch..])
        .zip(&is_mapped)
        .map(
            |((x, &position), &mapped)| {
                if mapped { batch_at(x, position, 0, axis) } else { x.clone() }
            },
        )
        .collect();
    let batched = batched(kernel, &is_mapped, axis);
    let operands: Vec<&Array> = prefetched.iter().chain(&inputs).collect();
    bind(batched, &operands)
}

/// Returns the kernel for a batch of the marked inputs.
fn batched(kernel: &KernelCall, is_mapped: &[bool], axis: &BatchAxis) -> KernelCall {
    let window = |window: &BlockMapping, mapped: bool| BlockMapping {
        index_map: with_batch_index(&window.index_map, mapped),
        array: if mapped { axis.batch_of(&window.array, 0) } else { window.array.clone() },
        block: {
            let batch = mapped.then_some(BlockDim::Squeezed);
            batch.into_iter().chain(window.block.iter().copied()).collect()
        },
        memory: window.memory,
    };
    KernelCall {
        name: kernel.name.clone(),
        grid: std::iter::once(axis.size).chain(kernel.grid.iter().copied()).collect(),
        semantics: std::iter::once(DimensionSemantics::Parallel)
            .chain(kernel.semantics.iter().copied())
            .collect(),
        n_prefetch: kernel.n_prefetch,
        inputs: kernel.inputs.iter().zip(is_mapped).map(|(w, &m)| window(w, m)).collect(),
        outputs: kernel.outputs.iter().map(|w| window(w, true)).collect(),
        scratch: kernel.scratch.clone(),
        aliases: kernel.aliases.clone(),
        options: kernel.options.clone(),
        variants: {
            let variants = kernel.variants.iter();
            variants.map(|(of, other)| (*of, Box::new(batched(other, is_mapped, axis)))).collect()
        },
        on_partitioned: kernel.on_partitioned.as_ref().map(|program| {
            let axes: Vec<Option<usize>> =
                is_mapped.iter().map(|&is_mapped| is_mapped.then_some(0)).collect();
            let axes = [vec![None; kernel.n_prefetch], axes].concat();
            let example = |(aval, position): (Aval, &Option<usize>)| match position {
                Some(_) => axis.batch_of(&aval, 0),
                None => aval,
            };
            let avals: Vec<Aval> = program.avals_in().into_iter().zip(&axes).map(example).collect();
            Arc::new(trace_rules(avals, |operands| {
                let (outputs, positions) = batch_program(program, operands, &axes, axis);
                let in_front = outputs.iter().zip(positions);
                in_front.map(|(x, position)| batch_at(x, position, 0, axis)).collect::<Vec<_>>()
            }))
        }),
        body: {
            let index = Aval::new(DType::I32, []);
            let avals = std::iter::once(index).chain(kernel.body.avals_in());
            Arc::new(trace_rules(avals, |inputs| passes::eval(&kernel.body, &inputs[1..])))
        },
    }
}

/// Returns the index map with the index of the example as its first input, and as its first output
/// for an array that has the batch.
fn with_batch_index(index_map: &Arc<Program>, is_mapped: bool) -> Arc<Program> {
    let avals = std::iter::once(Aval::new(DType::I32, [])).chain(index_map.avals_in());
    Arc::new(trace_rules(avals, |inputs| {
        let indices = passes::eval(index_map, &inputs[1..]);
        let batch = is_mapped.then(|| inputs[0].clone());
        batch.into_iter().chain(indices).collect::<Vec<Array>>()
    }))
}
