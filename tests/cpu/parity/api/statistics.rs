//! Averages, quantiles, counts, and numerical calculus.

use oxidax::prelude::*;

fn pair((a, b): (Array, Array)) -> Vec<Array> {
    vec![a, b]
}

fn reduced(op: &str, x: &[Array]) -> Option<Array> {
    let all = Axes::all;
    Some(match op {
        "nansum" => nansum(&x[0], 1),
        "nanprod" => nanprod(&x[0], 0),
        "nanmean" => nanmean(&x[0], 1),
        "nanmean_none" => nanmean(&x[0], axes(1).keepdims()),
        "nanvar" => nanvar(&x[0], 1, 1.0),
        "nanstd" => nanstd(&x[0], all(), 0.0),
        "nanmax" | "nanmax_none" => nanmax(&x[0], 1),
        "nanmin" => nanmin(&x[0], [0, 1]),
        "nanargmax" => nanargmax(&x[0], 1),
        "nanargmin" => nanargmin(&x[0], 1),
        "median" => median(&x[0], -1),
        "median_even" => median(&x[0], axes(0).keepdims()),
        "median_all" => median(&x[0], all()),
        "median_nan" => median(&x[0], 1),
        "nanmedian" | "nanmedian_none" => nanmedian(&x[0], 1),
        "quantile_scalar" => quantile(&x[0], 0.3, 1),
        "quantile_vector" => quantile(&x[0], &x[1], axes([0, 1]).keepdims()),
        "quantile_lower" => quantile_by(&x[0], 0.3, 0, QuantileMethod::Lower),
        "quantile_higher" => quantile_by(&x[0], 0.3, 0, QuantileMethod::Higher),
        "quantile_midpoint" => quantile_by(&x[0], 0.3, 0, QuantileMethod::Midpoint),
        "quantile_nearest" => quantile_by(&x[0], 0.3, 0, QuantileMethod::Nearest),
        "quantile_int" => quantile(&x[0], 0.4, all()),
        "percentile" => percentile(&x[0], 62.5, 1),
        "nanquantile" => nanquantile(&x[0], &x[1], 1),
        "nanpercentile" => nanpercentile(&x[0], 30.0, 1),
        "average_vector" => average(&x[0], &x[1], 1),
        "average_all" => average(&x[0], &x[1], all()),
        "ptp" => x[0].ptp(1),
        "cov" | "cov_vector" => cov(&x[0]),
        "cov_weights" => {
            let (frequencies, weights) = (Some(x[1].clone()), Some(x[2].clone()));
            cov_with(&x[0], &Covariance { ddof: 1.0, frequencies, weights })
        }
        "cov_bias" => cov_with(&x[0], &Covariance { ddof: 0.0, ..Covariance::default() }),
        "corrcoef" => corrcoef(&x[0]),
        _ => return None,
    })
}

fn counted(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "searchsorted" | "searchsorted_nan" | "searchsorted_long" => searchsorted(&x[0], &x[1]),
        "searchsorted_right" | "searchsorted_long_right" => {
            searchsorted_side(&x[0], &x[1], Side::Right)
        }
        "digitize" | "digitize_falling" => digitize(&x[0], &x[1], Side::Left),
        "digitize_right" => digitize(&x[0], &x[1], Side::Right),
        "bincount" => bincount(&x[0], 5),
        "bincount_weighted" => bincount_weighted(&x[0], &x[1], 4),
        "histogram" => return Some(pair(histogram(&x[0], 4))),
        "histogram_range" => return Some(pair(histogram(&x[0], Bins::Between(5, -1.0, 1.0)))),
        "histogram_edges" => return Some(pair(histogram(&x[0], &x[1]))),
        "histogram_density" => return Some(pair(histogram_density(&x[0], 4))),
        "histogram_weighted" => {
            let bins = Bins::Between(3, -2.0, 2.0);
            return Some(pair(histogram_weighted(&x[0], &x[1], bins)));
        }
        "histogram_bin_edges" => histogram_bin_edges(&x[0], 2),
        "histogram2d" => {
            let bins = |n| Bins::Between(n, -2.0, 2.0);
            let (counts, rows, columns) = histogram2d(&x[0], &x[1], bins(3), bins(2));
            return Some(vec![counts, rows, columns]);
        }
        "histogramdd" => {
            let (counts, edges) = histogramdd(&x[0], &[2.into(), 3.into()]);
            return Some(std::iter::once(counts).chain(edges).collect());
        }
        "interp" => interp(&x[0], &x[1], &x[2]),
        "interp_outside" => interp_outside(&x[0], &x[1], &x[2], 7.0, -7.0),
        "interp_periodic" => interp_periodic(&x[0], &x[1], &x[2], 1.0),
        "gradient" => gradient(&x[0], 1),
        "gradient_spaced" => gradient_at(&x[0], 0.5, 0),
        "trapezoid" => trapezoid(&x[0], 0.5, 1),
        "trapezoid_at" => trapezoid_at(&x[0], &x[1], 1),
        _ => return None,
    };
    Some(vec![result])
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    reduced(op, x).map(|result| vec![result]).or_else(|| counted(op, x))
}
