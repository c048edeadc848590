//! Calls of the kernels, on arrays in their layout.

use super::backward::{of_keys_and_values, of_queries};
use super::geometry::Geometry;
use super::{forward, plain};
use crate::core::Array;
use crate::kernel::{Kernel, KernelTarget};
use crate::kernels::scoped::{ScopedBlocks, combinations};
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

/// A kernel of attention: its name, and its form for sizes and blocks.
type Form = (&'static str, fn(&Geometry) -> Kernel);

/// The numbers of queries and keys in a block that a table in scope chooses from.
const CANDIDATES: [usize; 5] = [32, 64, 128, 256, 512];

/// Returns the kernel for these operands, with blocks of these sizes on CPUs and GPUs unless a
/// table is in scope, and a function of plain operations for partitioned programs.
#[track_caller]
fn complete(
    geometry: &Geometry,
    [size, n_elements]: [usize; 2],
    (name, kernel): Form,
    function: fn(&Geometry, &[Array]) -> Vec<Array>,
    operands: &[&Array],
) -> Kernel {
    let of_blocks = |blocks: &[usize]| geometry.with_block_sizes([blocks[0], blocks[1]]);
    let scoped = match geometry.chosen_blocks {
        [None, None] => {
            let candidates = combinations([(geometry.t, &CANDIDATES), (geometry.s, &CANDIDATES)]);
            let build = |_: KernelTarget, blocks: &[usize]| kernel(&of_blocks(blocks));
            ScopedBlocks::of(name, operands, &candidates, build)
        }
        _ => ScopedBlocks::default(),
    };
    let on_gpu = match &scoped.gpu {
        Some(blocks) => of_blocks(blocks),
        None => geometry.with_blocks(size_on_gpu(geometry, n_elements)),
    };
    let blocked = scoped.tpu.as_deref().map_or_else(|| geometry.clone(), of_blocks);
    let of_function = geometry.clone();
    kernel(&blocked)
        .on_cpu(kernel(&geometry.with_blocks(size)))
        .on_gpu(kernel(&on_gpu))
        .on_partitioned(move |operands| function(&of_function, operands))
}

/// Returns the results `[heads, group, hv, t]` and the logarithms of the denominators
/// `[heads, group, 1, t]`.
#[track_caller]
pub(in crate::kernels) fn attend(geometry: &Geometry, inputs: &Inputs) -> (Array, Array) {
    let sizes = [FORWARD_ON_CPU, FORWARD_ON_GPU];
    let (form, operands): (Form, _) = (("flash_attention", forward::forward), inputs.operands());
    let kernel = complete(geometry, sizes, form, plain::forward, &operands);
    let [out, lse] = kernel.apply(&operands);
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
    let form: Form = ("flash_attention_keys_and_values", of_keys_and_values);
    let kernel = complete(geometry, sizes, form, plain::of_keys_and_values, &operands);
    let [k, v] = kernel.apply(&operands);
    let form: Form = ("flash_attention_queries", of_queries);
    let [q] = complete(geometry, sizes, form, plain::of_queries, &operands).apply(&operands);
    [q, k, v]
}
