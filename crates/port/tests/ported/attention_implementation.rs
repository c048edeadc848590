//! `attention_implementation` of `port_functions.py:55`, traced with JAX 0.10.2 and written by
//! `oxidax port`.

use oxidax::prelude::*;

/// The operations of `jax.nn.dot_product_attention`.
pub fn attention_implementation(query: &Array, key: &Array, value: &Array) -> Array {
    // port_functions.py:57: return jax.nn.dot_product_attention.oxidax_original(query, key, value)
    let product = einsum("abcde,afce->acbdf", (query.reshape([2, 5, 2, 1, 4]), key));
    let product = &product * 0.5;
    let value2 = product.max_axes(-1).transpose_axes([3, 0, 1, 2]).expand_dims(-1).stop_gradient();
    let exponential = (product.transpose_axes([3, 0, 1, 2, 4]) - &value2).exp();
    let product = einsum(
        "abcd,eacfb->acdef",
        (value, &exponential / exponential.sum_axes(axes(-1).keepdims())),
    );
    let shaped = product.transpose_axes([3, 0, 4, 1, 2]).transpose_axes([1, 2, 3, 0, 4]);
    shaped.reshape([2, 5, 2, 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn attention_implementation_agrees_with_jax() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/attention_implementation.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let query = array("in.0");
        let key = array("in.1");
        let value = array("in.2");
        let found = jit(attention_implementation)
            .call(&query, &key, &value)
            .expect("the function compiles");
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
