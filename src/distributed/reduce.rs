//! [`process_allreduce`].

use super::gather::gather;
use crate::core::{Array, Error, catch};
use crate::ops::Tiling;
use crate::tree::{self, Tree};

/// The reduction of [`process_allreduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProcessReduction {
    /// The sum, as [`Array::sum_axes`] computes it.
    Sum,
    /// The arithmetic mean, as [`Array::mean_axes`] computes it.
    Mean,
    /// The smallest element; NaN if one is.
    Min,
    /// The largest element; NaN if one is.
    Max,
    /// The product, as [`Array::prod_axes`] computes it.
    Product,
}

impl ProcessReduction {
    fn doing(self) -> &'static str {
        match self {
            ProcessReduction::Sum => "process_allreduce (sum)",
            ProcessReduction::Mean => "process_allreduce (mean)",
            ProcessReduction::Min => "process_allreduce (min)",
            ProcessReduction::Max => "process_allreduce (max)",
            ProcessReduction::Product => "process_allreduce (product)",
        }
    }

    /// Reduces the first axis.
    #[track_caller]
    fn apply(self, stacked: &Array) -> Array {
        match self {
            ProcessReduction::Sum => stacked.sum_axes(0),
            ProcessReduction::Mean => stacked.mean_axes(0),
            ProcessReduction::Min => stacked.min_axes(0),
            ProcessReduction::Max => stacked.max_axes(0),
            ProcessReduction::Product => stacked.prod_axes(0),
        }
    }
}

/// Reduces each leaf over the processes, element by element. Every process receives the same tree.
///
/// A leaf of shape `[a, b]` stays of shape `[a, b]`. All dtypes can be reduced, and results have
/// the dtypes of the reductions of [`Array`]:
///
/// | leaves | `Sum`, `Product` | `Mean` | `Min`, `Max` |
/// |---|---|---|---|
/// | floats, complex numbers | same dtype; floats below 32 bits are accumulated in `f32` | same dtype | same dtype |
/// | integers of 32 and 64 bits | same dtype, wrapping around | `f32` | same dtype |
/// | smaller integers, booleans | `i32` or `u32` | `f32` | same dtype |
///
/// Processes send their arrays to the coordinator, which sends everything to every process, and
/// each process reduces on its default device: use it for metrics and counts, not for gradients.
/// With one process, the reductions are of one element.
///
/// Throws `Tracer` if an array is traced.
///
/// # Errors
/// As [`process_allgather`](super::process_allgather): `Mismatch` also if others reduce in another
/// way.
///
/// ```
/// use oxidax::distributed::{ProcessReduction, process_allreduce};
/// use oxidax::prelude::*;
/// // The sum of losses and the number of examples of this process.
/// let (loss, examples) = (Array::from_slice(&[6.0f32], [])?, Array::from_slice(&[4i32], [])?);
/// let (loss, examples) = process_allreduce(&(loss, examples), ProcessReduction::Sum)?;
/// let mean = (loss / examples).item::<f32>()?;
/// assert_eq!(mean, 1.5);
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "mesh_reduce")]
#[track_caller]
pub fn process_allreduce<T: Tree>(tree: &T, reduction: ProcessReduction) -> Result<T, Error> {
    let stacked = gather(tree, Tiling::Untiled, reduction.doing())?;
    let leaves = tree::leaves(&stacked);
    let reduced: Vec<Array> = catch(|| leaves.iter().map(|leaf| reduction.apply(leaf)).collect())?;
    Ok(tree::unflatten(tree, reduced))
}
