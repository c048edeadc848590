//! [`with_block_table`]: block sizes of kernels while a function is traced.

use super::limits::{Cores, cores};
use super::table::key_of;
use super::{BlockChoice, BlockEntry, BlockTable, TimeSource, choose_blocks, estimate, traced};
use crate::core::scoped::scoped;
use crate::core::trace::BLOCK_SIZES;
use crate::core::{Array, Error, Loc, OpErrorKind, trace};
use crate::kernel::{Kernel, KernelTarget};
use crate::roofline::DeviceSpec;
use std::sync::{Arc, Mutex, PoisonError};

/// A table, and the device whose entries are used.
#[derive(Debug, PartialEq)]
struct TableScope {
    table: BlockTable,
    device: DeviceSpec,
}

/// Every table that was in scope, so that the keys of caches are numbers. Programs have a few.
static KNOWN: Mutex<Vec<Arc<TableScope>>> = Mutex::new(Vec::new());

scoped!(
    /// The choices since [`chosen_blocks`] began; `None` outside.
    static CHOSEN: Option<Vec<ChosenBlocks>> = None
);

scoped!(
    /// The line that set the table.
    static TABLE_LOC: Loc = Loc::UNKNOWN
);

/// Block sizes of one call of a kernel, listed by [`chosen_blocks`].
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenBlocks {
    /// The name of the kernel.
    pub kernel: String,
    /// The types of its operands, as [`BlockEntry::operands`].
    pub operands: String,
    /// The block sizes and the origin of their time.
    pub choice: BlockChoice,
}

/// Runs `f`, with the kernels of [`kernels`](crate::kernels) in blocks for a device: those of the
/// table, or else those that [`choose_blocks`] chooses.
///
/// A kernel is traced before its device is known. So the blocks for a device replace those of its
/// kind: a TPU, or a GPU. Others, and CPUs, keep theirs. Block sizes in the options of a function
/// come first. [`scoped_blocks`] does the same for other kernels. [`chosen_blocks`] lists the names
/// and operands of kernels, which entries of a table need.
///
/// An entry of the table that its kernel cannot use is an error at the line of this call, which `f`
/// throws: another number of sizes than the kernel has, a size of 0, a violated rule of a compiler,
/// or more fast memory than the device has.
///
/// ```
/// use oxidax::block_sizes::{BlockEntry, BlockTable, TimeSource, chosen_blocks};
/// use oxidax::kernels;
/// use oxidax::prelude::*;
/// use oxidax::roofline::DeviceSpec;
/// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
/// let norm = |x: Array, scale: Array| kernels::rms_norm(&x, &scale);
/// let types =
///     || (Aval::new(DType::BF16, [4096, 512]), Aval::new(DType::F32, [512]));
/// let mut table = BlockTable::default();
/// let (_, chosen) = chosen_blocks(&table, &v5e, || eval_shape(norm, types()));
/// assert_eq!(chosen[0].kernel, "rms_norm");
/// assert_eq!(chosen[0].operands, "bf16[4096,512] f32[1,512]");
/// assert_eq!(chosen[0].choice.source, TimeSource::Model);
/// table.insert(BlockEntry {
///     chip: "v5e".into(),
///     kernel: chosen[0].kernel.clone(),
///     operands: chosen[0].operands.clone(),
///     blocks: vec![128],
///     seconds: 2e-5,
/// });
/// let (_, chosen) = chosen_blocks(&table, &v5e, || eval_shape(norm, types()));
/// assert_eq!(chosen[0].choice.blocks, [128]);
/// ```
#[track_caller]
pub fn with_block_table<R>(table: &BlockTable, device: &DeviceSpec, f: impl FnOnce() -> R) -> R {
    in_scope(table, device, Loc::caller(), f)
}

/// Runs `f` with the block sizes of a table, which the line `loc` has set.
fn in_scope<R>(table: &BlockTable, device: &DeviceSpec, loc: Loc, f: impl FnOnce() -> R) -> R {
    let scope = TableScope { table: table.clone(), device: *device };
    let number = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let index = known.iter().position(|other| **other == scope).unwrap_or_else(|| {
            known.push(Arc::new(scope));
            known.len() - 1
        });
        index as u32 + 1
    };
    TABLE_LOC.scope(loc, || BLOCK_SIZES.scope(number, f))
}

/// Runs `f` as [`with_block_table`] does, and lists the block sizes of the kernels that are traced
/// in it. A `jit` function whose program is known does not trace.
#[track_caller]
pub fn chosen_blocks<R>(
    table: &BlockTable,
    device: &DeviceSpec,
    f: impl FnOnce() -> R,
) -> (R, Vec<ChosenBlocks>) {
    let loc = Loc::caller();
    CHOSEN.scope(Some(Vec::new()), || {
        let result = in_scope(table, device, loc, f);
        (result, CHOSEN.get().unwrap_or_default())
    })
}

