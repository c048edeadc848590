//! `quartiles` of `port_functions.py:67`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::{GatherDimensionNumbers, GatherScatterMode};

/// `jnp.percentile` of each row.
pub fn quartiles(x: &Array) -> Array {
    let constant = Array::from_slice(&[25.0f32, 50.0, 75.0], [3])
        .expect("as many numbers as the shape has elements");
    // port_functions.py:69: return jnp.percentile(x, jnp.array([25.0, 50.0, 75.0]), axis=1)
    let sorted = where_(x.isnan().any_axes(axes(-1).keepdims()), f64::NAN, x).sort(-1);
    let product = &constant / 100.0 * 8.0;
    let value = product.floor();
    let difference = &product - &value;
    let part = gather(
        &sorted,
        &clamp(0.0, &value, 8.0).astype(DType::I32).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![1],
            start_index_map: vec![1],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[3, 1],
        GatherScatterMode::PromiseInBounds,
    );
    let part2 = gather(
        &sorted,
        &clamp(0.0, product.ceil(), 8.0).astype(DType::I32).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![1],
            start_index_map: vec![1],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[3, 1],
        GatherScatterMode::PromiseInBounds,
    );
    &part * (1.0 - &difference).expand_dims(-1) + &part2 * difference.expand_dims(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn quartiles_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/quartiles.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let found = jit(quartiles).call(&x).expect("the function compiles");
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
