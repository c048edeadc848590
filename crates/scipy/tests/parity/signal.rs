//! Signals and cosine transforms.

use crate::{check, mapped, numbers, size, sizes};
use oxidax::ops::fft::{FftNorm, FftOptions, FftnOptions};
use oxidax::prelude::*;
use oxidax_scipy::fft as cosine;
use oxidax_scipy::signal::{self, *};
use serde_json::Value;

fn mode(params: &Value) -> ConvolveMode {
    match params["mode"].as_str() {
        Some("same") => ConvolveMode::Same,
        Some("valid") => ConvolveMode::Valid,
        _ => ConvolveMode::Full,
    }
}

fn window(value: &Value) -> SpectralWindow {
    let Some(list) = value.as_array() else {
        return value.as_str().map_or(SpectralWindow::Hann, SpectralWindow::named);
    };
    let parameter = |index: usize| list[index].as_f64().unwrap();
    match list[0].as_str().unwrap() {
        "kaiser" => SpectralWindow::Kaiser(parameter(1)),
        "gaussian" => SpectralWindow::Gaussian(parameter(1)),
        "general_gaussian" => {
            SpectralWindow::GeneralGaussian { power: parameter(1), sigma: parameter(2) }
        }
        "general_hamming" => SpectralWindow::GeneralHamming(parameter(1)),
        "exponential" => SpectralWindow::Exponential(parameter(2)),
        "tukey" => SpectralWindow::Tukey(parameter(1)),
        other => panic!("no window is called {other}"),
    }
}

fn detrending(value: &Value, default: SegmentDetrend) -> SegmentDetrend {
    match value {
        Value::Null => default,
        Value::Bool(false) => SegmentDetrend::None,
        other if other == "linear" => SegmentDetrend::Linear,
        _ => SegmentDetrend::Constant,
    }
}

fn sides(value: &Value) -> SpectrumSides {
    if *value == false { SpectrumSides::TwoSided } else { SpectrumSides::OneSided }
}

fn spectral(params: &Value) -> SpectralOptions {
    SpectralOptions {
        fs: params["fs"].as_f64().unwrap_or(1.0),
        window: window(&params["window"]),
        nperseg: size(&params["nperseg"]),
        noverlap: size(&params["noverlap"]),
        nfft: size(&params["nfft"]),
        detrend: detrending(&params["detrend"], SegmentDetrend::Constant),
        sides: sides(&params["return_onesided"]),
        scaling: if params["scaling"] == "spectrum" {
            SpectralScaling::Spectrum
        } else {
            SpectralScaling::Density
        },
        axis: params["axis"].as_i64().unwrap_or(-1) as isize,
        average: if params["average"] == "median" {
            SegmentAverage::Median
        } else {
            SegmentAverage::Mean
        },
    }
}

fn short_time(x: &Array, params: &Value) -> Vec<Array> {
    let has_boundary = params.as_object().unwrap().contains_key("boundary");
    let boundary = match params["boundary"].as_str() {
        None if has_boundary => SegmentBoundary::None,
        Some("odd") => SegmentBoundary::Odd,
        Some("even") => SegmentBoundary::Even,
        Some("constant") => SegmentBoundary::Constant,
        _ => SegmentBoundary::Zeros,
    };
    let options = StftOptions {
        fs: params["fs"].as_f64().unwrap_or(1.0),
        window: window(&params["window"]),
        nperseg: size(&params["nperseg"]).unwrap_or(256),
        noverlap: size(&params["noverlap"]),
        nfft: size(&params["nfft"]),
        detrend: detrending(&params["detrend"], SegmentDetrend::None),
        sides: sides(&params["return_onesided"]),
        boundary,
        padded: params["padded"].as_bool().unwrap_or(true),
        axis: -1,
    };
    let (freqs, times, z) = stft_with(x, &options);
    vec![freqs, times, z]
}

fn inverse(z: &Array, params: &Value) -> Vec<Array> {
    let options = IstftOptions {
        fs: params["fs"].as_f64().unwrap_or(1.0),
        window: window(&params["window"]),
        nperseg: size(&params["nperseg"]),
        noverlap: size(&params["noverlap"]),
        nfft: size(&params["nfft"]),
        sides: sides(&params["input_onesided"]),
        boundary: params["boundary"].as_bool().unwrap_or(true),
        time_axis: params["time_axis"].as_i64().unwrap_or(-1) as isize,
        freq_axis: params["freq_axis"].as_i64().unwrap_or(-2) as isize,
    };
    let (times, x) = istft_with(z, &options);
    vec![times, x]
}

