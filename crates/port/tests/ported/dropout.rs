//! `dropout` of `port_functions.py:72`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// Dropout by `jax.random.bernoulli`.
pub fn dropout(key: &random::Key, x: &Array) -> Array {
    // port_functions.py:74: keep = jax.random.bernoulli(key, 0.8, x.shape)
    let keep = random::bernoulli(key.clone(), [4, 6], 0.8);
    // port_functions.py:75: return jnp.where(keep, x / 0.8, 0.0)
    where_(&keep, x / 0.8, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn dropout_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dropout.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let key = random::Key::from_data(array("in.0"));
        let x = array("in.1");
        let found = jit(dropout).call(&key, &x).expect("the function compiles");
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
