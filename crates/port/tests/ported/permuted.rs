//! `permuted` of `port_functions.py:87`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// Permutations, choices and other samplers, with keys from `fold_in`.
pub fn permuted(key: &random::Key, x: &Array) -> (Array, Array, Array, Array, random::Key) {
    // port_functions.py:89: first, second = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
    let first = random::fold_in(key.clone(), 1);
    let second = random::fold_in(key.clone(), 2);
    // port_functions.py:90: order = jax.random.permutation(first, x)
    let value = random::bits(random::split(first.clone(), 2).get(1), ([6], DType::U32));
    let (_, order) = sort_key_val(&value, x, 0);
    // port_functions.py:91: chosen = jax.random.choice(second, x, (3,))
    let chosen = x.take(&random::randint(second.clone(), [3], 0..6), 0);
    // port_functions.py:92: cut = jax.random.truncated_normal(first, -1.0, 2.0, (4,))
    let sample = random::uniform(
        first.clone(),
        [4],
        full([], -std::f64::consts::FRAC_1_SQRT_2).erf()..full([], std::f64::consts::SQRT_2).erf(),
    );
    let cut = (std::f64::consts::SQRT_2 * sample.erf_inv()).clip(
        nextafter(full([], -1.0).stop_gradient(), f64::INFINITY),
        nextafter(full([], 2.0).stop_gradient(), f64::NEG_INFINITY),
    );
    // port_functions.py:93: return order, chosen, cut, jax.random.exponential(second, (4,)), second
    (order, chosen, cut, random::exponential(second.clone(), [4]), second.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn permuted_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/permuted.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let key = random::Key::from_data(array("in.0"));
        let x = array("in.1");
        let found = jit(permuted).call(&key, &x).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 5);
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
