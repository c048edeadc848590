//! `with_positions` of `port_functions.py:99`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// Adds a table of positions, which the function captures.
pub fn with_positions(x: &Array) -> Array {
    let constant = recorded("const.0");
    // port_functions.py:101: return x + TABLE[: x.shape[1]] * jnp.sqrt(x.shape[-1] / 2)
    x + &constant * 2.828427
}

/// Returns an array that the Python function captures.
fn recorded(name: &str) -> Array {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/with_positions.safetensors");
    checkpoint::arrays(path).expect("the file of port.py")[name].clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn with_positions_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/with_positions.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let found = jit(with_positions).call(&x).expect("the function compiles");
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
