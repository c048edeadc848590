//! `top_scores` of `port_functions.py:115`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// `jax.lax.top_k`, `sort`, `cumsum` and `argmax`.
pub fn top_scores(scores: &Array, k_values: &Array) -> (Array, Array, Array, Array) {
    // port_functions.py:117: values, indices = jax.lax.top_k(scores, 3)
    let (values, indices) = top_k(scores, 3, -1);
    // port_functions.py:118: ordered = jnp.sort(scores, axis=-1)
    let ordered = scores.sort(-1);
    // port_functions.py:119: total = jnp.cumsum(ordered, axis=-1)
    let total = cumsum(&ordered, -1);
    // port_functions.py:120: return values, indices, total, jnp.argmax(scores, axis=-1) + k_values
    (values, indices, total, scores.argmax_axis(-1) + k_values)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn top_scores_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/top_scores.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let scores = array("in.0");
        let k_values = array("in.1");
        let found = jit(top_scores).call(&scores, &k_values).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 4);
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
