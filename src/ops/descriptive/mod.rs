//! Statistics: averages, quantiles, covariances, histograms, and sums that leave NaN out.

mod averages;
mod counts;
mod covariance;
mod histograms;
mod nan_extrema;
mod nan_sums;
mod partition;
mod quantiles;

pub use averages::{average, ptp};
pub use counts::{Side, bincount, bincount_weighted, digitize, searchsorted, searchsorted_side};
pub use covariance::{Covariance, corrcoef, cov, cov_with};
pub use histograms::{
    Bins, histogram, histogram_bin_edges, histogram_density, histogram_weighted, histogram2d,
    histogramdd,
};
pub use nan_extrema::{nanargmax, nanargmin, nanmax, nanmin};
pub use nan_sums::{nanmean, nanprod, nanstd, nansum, nanvar};
pub use partition::{argpartition, lexsort, partition, sort_complex};
pub use quantiles::{
    QuantileMethod, median, nanmedian, nanpercentile, nanquantile, nanquantile_by, percentile,
    quantile, quantile_by,
};
