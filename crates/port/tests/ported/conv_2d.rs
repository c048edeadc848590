//! `conv_2d` of `port_functions.py:60`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated};

/// `jax.lax.conv_general_dilated` with strides and channels last.
pub fn conv_2d(x: &Array, kernel: &Array) -> Array {
    // port_functions.py:62: return jax.lax.conv_general_dilated(x, kernel, window_strides=(2, 2),…
    conv_general_dilated(
        x,
        kernel,
        ConvGeneralDilated {
            window_strides: vec![2, 2],
            padding: Padding::Explicit(vec![(1, 1), (0, 1)]),
            dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
            ..Default::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn conv_2d_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conv_2d.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let kernel = array("in.1");
        let found = jit(conv_2d).call(&x, &kernel).expect("the function compiles");
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