/// Returns the block sizes of a kernel inside of [`with_block_table`], and the kind of device they
/// are for. `None` outside, and if there is neither an entry nor a candidate that fits.
///
/// `name` and `operands` are those of the table's entry. `build` returns the kernel with given
/// block sizes, as it runs on a kind of device, and the operands it is called with, of which only
/// the types count.
///
/// ```
/// use oxidax::block_sizes::{BlockTable, scoped_blocks, with_block_table};
/// use oxidax::kernel::{self, BlockSpec, Grid, Kernel, KernelTarget, Output, Ref};
/// use oxidax::prelude::*;
/// use oxidax::roofline::DeviceSpec;
/// fn kernel(rows: usize) -> Kernel {
///     let block = || BlockSpec::new([rows, 1024], |[i]| (i, 0));
///     kernel::call(
///         |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
///         Grid::new([8192 / rows]),
///         [block()],
///         [Output::new(DType::F32, [8192, 1024], block())],
///     )
/// }
/// let double = |x: Array| {
///     let candidates = [vec![8], vec![512]];
///     let build = |_, blocks: &[usize]| (kernel(blocks[0]), vec![&x]);
///     let blocks = scoped_blocks("double", &[&x], &candidates, build);
///     assert_eq!(blocks, Some((KernelTarget::Tpu, vec![512])));
///     kernel(512).apply1(&[&x])
/// };
/// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
/// let x = Aval::new(DType::F32, [8192, 1024]);
/// with_block_table(&BlockTable::default(), &v5e, || eval_shape(double, x))?;
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Throws `Op` (value) for an entry that the kernel cannot use.
pub fn scoped_blocks<'a>(
    name: &str,
    operands: &[&Array],
    candidates: &[Vec<usize>],
    build: impl Fn(KernelTarget, &[usize]) -> (Kernel, Vec<&'a Array>),
) -> Option<(KernelTarget, Vec<usize>)> {
    let scope = {
        let index = (BLOCK_SIZES.get() as usize).checked_sub(1)?;
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(index)?.clone()
    };
    let target = match cores(&scope.device) {
        Cores::Tpu { .. } => KernelTarget::Tpu,
        Cores::Gpu { .. } => KernelTarget::Gpu,
    };
    let build = |blocks: &[usize]| {
        let (kernel, operands) = build(target, blocks);
        (kernel.targets([target]), operands)
    };
    let choice = match scope.table.get(scope.device.name, name, operands) {
        Some(entry) => {
            let n_sizes = candidates.first().map_or(entry.blocks.len(), Vec::len);
            if let Err(reason) = check_entry(&entry, n_sizes, &scope.device, &build) {
                refuse(&entry, &reason);
            }
            let BlockEntry { blocks, seconds, .. } = entry;
            BlockChoice { blocks, seconds, source: TimeSource::Measured }
        }
        None => best(candidates, &build, &scope.device)?,
    };
    CHOSEN.modify(|chosen| {
        if let Some(chosen) = chosen {
            let (_, kernel, operands) = key_of(scope.device.name, name, operands);
            chosen.push(ChosenBlocks { kernel, operands, choice: choice.clone() });
        }
    });
    Some((target, choice.blocks))
}

/// Returns the candidate with the shortest predicted time, if one fits.
fn best<'a>(
    candidates: &[Vec<usize>],
    build: &impl Fn(&[usize]) -> (Kernel, Vec<&'a Array>),
    device: &DeviceSpec,
) -> Option<BlockChoice> {
    let choices = candidates.iter().filter_map(|blocks| {
        let operands = build(blocks).1;
        let candidate = std::slice::from_ref(blocks);
        choose_blocks(candidate, |blocks| build(blocks).0, &operands, device).ok()
    });
    choices.reduce(|best, next| if next.seconds < best.seconds { next } else { best })
}

/// Checks the blocks of an entry.
///
/// # Errors
/// The reason why the kernel cannot use them.
fn check_entry<'a>(
    entry: &BlockEntry,
    n_sizes: usize,
    device: &DeviceSpec,
    build: &impl Fn(&[usize]) -> (Kernel, Vec<&'a Array>),
) -> Result<(), String> {
    let blocks = &entry.blocks;
    if blocks.len() != n_sizes {
        return Err(format!("the kernel has {n_sizes} block sizes, not {}", blocks.len()));
    }
    if blocks.contains(&0) {
        return Err("a block size is 0".to_string());
    }
    let first_line =
        |error: Error| error.to_string().lines().next().unwrap_or_default().to_string();
    let operands = build(blocks).1;
    let kernel = |blocks: &[usize]| build(blocks).0;
    let kernel = traced(&kernel, blocks, &operands).map_err(first_line)?;
    match estimate(&kernel, device).excess {
        Some(excess) => Err(format!("it {excess}")),
        None => Ok(()),
    }
}

/// Throws an error about an entry.
fn refuse(entry: &BlockEntry, reason: &str) -> ! {
    let BlockEntry { chip, kernel, operands, blocks, .. } = entry;
    let message = format!(
        "blocks {blocks:?} of the table's entry for {kernel} of {operands} on {chip}: {reason}"
    );
    let loc = TABLE_LOC.get();
    let error = trace::op_error(OpErrorKind::Value, "with_block_table", message, loc);
    trace::throw(error.with_help("remove the entry, or measure the kernel again"))
}
