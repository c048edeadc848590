//! `causal_attention` of `port_functions.py:50`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// `jax.nn.dot_product_attention` with a causal mask.
pub fn causal_attention(query: &Array, key: &Array, value: &Array) -> Array {
    // port_functions.py:52: return jax.nn.dot_product_attention(query, key, value, is_causal=True)
    dot_product_attention_with(
        query,
        key,
        value,
        &AttentionOptions { is_causal: true, ..Default::default() },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn causal_attention_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/causal_attention.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let query = array("in.0");
        let key = array("in.1");
        let value = array("in.2");
        let found =
            jit(causal_attention).call(&query, &key, &value).expect("the function compiles");
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
