//! Calls of the kernels, on arrays in their layout.

use super::backward::{of_keys_and_values, of_queries};
use super::geometry::Geometry;
use super::{forward, plain};
use crate::core::Array;
use crate::kernel::Kernel;
use crate::tree::Tree;

/// The operands in the layout of the kernels.
#[derive(Clone, Debug, Tree)]
pub(in crate::kernels) struct Inputs {
    /// `[heads, group, t, h]`.
    pub(in crate::kernels) q: Array,
    /// `[heads, s, h]`.
    pub(in crate::kernels) k: Array,
    /// `[heads, s, hv]`.
    pub(in crate::kernels) v: Array,
    /// The segment ids of queries `[b, 1, t]` and of keys `[b, s, 1]`.
    pub(in crate::kernels) segments: Option<[Array; 2]>,
    /// The global positions of the first query and key, and a seed: `i32[4]`.
    pub(in crate::kernels) scalars: Option<Array>,
}

impl Inputs {
    fn operands(&self) -> Vec<&Array> {
        let mut operands: Vec<&Array> = self.scalars.iter().collect();
        operands.extend([&self.q, &self.k, &self.v]);
        operands.extend(self.segments.iter().flatten());
        operands
    }
}

/// The numbers of queries and keys in a block on CPUs, forward and backward, the fastest of those
/// measured (docs/kernels/flash-attention.md).
const FORWARD_ON_CPU: usize = 512;
const BACKWARD_ON_CPU: usize = 256;

/// The elements of the results or gradients of a block on GPUs, forward and backward: they are sums
/// in registers, and the operands of their products share about 160 KiB.
const FORWARD_ON_GPU: usize = 128 * 128;
const BACKWARD_ON_GPU: usize = 64 * 128;

/// Returns the numbers of queries and of keys in a block on GPUs, for this number of elements.
fn size_on_gpu(geometry: &Geometry, n_elements: usize) -> usize {
    let width = geometry.h.max(geometry.hv).next_power_of_two();
    (n_elements / width).clamp(16, 128)
}

/// Returns the kernel with blocks of these sizes on CPUs and GPUs, and a function of plain
/// operations for partitioned programs.
fn complete(
    geometry: &Geometry,
    [size, n_elements]: [usize; 2],
    kernel: fn(&Geometry) -> Kernel,
    function: fn(&Geometry, &[Array]) -> Vec<Array>,
) -> Kernel {
    let of_function = geometry.clone();
    kernel(geometry)
        .on_cpu(kernel(&geometry.with_blocks(size)))
        .on_gpu(kernel(&geometry.with_blocks(size_on_gpu(geometry, n_elements))))
        .on_partitioned(move |operands| function(&of_function, operands))
}

/// Returns the results `[heads, group, hv, t]` and the logarithms of the denominators
/// `[heads, group, 1, t]`.
#[track_caller]
pub(in crate::kernels) fn attend(geometry: &Geometry, inputs: &Inputs) -> (Array, Array) {
    let sizes = [FORWARD_ON_CPU, FORWARD_ON_GPU];
    let kernel = complete(geometry, sizes, forward::forward, plain::forward);
    let [out, lse] = kernel.apply(&inputs.operands());
    (out, lse)
}

/// Returns the gradients of queries, keys and values. `statistics` are the logarithms of the
/// denominators, and the sums of results times cotangents.
#[track_caller]
pub(in crate::kernels) fn backward(
    geometry: &Geometry,
    inputs: &Inputs,
    out_ct: &Array,
    statistics: [&Array; 2],
) -> [Array; 3] {
    let mut operands = inputs.operands();
    operands.push(out_ct);
    operands.extend(statistics);
    let sizes = [BACKWARD_ON_CPU, BACKWARD_ON_GPU];
    let complete = |kernel, function| complete(geometry, sizes, kernel, function);
    let [k, v] = complete(of_keys_and_values, plain::of_keys_and_values).apply(&operands);
    let [q] = complete(of_queries, plain::of_queries).apply(&operands);
    [q, k, v]
}
