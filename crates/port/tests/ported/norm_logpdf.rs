//! `norm_logpdf` of `jax/_src/scipy/stats/norm.py:25`, traced with JAX 0.10.2 and written by
//! `oxidax port`.

use oxidax::prelude::*;

/// Normal log probability distribution function.
pub fn norm_logpdf(x: &Array, loc: &Array, scale: &Array) -> Array {
    let power = scale.square();
    let sum = (std::f64::consts::TAU * &power).log() + (x - loc).square() / &power;
    &sum / -2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn norm_logpdf_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/norm_logpdf.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let loc = array("in.1");
        let scale = array("in.2");
        let found = jit(norm_logpdf).call(&x, &loc, &scale).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 1);
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
