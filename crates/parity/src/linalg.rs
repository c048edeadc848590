//! Linear algebra and Fourier transforms. Results that are determined up to a sign or a phase are
//! compared in a form that does not depend on it.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::numpy::{axis, signed};
use crate::ops::whole;
use oxidax::prelude::*;
use serde_json::Value;

/// Returns the projectors `[…, k, m, m]` of the columns of `v`, which is `[…, m, k]`.
fn projectors(v: &Array) -> Array {
    einsum("...ik,...jk->...kij", [v, &conj(v)])
}

/// Sorts complex numbers in an order that rounding does not change.
fn order(w: &Array) -> Array {
    argsort(&(real(w) + imag(w) * 0.37), -1)
}

fn in_order(w: &Array) -> Array {
    take_along_axis(w, &order(w), -1)
}

fn adjoint(x: &Array) -> Array {
    conj(swapaxes(x, -1, -2))
}

fn norm(params: &Value) -> fft::FftNorm {
    match params["norm"].as_str() {
        Some("ortho") => fft::FftNorm::Ortho,
        Some("forward") => fft::FftNorm::Forward,
        _ => fft::FftNorm::Backward,
    }
}

fn size(value: &Value) -> Option<usize> {
    value.as_u64().map(|n| usize::try_from(n).unwrap())
}

fn along_one(op: &str, x: &Array, params: &Value) -> Option<Array> {
    let function = match op {
        "fft" => fft::fft_with,
        "ifft" => fft::ifft_with,
        "rfft" => fft::rfft_with,
        "irfft" => fft::irfft_with,
        "hfft" => fft::hfft_with,
        "ihfft" => fft::ihfft_with,
        _ => return None,
    };
    let (n, axis) = (size(&params["n"]), axis(&params["axis"]));
    Some(function(x, fft::FftOptions { n, axis, norm: norm(params) }))
}

fn along_several(op: &str, x: &Array, params: &Value) -> Option<Array> {
    let function = match op {
        "fftn" => fft::fftn_with,
        "ifftn" => fft::ifftn_with,
        "rfftn" => fft::rfftn_with,
        "irfftn" => fft::irfftn_with,
        _ => return None,
    };
    let s: Option<Vec<usize>> =
        params["s"].as_array().map(|s| s.iter().map(|n| size(n).unwrap()).collect());
    let axes = (!params["axes"].is_null()).then(|| signed(&params["axes"]));
    Some(function(x, &fft::FftnOptions { s, axes, norm: norm(params) }))
}

fn of_one(op: &str, x: &Array, params: &Value) -> Vec<Array> {
    let one = match op {
        "cholesky" => linalg::cholesky(x),
        "lu" => lu(x).0,
        "lu_permutation" => lu(x).2,
        "svdvals" => linalg::svdvals(x),
        "svd_projectors" => {
            let svd = linalg::svd(x);
            return vec![projectors(&svd.u), projectors(&adjoint(&svd.vh))];
        }
        "pinv" => linalg::pinv(x),
        "qr_abs" => abs(&linalg::qr(x).r),
        "qr_projector" => projectors(&linalg::qr(x).q),
        "eigvalsh" => linalg::eigvalsh(x),
        "eigh_projectors" => projectors(&linalg::eigh(x).eigenvectors),
        "eigvals" => in_order(&linalg::eigvals(x)),
        "eig_residual" => {
            let linalg::EigResult { eigenvalues: w, eigenvectors: v } = linalg::eig(x);
            let lost = matmul(&x.astype(v.dtype()), &v) - &v * expand_dims(&w, &[-2]);
            let lengths = linalg::vector_norm(&v, linalg::VectorNorm::L2, -2);
            return vec![abs(&lost).max(), lengths];
        }
        "eig_projectors" => {
            let linalg::EigResult { eigenvalues: w, eigenvectors: v } = linalg::eig(x);
            projectors(&take_along_axis(&v, &expand_dims(&order(&w), &[-2]), -1))
        }
        "roots" => in_order(&roots(x)),
        "inv" => linalg::inv(x),
        "det" => linalg::det(x),
        "slogdet" => {
            let (sign, log) = linalg::slogdet(x);
            return vec![sign, log];
        }
        "matrix_power" => linalg::matrix_power(x, i32::try_from(axis(&params["n"])).unwrap()),
        "expm" => linalg::expm(x),
        "cond" => linalg::cond(x),
        "matrix_rank" => linalg::matrix_rank(x),
        "tensorinv" => linalg::tensorinv(x, 2),
        "fftshift" | "ifftshift" => {
            let axes = if params["axes"].is_null() { Vec::new() } else { signed(&params["axes"]) };
            if op == "fftshift" { fft::fftshift(x, &axes) } else { fft::ifftshift(x, &axes) }
        }
        _ => along_one(op, x, params)
            .or_else(|| along_several(op, x, params))
            .unwrap_or_else(|| panic!("no function is called {op}")),
    };
    vec![one]
}

pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    match (op, operands) {
        ("fftfreq" | "rfftfreq", []) => {
            let n = usize::try_from(whole(&params["n"])).unwrap();
            let d = params["d"].as_f64().unwrap();
            let function = if op == "fftfreq" { fft::fftfreq } else { fft::rfftfreq };
            vec![function(n, d)]
        }
        ("multi_dot", many) => vec![linalg::multi_dot(many.iter().collect::<Vec<_>>())],
        ("solve", [a, b]) => vec![linalg::solve(a, b)],
        ("solve_triangular", [a, b]) => {
            let lower = params["lower"].as_bool().unwrap();
            let options = linalg::SolveTriangularOptions { lower, ..Default::default() };
            vec![linalg::solve_triangular_with(a, b, options)]
        }
        ("lstsq", [a, b]) => vec![linalg::lstsq(a, b).x],
        ("tensorsolve", [a, b]) => vec![linalg::tensorsolve(a, b)],
        (_, [x]) => of_one(op, x, params),
        _ => panic!("no function of {} operands is called {op}", operands.len()),
    }
}

#[cfg(test)]
fn family(op: &str) -> &'static str {
    match op {
        _ if op.contains("fft") => "transforms",
        "eigvals" | "eig_residual" | "eig_projectors" | "roots" => "eigenvalues",
        "cholesky" | "lu" | "lu_permutation" | "svdvals" | "svd_projectors" | "qr_abs"
        | "qr_projector" | "eigvalsh" | "eigh_projectors" => "decompositions",
        _ => "functions",
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    families!(
        Suite::load("linalg").with_narrow_defaults(); decompositions, eigenvalues, functions,
        transforms
    );
}
