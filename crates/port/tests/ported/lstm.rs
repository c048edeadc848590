//! `lstm` of `port_models.py:94`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// A dict with the keys `b`, `wh`, `wx`.
#[derive(Clone, Debug, Tree)]
pub struct Params {
    pub b: Array,
    pub wh: Array,
    pub wx: Array,
}

/// Runs an LSTM over time, and returns the last state and all outputs.
pub fn lstm(params: &Params, xs: &Array) -> ((Array, Array), Array) {
    // port_models.py:105: zeros = jnp.zeros((xs.shape[1], params["wh"].shape[0]))
    let zeros_ = zeros([2, 4]);
    // port_models.py:106: return lax.scan(step, (zeros, zeros), xs)
    scan(
        |(h, c): (Array, Array), x: Array| {
            // port_models.py:99: gates = x @ params["wx"] + h @ params["wh"] + params["b"]
            let gates = x.matmul(&params.wx) + h.matmul(&params.wh) + &params.b;
            // port_models.py:100: i, f, g, o = jnp.split(gates, 4, axis=-1)
            let [i, f, g, o] = split(&gates, 4, -1).try_into().expect("4 parts");
            // port_models.py:101: c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            let c = (&f + 1.0).sigmoid() * &c + i.sigmoid() * g.tanh();
            // port_models.py:102: h = jax.nn.sigmoid(o) * jnp.tanh(c)
            let h = o.sigmoid() * c.tanh();
            ((h.clone(), c), h)
        },
        (&zeros_, &zeros_),
        xs,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn lstm_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/lstm.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params { b: array("in.0"), wh: array("in.1"), wx: array("in.2") };
        let xs = array("in.3");
        let found = jit(lstm).call(&params, &xs).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 3);
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
