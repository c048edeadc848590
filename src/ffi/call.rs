//! `ffi_call`: calls a registered function.

use super::ResultTypes;
use crate::control_flow::{FfiCall, FfiTarget};
use crate::core::{FfiAttributes, Loc, bind};
use crate::primitives::{ArrayList, VmapMethod, references};

/// Options of [`ffi_call_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FfiCallOptions {
    /// The constants that the function gets.
    pub attributes: FfiAttributes,
    /// The way in which `vmap` batches the function. By default it is an error.
    pub vmap_method: Option<VmapMethod>,
    /// True for a function that does more than compute its results: it runs once for each
    /// execution, even if its results are not used. Others may be dropped and repeated.
    pub has_side_effect: bool,
    /// Pairs of an input and the output that shares its memory: the function updates it in place.
    /// An input that the program also uses otherwise is copied before. A handler in Rust finds the
    /// elements of the input in the output.
    pub input_output_aliases: Vec<(usize, usize)>,
    /// The order of the axes of each input in memory, from the slowest to the fastest; `None` for
    /// row-major. Empty for row-major inputs.
    pub input_layouts: Vec<Option<Vec<usize>>>,
    /// The order of the axes of each output in memory, as of the inputs.
    pub output_layouts: Vec<Option<Vec<usize>>>,
    /// The version of XLA's interface for custom calls: 4 for handlers that are registered, 1 to 3
    /// for functions that XLA itself has.
    pub custom_call_api_version: u32,
    /// The configuration of a call of a version before 4, which has no attributes.
    pub legacy_backend_config: Option<String>,
}

impl Default for FfiCallOptions {
    fn default() -> FfiCallOptions {
        FfiCallOptions {
            attributes: FfiAttributes::new(),
            vmap_method: None,
            has_side_effect: false,
            input_output_aliases: Vec::new(),
            input_layouts: Vec::new(),
            output_layouts: Vec::new(),
            custom_call_api_version: 4,
            legacy_backend_config: None,
        }
    }
}

/// Calls the function that is registered as `name`, and returns arrays of the types `results`.
///
/// The function must be pure; [`FfiCallOptions::has_side_effect`] is for others. It has no
/// derivative: wrap it in [`custom_vjp`](crate::control_flow::custom_vjp) or
/// [`custom_jvp`](crate::control_flow::custom_jvp) to define one. In `shard_map` and `pmap` each
/// device calls it with its shards. In other programs over several devices, each calls it with
/// whole arrays.
///
/// Throws `Compile` if no function of this name is registered, and `Op` (runtime) with the message
/// of a function that fails.
///
/// ```
/// use oxidax::ffi::{self, FfiFrame};
/// use oxidax::prelude::*;
/// ffi::register_ffi_target("docs.reversed", |frame: &mut FfiFrame| {
///     let ([x], [y]) = frame.slices::<i32, 1, 1>()?;
///     y.iter_mut().zip(x.iter().rev()).for_each(|(y, x)| *y = *x);
///     Ok(())
/// })?;
/// let reversed = |x: Array| ffi::ffi_call("docs.reversed", x.aval(), [&x]);
/// assert_eq!(jit(reversed).call(Array::from([1, 2, 3]))?.to_vec::<i32>()?, [3, 2, 1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.ffi.ffi_call")]
#[track_caller]
pub fn ffi_call<R: ResultTypes, L>(name: &str, results: R, arrays: impl ArrayList<L>) -> R::Arrays {
    ffi_call_with(name, results, arrays, FfiCallOptions::default())
}

/// As [`ffi_call`], with options.
///
/// Throws `Op` (value) for layouts that do not order the axes of their arrays, and aliases of
/// arrays of different types.
///
/// ```
/// use oxidax::ffi::{self, FfiAttributes, FfiCallOptions, FfiFrame};
/// use oxidax::prelude::*;
/// ffi::register_ffi_target("docs.shifted", |frame: &mut FfiFrame| {
///     let by: i32 = frame.attribute("by")?;
///     let ([x], [y]) = frame.slices::<i32, 1, 1>()?;
///     y.iter_mut().zip(x).for_each(|(y, x)| *y = x + by);
///     Ok(())
/// })?;
/// let options = FfiCallOptions {
///     attributes: FfiAttributes::new().with("by", 10i32),
///     vmap_method: Some(ffi::VmapMethod::BroadcastAll),
///     ..FfiCallOptions::default()
/// };
/// let shifted = |x: Array| ffi::ffi_call_with("docs.shifted", x.aval(), [&x], options.clone());
/// assert_eq!(vmap(shifted).apply(Array::from([1, 2])).to_vec::<i32>()?, [11, 12]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ffi_call_with<R: ResultTypes, L>(
    name: &str,
    results: R,
    arrays: impl ArrayList<L>,
    options: FfiCallOptions,
) -> R::Arrays {
    let call = options.call(FfiTarget::Name(name.to_owned()), &results);
    let arrays = arrays.into_arrays();
    results.arrays(Loc::caller().scope(|| bind(call, &references(&arrays))))
}

impl FfiCallOptions {
    /// Returns the call of `target`.
    pub(super) fn call(self, target: FfiTarget, results: &impl ResultTypes) -> FfiCall {
        FfiCall {
            target,
            results: results.avals(),
            attributes: self.attributes,
            has_side_effect: self.has_side_effect,
            vmap_method: self.vmap_method,
            input_output_aliases: self.input_output_aliases,
            input_layouts: self.input_layouts,
            output_layouts: self.output_layouts,
            api_version: self.custom_call_api_version,
            legacy_backend_config: self.legacy_backend_config,
        }
    }
}
