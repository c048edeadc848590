//! Calls of the kernels, on arrays in their layout.

use super::backward::{of_keys_and_values, of_queries};
use super::forward;
use super::geometry::Geometry;
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

/// Returns the kernel, with other blocks for CPUs.
fn with_cpu_blocks(geometry: &Geometry, size: usize, kernel: fn(&Geometry) -> Kernel) -> Kernel {
    kernel(geometry).on_cpu(kernel(&geometry.with_blocks(size)))
}

/// Returns the results `[heads, group, hv, t]` and the logarithms of the denominators
/// `[heads, group, 1, t]`.
#[track_caller]
pub(in crate::kernels) fn attend(geometry: &Geometry, inputs: &Inputs) -> (Array, Array) {
    let kernel = with_cpu_blocks(geometry, FORWARD_ON_CPU, forward::forward);
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
    let [k, v] = with_cpu_blocks(geometry, BACKWARD_ON_CPU, of_keys_and_values).apply(&operands);
    let [q] = with_cpu_blocks(geometry, BACKWARD_ON_CPU, of_queries).apply(&operands);
    [q, k, v]
}
