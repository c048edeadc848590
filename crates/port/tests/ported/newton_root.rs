//! `newton_root` of `port_models.py:161`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// The square root by Newton's method.
pub fn newton_root(a: &Array) -> (Array, Array) {
    // port_models.py:172: root, _, steps = lax.while_loop(cond, body, (a, jnp.zeros_like(a), 0))
    let (root, _, steps) = while_loop(
        |(x, previous, n): (Array, Array, Array)| {
            // port_models.py:166: return (jnp.abs(x - previous) > 1e-6) & (n < 50)
            gt((&x - &previous).abs(), 1e-6) & lt(&n, 50)
        },
        |(x, _, n): (Array, Array, Array)| {
            // port_models.py:170: return 0.5 * (x + a / x), x, n + 1
            (0.5 * (&x + a / &x), x.clone(), &n + 1)
        },
        (a, full([], 0.0), full([], 0)),
    );
    (root, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn newton_root_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/newton_root.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let a = array("in.0");
        let found = jit(newton_root).call(&a).expect("the function compiles");
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
