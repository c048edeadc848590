//! Block sizes of kernels by the table in scope of `block_sizes::with_block_table`. Without the
//! feature `roofline` there are no tables.

use crate::Array;
#[cfg(feature = "roofline")]
use crate::block_sizes::scoped_blocks;
use crate::kernel::{Kernel, KernelTarget};

/// The block sizes in scope of a kernel: for TPUs, for GPUs, or for neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScopedBlocks {
    pub(super) tpu: Option<Vec<usize>>,
    pub(super) gpu: Option<Vec<usize>>,
}

impl ScopedBlocks {
    /// Returns the block sizes of the kernel `name` that is called with these operands. `kernel`
    /// returns it with given blocks, as it runs on a kind of device.
    #[track_caller]
    pub(super) fn of(
        name: &str,
        operands: &[&Array],
        candidates: &[Vec<usize>],
        kernel: impl Fn(KernelTarget, &[usize]) -> Kernel,
    ) -> ScopedBlocks {
        let build = |target, blocks: &[usize]| (kernel(target, blocks), operands.to_vec());
        ScopedBlocks::of_calls(name, operands, candidates, build)
    }

    /// As [`ScopedBlocks::of`], for a kernel whose operands depend on the block sizes. `operands`
    /// are those of its name in the table.
    #[track_caller]
    pub(super) fn of_calls<'a>(
        name: &str,
        operands: &[&Array],
        candidates: &[Vec<usize>],
        build: impl Fn(KernelTarget, &[usize]) -> (Kernel, Vec<&'a Array>),
    ) -> ScopedBlocks {
        match scoped_blocks(name, operands, candidates, build) {
            None => ScopedBlocks::default(),
            Some((KernelTarget::Tpu, blocks)) => ScopedBlocks { tpu: Some(blocks), gpu: None },
            Some((KernelTarget::Gpu, blocks)) => ScopedBlocks { tpu: None, gpu: Some(blocks) },
        }
    }

    /// Returns the block sizes for a kernel that has the same blocks on both kinds of devices.
    pub(super) fn either(self) -> Option<Vec<usize>> {
        self.tpu.or(self.gpu)
    }
}

#[cfg(not(feature = "roofline"))]
fn scoped_blocks<'a>(
    _: &str,
    _: &[&Array],
    _: &[Vec<usize>],
    _: impl Fn(KernelTarget, &[usize]) -> (Kernel, Vec<&'a Array>),
) -> Option<(KernelTarget, Vec<usize>)> {
    None
}

/// Returns all combinations of block sizes, cut to the sizes of the axes.
pub(super) fn combinations<const N: usize>(axes: [(usize, &[usize]); N]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for (axis, sizes) in axes {
        let mut cut: Vec<usize> = sizes.iter().map(|&size| size.min(axis.max(1))).collect();
        cut.dedup();
        let longer = |first: Vec<usize>| {
            cut.iter().map(move |&size| [first.as_slice(), &[size]].concat()).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}
