//! `per_example_norms` of `port_models.py:327`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

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

/// The norm of each example's gradient.
pub fn per_example_norms(params: &Params, xs: &Array, labels: &Array) -> Array {
    // port_models.py:334: return jax.vmap(norm)(xs, labels)
    vmap(|x: &Array, label: &Array| {
        // port_models.py:331: grads = jax.grad(example_loss)(params, x, label)
        let grads = grad(|params: &Params| example_loss(params, x, label))(params);
        // port_models.py:332: return jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree_util.tree_leav…
        let sum = 0.0 + grads.hidden.b.powi(2).sum() + grads.hidden.w.powi(2).sum();
        (&sum + grads.out.b.powi(2).sum() + grads.out.w.powi(2).sum()).sqrt()
    })
    .apply(xs, labels)
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

/// The loss of one example.
fn example_loss(params: &Params, x: &Array, label: &Array) -> Array {
    // port_models.py:324: return -jax.nn.log_softmax(mlp(params, x))[label]
    -mlp(params, x).log_softmax(0).index(i![label])
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn per_example_norms_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/per_example_norms.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params {
            hidden: Hidden { b: array("in.0"), w: array("in.1") },
            out: Hidden { b: array("in.2"), w: array("in.3") },
        };
        let xs = array("in.4");
        let labels = array("in.5");
        let found =
            jit(per_example_norms).call(&params, &xs, &labels).expect("the function compiles");
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
