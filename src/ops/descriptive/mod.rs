//! Descriptive statistics: averages, quantiles, covariances, histograms, and reductions that ignore
//! NaN. Distributions are in [`stats`](super::stats).

mod averages;
mod counts;
mod covariance;
mod histograms;
mod nan_extrema;
mod nan_sums;
mod partition;
mod quantiles;

pub use averages::*;
pub use counts::*;
pub use covariance::*;
pub use histograms::*;
pub use nan_extrema::*;
pub use nan_sums::*;
pub use partition::*;
pub use quantiles::*;
