//! `fori_loop`: a loop over a range of integers.

use super::closure::CallSite;
use super::scan::{self, ScanOptions, Unroll};
use super::while_loop;
use crate::core::{Array, Aval, DType, Error, Loc, OpErrorKind, Scalar, Shape, throw, trace};
use crate::primitives::{ArrayLike, Like, add, convert_to, fill_of, lt};
use crate::tree::{Arg, Tree, Visitor, share};

/// Runs `for i in lower..upper { value = body_fun(i, value) }`. Returns the final value.
///
/// Bounds are Rust numbers or integer scalars. If both are known while tracing, the loop is a
/// [`scan`](super::scan()), which supports forward and reverse derivatives. Otherwise it is a
/// [`while_loop`](super::while_loop()), which supports forward ones only. The index is weakly typed
/// if a bound is a Rust number and the dtype of neither bound is fixed.
///
/// Throws `Op` (dtype) if the bounds are not integers of one dtype, `Tree`, naming the leaf, if the
/// carried value changes its type, and whatever `body_fun` throws.
///
/// ```
/// use oxidax::prelude::*;
/// // x to the power of 2 to the power of 10.
/// let power = |x: Array| fori_loop(0, 10, |_: Array, y: Array| &y * &y, x);
/// assert_eq!(eval_shape(power, Aval::new(DType::F32, []))?.rank(), 0);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn fori_loop<C: Tree, F: Fn(Array, C) -> C>(
    lower: impl ArrayLike,
    upper: impl ArrayLike,
    body_fun: F,
    init: impl Arg<C>,
) -> C {
    fori_loop_with(lower, upper, body_fun, init, ForiLoopOptions::default())
}

/// Options of [`fori_loop_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForiLoopOptions {
    /// The number of steps per iteration of the compiled loop. More than one need bounds that are
    /// known while tracing.
    pub unroll: Unroll,
}

/// As [`fori_loop`], with options.
///
/// Throws as [`fori_loop`] does, and `Op` (value) if the loop is unrolled and a bound is traced.
///
/// ```
/// use oxidax::prelude::*;
/// let options = ForiLoopOptions { unroll: Unroll::Steps(4) };
/// let sum = fori_loop_with(0, 10, |i: Array, sum: Array| sum + i, 0, options);
/// assert_eq!(sum.item::<i32>()?, 45);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn fori_loop_with<C: Tree, F: Fn(Array, C) -> C>(
    lower: impl ArrayLike,
    upper: impl ArrayLike,
    body_fun: F,
    init: impl Arg<C>,
    options: ForiLoopOptions,
) -> C {
    let site = CallSite::new::<F>("fori_loop", Loc::caller());
    let (lower, upper) = (lower.like(), upper.like());
    let (dtype, weak) = common_type(&site, lower, upper);
    let index_of =
        |value: Scalar| fill_of(value, &Aval { weak, ..Aval::new(dtype, Shape::scalar()) });
    let init = init.hold();
    let value = share(&*init);
    let step = |Counted { index, value }: Counted<C>| {
        let next = site.loc.scope(|| add(&index, 1));
        Counted { value: body_fun(index, value), index: next }
    };
    // Outside of every trace the bounds are operands, so that one executable serves all of them.
    let is_unrolled = !matches!(options.unroll, Unroll::Steps(0 | 1));
    let is_static = trace::is_tracing() || trace::jit_disabled() || is_unrolled;
    let bounds = known_bound(lower).zip(known_bound(upper)).filter(|_| is_static);
    if is_unrolled && bounds.is_none() {
        let message = "a loop with a traced bound cannot be unrolled: its number of steps is \
                       unknown while tracing";
        let error = trace::op_error(OpErrorKind::Value, site.name, message, site.loc);
        trace::throw(error.with_help("pass Rust numbers as bounds, or leave `unroll` out"));
    }
    if let Some((lower, upper)) = bounds {
        let index = site.loc.scope(|| index_of(Scalar::Int(lower)));
        let length = usize::try_from((upper - lower).max(0)).unwrap_or(usize::MAX);
        let ForiLoopOptions { unroll } = options;
        let options = ScanOptions { length: Some(length), unroll, ..ScanOptions::default() };
        let step = |carry: Counted<C>, ()| (step(carry), ());
        return scan::run(&site, &step, &Counted { index, value }, &(), options).0.value;
    }
    let (index, limit) = site.loc.scope(|| {
        let array = |bound: Like<'_>| match bound {
            Like::Array(x) => convert_to(x, dtype, weak),
            Like::Scalar(number) => index_of(number),
        };
        (array(lower), array(upper))
    });
    let is_below = |carry: Counted<C>| site.loc.scope(|| lt(&carry.index, &limit));
    while_loop::run(&site, &is_below, &step, &Counted { index, value }).value
}

/// The carry: the index and the user's value. The leaves of the value keep their paths.
struct Counted<C> {
    index: Array,
    value: C,
}

impl<C: Tree> Tree for Counted<C> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.leaf(&self.index);
        self.value.flatten(visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Counted<C> {
        let index = self.index.unflatten(leaves);
        Counted { index, value: self.value.unflatten(leaves) }
    }
}

/// Returns the dtype of the index, and true if it is weak. A Rust number takes the dtype of the
/// other bound.
fn common_type(site: &CallSite, lower: Like<'_>, upper: Like<'_>) -> (DType, bool) {
    let throw_bounds = |message: String| -> ! {
        trace::throw(
            trace::op_error(OpErrorKind::DType, site.name, message, site.loc)
                .with_help("convert one of the bounds with `astype`"),
        )
    };
    let type_of = |bound: Like<'_>| match bound {
        Like::Array(x) if x.rank() == 0 && x.dtype().is_integer() => (x.dtype(), x.aval().weak),
        Like::Scalar(Scalar::Int(_)) => (DType::I32, true),
        Like::Array(x) => throw_bounds(format!("bounds must be integer scalars, got {}", x.aval())),
        Like::Scalar(number) => {
            throw_bounds(format!("bounds must be integers, got {}", number.as_f64()))
        }
    };
    match (type_of(lower), type_of(upper)) {
        ((a, weak_a), (b, weak_b)) if a == b => (a, weak_a && weak_b),
        ((_, true), (dtype, false)) | ((dtype, false), (_, true)) => (dtype, false),
        ((a, _), (b, _)) => throw_bounds(format!("bounds must be of one dtype, got {a} and {b}")),
    }
}

/// Returns the bound as a number, if it is one or a concrete array.
fn known_bound(bound: Like<'_>) -> Option<i128> {
    match bound {
        Like::Scalar(Scalar::Int(number)) => Some(number),
        Like::Array(x) if !x.is_traced() => Some(integer(x).unwrap_or_else(|error| throw(error))),
        _ => None,
    }
}

/// Returns the element of an integer scalar.
fn integer(x: &Array) -> Result<i128, Error> {
    let bytes = x.to_bytes()?;
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(&bytes);
    // Only the low bits of a narrow integer are set.
    let unused = 128 - x.dtype().bits() as u32;
    let unsigned = u128::from_le_bytes(wide);
    Ok(if x.dtype().is_signed() {
        ((unsigned << unused) as i128) >> unused
    } else {
        ((unsigned << unused) >> unused) as i128
    })
}
