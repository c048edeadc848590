//! The loss of sequences whose alignment is not known.

use super::fits::wide;
use crate::control_flow::scan;
use crate::core::{Array, Aval, DType, RuleError, Scalar, throw_operands};
use crate::ops::{log_softmax, logsumexp, take_along_axis};
use crate::primitives::{
    broadcasted_iota, concatenate, convert_element_type, eq, fill_of, full, full_like, logaddexp,
    lt, ne, reshape, slice_in_dim, where_,
};

/// Stands for the logarithm of 0, finite so that no difference becomes NaN.
const LOG_ZERO: f64 = -1e5;

/// Connectionist temporal classification: the negative logarithm, in nats, of the chance that frames, each
/// drawn from the softmax of its logits, spell a sequence of labels, once repeated classes are merged and blanks
/// removed. `logits: float[b, t, c]`, `labels: int[b, n]`; the result is `[b]`.
///
/// `logit_lengths` and `label_lengths`, `int[b]`, say how many frames and labels of each example count. Class
/// `blank` is no label. An example with too few frames for its labels costs about 100000.
///
/// Throws `Op` if the shapes or dtypes do not fit, or there is no such class as `blank`.
///
/// ```
/// use oxidax::prelude::*;
/// let lengths = Aval::new(DType::I32, [4]);
/// let loss = eval_shape(
///     |logits: Array, labels: Array, frames: Array, letters: Array| {
///         nn::ctc_loss(&logits, &frames, &labels, &letters, 0)
///     },
///     (Aval::new(DType::F32, [4, 100, 27]), Aval::new(DType::I32, [4, 20]), lengths.clone(), lengths),
/// )?;
/// assert_eq!(loss.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Graves et al., "Connectionist temporal classification: labelling unsegmented sequence data with recurrent
/// neural networks" (2006), section 4.1.
#[track_caller]
pub fn ctc_loss(
    logits: &Array,
    logit_lengths: &Array,
    labels: &Array,
    label_lengths: &Array,
    blank: usize,
) -> Array {
    expect([logits, logit_lengths, labels, label_lengths], blank);
    let ([b, t, _], [_, n]) = (logits.dims(), labels.dims());
    // Labels with a blank in front of each and behind the last.
    let n_states = 2 * n + 1;
    let labels = convert_element_type(labels, DType::I32);
    let column = labels.expand_dims(-1);
    let pairs = concatenate(&[full_like(&column, blank as i64), column], -1);
    let states = concatenate(&[reshape(&pairs, [b, 2 * n]), full([b, 1], blank as i32)], -1);
    // Each frame's chance of each state, as a logarithm, frames first.
    let dtype = wide(logits.dtype());
    let chances = log_softmax(&convert_element_type(logits, dtype), -1);
    let each = states.expand_dims(1).broadcast_to([b, t, n_states]);
    let emitted = take_along_axis(&chances, &each, -1).swapaxes(0, 1);
    // A blank between two different labels may be skipped.
    let skips = ne(&states, blank as i32) & ne(&states, behind(&states, 2, -1));
    let place = broadcasted_iota(DType::I32, [1, n_states], 1);
    let never = Aval::new(dtype, [b, n_states]);
    let never = fill_of(Scalar::Float(LOG_ZERO), &never);
    // The first frame is a blank or the first label.
    let first = where_(&lt(&place, 2), 0.0, &never);
    let step = |alpha: Array, (at, emitted): (Array, Array)| {
        let skipped = where_(&skips, behind(&alpha, 2, LOG_ZERO), &never);
        let moved = logaddexp(logaddexp(&alpha, behind(&alpha, 1, LOG_ZERO)), skipped);
        let next = where_(&eq(&at, 0), &first, moved) + emitted;
        let counts = lt(&at, convert_element_type(logit_lengths, DType::I32)).expand_dims(-1);
        (where_(&counts, next, alpha), ())
    };
    let (last, ()) = scan(step, &never, (broadcasted_iota(DType::I32, [t], 0), emitted));
    // The end is the last label, or the blank behind it.
    let end = reshape(&(convert_element_type(label_lengths, DType::I32) * 2), [b, 1]);
    let ends = eq(&place, &end) | eq(&place, &end - 1);
    let total = logsumexp(&where_(&ends, last, never), -1);
    convert_element_type(&-total, logits.dtype())
}

/// `x`, `[b, n]`, moved back by so many places, with `value` in front.
#[track_caller]
fn behind(x: &Array, by: usize, value: impl Into<Scalar>) -> Array {
    let [b, n] = x.dims();
    let front = fill_of(value.into(), &Aval::new(x.dtype(), [b, by]));
    slice_in_dim(&concatenate(&[&front, x], -1), 0, n as isize, 1, -1)
}

#[track_caller]
fn expect(operands: [&Array; 4], blank: usize) {
    let [logits, logit_lengths, labels, label_lengths] = operands;
    let integers = [logit_lengths, labels, label_lengths];
    let shaped = match (logits.shape().dims(), labels.shape().dims()) {
        (&[b, _, _], &[rows, _]) => {
            let lengths = [logit_lengths, label_lengths];
            rows == b && lengths.into_iter().all(|x| *x.shape().dims() == [b])
        }
        _ => false,
    };
    let error = if !shaped {
        RuleError::shape(format!(
            "takes logits [b,t,c], labels [b,n] and lengths [b], got {}, {}, {} and {}",
            logits.shape(),
            labels.shape(),
            logit_lengths.shape(),
            label_lengths.shape()
        ))
    } else if !logits.dtype().is_float() || integers.into_iter().any(|x| !x.dtype().is_integer()) {
        RuleError::dtype("takes logits of floats, and labels and lengths of integers")
    } else if blank >= logits.shape()[2] {
        RuleError::value(format!(
            "there are {} classes, so none is blank {blank}",
            logits.shape()[2]
        ))
    } else {
        return;
    };
    throw_operands("ctc_loss", error, &operands);
}
