//! `mlp_loss` of `port_models.py:34`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// A dict with the keys `b`, `w`.
#[derive(Clone, Debug, Tree)]
pub struct Hidden {
    pub b: Array,
    pub w: Array,
}

/// A dict with the keys `hidden`, `out`.
#[derive(Clone, Debug, Tree)]
pub struct Params {
    pub hidden: Hidden,
    pub out: Hidden,
}

/// Returns the loss of the network, with weight decay.
pub fn mlp_loss(params: &Params, x: &Array, labels: &Array) -> Array {
    // port_models.py:36: logits = mlp(params, x)
    let logits = mlp(params, x);
    // port_models.py:37: decay = sum(jnp.sum(w ** 2) for w in jax.tree_util.tree_leaves(params))
    let sum = 0.0 + params.hidden.b.powi(2).sum() + params.hidden.w.powi(2).sum();
    let decay = &sum + params.out.b.powi(2).sum() + params.out.w.powi(2).sum();
    // port_models.py:38: return cross_entropy(logits, labels) + 1e-3 * decay
    cross_entropy(&logits, labels) + 0.001 * &decay
}

/// `linear` of the Python program.
fn linear(p: &Hidden, x: &Array) -> Array {
    // port_models.py:18: return x @ p["w"] + p["b"]
    x.matmul(&p.w) + &p.b
}

/// Returns the logits of a network with one hidden layer.
fn mlp(params: &Params, x: &Array) -> Array {
    // port_models.py:23: h = jax.nn.gelu(linear(params["hidden"], x))
    let h = linear(&params.hidden, x).gelu();
    // port_models.py:24: return linear(params["out"], h)
    linear(&params.out, &h)
}

/// Returns the mean cross entropy of integer labels.
fn cross_entropy(logits: &Array, labels: &Array) -> Array {
    // port_models.py:29: log_probs = jax.nn.log_softmax(logits, axis=-1)
    // port_models.py:30: picked = jnp.take_along_axis(log_probs, labels[:, None], axis=-1)
    // port_models.py:31: return -jnp.mean(picked)
    nn::softmax_cross_entropy_with_integer_labels(logits, labels).mean()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn mlp_loss_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mlp_loss.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params {
            hidden: Hidden { b: array("in.0"), w: array("in.1") },
            out: Hidden { b: array("in.2"), w: array("in.3") },
        };
        let x = array("in.4");
        let labels = array("in.5");
        let found = jit(mlp_loss).call(&params, &x, &labels).expect("the function compiles");
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
