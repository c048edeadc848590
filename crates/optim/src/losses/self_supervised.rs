//! Losses of embeddings.

use oxidax::prelude::*;

/// Options of [`ntxent_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NtxentOptions {
    /// The temperature, by which similarities are divided. 0.07 by default.
    pub temperature: f64,
}

impl Default for NtxentOptions {
    fn default() -> NtxentOptions {
        NtxentOptions { temperature: 0.07 }
    }
}

/// Returns the normalized temperature-scaled cross entropy of pairs of embeddings: a scalar.
///
/// `embeddings: float[b, d]`, `labels: int[b]`. Embeddings of one label are positive pairs, those
/// of different labels negative ones.
///
/// # Reference
/// Chen, Kornblith, Norouzi, Hinton: A simple framework for contrastive learning of visual
/// representations (2020), equation 1.
#[track_caller]
pub fn ntxent(embeddings: &Array, labels: &Array) -> Array {
    ntxent_with(embeddings, labels, NtxentOptions::default())
}

/// Returns the normalized temperature-scaled cross entropy, with options.
#[track_caller]
pub fn ntxent_with(embeddings: &Array, labels: &Array, options: NtxentOptions) -> Array {
    let [n, _] = embeddings.dims();
    // The spacing of f32, as squared lengths are at least that of the dtype.
    let square = expand_dims(&reduce_sum(&embeddings.square(), &[-1]), &[-1]);
    let unit = embeddings / sqrt(maximum(&square, full_like(&square, f64::from(f32::EPSILON))));
    let similarity = matmul(&unit, &transpose(&unit, &[1, 0])) / options.temperature;
    let matches = eq(expand_dims(labels, &[1]), expand_dims(labels, &[0]));
    let differs = bitwise_not(&matches);
    let is_self = ne(eye([n, n]), 0.0);
    let is_pair = bitwise_and(&matches, bitwise_not(is_self));
    let counts = bitwise_or(&differs, &is_pair);
    let minus_infinity = full_like(&similarity, f64::NEG_INFINITY);
    let largest = reduce_max(&where_(&counts, &similarity, &minus_infinity), &[1]);
    let shifted = &similarity - expand_dims(&stop_gradient(&largest), &[1]);
    let exponential = exp(where_(&counts, &shifted, &minus_infinity));
    let zeros = zeros_like(&exponential);
    let negatives = reduce_sum(&where_(&differs, &exponential, &zeros), &[1]);
    let denominator = expand_dims(&negatives, &[1]) + &exponential;
    // The argument of the logarithm is 1 where there is no pair, so that the derivative is finite.
    let safe = where_(&is_pair, &denominator, ones_like(&denominator));
    let terms = where_(&is_pair, &shifted - log(&safe), &zeros);
    -terms.sum() / is_pair.astype(embeddings.dtype()).sum()
}

/// Options of [`triplet_margin_loss_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TripletOptions {
    /// The axis of features. The last one by default.
    pub axis: isize,
    /// The exponent of the norm. 2 by default.
    pub norm_degree: i32,
    /// The difference of distances beyond which the loss is 0. 1 by default.
    pub margin: f64,
    /// A constant added under the root. 1e-6 by default.
    pub eps: f64,
}

impl Default for TripletOptions {
    fn default() -> TripletOptions {
        TripletOptions { axis: -1, norm_degree: 2, margin: 1.0, eps: 1e-6 }
    }
}

/// Returns `max(0, |anchor - positive| - |anchor - negative| + margin)`, over the last axis.
///
/// # Reference
/// Schroff, Kalenichenko, Philbin: FaceNet (2015), equation 3.
#[track_caller]
pub fn triplet_margin_loss(anchors: &Array, positives: &Array, negatives: &Array) -> Array {
    triplet_margin_loss_with(anchors, positives, negatives, TripletOptions::default())
}

/// Returns the triplet loss with options.
#[track_caller]
pub fn triplet_margin_loss_with(
    anchors: &Array,
    positives: &Array,
    negatives: &Array,
    options: TripletOptions,
) -> Array {
    let distance = |other: &Array| {
        let powers = integer_pow(&(anchors - other), options.norm_degree);
        let sum = reduce_sum(&powers, &[options.axis]) + options.eps;
        pow(&sum, 1.0 / f64::from(options.norm_degree))
    };
    let loss = distance(positives) - distance(negatives) + options.margin;
    maximum(&loss, zeros_like(&loss))
}
