//! The arithmetic of blocks of logits.

use super::problem::{Problem, Span};
use crate::kernel::{Ref, RefIndex};
use crate::kernels::parts::{fold_parts, product};
use crate::ops::{axes, clip, take};
use crate::primitives::{
    convert_element_type, eq, exp, full, ge, log, lt, maximum, reshape, tanh, where_,
};
use crate::{Array, DType};

/// Statistics of the logits of each row that were seen so far, `f32[1, rows]`: the largest logit,
/// the sum of `exp(logit - largest)`, the logit of the label, and the sum of the logits.
pub(super) type Statistics = [Array; 4];

/// Returns the elements that the mask marks, and 0 elsewhere.
pub(super) fn masked(mask: Option<&Array>, x: Array) -> Array {
    mask.map_or(x.clone(), |mask| where_(mask, &x, 0.0))
}

impl Problem {
    /// Runs a step for each part of the features, with its index and its length.
    pub(super) fn for_features(&self, step: impl Fn(RefIndex, usize)) {
        let Some(size) = self.looped_features else {
            return self
                .feature_parts()
                .iter()
                .for_each(|part| step(part.clone().into(), part.len()));
        };
        let [] = fold_parts(
            self.features,
            size,
            |index, length, none: [Array; 0]| {
                step(index, length);
                none
            },
            [],
        );
    }

    /// Returns the logits `f32[classes, rows]` of a block of `w` and of `x`, in parts, with bias
    /// and bound.
    pub(super) fn logits_of(&self, w: &Ref, x: &Ref, bias: Option<&Array>) -> Array {
        let load = |features: RefIndex| {
            (w.at(self.w_index(.., features.clone())).load(), x.at((.., features)).load())
        };
        let Some(size) = self.looped_features else {
            let parts: Vec<(Array, Array)> =
                self.feature_parts().into_iter().map(|part| load(part.into())).collect();
            return self.logits(&parts, bias);
        };
        let zero = full(([self.block.1, self.block.0], DType::F32), 0.0);
        let add = |features: RefIndex, _: usize, [sum]: [Array; 1]| {
            let (w, x) = load(features);
            [sum + self.product_of_features(&w, &x)]
        };
        let [logits] = fold_parts(self.features, size, add, [zero]);
        self.finished(logits, bias)
    }

    /// Returns the logits `f32[classes, rows]` from parts of `w` and of `x`, with bias and bound.
    pub(super) fn logits(&self, parts: &[(Array, Array)], bias: Option<&Array>) -> Array {
        let products = parts.iter().map(|(w, x)| self.product_of_features(w, x));
        let logits = products.reduce(|sum, part| sum + part).expect("there are features");
        self.finished(logits, bias)
    }

    fn product_of_features(&self, w: &Array, x: &Array) -> Array {
        product(w, x, (1 - self.class_axis(), 1))
    }

    fn finished(&self, mut logits: Array, bias: Option<&Array>) -> Array {
        if let Some(bias) = bias {
            logits += convert_element_type(bias, DType::F32);
        }
        self.bounded(logits)
    }

    fn bounded(&self, logits: Array) -> Array {
        match self.soft_cap {
            Some(bound) => tanh(logits / bound) * bound,
            None => logits,
        }
    }

    /// Returns the logits of the labels, `f32[1, rows]`, from whole arrays. A label outside of the
    /// vocabulary gets that of another class.
    pub(super) fn label_logits(&self, inputs: &[Ref]) -> Array {
        let label = clip(&inputs[2].load(), 0, self.vocabulary as i32 - 1);
        let class_axis = self.class_axis();
        let rows = take(&inputs[1].load(), &reshape(&label, [self.rows]), class_axis as isize);
        let rows = if class_axis == 0 { rows } else { rows.t() };
        let [x, rows] =
            [&inputs[0].load(), &rows].map(|matrix| convert_element_type(matrix, DType::F32));
        let mut logits = reshape(&(rows * x).sum_axes(1), [1, self.rows]);
        if self.has_bias {
            let bias = take(&inputs[3].load(), &label, 0);
            let bias = reshape(&bias, [1, self.rows]);
            logits += convert_element_type(&bias, DType::F32);
        }
        self.bounded(logits)
    }

    /// Returns the statistics before the first block.
    pub(super) fn no_statistics() -> [f64; 4] {
        [f64::NEG_INFINITY, 0.0, 0.0, 0.0]
    }

