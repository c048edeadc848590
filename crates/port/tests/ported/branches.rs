//! `branches` of `port_functions.py:155`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// `cond`, `switch`, and a loop whose end is an argument.
pub fn branches(x: &Array, n: &Array) -> (Array, Array, Array) {
    // port_functions.py:157: a = jax.lax.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x)
    let a = cond(
        gt(x.sum(), 0.0),
        |_: ()| {
            // port_functions.py:157: a = jax.lax.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x…
            x * 2.0
        },
        |_: ()| {
            // port_functions.py:157: a = jax.lax.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x…
            -x
        },
        (),
    );
    // port_functions.py:158: b = jax.lax.switch(n, [jnp.sin, jnp.cos, lambda x: x ** 2], x)
    let b = switch(
        clamp(0, n, 2),
        (
            |_: ()| x.sin(),
            |_: ()| x.cos(),
            |_: ()| {
                // port_functions.py:158: b = jax.lax.switch(n, [jnp.sin, jnp.cos, lambda x: x ** 2…
                x.powi(2)
            },
        ),
        (),
    );
    // port_functions.py:159: c = jax.lax.fori_loop(0, n, lambda i, y: y + i * x, x)
    let (_, _, c) = while_loop(
        |(loop_carry_0, loop_carry_1, _): (Array, Array, Array)| lt(&loop_carry_0, &loop_carry_1),
        |(i, x2, y): (Array, Array, Array)| {
            // port_functions.py:159: c = jax.lax.fori_loop(0, n, lambda i, y: y + i * x, x)
            let c = &y + i.astype(DType::F32) * x;
            (&i + 1, x2, c)
        },
        (full([], 0), n, x),
    );
    (a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn branches_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/branches.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let n = array("in.1");
        let found = jit(branches).call(&x, &n).expect("the function compiles");
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
