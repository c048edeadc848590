//! Block sizes of kernels, chosen by a model of a device, or by measurements.
//!
//! A family of kernels is a closure from block sizes to a [`Kernel`]. Candidates
//! that break a rule of a compiler, or do not fit into fast memory, are left out.
//!
//! - [`estimate`] predicts the time of a traced kernel on a device from its arithmetic, its traffic
//!   and the number of programs.
//! - [`choose_blocks`] returns the candidate with the shortest predicted time. It needs no device.
//! - [`BlockTable`] holds measured block sizes for chips and shapes, in a file that can be
//!   committed. [`BlockTable::tune`] measures candidates on the default device, and
//!   [`BlockTable::choose_blocks`] falls back to the model for what was not measured.
//! - [`with_block_table`] sets the blocks of the kernels of [`kernels`](crate::kernels) by a table.
//!
//! ```
//! use oxidax::block_sizes::{BlockTable, choose_blocks};
//! use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref};
//! use oxidax::prelude::*;
//! use oxidax::roofline::DeviceSpec;
//! let double = |blocks: &[usize]| -> Kernel {
//!     let rows = blocks[0];
//!     let block = || BlockSpec::new([rows, 1024], |[i]| (i, 0));
//!     kernel::call(
//!         |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
//!         Grid::new([8192 / rows]),
//!         [block()],
//!         [Output::new(DType::F32, [8192, 1024], block())],
//!     )
//!     .name("double")
//! };
//! let candidates: Vec<Vec<usize>> = [8, 64, 512, 4096].map(|rows| vec![rows]).into();
//! let v5e = DeviceSpec::named("v5e").expect("it is in the table");
//! let blocks = eval_shape(
//!     |x: Array| {
//!         let choice = choose_blocks(&candidates, double, &[&x], &v5e).expect("one fits");
//!         // 8 rows need too many steps; two blocks of 4096 rows do not fit into 16 MiB.
//!         assert_eq!(choice.blocks, [512]);
//!         let same = BlockTable::default().choose_blocks(&candidates, double, &[&x], &v5e);
//!         assert_eq!(same.expect("one fits").blocks, [512]);
//!         x
//!     },
//!     Aval::new(DType::F32, [8192, 1024]),
//! );
//! # blocks?;
//! # Ok::<(), oxidax::Error>(())
//! ```

mod limits;
mod model;
mod scope;
mod table;
mod tune;

pub use model::{KernelEstimate, estimate};
pub use scope::{ChosenBlocks, chosen_blocks, scoped_blocks, with_block_table};
pub use table::{BlockEntry, BlockTable};
pub use tune::TuneOptions;

use crate::core::{Array, Error, Loc, OpErrorKind, catch, trace};
use crate::kernel::{Kernel, KernelCall};
use crate::roofline::DeviceSpec;

/// Block sizes for a kernel, and their time.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockChoice {
    /// The candidate.
    pub blocks: Vec<usize>,
    /// The time of one run, in seconds.
    pub seconds: f64,
    /// The origin of the time.
    pub source: TimeSource,
}

/// The origin of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// [`estimate`].
    Model,
    /// A measurement.
    Measured,
}

/// Returns the candidate with the shortest time that [`estimate`] predicts for a device. The first
/// of equal times is chosen.
///
/// `build` returns the kernel with given block sizes. Of the operands only the types count; they
/// may be traced.
///
/// # Errors
/// `Op` (value) if no candidate fits, with the reason of the last one.
#[track_caller]
pub fn choose_blocks(
    candidates: &[Vec<usize>],
    build: impl Fn(&[usize]) -> Kernel,
    operands: &[&Array],
    device: &DeviceSpec,
) -> Result<BlockChoice, Error> {
    let loc = Loc::caller();
    let mut best: Option<BlockChoice> = None;
    let mut reason = "there are no candidates".to_string();
    for blocks in candidates {
        let estimate = match traced(&build, blocks, operands) {
            Ok(kernel) => estimate(&kernel, device),
            Err(error) => {
                let text = error.to_string();
                reason = format!("{blocks:?}: {}", text.lines().next().unwrap_or_default());
                continue;
            }
        };
        if let Some(excess) = &estimate.excess {
            reason = format!("{blocks:?} {excess}");
        } else if best.as_ref().is_none_or(|best| estimate.seconds < best.seconds) {
            let (blocks, seconds) = (blocks.clone(), estimate.seconds);
            best = Some(BlockChoice { blocks, seconds, source: TimeSource::Model });
        }
    }
    best.ok_or_else(|| {
        let message =
            format!("none of {} candidates fits {}: {reason}", candidates.len(), device.name);
        let error = trace::op_error(OpErrorKind::Value, "choose_blocks", message, loc);
        error.with_help("add smaller blocks, or raise `KernelOptions::vmem_limit`")
    })
}

/// Traces the kernel of a candidate.
///
/// # Errors
/// A violated rule of a compiler.
fn traced(
    build: &impl Fn(&[usize]) -> Kernel,
    blocks: &[usize],
    operands: &[&Array],
) -> Result<KernelCall, Error> {
    catch(|| build(blocks).trace(operands))
}
