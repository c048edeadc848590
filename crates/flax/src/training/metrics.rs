//! Metrics over batches.

use oxidax::core::{RuleError, throw_operands};
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// A metric over batches. It is a tree, so a compiled step can take and return it.
///
/// [`nn::Average`], [`Accuracy`], [`Welford`] and [`MultiMetric`] are metrics.
pub trait RunningMetric: Sized {
    /// The values of a batch.
    type Update<'a>;
    /// The result.
    type Value;

    /// Returns the metric with a further batch.
    #[track_caller]
    fn update(&self, batch: Self::Update<'_>) -> Self;

    /// Returns the metric over both parts of the batches.
    #[track_caller]
    fn merge(&self, other: &Self) -> Self;

    /// Returns the metric over all batches so far.
    #[track_caller]
    fn compute(&self) -> Self::Value;

    /// Returns the metric before the first batch.
    #[track_caller]
    fn reset(&self) -> Self;
}

impl RunningMetric for nn::Average {
    type Update<'a> = &'a Array;
    type Value = Array;

    #[track_caller]
    fn update(&self, batch: &Array) -> nn::Average {
        nn::Average::update(self, batch)
    }

    #[track_caller]
    fn merge(&self, other: &nn::Average) -> nn::Average {
        nn::Average::merge(self, other)
    }

    #[track_caller]
    fn compute(&self) -> Array {
        nn::Average::compute(self)
    }

    #[track_caller]
    fn reset(&self) -> nn::Average {
        nn::Average::new()
    }
}

/// The fraction of examples that are classified correctly.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::{Accuracy, RunningMetric};
/// let logits = Array::from_slice(&[0.1f32, 0.9, 0.8, 0.2, 0.3, 0.7], [3, 2])?;
/// let metric = Accuracy::new().update((&logits, &array![1, 0, 0]));
/// assert!((metric.compute().item::<f32>()? - 2.0 / 3.0).abs() < 1e-6);
///
/// let metric = Accuracy::with_threshold(0.5).update((&array![0.2f32, 0.7], &array![0, 1]));
/// assert_eq!(metric.compute().item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Accuracy {
    /// The mean of the examples' correctness.
    pub average: nn::Average,
    /// The least logit of the positive class in a binary classification. `None` for several
    /// classes.
    #[tree(static)]
    pub threshold: Option<nn::Number>,
}

impl Default for Accuracy {
    #[track_caller]
    fn default() -> Accuracy {
        Accuracy::new()
    }
}

impl Accuracy {
    /// Creates the metric for classes: logits `[…, classes]` and labels `int[…]`.
    #[track_caller]
    pub fn new() -> Accuracy {
        Accuracy { average: nn::Average::new(), threshold: None }
    }

    /// Creates the metric for a binary classification: logits `[…]` and labels of the same shape,
    /// which are positive or not. Logits of at least `threshold` are the positive class.
    #[track_caller]
    pub fn with_threshold(threshold: f64) -> Accuracy {
        Accuracy { average: nn::Average::new(), threshold: Some(threshold.into()) }
    }

    /// Adds the examples where `mask`, `bool[…]`, is true.
    ///
    /// Throws `Op` (shape) if the shapes do not match.
    #[track_caller]
    pub fn update_masked(&self, logits: &Array, labels: &Array, mask: &Array) -> Accuracy {
        let weights = mask.astype(DType::F32);
        let average = self.average.update_weighted(&self.correct(logits, labels), &weights);
        Accuracy { average, threshold: self.threshold }
    }

    /// Returns 1 for each example that is classified correctly and 0 for the others, `f32[…]`.
    #[track_caller]
    fn correct(&self, logits: &Array, labels: &Array) -> Array {
        let (rank, predictions) = match self.threshold {
            Some(_) => (labels.rank(), None),
            None => (labels.rank() + 1, Some(logits)),
        };
        if logits.rank() != rank || logits.shape()[..labels.rank()] != labels.shape()[..] {
            let message = format!("logits {} and labels {}", logits.aval(), labels.aval());
            let error = RuleError::shape(message).help(
                "logits are [batch, classes] and labels [batch], or both [batch] with a threshold",
            );
            throw_operands("Accuracy", error, &[logits, labels]);
        }
        let correct = match (self.threshold, predictions) {
            (Some(threshold), _) => eq(ge(logits, threshold.get()), gt(labels, 0)),
            (None, _) => eq(logits.argmax_axis(-1), labels.astype(DType::I32)),
        };
        correct.astype(DType::F32)
    }
}

impl RunningMetric for Accuracy {
    type Update<'a> = (&'a Array, &'a Array);
    type Value = Array;

    /// Throws `Op` (shape) if the shapes of logits and labels do not match.
    #[track_caller]
    fn update(&self, (logits, labels): (&Array, &Array)) -> Accuracy {
        let average = self.average.update(&self.correct(logits, labels));
        Accuracy { average, threshold: self.threshold }
    }

    #[track_caller]
    fn merge(&self, other: &Accuracy) -> Accuracy {
        Accuracy { average: self.average.merge(&other.average), threshold: self.threshold }
    }

    #[track_caller]
    fn compute(&self) -> Array {
        self.average.compute()
    }

    #[track_caller]
    fn reset(&self) -> Accuracy {
        Accuracy { average: nn::Average::new(), threshold: self.threshold }
    }
}

