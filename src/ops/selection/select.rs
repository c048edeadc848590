//! One of several values for each element.

use super::super::IndexMode;
use super::super::grids::wide;
use super::super::joining::broadcast_arrays;
use crate::core::{Array, RuleError, trace};
use crate::primitives::{ArrayLike, convert_element_type, eq, full_like, where_};

#[track_caller]
fn as_many(name: &str, what: [&str; 2], lengths: [usize; 2], operands: &[&Array]) {
    if lengths[0] != lengths[1] || lengths[0] == 0 {
        let message = format!("{} {} for {} {}", lengths[0], what[0], lengths[1], what[1]);
        trace::throw_operands(name, RuleError::value(message), operands);
    }
}

/// For each element the choice that goes with the first true condition, `default` where none is true:
/// JAX's `select`. Everything broadcasts; the choices' dtypes are promoted.
///
/// Throws `Op` (value) if there are not as many choices as conditions, or none.
///
/// ```
/// use oxidax::prelude::*;
/// let sign = |x: Array| {
///     select_first([&gt(&x, 0), &lt(&x, 0)], [&ones_like(&x), &full_like(&x, -1)], 0)
/// };
/// assert_eq!(eval_shape(sign, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "select")]
#[track_caller]
pub fn select_first<'a, 'b>(
    conditions: impl AsRef<[&'a Array]>,
    choices: impl AsRef<[&'b Array]>,
    default: impl ArrayLike,
) -> Array {
    let (conditions, choices) = (conditions.as_ref(), choices.as_ref());
    let lengths = [conditions.len(), choices.len()];
    as_many("select_first", ["conditions", "choices"], lengths, conditions);
    let (last, rest) = choices.split_last().expect("there is at least one choice");
    let mut chosen = where_(conditions[rest.len()], last, default);
    for (condition, choice) in conditions.iter().zip(rest).rev() {
        chosen = where_(condition, choice, &chosen);
    }
    chosen
}

/// For each element of `which` the element of that choice at the same place. Everything broadcasts;
/// the choices' dtypes are promoted, and `mode` says what is done with numbers out of range.
///
/// Throws `Op` (value) if there is no choice and `Op` (dtype) if `which` is not of integers.
#[track_caller]
pub fn choose<'a>(which: &Array, choices: impl AsRef<[&'a Array]>, mode: IndexMode) -> Array {
    let choices = choices.as_ref();
    as_many("choose", ["choices", "choices"], [choices.len(), choices.len().max(1)], &[which]);
    let which = mode.apply(&wide("choose", which), choices.len());
    let mut chosen = choices[choices.len() - 1].clone();
    for (number, choice) in choices.iter().enumerate().rev().skip(1) {
        chosen = where_(&eq(&which, number as i64), choice, &chosen);
    }
    let all = broadcast_arrays([&which, &chosen]);
    all.into_iter().next_back().expect("two arrays are two")
}

/// What the function that goes with the last true condition makes of each element, 0 where none is
/// true; with one function more than there are conditions, what that one makes there. The result has
/// the dtype of `x`.
///
/// Every function gets the whole array; where its condition is false, what it makes is not looked at
/// (but its derivative must not be infinite there: see [`where_`]). Throws `Op` (value) if the numbers
/// of functions and conditions do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: Array| piecewise(&x, [&lt(&x, 0.0)], &[&|x: &Array| -x, &|x: &Array| x * x]);
/// assert_eq!(eval_shape(f, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn piecewise<'a>(
    x: &Array,
    conditions: impl AsRef<[&'a Array]>,
    functions: &[&dyn Fn(&Array) -> Array],
) -> Array {
    let conditions = conditions.as_ref();
    let more = functions.len().checked_sub(conditions.len());
    let mut result = match more {
        Some(0) => full_like(x, 0),
        Some(1) => functions[conditions.len()](x),
        _ => {
            let message =
                format!("{} functions for {} conditions", functions.len(), conditions.len());
            trace::throw_operands("piecewise", RuleError::value(message), &[x])
        }
    };
    for (condition, f) in conditions.iter().zip(functions) {
        result = where_(condition, convert_element_type(&f(x), x.dtype()), &result);
    }
    convert_element_type(&result, x.dtype())
}
