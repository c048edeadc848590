//! `attention` of `port_models.py:245`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// Self-attention with two heads, written by hand.
pub fn attention(x: &Array, w_qkv: &Array, w_out: &Array) -> Array {
    // port_models.py:248: qkv = (x @ w_qkv).reshape(b, t, 3, 2, c // 2)
    let qkv = x.matmul(w_qkv).reshape([2, 5, 3, 2, 4]);
    // port_models.py:249: q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    let q = qkv.index(i![.., .., 0]);
    let k = qkv.index(i![.., .., 1]);
    let v = qkv.index(i![.., .., 2]);
    // port_models.py:250: scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (c // 2) ** -0.5
    // port_models.py:251: scores = scores - jnp.max(scores, axis=-1, keepdims=True)
    // port_models.py:252: weights = jnp.exp(scores)
    // port_models.py:253: weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    // port_models.py:254: mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    let mixed = dot_product_attention(&q, &k, &v);
    // port_models.py:255: return mixed.reshape(b, t, c) @ w_out
    mixed.reshape([2, 5, 8]).matmul(w_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn attention_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/attention.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let w_qkv = array("in.1");
        let w_out = array("in.2");
        let found = jit(attention).call(&x, &w_qkv, &w_out).expect("the function compiles");
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
