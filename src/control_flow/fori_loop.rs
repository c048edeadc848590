//! `fori_loop`: a loop over whole numbers.

use super::closure::Caller;
use super::scan::{self, ScanOptions};
use super::while_loop;
use crate::core::{Array, Aval, DType, Error, Loc, OpErrorKind, Scalar, Shape, throw, trace};
use crate::primitives::{ArrayLike, Like, add, convert_to, fill_of, lt};
use crate::tree::{Arg, Tree, Visitor};

/// Applies `body_fun` to the numbers from `lower` to `upper`, the latter excluded, and a value that it
/// carries along: `for i in lower..upper { value = body_fun(i, value) }`.
///
/// Bounds are Rust numbers or integer scalars. If both are known while tracing, the loop is a
/// [`scan`](super::scan()), and derivatives go through in both directions; else it is a
/// [`while_loop`](super::while_loop()), and only forward ones do. The number that `body_fun` gets is
/// weakly typed if a bound is a Rust number and no bound has a dtype of its own.
///
/// Throws `Op` (dtype) if the bounds are no integers of one dtype, `Tree`, naming the leaf, if the
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
    let caller = Caller::of::<F>("fori_loop", Loc::caller());
    let (lower, upper) = (lower.like(), upper.like());
    let (dtype, weak) = common_type(&caller, lower, upper);
    let first = |value: Scalar| fill_of(value, &Aval { weak, ..Aval::new(dtype, Shape::scalar()) });
    let init = init.tree();
    let value = init.unflatten(&mut crate::tree::leaves_of(init).into_iter());
    let step = |Counted { number, value }: Counted<C>| {
        let next = caller.loc.scope(|| add(&number, 1));
        Counted { value: body_fun(number, value), number: next }
    };
    let known = known_bound(lower).zip(known_bound(upper));
    if let Some((lower, upper)) = known {
        let number = caller.loc.scope(|| first(Scalar::Int(lower)));
        let length = usize::try_from((upper - lower).max(0)).unwrap_or(usize::MAX);
        let options = ScanOptions { length: Some(length), ..ScanOptions::default() };
        let step = |carry: Counted<C>, ()| (step(carry), ());
        return scan::run(&caller, &step, &Counted { number, value }, &(), options).0.value;
    }
    let (number, limit) = caller.loc.scope(|| {
        let array = |bound: Like<'_>| match bound {
            Like::Array(x) => convert_to(x, dtype, weak),
            Like::Scalar(number) => first(number),
        };
        (array(lower), array(upper))
    });
    let below = |carry: Counted<C>| caller.loc.scope(|| lt(&carry.number, &limit));
    while_loop::run(&caller, &below, &step, &Counted { number, value }).value
}

/// What is carried: the number, and the user's value, whose leaves keep their paths.
struct Counted<C> {
    number: Array,
    value: C,
}

impl<C: Tree> Tree for Counted<C> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.leaf(&self.number);
        self.value.flatten(visitor);
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Counted<C> {
        let number = self.number.unflatten(leaves);
        Counted { number, value: self.value.unflatten(leaves) }
    }
}

/// The dtype of the loop's numbers, and whether it is weak. A Rust number takes the other bound's dtype.
fn common_type(caller: &Caller, lower: Like<'_>, upper: Like<'_>) -> (DType, bool) {
    let refuse = |message: String| -> ! {
        trace::throw(
            trace::op_error(OpErrorKind::DType, caller.name, message, caller.loc)
                .with_help("convert one of the bounds with `astype`"),
        )
    };
    let type_of = |bound: Like<'_>| match bound {
        Like::Array(x) if x.rank() == 0 && x.dtype().is_integer() => (x.dtype(), x.aval().weak),
        Like::Scalar(Scalar::Int(_)) => (DType::I32, true),
        Like::Array(x) => refuse(format!("bounds must be integer scalars, got {}", x.aval())),
        Like::Scalar(number) => refuse(format!("bounds must be integers, got {}", number.as_f64())),
    };
    match (type_of(lower), type_of(upper)) {
        ((a, weak_a), (b, weak_b)) if a == b => (a, weak_a && weak_b),
        ((_, true), (dtype, false)) | ((dtype, false), (_, true)) => (dtype, false),
        ((a, _), (b, _)) => refuse(format!("bounds must be of one dtype, got {a} and {b}")),
    }
}

/// The bound as a number, if it is one or a concrete array.
fn known_bound(bound: Like<'_>) -> Option<i128> {
    match bound {
        Like::Scalar(Scalar::Int(number)) => Some(number),
        Like::Array(x) if !x.is_traced() => Some(integer(x).unwrap_or_else(|error| throw(error))),
        _ => None,
    }
}

/// The one element of an integer scalar.
fn integer(x: &Array) -> Result<i128, Error> {
    let bytes = x.to_bytes()?;
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(&bytes);
    // Of a narrow integer only the low bits count.
    let unused = 128 - x.dtype().bits() as u32;
    let unsigned = u128::from_le_bytes(wide);
    Ok(match x.dtype().is_signed() {
        true => ((unsigned << unused) as i128) >> unused,
        false => ((unsigned << unused) >> unused) as i128,
    })
}
