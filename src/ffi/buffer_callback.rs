//! `buffer_callback`: calls a closure with the buffers of a program.

use super::{FfiCallOptions, ResultTypes};
use crate::control_flow::FfiTarget;
use crate::core::{BufferFunction, FfiFrame, HostError, Loc, bind};
use crate::primitives::{ArrayList, VmapMethod, references};

/// Options of [`buffer_callback_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferCallbackOptions {
    /// As [`FfiCallOptions::vmap_method`].
    pub vmap_method: Option<VmapMethod>,
    /// As [`FfiCallOptions::has_side_effect`].
    pub has_side_effect: bool,
    /// As [`FfiCallOptions::input_output_aliases`].
    pub input_output_aliases: Vec<(usize, usize)>,
}

/// Calls `f` with the buffers of `arrays`, each time the program reaches this point. `f` writes
/// arrays of the types `results`.
///
/// Unlike [`pure_callback`](crate::debug::pure_callback) it copies nothing on a CPU, and unlike
/// [`ffi_call`](super::ffi_call) it takes a closure, which may have captures. Programs with it are
/// not stored in the compile cache on disk, and are not exported.
///
/// Throws `Op` (runtime) with the error of `f`, or its panic.
///
/// ```
/// use oxidax::ffi::{self, FfiFrame};
/// use oxidax::prelude::*;
/// let table = vec![10f32, 20.0, 30.0];
/// let look_up = move |x: Array| {
///     let table = table.clone();
///     let f = move |frame: &mut FfiFrame| {
///         let (inputs, outputs) = frame.buffers();
///         let indices = inputs[0].as_slice::<i32>()?;
///         for (y, &index) in outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(indices) {
///             *y = *table.get(index as usize).ok_or(format!("there is no entry {index}"))?;
///         }
///         Ok(())
///     };
///     ffi::buffer_callback(f, Aval::new(DType::F32, x.shape()), [&x])
/// };
/// let look_up = jit(look_up);
/// assert_eq!(look_up.call(Array::from([2, 0]))?.to_vec::<f32>()?, [30.0, 10.0]);
/// let error = match look_up.call(Array::from([7, 0])) {
///     Ok(y) => y.to_vec::<f32>().unwrap_err().to_string(),
///     Err(error) => error.to_string(),
/// };
/// assert!(error.contains("there is no entry 7"));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.experimental.buffer_callback")]
#[track_caller]
pub fn buffer_callback<F, R, L>(f: F, results: R, arrays: impl ArrayList<L>) -> R::Arrays
where
    F: Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    R: ResultTypes,
{
    buffer_callback_with(f, results, arrays, BufferCallbackOptions::default())
}

/// As [`buffer_callback`], with options.
///
/// ```
/// use oxidax::ffi::{self, BufferCallbackOptions, FfiFrame};
/// use oxidax::prelude::*;
/// // Adds 1 in place.
/// let f = |frame: &mut FfiFrame| {
///     frame.outputs()[0].as_mut_slice::<f32>()?.iter_mut().for_each(|x| *x += 1.0);
///     Ok(())
/// };
/// let options = BufferCallbackOptions {
///     input_output_aliases: vec![(0, 0)],
///     ..BufferCallbackOptions::default()
/// };
/// let x = Array::from([1.0, 2.0]);
/// let y = ffi::buffer_callback_with(f, x.aval(), [&x], options);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0]);
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn buffer_callback_with<F, R, L>(
    f: F,
    results: R,
    arrays: impl ArrayList<L>,
    options: BufferCallbackOptions,
) -> R::Arrays
where
    F: Fn(&mut FfiFrame<'_>) -> Result<(), HostError> + Send + Sync + 'static,
    R: ResultTypes,
{
    let options = FfiCallOptions {
        vmap_method: options.vmap_method,
        has_side_effect: options.has_side_effect,
        input_output_aliases: options.input_output_aliases,
        ..FfiCallOptions::default()
    };
    let call = options.call(FfiTarget::Closure(BufferFunction::new(f)), &results);
    let arrays = arrays.into_arrays();
    results.arrays(Loc::caller().scope(|| bind(call, &references(&arrays))))
}
