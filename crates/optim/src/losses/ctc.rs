//! Connectionist temporal classification with masks of the padding.

use oxidax::prelude::*;

/// Options of [`ctc_loss_with_paddings`] and [`ctc_loss_with_forward_probs`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtcOptions {
    /// The class of the blank. 0 by default.
    pub blank_id: usize,
    /// The logarithm that stands for that of 0. -1e5 by default.
    pub log_epsilon: f64,
}

impl Default for CtcOptions {
    fn default() -> CtcOptions {
        CtcOptions { blank_id: 0, log_epsilon: -1e5 }
    }
}

/// The results of [`ctc_loss_with_forward_probs`].
#[derive(Tree, Clone, Debug)]
pub struct CtcForward {
    /// The loss in nats: `[b]`.
    pub loss: Array,
    /// The logarithm of the probability of each prefix that ends with a blank: `[t, b, n + 1]`.
    pub log_alpha_blank: Array,
    /// The logarithm of the probability of each prefix that ends with its label: `[t, b, n]`.
    pub log_alpha_label: Array,
}

/// Returns the loss of connectionist temporal classification, in nats: `[b]`.
///
/// [`nn::ctc_loss`] takes lengths instead of masks of the padding.
#[doc(alias = "ctc_loss")]
#[track_caller]
pub fn ctc_loss_with_paddings(
    logits: &Array,
    logit_paddings: &Array,
    labels: &Array,
    label_paddings: &Array,
    options: CtcOptions,
) -> Array {
    ctc_loss_with_forward_probs(logits, logit_paddings, labels, label_paddings, options).loss
}

/// Returns the loss of connectionist temporal classification with the forward probabilities.
///
/// - `logits: float[b, t, c]`, `labels: int[b, n]`.
/// - `logit_paddings: float[b, t]`, `label_paddings: float[b, n]`: 1 at padding, which is at the
///   end, and 0 elsewhere.
///
/// # Reference
/// Graves et al.: Connectionist temporal classification (2006), section 4.1.
#[track_caller]
pub fn ctc_loss_with_forward_probs(
    logits: &Array,
    logit_paddings: &Array,
    labels: &Array,
    label_paddings: &Array,
    options: CtcOptions,
) -> CtcForward {
    let [b, _, n_classes] = logits.dims();
    let [_, n] = labels.dims();
    let (dtype, zero) = (logits.dtype(), options.log_epsilon);
    let log_probabilities = log_softmax(logits, -1);
    let lengths = n as i32 - label_paddings.sum_axes(1).astype(DType::I32);
    let repeats = eq(
        slice_in_dim(labels, 0, n as isize - 1, 1, 1),
        slice_in_dim(labels, 1, n as isize, 1, 1),
    );
    let repeats = concatenate([repeats.astype(dtype), zeros(([b, 1], dtype))], 1);
    let blank = options.blank_id as isize;
    let of_blank = transpose(&slice_in_dim(&log_probabilities, blank, blank + 1, 1, 2), &[1, 0, 2]);
    let one_hot = one_hot(labels, n_classes).astype(dtype);
    let of_label = einsum("btk,bnk->tbn", [&log_probabilities, &one_hot]);
    let first = concatenate([zeros(([b, 1], dtype)), full(([b, n], dtype), zero)], 1);
    let extended = |blanks: &Array, added: &Array| {
        let start = slice_in_dim(blanks, 0, 1, 1, 1);
        let rest = logaddexp(slice_in_dim(blanks, 1, n as isize + 1, 1, 1), added);
        concatenate([start, rest], 1)
    };
    let step = |(blanks, emits): (Array, Array), (label, blank, padding): (Array, Array, Array)| {
        let reached = extended(&blanks, &(&emits + &repeats * zero));
        let before = slice_in_dim(&reached, 0, n as isize, 1, 1);
        let next_emits = logaddexp(before + &label, &emits + &label);
        let skipped = &emits + &blank + (1.0 - &repeats) * zero;
        let next_blanks = extended(&(&reached + &blank), &skipped);
        let is_padding = ne(expand_dims(&padding, &[1]), 0.0);
        let emits = where_(&is_padding, &emits, &next_emits);
        let blanks = where_(&is_padding, &blanks, &next_blanks);
        ((blanks.clone(), emits.clone()), (blanks, emits))
    };
    let paddings = transpose(logit_paddings, &[1, 0]);
    let start = (first, full(([b, n], dtype), zero));
    let ((blanks, emits), (log_alpha_blank, log_alpha_label)) =
        scan(step, start, (of_label, of_blank, paddings));
    let last = extended(&blanks, &emits);
    let n_frames = log_alpha_blank.shape().dims()[0] as isize;
    let log_alpha_blank = concatenate(
        [slice_in_dim(&log_alpha_blank, 0, n_frames - 1, 1, 0), expand_dims(&last, &[0])],
        0,
    );
    let at_end = take_along_axis(&last, &expand_dims(&lengths, &[1]), 1);
    CtcForward { loss: -reshape(&at_end, [b]), log_alpha_blank, log_alpha_label }
}
