//! `dense_stack` of `port_models.py:297`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// `Dense` of the Python program.
#[derive(Clone, Debug, Tree)]
pub struct Dense {
    pub kernel: Array,
    pub bias: Array,
}

/// Layers with tanh between them.
#[allow(clippy::ptr_arg, reason = "transforms take trees")]
pub fn dense_stack(layers: &Vec<Dense>, x: &Array) -> Array {
    // port_models.py:285: return jnp.dot(x, self.kernel) + self.bias
    let sum = x.matmul(&layers[0].kernel) + &layers[0].bias;
    // port_models.py:300: x = jnp.tanh(layer(x))
    let x = sum.tanh();
    // port_models.py:285: return jnp.dot(x, self.kernel) + self.bias
    let sum = x.matmul(&layers[1].kernel) + &layers[1].bias;
    // port_models.py:300: x = jnp.tanh(layer(x))
    let x = sum.tanh();
    // port_models.py:285: return jnp.dot(x, self.kernel) + self.bias
    x.matmul(&layers[2].kernel) + &layers[2].bias
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn dense_stack_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/dense_stack.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let layers = vec![
            Dense { kernel: array("in.0"), bias: array("in.1") },
            Dense { kernel: array("in.2"), bias: array("in.3") },
            Dense { kernel: array("in.4"), bias: array("in.5") },
        ];
        let x = array("in.6");
        let found = jit(dense_stack).call(&layers, &x).expect("the function compiles");
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
