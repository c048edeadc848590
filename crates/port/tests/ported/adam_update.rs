//! `adam_update` of `port_models.py:221`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// A dict with the keys `b`, `w`.
#[derive(Clone, Debug, Tree)]
pub struct Hidden {
    pub b: Array,
    pub w: Array,
}

/// A dict with the keys `hidden`, `out`.
#[derive(Clone, Debug, Tree)]
pub struct Mu {
    pub hidden: Hidden,
    pub out: Hidden,
}

/// `AdamState` of the Python program.
#[derive(Clone, Debug, Tree)]
pub struct AdamState {
    pub step: Array,
    pub mu: Mu,
    pub nu: Mu,
}

/// One step of Adam.
pub fn adam_update(state: &AdamState, grads: &Mu, params: &Mu) -> (AdamState, Mu) {
    // port_models.py:223: step = state.step + 1
    let step = &state.step + 1;
    // port_models.py:224: mu = jax.tree_util.tree_map(lambda m, g: b1 * m + (1 - b1) * g, state.mu…
    let mu = 0.9 * &state.mu.hidden.b + 0.1 * &grads.hidden.b;
    let mu2 = 0.9 * &state.mu.hidden.w + 0.1 * &grads.hidden.w;
    let mu3 = 0.9 * &state.mu.out.b + 0.1 * &grads.out.b;
    let mu4 = 0.9 * &state.mu.out.w + 0.1 * &grads.out.w;
    // port_models.py:225: nu = jax.tree_util.tree_map(lambda v, g: b2 * v + (1 - b2) * g ** 2, sta…
    let nu = 0.999 * &state.nu.hidden.b + 0.001 * grads.hidden.b.powi(2);
    let nu2 = 0.999 * &state.nu.hidden.w + 0.001 * grads.hidden.w.powi(2);
    let nu3 = 0.999 * &state.nu.out.b + 0.001 * grads.out.b.powi(2);
    let nu4 = 0.999 * &state.nu.out.w + 0.001 * grads.out.w.powi(2);
    // port_models.py:226: scale = lr * jnp.sqrt(1 - b2 ** step) / (1 - b1 ** step)
    let scale = 0.01 * (1.0 - pow(0.999, &step)).sqrt() / (1.0 - pow(0.9, &step));
    // port_models.py:227: update = lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps)
    let update = &params.hidden.b - &scale * &mu / (nu.sqrt() + 1e-8);
    let update2 = &params.hidden.w - &scale * &mu2 / (nu2.sqrt() + 1e-8);
    let update3 = &params.out.b - &scale * &mu3 / (nu3.sqrt() + 1e-8);
    let update4 = &params.out.w - &scale * &mu4 / (nu4.sqrt() + 1e-8);
    (
        AdamState {
            step,
            mu: Mu { hidden: Hidden { b: mu, w: mu2 }, out: Hidden { b: mu3, w: mu4 } },
            nu: Mu { hidden: Hidden { b: nu, w: nu2 }, out: Hidden { b: nu3, w: nu4 } },
        },
        Mu { hidden: Hidden { b: update, w: update2 }, out: Hidden { b: update3, w: update4 } },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn adam_update_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/adam_update.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let state = AdamState {
            step: array("in.0"),
            mu: Mu {
                hidden: Hidden { b: array("in.1"), w: array("in.2") },
                out: Hidden { b: array("in.3"), w: array("in.4") },
            },
            nu: Mu {
                hidden: Hidden { b: array("in.5"), w: array("in.6") },
                out: Hidden { b: array("in.7"), w: array("in.8") },
            },
        };
        let grads = Mu {
            hidden: Hidden { b: array("in.9"), w: array("in.10") },
            out: Hidden { b: array("in.11"), w: array("in.12") },
        };
        let params = Mu {
            hidden: Hidden { b: array("in.13"), w: array("in.14") },
            out: Hidden { b: array("in.15"), w: array("in.16") },
        };
        let found = jit(adam_update).call(&state, &grads, &params).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 13);
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
