//! Averages, quantiles, counts and numerical calculus.

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
        "nanvar" => nanvar_with(&x[0], 1, NanvarOptions { ddof: 1.0 }),
        "nanstd" => nanstd(&x[0], all()),
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
        "quantile_lower" => by_method(&x[0], QuantileMethod::Lower),
        "quantile_higher" => by_method(&x[0], QuantileMethod::Higher),
        "quantile_midpoint" => by_method(&x[0], QuantileMethod::Midpoint),
        "quantile_nearest" => by_method(&x[0], QuantileMethod::Nearest),
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
            cov_with(&x[0], &CovOptions { frequencies, weights, ..Default::default() })
        }
        "cov_bias" => cov_with(&x[0], &CovOptions { ddof: 0.0, ..CovOptions::default() }),
        "corrcoef" => corrcoef(&x[0]),
        _ => return None,
    })
}

fn by_method(x: &Array, method: QuantileMethod) -> Array {
    quantile_with(x, 0.3, 0, QuantileOptions { method, ..Default::default() })
}

fn counted(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "searchsorted" | "searchsorted_nan" | "searchsorted_long" => searchsorted(&x[0], &x[1]),
        "searchsorted_right" | "searchsorted_long_right" => {
            searchsorted_with(&x[0], &x[1], SearchsortedOptions { side: Side::Right, sorter: None })
        }
        "digitize" | "digitize_falling" => digitize(&x[0], &x[1]),
        "digitize_right" => digitize_with(&x[0], &x[1], DigitizeOptions { right: true }),
        "bincount" => bincount(&x[0], 5),
        "bincount_weighted" => bincount_with(&x[0], 4, BincountOptions { weights: Some(&x[1]) }),
        "histogram" => return Some(pair(histogram(&x[0], 4))),
        "histogram_range" => return Some(pair(histogram(&x[0], Bins::Between(5, -1.0, 1.0)))),
        "histogram_edges" => return Some(pair(histogram(&x[0], &x[1]))),
        "histogram_density" => {
            let options = HistogramOptions { density: true, ..Default::default() };
            return Some(pair(histogram_with(&x[0], 4, options)));
        }
        "histogram_weighted" => {
            let bins = Bins::Between(3, -2.0, 2.0);
            let options = HistogramOptions { weights: Some(&x[1]), ..Default::default() };
            return Some(pair(histogram_with(&x[0], bins, options)));
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
        "interp_outside" => {
            let (left, right) = (Some(7.0.like()), Some((-7.0).like()));
            let options = InterpOptions { left, right, period: None };
            interp_with(&x[0], &x[1], &x[2], options)
        }
        "interp_periodic" => {
            let options = InterpOptions { period: Some(1.0), ..Default::default() };
            interp_with(&x[0], &x[1], &x[2], options)
        }
        "gradient" => gradient(&x[0], 1),
        "gradient_spaced" => gradient_with(&x[0], 0, GradientOptions { spacing: 0.5.like() }),
        "trapezoid" => {
            let options = TrapezoidOptions { x: None, dx: 0.5.like() };
            trapezoid_with(&x[0], 1, options)
        }
        "trapezoid_at" => {
            let options = TrapezoidOptions { x: Some(&x[1]), ..Default::default() };
            trapezoid_with(&x[0], 1, options)
        }
        _ => return None,
    };
    Some(vec![result])
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    reduced(op, x).map(|result| vec![result]).or_else(|| counted(op, x))
}
