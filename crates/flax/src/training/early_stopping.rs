//! Early stopping.

/// Stops a training run when a metric that falls, such as a loss, no longer improves.
///
/// ```
/// use oxidax_flax::training::EarlyStopping;
/// let losses = [4.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0];
/// let mut stopping = EarlyStopping { min_delta: 1e-3, patience: 2, ..EarlyStopping::default() };
/// let stopped_at = losses.iter().position(|&loss| {
///     stopping = stopping.update(loss);
///     stopping.should_stop
/// });
/// assert_eq!(stopped_at, Some(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStopping {
    /// The least decrease that counts as an improvement. 0 by default.
    pub min_delta: f64,
    /// The number of updates without improvement that are tolerated. 0 by default.
    pub patience: usize,
    /// The smallest metric so far. Infinity at first.
    pub best_metric: f64,
    /// The number of updates since the last improvement.
    pub patience_count: usize,
    /// True once more than `patience` updates in a row were not improvements.
    pub should_stop: bool,
    /// True if the last update was an improvement.
    pub has_improved: bool,
}

impl Default for EarlyStopping {
    fn default() -> EarlyStopping {
        EarlyStopping {
            min_delta: 0.0,
            patience: 0,
            best_metric: f64::INFINITY,
            patience_count: 0,
            should_stop: false,
            has_improved: false,
        }
    }
}

impl EarlyStopping {
    /// Returns the state before the first metric, with the same options.
    #[must_use]
    pub fn reset(self) -> EarlyStopping {
        let EarlyStopping { min_delta, patience, .. } = self;
        EarlyStopping { min_delta, patience, ..EarlyStopping::default() }
    }

    /// Returns the state after a metric. NaN is not an improvement.
    #[must_use]
    pub fn update(self, metric: f64) -> EarlyStopping {
        if self.best_metric.is_infinite() || self.best_metric - metric > self.min_delta {
            return EarlyStopping {
                best_metric: metric,
                patience_count: 0,
                has_improved: true,
                ..self
            };
        }
        EarlyStopping {
            patience_count: self.patience_count + 1,
            should_stop: self.should_stop || self.patience_count >= self.patience,
            has_improved: false,
            ..self
        }
    }
}