fn norm(params: &Value) -> FftNorm {
    if params["norm"] == "ortho" { FftNorm::Ortho } else { FftNorm::Backward }
}

fn of_two(op: &str, params: &Value, x: &Array, y: &Array) -> Vec<Array> {
    let flat =
        |method| ConvolveOptions { mode: mode(params), method, precision: Precision::Highest };
    let method =
        if params["method"] == "fft" { ConvolveMethod::Fft } else { ConvolveMethod::Direct };
    let boundary = match params["boundary"].as_str() {
        Some("wrap") => ConvolveBoundary::Wrap,
        Some("symm") => ConvolveBoundary::Symmetric,
        _ => ConvolveBoundary::Fill(params["fillvalue"].as_f64().unwrap_or(0.0)),
    };
    let plane = Convolve2dOptions { mode: mode(params), boundary, precision: Precision::Highest };
    vec![match op {
        "convolve" => convolve_nd_with(x, y, flat(method)),
        "correlate" => correlate_nd_with(x, y, flat(method)),
        "convolve2d" => convolve2d_with(x, y, plane),
        "correlate2d" => correlate2d_with(x, y, plane),
        "fftconvolve" => {
            let options = FftConvolveOptions { mode: mode(params), axes: numbers(&params["axes"]) };
            fftconvolve_with(x, y, &options)
        }
        "csd" => {
            let (freqs, power) = csd_with(x, y, &spectral(params));
            return vec![freqs, power];
        }
        other => panic!("no function of two operands is called {other}"),
    }]
}

fn of_one(op: &str, params: &Value, x: &Array) -> Vec<Array> {
    let axis = params["axis"].as_i64().unwrap_or(-1) as isize;
    let along_one = FftOptions { n: size(&params["n"]), axis, norm: norm(params) };
    let along_many =
        FftnOptions { s: sizes(&params["s"]), axes: numbers(&params["axes"]), norm: norm(params) };
    vec![match op {
        "detrend" => {
            let trend = if params["trend"] == "constant" {
                DetrendType::Constant
            } else {
                DetrendType::Linear
            };
            let break_points = sizes(&params["bp"]).unwrap_or_default();
            detrend_with(x, &DetrendOptions { axis, trend, break_points })
        }
        "welch" => {
            let (freqs, power) = welch_with(x, &spectral(params));
            return vec![freqs, power];
        }
        "stft" => return short_time(x, params),
        "istft" => return inverse(x, params),
        "dct" => cosine::dct_with(x, along_one),
        "idct" => cosine::idct_with(x, along_one),
        "dctn" => cosine::dctn_with(x, &along_many),
        "idctn" => cosine::idctn_with(x, &along_many),
        other => panic!("no function of one operand is called {other}"),
    }]
}

pub(super) fn plain(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    match operands {
        [] => vec![signal::get_window(&window(&params["window"]), size(&params["n"]).unwrap())],
        [x] => of_one(op, params, x),
        [x, y] => of_two(op, params, x, y),
        _ => panic!("{} operands", operands.len()),
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn signals() {
        check("scipy_signal", |op, params, operands| mapped(plain, op, params, operands));
    }

    #[test]
    fn errors_name_the_numbers() {
        let fails = |f: &dyn Fn() -> Array| oxidax::catch(f).unwrap_err().to_string();
        let (x, y) = (ones([3, 5]), ones([4, 2]));
        let error = fails(&|| signal::convolve_nd(&x, &y));
        assert!(error.contains("[3,5]") && error.contains("[4,2]"), "{error}");
        let error = fails(&|| signal::convolve_nd(&x, &ones([3])));
        assert!(error.contains("ranks 2 and 1"), "{error}");
        let options = SpectralOptions { nperseg: Some(4), noverlap: Some(4), ..Default::default() };
        let error = fails(&|| welch_with(&x, &options).1);
        assert!(error.contains("noverlap 4"), "{error}");
        let error = fails(&|| get_window(&SpectralWindow::named("hanns"), 3));
        assert!(error.contains("`hanns` is not one of hann"), "{error}");
        let options = DetrendOptions { break_points: vec![9], ..Default::default() };
        let error = fails(&|| detrend_with(&x, &options));
        assert!(error.contains("break point 9"), "{error}");
        let error = fails(&|| istft(&ones([4])).1);
        assert!(error.contains("rank 2"), "{error}");
    }
}
