//! Calls from compiled programs to closures on the host.

use crate::core::host_function::as_callback;
use crate::core::{
    Array, Aval, Effects, Error, HostArray, HostFunction, Loc, OpErrorKind, catch, throw, trace,
};
use crate::primitives::{self, ArrayList, Callback, CallbackFailure, VmapMethod, references};

pub use crate::core::HostError;

/// Options of [`print_with`](super::print_with), [`callback_with`] and [`io_callback_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallbackOptions {
    /// Runs in program order with the other ordered ones, also those of other calls. A call of such
    /// a program returns when the device has finished. Not available in `shard_map` and `pmap`,
    /// whose devices have no common order.
    pub ordered: bool,
}

/// Calls `f` with the elements of `arrays` each time the program reaches this point.
///
/// Calls are unordered: the compiler may exchange them, and a call of the program returns before
/// they have run. [`effects_barrier`](crate::jit::effects_barrier) waits for them, and
/// [`callback_with`] keeps program order. Under `vmap`, `f` is called for each example, in
/// `shard_map` and `pmap` by each device for its shards, and in other programs over a mesh once,
/// with whole arrays.
///
/// `f` runs on a thread of the plugin or of the caller and receives host values. Array operations
/// inside `f` are an error. A panic of `f` becomes the error of the program.
///
/// ```
/// use oxidax::prelude::*;
/// use std::sync::{Arc, Mutex};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let step = jit(move |x: Array| {
///     let log = log.clone();
///     debug::callback(move |x| log.lock().unwrap().push(x[0].item::<f32>().unwrap()), [&x]);
///     x + 1.0
/// });
/// step.call(zeros([]))?;
/// effects_barrier()?;
/// assert_eq!(*seen.lock().unwrap(), [0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.debug.callback")]
#[track_caller]
pub fn callback<F, L>(f: F, arrays: impl ArrayList<L>)
where
    F: Fn(&[HostArray]) + Send + Sync + 'static,
{
    callback_with(f, arrays, CallbackOptions::default());
}

/// As [`callback`], with options.
///
/// ```no_run
/// use oxidax::prelude::*;
/// use oxidax::debug::CallbackOptions;
/// let f = jit(|x: Array| {
///     let ordered = CallbackOptions { ordered: true };
///     debug::callback_with(|x| println!("before {}", x[0]), [&x], ordered);
///     debug::callback_with(|y| println!("after {}", y[0]), [&sin(&x)], ordered);
///     x
/// });
/// # drop(f);
/// ```
#[track_caller]
pub fn callback_with<F, L>(f: F, arrays: impl ArrayList<L>, options: CallbackOptions)
where
    F: Fn(&[HostArray]) + Send + Sync + 'static,
{
    let function = HostFunction::of_type::<F>("callback", move |arrays| {
        f(arrays);
        Ok(Vec::new())
    });
    let arrays = arrays.into_arrays();
    run_or_bind(HostCall::with_effects("callback", function, options), &references(&arrays));
}

/// Computes arrays of the types `results` on the host, each time the program reaches this point.
///
/// Unlike [`pure_callback`], `f` may have side effects, such as reading a file: it runs exactly
/// once per execution. Calls are unordered; [`io_callback_with`] keeps program order. Under
/// `vmap`, `f` is called for each example, in `shard_map` and `pmap` by each device for its shards,
/// and in other programs over a mesh once, with whole arrays. All devices get its results.
///
/// The computation fails if `f` returns an error, or results of other types.
///
/// ```
/// use oxidax::core::HostArray;
/// use oxidax::prelude::*;
/// use std::sync::atomic::{AtomicI32, Ordering};
///
/// static NEXT: AtomicI32 = AtomicI32::new(0);
/// let number = jit(|(): ()| {
///     let next = |_: &[HostArray]| {
///         Ok(vec![HostArray::from_slice(&[NEXT.fetch_add(1, Ordering::Relaxed)], [])?])
///     };
///     debug::io_callback(next, &[Aval::new(DType::I32, [])], ()).swap_remove(0)
/// });
/// assert_eq!(number.call(())?.item::<i32>()?, 0);
/// assert_eq!(number.call(())?.item::<i32>()?, 1);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn io_callback<F, L>(f: F, results: &[Aval], arrays: impl ArrayList<L>) -> Vec<Array>
where
    F: Fn(&[HostArray]) -> Result<Vec<HostArray>, HostError> + Send + Sync + 'static,
{
    io_callback_with(f, results, arrays, CallbackOptions::default())
}

