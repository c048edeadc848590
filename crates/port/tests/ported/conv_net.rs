//! `conv_net` of `port_models.py:151`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::{ConvDimensionNumbers, ConvGeneralDilated, Window};

/// A dict with the keys `b`, `w`.
#[derive(Clone, Debug, Tree)]
pub struct Conv {
    pub b: Array,
    pub w: Array,
}

/// A dict with the keys `conv`, `head`.
#[derive(Clone, Debug, Tree)]
pub struct Params {
    pub conv: Conv,
    pub head: Conv,
}

/// A convolution, max pooling, and a linear layer.
pub fn conv_net(params: &Params, images: &Array) -> Array {
    // port_models.py:153: x = lax.conv_general_dilated(images, params["conv"]["w"], (1, 1), "SAME"…
    let x = conv_general_dilated(
        images,
        &params.conv.w,
        ConvGeneralDilated {
            window_strides: vec![1, 1],
            padding: Padding::Explicit(vec![(1, 1), (1, 1)]),
            dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
            ..Default::default()
        },
    );
    // port_models.py:155: x = jax.nn.relu(x + params["conv"]["b"])
    let x = (&x + &params.conv.b).relu();
    // port_models.py:156: x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1),…
    let x = reduce_window_max(
        &x,
        &Window {
            dimensions: vec![1, 2, 2, 1],
            strides: vec![1, 2, 2, 1],
            padding: Padding::Valid,
            base_dilation: vec![1, 1, 1, 1],
            window_dilation: vec![1, 1, 1, 1],
        },
    );
    // port_models.py:157: x = x.reshape(x.shape[0], -1)
    let x = x.reshape([2, 64]);
    // port_models.py:158: return jax.nn.log_softmax(linear(params["head"], x))
    linear(&params.head, &x).log_softmax(-1)
}

/// `linear` of the Python program.
fn linear(p: &Conv, x: &Array) -> Array {
    // port_models.py:18: return x @ p["w"] + p["b"]
    x.matmul(&p.w) + &p.b
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn conv_net_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conv_net.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params {
            conv: Conv { b: array("in.0"), w: array("in.1") },
            head: Conv { b: array("in.2"), w: array("in.3") },
        };
        let images = array("in.4");
        let found = jit(conv_net).call(&params, &images).expect("the function compiles");
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
