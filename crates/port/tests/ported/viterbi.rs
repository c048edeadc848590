//! `viterbi` of `port_models.py:258`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// The best path of a hidden Markov model in log space, and its score.
pub fn viterbi(start: &Array, transitions: &Array, emissions: &Array) -> (Array, Array) {
    // port_models.py:266: last, pointers = lax.scan(forward, start + emissions[0], emissions[1:])
    let (last, pointers) = scan(
        |score: Array, emission: Array| {
            // port_models.py:262: candidates = score[:, None] + transitions
            let candidates = score.expand_dims(-1) + transitions;
            // port_models.py:263: best = jnp.argmax(candidates, axis=0)
            let best = candidates.argmax_axis(0);
            // port_models.py:264: return jnp.max(candidates, axis=0) + emission, best
            (candidates.max_axes(0) + &emission, best)
        },
        start + emissions.index(i![0]),
        emissions.index(i![1..]),
    );
    // port_models.py:272: final = jnp.argmax(last)
    let final_ = last.argmax_axis(0);
    // port_models.py:273: _, path = lax.scan(backward, final, pointers, reverse=True)
    let (_, path) = scan_with(
        |state: Array, pointer: Array| {
            // port_models.py:269: previous = pointer[state]
            let previous = pointer.index(i![&state]);
            (previous.clone(), previous)
        },
        &final_,
        &pointers,
        ScanOptions::default().reverse(true),
    );
    // port_models.py:274: return jnp.concatenate([path, final[None]]), jnp.max(last)
    (concatenate((&path, final_.expand_dims(-1)), 0), last.max())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn viterbi_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/viterbi.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let start = array("in.0");
        let transitions = array("in.1");
        let emissions = array("in.2");
        let found =
            jit(viterbi).call(&start, &transitions, &emissions).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 2);
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
