//! `sample` of `port_functions.py:78`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// `jax.random.categorical`, `normal` and `randint` with keys from one split.
pub fn sample(key: &Array, logits: &Array) -> (Array, Array, Array) {
    // port_functions.py:80: for_tokens, for_noise, for_integers = jax.random.split(key, 3)
    let keys = random::split(random::Key::from_data(key.clone()), 3);
    // port_functions.py:81: tokens = jax.random.categorical(for_tokens, logits, axis=-1)
    let tokens = (random::gumbel(keys.get(0), [4, 6]) + logits).argmax_axis(-1);
    // port_functions.py:82: noise = 0.1 * jax.random.normal(for_noise, logits.shape)
    let noise = 0.1 * random::normal(keys.get(1), [4, 6]);
    // port_functions.py:83: integers = jax.random.randint(for_integers, (4,), 0, 10)
    let integers = random::randint(keys.get(2), [4], 0..10);
    // port_functions.py:84: return tokens, logits + noise, integers
    (tokens, logits + &noise, integers)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn sample_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sample.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let key = array("in.0");
        let logits = array("in.1");
        let found = jit(sample).call(&key, &logits).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 3);
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
