//! Compares linear algebra with results recorded from JAX and SciPy.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

mod reports;

use oxidax::ops::ConvolveMode;
use oxidax::prelude::*;
use oxidax_scipy::linalg::{
    self, AssumeA, CholeskyFactor, DftScale, ExpmOptions, GeneralizedProblem, HelmertRows,
    HermitianEigenOptions, LuFactor, OrmqrOptions, PascalKind, PolarMethod, PolarOptions,
    PolarSide, ProductSide, QrMultiplyOptions, QrSize, SchurOutput, SchurResult, SolveOptions,
    SylvesterMethod, SylvesterOptions, SymmetricProductOptions, TransposeA, Triangle,
};
use serde_json::Value;

fn adjoint(x: &Array) -> Array {
    conj(swapaxes(x, -1, -2))
}

fn is(params: &Value, name: &str) -> bool {
    params[name].as_bool().unwrap_or(false)
}

fn text<'a>(params: &'a Value, name: &str) -> &'a str {
    params[name].as_str().unwrap_or("")
}

fn number(params: &Value, name: &str) -> usize {
    params[name].as_u64().unwrap() as usize
}

fn triangle(params: &Value) -> Triangle {
    if is(params, "lower") { Triangle::Lower } else { Triangle::Upper }
}

fn size(params: &Value) -> QrSize {
    if text(params, "mode") == "full" { QrSize::Full } else { QrSize::Economic }
}

fn side(is_left: bool) -> ProductSide {
    if is_left { ProductSide::Left } else { ProductSide::Right }
}

/// Returns the eigenvalues of a matrix in the order of the recorder.
fn ordered_eigenvalues(t: &Array) -> Array {
    let w = linalg::eigvals(t);
    take_along_axis(&w, &argsort(&(real(&w) + imag(&w) * 0.37), -1), -1)
}

/// Checks a Schur decomposition by its residuals, and returns the eigenvalues of `t`. A residual
/// that is not small turns them to NaN.
fn checked_schur(a: &Array, SchurResult { t, z }: &SchurResult) -> Array {
    let n = a.shape()[a.rank() - 1];
    let a = a.astype(t.dtype());
    let highest = MatmulOptions { precision: Precision::Highest, ..Default::default() };
    let product = |x: &Array, y: &Array| matmul_with(x, y, highest);
    let residual = abs(product(&product(z, t), &adjoint(z)) - &a).max();
    let unitary = abs(product(z, &adjoint(z)) - eye((n, t.dtype()))).max();
    let below = abs(tril(t, -2)).max();
    let mut error = maximum(maximum(residual, unitary), below);
    let subdiagonal = DiagonalOptions { offset: -1, axis1: -2, axis2: -1 };
    let below = diagonal_with(t, subdiagonal);
    if t.dtype().is_complex() {
        error += abs(tril(t, -1)).max();
    } else if n > 2 {
        // No two neighbouring elements of the subdiagonal.
        let m = n as isize - 1;
        let both = slice_in_dim(&below, 0, m - 1, 1, -1) * slice_in_dim(&below, 1, m, 1, -1);
        error += abs(both).max();
    }
    let bound = t.dtype().real().epsilon() * 200.0;
    where_(lt(error, bound), ordered_eigenvalues(t), f64::NAN)
}

fn schur(params: &Value, a: &Array) -> Array {
    let is_complex = text(params, "output") == "complex";
    let output = if is_complex { SchurOutput::Complex } else { SchurOutput::Real };
    checked_schur(a, &linalg::schur_with(a, output))
}