    /// Adds a block of logits to the statistics. Without labels, the logit of the label stays.
    pub(super) fn add_block(
        &self,
        [largest, sum, mut picked, total]: Statistics,
        logits: &Array,
        labels: Option<&Array>,
        classes: &Span,
    ) -> Statistics {
        let shape = logits.dims::<2>();
        let over_classes = || axes(0).keepdims();
        let mask = classes.mask(shape, 0);
        let valid = match &mask {
            Some(mask) => where_(mask, logits, f64::NEG_INFINITY),
            None => logits.clone(),
        };
        let next = maximum(&largest, valid.max_axes(over_classes()));
        let sum = sum * exp(largest - &next) + exp(valid - &next).sum_axes(over_classes());
        if let Some(labels) = labels {
            let is_label = eq(classes.indices(shape, 0), labels);
            picked += where_(is_label, logits, 0.0).sum_axes(over_classes());
        }
        let total = match self.smoothing {
            0.0 => total,
            _ => total + masked(mask.as_ref(), logits.clone()).sum_axes(over_classes()),
        };
        [next, sum, picked, total]
    }

    /// Marks the rows that do not count.
    pub(super) fn ignored(&self, labels: &Array) -> Option<Array> {
        self.ignore_index.map(|label| eq(labels, label))
    }

    /// Returns the logsumexp from the statistics of all logits.
    pub(super) fn lse([largest, sum, ..]: &Statistics) -> Array {
        largest + log(sum)
    }

    /// Returns loss and logsumexp from the logsumexp and the statistics of all logits.
    pub(super) fn loss(
        &self,
        lse: Array,
        [_, _, picked, total]: &Statistics,
        labels: &Array,
    ) -> [Array; 2] {
        let mut loss = &lse - picked * (1.0 - self.smoothing);
        if self.smoothing != 0.0 {
            loss -= total * (self.smoothing / self.vocabulary as f64);
        }
        if self.z_loss != 0.0 {
            loss += &lse * &lse * self.z_loss;
        }
        let is_class = ge(labels, 0) & lt(labels, self.vocabulary as i32);
        loss = where_(is_class, loss, f64::NAN);
        if let Some(ignored) = self.ignored(labels) {
            loss = where_(ignored, 0.0, loss);
        }
        [loss, lse]
    }

    /// Returns the factors of a row's gradient, `f32[1, rows]` each: that of the probabilities, and
    /// that of the labels.
    pub(super) fn factors(
        &self,
        labels: &Array,
        lse: &Array,
        loss_ct: &Array,
        lse_ct: &Array,
    ) -> [Array; 2] {
        let loss_ct = match self.ignored(labels) {
            Some(ignored) => where_(ignored, 0.0, loss_ct),
            None => loss_ct.clone(),
        };
        let of_lse = match self.z_loss {
            0.0 => loss_ct.clone(),
            z_loss => &loss_ct * (lse * (2.0 * z_loss) + 1.0),
        };
        [of_lse + lse_ct, loss_ct]
    }

    /// Returns the gradient of a block of logits `[classes, rows]` before bias and bound, in the
    /// dtype of the operands. `rows` are its labels, logsumexp and [`Problem::factors`].
    pub(super) fn logits_gradient(
        &self,
        logits: &Array,
        [labels, lse, of_lse, of_label]: &[Array; 4],
        classes: &Span,
        rows: Option<&Span>,
    ) -> Array {
        let shape = logits.dims::<2>();
        let is_label = eq(classes.indices(shape, 0), labels);
        let mut gradient = exp(logits - lse) * of_lse;
        let even = self.smoothing / self.vocabulary as f64;
        let share = match self.smoothing {
            0.0 => where_(is_label, of_label, 0.0),
            smoothing => {
                let weight = where_(is_label, 1.0 - smoothing + even, even);
                convert_element_type(&weight, DType::F32) * of_label
            }
        };
        gradient -= share;
        if let Some(bound) = self.soft_cap {
            let slope = logits / bound;
            gradient *= 1.0 - &slope * &slope;
        }
        let of_rows = rows.and_then(|rows| rows.mask(shape, 1));
        for mask in [classes.mask(shape, 0), of_rows].iter().flatten() {
            gradient = where_(mask, gradient, 0.0);
        }
        convert_element_type(&gradient, self.dtype)
    }
}