/// The mean, standard deviation and standard error of values over batches.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::{RunningMetric, Welford};
/// let metric = Welford::new().update(&array![1.0f32, 3.0]).update(&array![5.0f32, 7.0]);
/// let statistics = metric.compute();
/// assert_eq!(statistics.mean.item::<f32>()?, 4.0);
/// assert!((statistics.standard_deviation.item::<f32>()? - 5.0f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances
/// (1979), equation 2.1.
#[derive(Clone, Debug, Tree)]
pub struct Welford {
    /// The number of values, `f32[]`.
    pub count: Array,
    /// The mean, `f32[]`.
    pub mean: Array,
    /// The sum of squared distances to the mean, `f32[]`.
    pub m2: Array,
}

/// The results of [`Welford`].
#[derive(Clone, Debug, Tree)]
pub struct Statistics {
    /// The mean, `f32[]`.
    pub mean: Array,
    /// The standard error of the mean, `f32[]`: the standard deviation over the root of the count.
    pub standard_error_of_mean: Array,
    /// The standard deviation, `f32[]`, without Bessel's correction.
    pub standard_deviation: Array,
}

impl Default for Welford {
    #[track_caller]
    fn default() -> Welford {
        Welford::new()
    }
}

impl Welford {
    /// Creates the metric before the first batch.
    #[track_caller]
    pub fn new() -> Welford {
        let zero = zeros([]);
        Welford { count: zero.clone(), mean: zero.clone(), m2: zero }
    }
}

impl RunningMetric for Welford {
    type Update<'a> = &'a Array;
    type Value = Statistics;

    #[track_caller]
    fn update(&self, batch: &Array) -> Welford {
        let values = batch.astype(DType::F32);
        let count = full([], values.size() as f32);
        let mean = values.mean();
        let distances = &values - &mean;
        self.merge(&Welford { m2: (&distances * &distances).sum(), count, mean })
    }

    #[track_caller]
    fn merge(&self, other: &Welford) -> Welford {
        let count = &self.count + &other.count;
        // Without values the mean and the distances are 0.
        let share = where_(gt(&count, 0.0), &other.count / maximum(&count, 1.0), 0.0);
        let delta = where_(gt(&other.count, 0.0), &other.mean - &self.mean, 0.0);
        let mean = &self.mean + &delta * &share;
        let between = &delta * &delta * &self.count * &share;
        let other_m2 = where_(gt(&other.count, 0.0), &other.m2, 0.0);
        Welford { count, mean, m2: &self.m2 + other_m2 + between }
    }

    #[track_caller]
    fn compute(&self) -> Statistics {
        let standard_deviation = sqrt(&(&self.m2 / &self.count));
        Statistics {
            mean: self.mean.clone(),
            standard_error_of_mean: &standard_deviation / sqrt(&self.count),
            standard_deviation,
        }
    }

    #[track_caller]
    fn reset(&self) -> Welford {
        Welford::new()
    }
}

/// Several metrics of one type by name, updated with one value each.
///
/// Metrics of several types are the fields of a struct with `#[derive(Tree)]`.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::{RunningMetric, MultiMetric};
/// let metrics = MultiMetric::new(["loss", "norm"], nn::Average::new());
/// let (loss, norm) = (array![1.0f32, 3.0], array![5.0f32]);
/// let metrics = metrics.update(&[("loss", &loss), ("norm", &norm)]);
/// assert_eq!(metrics.compute()["loss"].item::<f32>()?, 2.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
pub struct MultiMetric<M> {
    /// The metrics by name.
    pub metrics: BTreeMap<String, M>,
}

impl<M: Clone> MultiMetric<M> {
    /// Creates a metric for each name.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>, metric: M) -> MultiMetric<M> {
        let entry = |name: S| (name.into(), metric.clone());
        MultiMetric { metrics: names.into_iter().map(entry).collect() }
    }
}

impl<M: RunningMetric + Clone> RunningMetric for MultiMetric<M>
where
    for<'a> M: RunningMetric<Update<'a> = &'a Array>,
{
    type Update<'a> = &'a [(&'a str, &'a Array)];
    type Value = BTreeMap<String, M::Value>;

    /// Metrics that the batch does not name are unchanged.
    ///
    /// Throws `Op` (value) for a name that is not a metric.
    #[track_caller]
    fn update(&self, batch: &[(&str, &Array)]) -> MultiMetric<M> {
        let mut metrics = self.metrics.clone();
        for (name, values) in batch {
            let Some(metric) = metrics.get_mut(*name) else {
                let names: Vec<&String> = self.metrics.keys().collect();
                let message = format!("`{name}` is not a metric; the metrics are {names:?}");
                throw_operands("MultiMetric", RuleError::value(message), &[values]);
            };
            *metric = metric.update(values);
        }
        MultiMetric { metrics }
    }

    #[track_caller]
    fn merge(&self, other: &MultiMetric<M>) -> MultiMetric<M> {
        let mut metrics = self.metrics.clone();
        for (name, metric) in &mut metrics {
            if let Some(other) = other.metrics.get(name) {
                *metric = metric.merge(other);
            }
        }
        MultiMetric { metrics }
    }

    #[track_caller]
    fn compute(&self) -> BTreeMap<String, M::Value> {
        self.metrics.iter().map(|(name, metric)| (name.clone(), metric.compute())).collect()
    }

    #[track_caller]
    fn reset(&self) -> MultiMetric<M> {
        let reset = |(name, metric): (&String, &M)| (name.clone(), metric.reset());
        MultiMetric { metrics: self.metrics.iter().map(reset).collect() }
    }
}
