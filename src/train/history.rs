//! Metrics by step, in memory.

use super::chart::Chart;
use super::metrics::Row;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metrics of a run by name: pairs of step and number, in the order of steps.
///
/// ```
/// use oxidax::train::Metrics;
/// let mut metrics = Metrics::new();
/// for (step, loss) in [0.5, 0.25].into_iter().enumerate() {
///     metrics.scalar(step as u64, "loss", loss)?;
/// }
/// let history = metrics.finish()?;
/// assert_eq!(history.get("loss"), [(0, 0.5), (1, 0.25)]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct History {
    curves: BTreeMap<Arc<str>, Vec<(u64, f64)>>,
    last_step: Option<u64>,
}

impl History {
    pub(super) fn add(&mut self, row: Row) {
        self.last_step = Some(row.step);
        for (name, value) in row.values {
            self.curves.entry(name).or_default().push((row.step, value));
        }
    }

    pub(super) fn last_step(&self) -> Option<u64> {
        self.last_step
    }

    /// Returns the names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> + '_ {
        self.curves.keys().map(|name| &**name)
    }

    /// Returns the numbers with this name. Empty if there are none.
    pub fn get(&self, name: &str) -> &[(u64, f64)] {
        self.curves.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns a chart of the named curves over steps. Unknown names are left out.
    pub fn chart<'a>(&self, title: &str, names: impl IntoIterator<Item = &'a str>) -> Chart {
        let named = names.into_iter().filter(|name| !self.get(name).is_empty());
        named.fold(Chart::new(title), |chart, name| {
            let points = self.get(name).iter().map(|&(step, value)| (step as f64, value));
            chart.curve(name, points)
        })
    }
}
