//! `spectral` of `port_functions.py:123`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::{TransposeA, TriangularSolve};

/// Decompositions, put together again: vectors have no unique sign.
pub fn spectral(a: &Array, b: &Array) -> (Array, Array, Array, Array, Array, Array, Array) {
    // port_functions.py:125: w, v = jnp.linalg.eigh(a)
    let ratio = (a + a.t()) / 2.0;
    let (value, value2) = eigh(&ratio);
    // port_functions.py:126: u, s, vt = jnp.linalg.svd(b, full_matrices=False)
    let (s, u, vt) = svd_with(b, SvdOptions { full_matrices: false, ..Default::default() });
    // port_functions.py:127: q, r = jnp.linalg.qr(b)
    let (q, r) = qr_with(b, QrOptions { full_matrices: false });
    // port_functions.py:128: l = jnp.linalg.cholesky(a)
    let mask = ge(broadcasted_iota(DType::I32, [3, 3], 0), broadcasted_iota(DType::I32, [3, 3], 1));
    let l = where_(&mask, cholesky(&ratio), 0.0);
    // port_functions.py:129: x = jsp.linalg.solve_triangular(l, b.T, lower=True)
    let x = triangular_solve(
        &l,
        &b.t(),
        TriangularSolve {
            left_side: true,
            lower: true,
            transpose_a: TransposeA::NoTranspose,
            unit_diagonal: false,
        },
    );
    // port_functions.py:130: return w, (v * w) @ v.T, s, (u * s) @ vt, q @ r, l, x
    (
        value2.clone(),
        (&value * &value2).matmul(&value.t()),
        u.clone(),
        (&s * &u).matmul(&vt),
        q.matmul(&r),
        l,
        x,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn spectral_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/spectral.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let a = array("in.0");
        let b = array("in.1");
        let found = jit(spectral).call(&a, &b).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 7);
        for (index, found) in found.iter().enumerate() {
            let expected = array(&format!("out.{index}"));
            assert_eq!(found.shape(), expected.shape(), "result {index}");
            assert_eq!(found.dtype(), expected.dtype(), "result {index}");
            let close = CloseOptions { rtol: TOLERANCE, atol: TOLERANCE, equal_nan: true };
            let (found, expected) = (found.astype(DType::F64), expected.astype(DType::F64));
            let agrees = allclose_with(&found, &expected, close).item::<bool>();
            assert!(agrees.expect("one value"), "result {index}: {found} is not {expected}");
        }
    }
}