/// As [`io_callback`], with options.
///
/// ```no_run
/// use oxidax::core::HostArray;
/// use oxidax::debug::CallbackOptions;
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| {
///     let read = |x: &[HostArray]| Ok(vec![x[0].clone()]);
///     let ordered = CallbackOptions { ordered: true };
///     debug::io_callback_with(read, &[x.aval().clone()], [&x], ordered).swap_remove(0)
/// });
/// # drop(f);
/// ```
#[track_caller]
pub fn io_callback_with<F, L>(
    f: F,
    results: &[Aval],
    arrays: impl ArrayList<L>,
    options: CallbackOptions,
) -> Vec<Array>
where
    F: Fn(&[HostArray]) -> Result<Vec<HostArray>, HostError> + Send + Sync + 'static,
{
    let function = fallible("io_callback", f, Loc::caller());
    let call = HostCall {
        results: results.to_vec(),
        ..HostCall::with_effects("io_callback", function, options)
    };
    run_or_bind(call, &references(&arrays.into_arrays()))
}

/// Wraps a closure whose error names `name` and its line.
#[track_caller]
fn fallible<F>(name: &'static str, f: F, loc: Loc) -> HostFunction
where
    F: Fn(&[HostArray]) -> Result<Vec<HostArray>, HostError> + Send + Sync + 'static,
{
    HostFunction::of_type::<F>(name, move |arrays| {
        f(arrays).map_err(|error| {
            let message = format!("the closure failed: {error}");
            trace::op_error(OpErrorKind::Runtime, name, message, loc)
        })
    })
}

/// Computes arrays of the types `results` on the host, by calling `f` with the elements of
/// `arrays`.
///
/// `f` must be pure: the compiler may call it any number of times, or not at all. It has no
/// derivative: wrap it in [`custom_jvp`](crate::control_flow::custom_jvp) to define one. Under
/// `vmap` it is called once per example; [`pure_callback_with`] changes that. In `shard_map` and
/// `pmap` each device calls it with its shards. It takes and returns host values, and array
/// operations inside it are an error.
///
/// The computation fails if `f` returns an error, or results of other types.
///
/// ```
/// use oxidax::core::HostArray;
/// use oxidax::prelude::*;
///
/// fn sorted(x: &Array) -> Array {
///     let on_host = |x: &[HostArray]| {
///         let mut elements = x[0].to_vec::<f32>()?;
///         elements.sort_by(f32::total_cmp);
///         Ok(vec![HostArray::from_slice(&elements, x[0].shape())?])
///     };
///     debug::pure_callback(on_host, &[x.aval().clone()], [x]).swap_remove(0)
/// }
/// let x = Array::from_slice(&[3.0f32, 1.0, 2.0], [3])?;
/// assert_eq!(jit(|x: Array| sorted(&x)).call(&x)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pure_callback<F, L>(f: F, results: &[Aval], arrays: impl ArrayList<L>) -> Vec<Array>
where
    F: Fn(&[HostArray]) -> Result<Vec<HostArray>, HostError> + Send + Sync + 'static,
{
    pure_callback_with(f, results, arrays, PureCallbackOptions::default())
}

/// Options of [`pure_callback_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PureCallbackOptions {
    /// The way in which `vmap` batches the function; by default one call for each example.
    pub vmap_method: VmapMethod,
}

/// As [`pure_callback`], with options.
///
/// ```
/// use oxidax::core::HostArray;
/// use oxidax::debug::{PureCallbackOptions, VmapMethod};
/// use oxidax::prelude::*;
/// // Elementwise, so one call computes a whole batch.
/// let doubled = |x: Array| {
///     let f = |x: &[HostArray]| {
///         let twice: Vec<f32> = x[0].to_vec::<f32>()?.iter().map(|x| 2.0 * x).collect();
///         Ok(vec![HostArray::from_slice(&twice, x[0].shape())?])
///     };
///     let options = PureCallbackOptions { vmap_method: VmapMethod::ExpandDims };
///     debug::pure_callback_with(f, &[x.aval().clone()], [&x], options).swap_remove(0)
/// };
/// assert_eq!(vmap(doubled).apply(ones([3])).to_vec::<f32>()?, [2.0, 2.0, 2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pure_callback_with<F, L>(
    f: F,
    results: &[Aval],
    arrays: impl ArrayList<L>,
    options: PureCallbackOptions,
) -> Vec<Array>
where
    F: Fn(&[HostArray]) -> Result<Vec<HostArray>, HostError> + Send + Sync + 'static,
{
    let call = HostCall {
        name: "pure_callback",
        function: fallible("pure_callback", f, Loc::caller()),
        results: results.to_vec(),
        effects: Effects::None,
        vmap_method: options.vmap_method,
        failure: CallbackFailure::AtResults,
    };
    run_or_bind(call, &references(&arrays.into_arrays()))
}

/// A call of a host function.
pub(super) type HostCall = Callback;

impl HostCall {
    /// Returns a call for its effects.
    pub(super) fn with_effects(
        name: &'static str,
        function: HostFunction,
        options: CallbackOptions,
    ) -> HostCall {
        HostCall {
            name,
            function,
            results: Vec::new(),
            effects: if options.ordered { Effects::Ordered } else { Effects::Unordered },
            vmap_method: VmapMethod::Sequential,
            failure: CallbackFailure::AtResults,
        }
    }
}

/// Calls the function immediately on concrete arrays. During tracing, binds it into the program.
#[track_caller]
pub(super) fn run_or_bind(call: HostCall, arrays: &[&Array]) -> Vec<Array> {
    if trace::is_tracing() {
        return Loc::caller().scope(|| primitives::callback(call, arrays));
    }
    match run_now(&call.function, &call.results, arrays) {
        Ok(outputs) => outputs,
        Err(error) => throw(error),
    }
}

fn run_now(
    function: &HostFunction,
    results: &[Aval],
    arrays: &[&Array],
) -> Result<Vec<Array>, Error> {
    let operands: Vec<HostArray> =
        arrays.iter().map(|array| array.to_host()).collect::<Result<_, _>>()?;
    let outputs = as_callback(|| catch(|| function.run(&operands)))??;
    if !outputs.iter().map(HostArray::aval).eq(results) {
        let found: Vec<String> = outputs.iter().map(|x| x.aval().to_string()).collect();
        let expected: Vec<String> = results.iter().map(Aval::to_string).collect();
        let message = format!("expected [{}], got [{}]", expected.join(", "), found.join(", "));
        return Err(trace::op_error(OpErrorKind::Runtime, "callback", message, Loc::UNKNOWN));
    }
    let copy = |x: &HostArray| Array::from_bytes(x.as_bytes(), x.dtype(), x.shape().clone());
    outputs.iter().map(copy).collect()
}
