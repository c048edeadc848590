//! Waiting for the arrays of a tree, and copying them to the host.

use crate::core::{Array, Error, Loc};
use crate::tree::{Tree, leaves_of};

/// Waits until all arrays of a tree are computed. Traced arrays do not wait.
///
/// Calls return before the device has finished, so time a call together with this function.
///
/// # Errors
/// `Runtime` with the first error of a computation. All arrays have been waited for then, too.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| (sin(&x), cos(&x)));
/// let start = std::time::Instant::now();
/// let pair = f.call(ones([1024, 1024]))?;
/// block_until_ready(&pair)?;
/// println!("{:?}", start.elapsed());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "wait_device_ops")]
#[doc(alias = "jax.block_until_ready")]
#[track_caller]
pub fn block_until_ready<T: Tree>(tree: &T) -> Result<(), Error> {
    let leaves = leaves_of(tree);
    let wait = |leaf: &Array| leaf.block_until_ready().map(drop);
    let outcomes: Vec<Result<(), Error>> =
        Loc::caller().scope(|| leaves.iter().map(wait).collect());
    outcomes.into_iter().collect()
}

/// Starts to copy all arrays of a tree to the host and returns at once; see
/// [`Array::copy_to_host_async`](crate::Array::copy_to_host_async). Traced arrays are skipped.
///
/// # Errors
/// `Runtime` if an array was donated, or the plugin cannot copy.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| (x.sum(), x.max()));
/// let metrics = f.call(ones([1024]))?;
/// copy_to_host_async(&metrics)?;
/// // … launch the next step, then read without waiting for a copy:
/// println!("{} {}", metrics.0.item::<f32>()?, metrics.1.item::<f32>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.copy_to_host_async")]
#[track_caller]
pub fn copy_to_host_async<T: Tree>(tree: &T) -> Result<(), Error> {
    let leaves = leaves_of(tree);
    Loc::caller().scope(|| leaves.iter().try_for_each(|leaf| leaf.copy_to_host_async()))
}
