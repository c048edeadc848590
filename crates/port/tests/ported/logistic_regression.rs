//! `logistic_regression` of `port_models.py:231`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// Fits a logistic regression by ten steps of gradient descent.
pub fn logistic_regression(w: &Array, x: &Array, y: &Array) -> (Array, Array) {
    // port_models.py:242: return lax.scan(step, w, None, length=10)
    scan(
        |w: Array, (): ()| {
            // port_models.py:239: value, gradient = jax.value_and_grad(loss)(w)
            let (value, gradient) = value_and_grad(|w: &Array| {
                // port_models.py:235: logits = x @ w
                let logits = x.matmul(w);
                // port_models.py:236: return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits)
                (logaddexp(0.0, &logits) - y.astype(DType::F32) * &logits).mean()
            })(&w);
            // port_models.py:240: return w - 0.5 * gradient, value
            (&w - 0.5 * &gradient, value)
        },
        w,
        10usize,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn logistic_regression_agrees_with_jax() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/logistic_regression.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let w = array("in.0");
        let x = array("in.1");
        let y = array("in.2");
        let found = jit(logistic_regression).call(&w, &x, &y).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 2);
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