fn factors(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let x = operands.first()?;
    Some(match (op, operands) {
        ("cholesky", _) => vec![linalg::cholesky_with(x, triangle(params))],
        ("cho_solve", [a, b]) => {
            let factor: CholeskyFactor = linalg::cho_factor_with(a, triangle(params));
            vec![linalg::cho_solve(&factor, b)]
        }
        ("lu", _) => {
            let lu = linalg::lu(x);
            vec![lu.p, lu.l, lu.u]
        }
        ("lu_permuted", _) => {
            let (l, u) = linalg::lu_permuted(x);
            vec![l, u]
        }
        ("lu_factor", _) => {
            let LuFactor { lu, pivots } = linalg::lu_factor(x);
            vec![lu, pivots]
        }
        ("lu_solve", [a, b]) => {
            let trans = [TransposeA::NoTranspose, TransposeA::Transpose, TransposeA::Adjoint];
            vec![linalg::lu_solve_with(&linalg::lu_factor(a), b, trans[number(params, "trans")])]
        }
        ("lu_pivots_to_permutation", _) => vec![linalg::lu_pivots_to_permutation(x, 4)],
        ("qr_parts", _) => {
            let factors = linalg::qr_with(x, size(params));
            let (q, r) = (factors.q, factors.r);
            vec![q.matmul(&r), adjoint(&r).matmul(&r), q.matmul(&adjoint(&q))]
        }
        ("qr_pivoted", _) => {
            let factors = linalg::qr_pivoted(x, size(params));
            vec![abs(&factors.r), factors.q.matmul(&factors.r), factors.permutation]
        }
        ("svd_full", _) => vec![linalg::svd(x).s],
        // JAX symmetrizes the matrix, so that its option `lower` has no effect.
        ("eigh_lower", _) => vec![linalg::eigvalsh(x)],
        ("eigh_generalized", [a, b]) => {
            let problem = [
                GeneralizedProblem::AvEqualsBvw,
                GeneralizedProblem::AbvEqualsVw,
                GeneralizedProblem::BavEqualsVw,
            ][number(params, "type") - 1];
            let options = HermitianEigenOptions { b: Some(b), problem, ..Default::default() };
            vec![linalg::eigvalsh_with(a, options)]
        }
        ("cholesky_update", [r, w]) => vec![linalg::cholesky_update(r, w)],
        ("symmetric_product", [a, c]) => {
            let options =
                SymmetricProductOptions { alpha: 0.5, beta: 2.0, symmetrize_output: true };
            vec![linalg::symmetric_product(a, c, options)]
        }
        _ => return None,
    })
}

fn reflections(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let x = operands.first()?;
    Some(match (op, operands) {
        ("geqrf", _) => {
            let reflectors = linalg::geqrf(x);
            vec![reflectors.packed, reflectors.taus]
        }
        ("householder_product", [a, taus]) => vec![linalg::householder_product(a, taus)],
        ("ormqr", [a, taus, c]) => {
            let side = side(is(params, "left"));
            let options = OrmqrOptions { side, adjoint: is(params, "transpose") };
            vec![linalg::ormqr(a, taus, c, options)]
        }
        ("qr_multiply", [a, c]) => {
            let side = side(text(params, "mode") == "left");
            let options = QrMultiplyOptions { side, conjugate: is(params, "conjugate") };
            let (product, r) = linalg::qr_multiply(a, c, options);
            vec![product, r]
        }
        ("hessenberg_reflectors", _) => {
            let reflectors = linalg::hessenberg_reflectors(x);
            vec![reflectors.packed, reflectors.taus]
        }
        ("hessenberg", _) => {
            let (h, q) = linalg::hessenberg_with_q(x);
            vec![h, q]
        }
        ("tridiagonal", _) => {
            let form = linalg::tridiagonal(x, triangle(params));
            vec![form.d, form.e, form.taus]
        }
        ("schur", _) => vec![schur(params, x)],
        ("rsf2csf", [t, z]) => {
            let result = linalg::rsf2csf(t, z);
            vec![result.t, result.z]
        }
        _ => return None,
    })
}

