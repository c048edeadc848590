//! `batch_norm` of `port_models.py:313`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// `NormState` of the Python program.
#[derive(Clone, Debug, Tree)]
pub struct NormState {
    pub scale: Array,
    pub bias: Array,
    pub mean: Array,
    pub var: Array,
}

/// Normalizes by the statistics of the batch, and updates the running ones.
pub fn batch_norm(state: &NormState, x: &Array) -> (Array, NormState) {
    // port_models.py:315: mean, var = jnp.mean(x, axis=0), jnp.var(x, axis=0)
    let mean = x.mean_axes(0);
    let var = x.var_axes(0);
    // port_models.py:316: y = (x - mean) * lax.rsqrt(var + 1e-5) * state.scale + state.bias
    let y = (x - &mean) * (&var + 1e-5).rsqrt() * &state.scale + &state.bias;
    // port_models.py:317: moved = state._replace(mean=momentum * state.mean + (1 - momentum) * mea…
    let moved = 0.9 * &state.mean + 0.1 * &mean;
    let moved2 = 0.9 * &state.var + 0.1 * &var;
    (
        y,
        NormState {
            scale: state.scale.clone(),
            bias: state.bias.clone(),
            mean: moved,
            var: moved2,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn batch_norm_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/batch_norm.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let state = NormState {
            scale: array("in.0"),
            bias: array("in.1"),
            mean: array("in.2"),
            var: array("in.3"),
        };
        let x = array("in.4");
        let found = jit(batch_norm).call(&state, &x).expect("the function compiles");
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
