//! Rules of Mosaic, the compiler of kernels for TPUs, measured with libtpu 0.0.51 for v4, v5e, v5p,
//! v6e and 7x.
//!
//! The rules about windows are here. Those about operations are the emitter's (`mosaic`), which
//! writes each kernel when it is traced.

use crate::core::{DType, Loc, RuleError, RuleResult};
use crate::kernel::kernel_call::{BlockMapping, KernelCall};
use crate::kernel::mosaic;
use crate::kernel::spec::{BlockDim, DimensionSemantics, KernelMemory};

/// The number of lanes of vector registers: the tile along the last axis.
const LANES: usize = 128;
/// The number of sublanes: the tile along the axis before.
const SUBLANES: usize = 8;
/// The remedy that all rules have.
const OTHERS: &str = "for other platforms alone, set `Kernel::targets`";

/// Checks a kernel.
///
/// # Errors
/// The violated rule, and the location of the specification or operation.
pub(super) fn check(kernel: &KernelCall, locs: &[Loc]) -> Result<(), (RuleError, Loc)> {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    for (index, (window, &loc)) in windows.zip(locs).enumerate() {
        let at = |error| (error, loc);
        let role = match index.checked_sub(kernel.inputs.len()) {
            None => format!("input {index}"),
            Some(output) => format!("output {output}"),
        };
        check_dtype(&role, window).map_err(at)?;
        match window.memory {
            KernelMemory::Vmem => check_tiles(&role, window),
            KernelMemory::Smem => check_scalars(&role, window),
        }
        .map_err(at)?;
    }
    check_vmem(kernel, locs)?;
    let is_written = mosaic::check(kernel)?;
    let outputs = kernel.outputs.iter().zip(&locs[kernel.inputs.len()..]);
    for (index, ((window, &loc), is_written)) in outputs.zip(is_written).enumerate() {
        if is_written {
            let role = format!("output {index}");
            check_shared_block(&role, kernel, window).map_err(|error| (error, loc))?;
        }
    }
    Ok(())
}

/// Checks that a TPU's memories hold the dtype.
fn check_dtype(role: &str, window: &BlockMapping) -> RuleResult<()> {
    let dtype = window.array.dtype;
    let help = match dtype {
        DType::Bool => "convert to i8 or i32 outside of the kernel, and compare with 0 inside",
        DType::F16 => "convert to bf16 or f32 outside of the kernel",
        DType::I64 | DType::U64 => "convert to i32 outside of the kernel",
        _ if dtype.is_complex() => "pass the real and the imaginary part",
        _ if dtype.bits() > 32 => "convert to f32 outside of the kernel",
        _ => return Ok(()),
    };
    let message = format!("{role}: a kernel for TPUs has no blocks of {dtype}, {}", window.array);
    Err(RuleError::dtype(message).help(format!("{help}; {OTHERS}")))
}

/// Returns the elements of a tile of an array with one axis: 128 words of 32 bits.
fn lanes_of_vector(dtype: DType) -> usize {
    LANES * (32 / dtype.bits()).max(1)
}

/// Checks that a block consists of whole tiles of vector registers.
fn check_tiles(role: &str, window: &BlockMapping) -> RuleResult<()> {
    let rank = window.block.len();
    let dtype = window.array.dtype;
    let tiles = match rank {
        0 => return Ok(()),
        1 => vec![(0, lanes_of_vector(dtype))],
        _ => vec![(rank - 1, LANES), (rank - 2, SUBLANES)],
    };
    for (axis, tile) in tiles {
        check_axis(role, window, axis, tile, || {
            if rank == 1 {
                format!(
                    "a tile of an array with one axis has {tile} elements of {dtype}: choose a \
                     multiple, or the whole axis"
                )
            } else {
                "a TPU's registers hold tiles of 8 x 128: choose multiples of them for the last \
                 two axes, or whole axes"
                    .to_string()
            }
        })?;
    }
    Ok(())
}

/// Checks a block in the memory of scalars.
fn check_scalars(role: &str, window: &BlockMapping) -> RuleResult<()> {
    let rank = window.block.len();
    let tiles = match rank {
        0 => return Ok(()),
        1 => vec![(0, lanes_of_vector(window.array.dtype))],
        _ => vec![(rank - 1, LANES), (rank - 2, SUBLANES)],
    };
    for (axis, tile) in tiles {
        check_axis(role, window, axis, tile, || {
            "blocks in the memory of scalars have whole tiles too: pass the whole array with \
             `BlockSpec::whole().memory(KernelMemory::Smem)`, or as a prefetched operand, and index it"
                .to_string()
        })?;
    }
    Ok(())
}

fn check_axis(
    role: &str,
    window: &BlockMapping,
    axis: usize,
    tile: usize,
    help: impl Fn() -> String,
) -> RuleResult<()> {
    let (size, block) = (window.array.shape[axis], window.block[axis]);
    if block.size() % tile == 0 || block.size() == size {
        return Ok(());
    }
    let block = match block {
        BlockDim::Size(block) => format!("a block of {block}"),
        BlockDim::Squeezed => "a squeezed block of 1".to_string(),
    };
    let message = format!(
        "{role}: {block} along axis {axis} of {}, which is neither a multiple of {tile} nor the \
         whole axis",
        window.array
    );
    Err(RuleError::shape(message).help(format!("{}; {OTHERS}", help())))
}

/// Checks that parallel programs, which several cores may run, write different blocks.
fn check_shared_block(role: &str, kernel: &KernelCall, window: &BlockMapping) -> RuleResult<()> {
    let used = window.used_axes(kernel.rank());
    let is_shared = |axis: &usize| {
        kernel.grid[*axis] > 1
            && kernel.semantics[*axis] == DimensionSemantics::Parallel
            && !used[*axis]
    };
    let Some(axis) = (0..kernel.rank()).find(is_shared) else { return Ok(()) };
    let message = format!(
        "{role}: {} programs along axis {axis} of the grid write one block, and are parallel",
        kernel.grid[axis]
    );
    Err(RuleError::value(message).help(
        "let the index map use the axis, or run its programs one after the other: move it to the \
         end of the grid and call `Grid::sequential`",
    ))
}

/// Checks that the blocks and scratch memory fit. The error has the location of the largest block.
fn check_vmem(kernel: &KernelCall, locs: &[Loc]) -> Result<(), (RuleError, Loc)> {
    let uses = mosaic::vmem(kernel);
    let total: usize = uses.iter().map(|of| of.bytes * of.buffers).sum();
    let limit = kernel.options.vmem_limit;
    if total <= limit {
        return Ok(());
    }
    let size = |bytes: usize| crate::core::units::size(bytes as u64);
    let list: Vec<String> = uses
        .iter()
        .map(|of| match of.buffers {
            1 => format!("{} {}", of.role, size(of.bytes)),
            n => format!("{} {n} x {}", of.role, size(of.bytes)),
        })
        .collect();
    let message = format!(
        "the blocks need {} of VMEM, the limit is {}: {}",
        size(total),
        size(limit),
        list.join(", ")
    );
    let largest = uses.iter().max_by_key(|of| of.bytes * of.buffers);
    let window = largest.and_then(|of| of.window);
    let loc = window.map_or(Loc::UNKNOWN, |window| locs[window]);
    let error = RuleError::value(message).help(
        "choose smaller blocks, or raise `KernelOptions::vmem_limit` up to the VMEM of the chip; \
         a block is stored twice, so that the next one is read meanwhile",
    );
    Err((error, loc))
}