fn functions(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let x = operands.first()?;
    Some(match (op, operands) {
        ("expm", _) => {
            let options = ExpmOptions {
                upper_triangular: is(params, "upper_triangular"),
                max_squarings: params["max_squarings"].as_u64().unwrap_or(16) as usize,
            };
            vec![linalg::expm_with(x, options)]
        }
        ("expm_frechet", [a, e]) => {
            let (value, change) = linalg::expm_frechet(a, e);
            vec![value, change]
        }
        ("sqrtm", _) => vec![linalg::sqrtm(x)],
        ("funm", _) => vec![linalg::funm(x, |x| sin(x))],
        ("polar", _) => {
            let is_left = text(params, "side") == "left";
            let side = if is_left { PolarSide::Left } else { PolarSide::Right };
            let is_svd = text(params, "method") == "svd";
            let method = if is_svd { PolarMethod::Svd } else { PolarMethod::Qdwh };
            let options = PolarOptions { side, method, ..Default::default() };
            let result = linalg::polar_with(x, options);
            vec![result.unitary, result.positive]
        }
        ("qdwh", _) => {
            let result = linalg::qdwh(x);
            vec![where_(&result.has_converged, result.unitary, f64::NAN), result.positive]
        }
        ("solve", [a, b]) => {
            let assume_a = match text(params, "assume_a") {
                "sym" => AssumeA::Symmetric,
                "her" => AssumeA::Hermitian,
                "pos" => AssumeA::PositiveDefinite,
                _ => AssumeA::General,
            };
            vec![linalg::solve_with(a, b, SolveOptions { assume_a, triangle: triangle(params) })]
        }
        ("solve_sylvester", [a, b, c]) => {
            let is_eigen = text(params, "method") == "eigen";
            let method = if is_eigen { SylvesterMethod::Eigen } else { SylvesterMethod::Schur };
            let options = SylvesterOptions { method, ..Default::default() };
            vec![linalg::solve_sylvester_with(a, b, c, options)]
        }
        ("tridiagonal_solve", [dl, d, du, b]) => vec![linalg::tridiagonal_solve(dl, d, du, b)],
        ("solve_banded", [ab, b]) => {
            vec![linalg::solve_banded((number(params, "lower"), number(params, "upper")), ab, b)]
        }
        ("eigvalsh_tridiagonal", [d, e]) => match params["start"].as_u64() {
            Some(start) => {
                let range = start as usize..number(params, "end");
                vec![linalg::eigvalsh_tridiagonal_range(d, e, range)]
            }
            None => vec![linalg::eigvalsh_tridiagonal(d, e)],
        },
        ("eigh_tridiagonal", [d, e]) => {
            let v = linalg::eigh_tridiagonal(d, e).eigenvectors;
            vec![einsum("ik,jk->kij", [&v, &v])]
        }
        _ => return None,
    })
}

fn structured(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    Some(vec![match (op, operands) {
        ("toeplitz", [c]) => linalg::toeplitz(c),
        ("toeplitz", [c, r]) => linalg::toeplitz_with(c, r),
        ("hankel", [c]) => linalg::hankel(c),
        ("hankel", [c, r]) => linalg::hankel_with(c, r),
        ("circulant", [c]) => linalg::circulant(c),
        ("leslie", [f, s]) => linalg::leslie(f, s),
        ("companion", [a]) => linalg::companion(a),
        ("fiedler", [a]) => linalg::fiedler(a),
        ("fiedler_companion", [a]) => linalg::fiedler_companion(a),
        ("convolution_matrix", [a]) => {
            let mode = match text(params, "mode") {
                "full" => ConvolveMode::Full,
                "same" => ConvolveMode::Same,
                _ => ConvolveMode::Valid,
            };
            linalg::convolution_matrix(a, number(params, "n"), mode)
        }
        ("block_diag", blocks) => linalg::block_diag(blocks),
        _ => return None,
    }])
}

fn named(op: &str, params: &Value) -> Option<Vec<Array>> {
    let n = params["n"].as_u64()? as usize;
    let kind = match text(params, "kind") {
        "lower" => PascalKind::Lower,
        "upper" => PascalKind::Upper,
        _ => PascalKind::Symmetric,
    };
    Some(vec![match op {
        "hilbert" => linalg::hilbert(n),
        "invhilbert" => linalg::invhilbert(n),
        "pascal" => linalg::pascal(n, kind),
        "invpascal" => linalg::invpascal(n, kind),
        "helmert" if is(params, "full") => linalg::helmert(n, HelmertRows::All),
        "helmert" => linalg::helmert(n, HelmertRows::Contrasts),
        "hadamard" => linalg::hadamard(n),
        "dft" => match text(params, "scale") {
            "sqrtn" => linalg::dft(n, DftScale::InverseSqrt),
            "n" => linalg::dft(n, DftScale::Inverse),
            _ => linalg::dft(n, DftScale::One),
        },
        _ => return None,
    }])
}

fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    factors(op, params, operands)
        .or_else(|| reflections(op, params, operands))
        .or_else(|| functions(op, params, operands))
        .or_else(|| structured(op, params, operands))
        .or_else(|| named(op, params))
        .unwrap_or_else(|| panic!("no function is called {op}"))
}

mod on_cpu {
    use super::{apply, reports::expect_equal};

    #[test]
    fn factors_are_those_of_jax() {
        expect_equal("scipy_linalg", apply);
    }

    #[test]
    fn functions_are_those_of_jax() {
        expect_equal("scipy_functions", apply);
    }

    #[test]
    fn matrices_are_those_of_jax() {
        expect_equal("scipy_matrices", apply);
    }
}
