//! Selection among several arrays.

use super::super::IndexMode;
use super::super::grids::wide;
use super::super::joining::broadcast_arrays;
use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{
    ArrayLike, ArrayList, Like, ListEntry, convert_element_type, eq, full_like, references, where_,
};

/// Returns, for each element, the choice of the first true condition, or `default` where no
/// condition is true. All operands broadcast, and the dtypes of the choices are promoted.
///
/// This is `jnp.select`; [`select`](crate::primitives::select) is `lax.select`. Throws `Op` (value)
/// without conditions and if the numbers of choices and conditions differ.
///
/// ```
/// use oxidax::prelude::*;
/// let sign = |x: Array| {
///     select_first([&gt(&x, 0), &lt(&x, 0)], (1, -1), &zeros_like(&x))
/// };
/// assert_eq!(eval_shape(sign, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jnp.select")]
#[track_caller]
pub fn select_first<F, G>(
    conditions: impl ArrayList<F>,
    choices: impl ArrayList<G>,
    default: impl ArrayLike,
) -> Array {
    select_entries(&conditions.into_arrays(), &choices.into_entries(), default.like())
}

#[track_caller]
fn select_entries(conditions: &[Array], choices: &[ListEntry], default: Like<'_>) -> Array {
    Loc::caller().scope(|| {
        if conditions.len() != choices.len() || conditions.is_empty() {
            let message = format!("{} conditions for {} choices", conditions.len(), choices.len());
            trace::throw_operands(
                "select_first",
                RuleError::value(message),
                &references(conditions),
            );
        }
        let (last, rest) = choices.split_last().expect("there is at least one choice");
        let mut selected = where_(&conditions[rest.len()], last, default);
        for (condition, choice) in conditions.iter().zip(rest).rev() {
            selected = where_(condition, choice, &selected);
        }
        selected
    })
}

/// Returns, for each element of `indices`, the element of that choice at the same position. All
/// operands broadcast, and the dtypes of the choices are promoted. `mode` handles indices out of
/// range.
///
/// Throws `Op` (value) without choices and `Op` (dtype) unless `indices` is an integer array.
#[track_caller]
pub fn choose<F>(indices: &Array, choices: impl ArrayList<F>, mode: IndexMode) -> Array {
    choose_among(indices, &choices.into_arrays(), mode)
}

#[track_caller]
fn choose_among(indices: &Array, choices: &[Array], mode: IndexMode) -> Array {
    if choices.is_empty() {
        let error = RuleError::value("takes at least one choice, got 0");
        trace::throw_operands("choose", error, &[indices]);
    }
    let indices = mode.apply(&wide("choose", indices), choices.len());
    let mut chosen = choices[choices.len() - 1].clone();
    for (index, choice) in choices.iter().enumerate().rev().skip(1) {
        chosen = where_(eq(&indices, index as i64), choice, &chosen);
    }
    broadcast_arrays([&indices, &chosen]).swap_remove(1)
}

/// Applies, to each element, the function of the last true condition. Where no condition is true,
/// the result is 0, or the result of one additional function. It has the dtype of `x`.
///
/// Every function receives the whole array. Its result is ignored where its condition is false, but
/// its derivative must be finite there: see [`where_`]. Throws `Op` (value) unless there are as
/// many functions as conditions, or one more.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: Array| piecewise(&x, [&lt(&x, 0.0)], &[&|x: &Array| -x, &|x: &Array| x * x]);
/// assert_eq!(eval_shape(f, Aval::new(DType::F32, [3]))?.aval().to_string(), "f32[3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn piecewise<F>(
    x: &Array,
    conditions: impl ArrayList<F>,
    functions: &[&dyn Fn(&Array) -> Array],
) -> Array {
    let conditions = conditions.into_arrays();
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
