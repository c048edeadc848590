//! `train_step` of `port_models.py:41`, traced with JAX 0.10.2 and written by `oxidax port`.

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

/// Takes one step of gradient descent with momentum.
pub fn train_step(
    params: &Params,
    velocity: &Params,
    x: &Array,
    labels: &Array,
) -> (Params, Params, Array) {
    // port_models.py:43: loss, grads = jax.value_and_grad(mlp_loss)(params, x, labels)
    let (loss, grads) = value_and_grad(|params: &Params| mlp_loss(params, x, labels))(params);
    // port_models.py:44: velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v + g, velocity, gra…
    let velocity2 = 0.9 * &velocity.hidden.b + &grads.hidden.b;
    let velocity3 = 0.9 * &velocity.hidden.w + &grads.hidden.w;
    let velocity4 = 0.9 * &velocity.out.b + &grads.out.b;
    let velocity = 0.9 * &velocity.out.w + &grads.out.w;
    // port_models.py:45: params = jax.tree_util.tree_map(lambda p, v: p - 0.1 * v, params, velocit…
    let params2 = &params.hidden.b - 0.1 * &velocity2;
    let params3 = &params.hidden.w - 0.1 * &velocity3;
    let params4 = &params.out.b - 0.1 * &velocity4;
    let params = &params.out.w - 0.1 * &velocity;
    (
        Params { hidden: Hidden { b: params2, w: params3 }, out: Hidden { b: params4, w: params } },
        Params {
            hidden: Hidden { b: velocity2, w: velocity3 },
            out: Hidden { b: velocity4, w: velocity },
        },
        loss,
    )
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

/// Returns the loss of the network, with weight decay.
fn mlp_loss(params: &Params, x: &Array, labels: &Array) -> Array {
    // port_models.py:36: logits = mlp(params, x)
    let logits = mlp(params, x);
    // port_models.py:37: decay = sum(jnp.sum(w ** 2) for w in jax.tree_util.tree_leaves(params))
    let sum = 0.0 + params.hidden.b.powi(2).sum() + params.hidden.w.powi(2).sum();
    let decay = &sum + params.out.b.powi(2).sum() + params.out.w.powi(2).sum();
    // port_models.py:38: return cross_entropy(logits, labels) + 1e-3 * decay
    cross_entropy(&logits, labels) + 0.001 * &decay
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn train_step_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/train_step.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params {
            hidden: Hidden { b: array("in.0"), w: array("in.1") },
            out: Hidden { b: array("in.2"), w: array("in.3") },
        };
        let velocity = Params {
            hidden: Hidden { b: array("in.4"), w: array("in.5") },
            out: Hidden { b: array("in.6"), w: array("in.7") },
        };
        let x = array("in.8");
        let labels = array("in.9");
        let found =
            jit(train_step).call(&params, &velocity, &x, &labels).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 9);
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
