//! `rk4` of `port_models.py:180`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// Integrates the Van der Pol oscillator with the classical Runge-Kutta method.
pub fn rk4(y0: &Array, dt: &Array) -> Array {
    // port_models.py:190: return lax.fori_loop(0, 20, step, y0)
    fori_loop(
        0,
        20,
        |_: Array, y: Array| {
            // port_models.py:184: k1 = van_der_pol(y)
            let k1 = van_der_pol(&y);
            // port_models.py:185: k2 = van_der_pol(y + dt / 2 * k1)
            let k2 = dt / 2.0;
            let k2_2 = van_der_pol(&(&y + &k2 * &k1));
            // port_models.py:186: k3 = van_der_pol(y + dt / 2 * k2)
            let k3 = van_der_pol(&(&y + &k2 * &k2_2));
            // port_models.py:187: k4 = van_der_pol(y + dt * k3)
            let k4 = van_der_pol(&(&y + dt * &k3));
            // port_models.py:188: return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            &y + dt / 6.0 * (&k1 + 2.0 * &k2_2 + 2.0 * &k3 + &k4)
        },
        y0,
    )
}

/// `van_der_pol` of the Python program.
fn van_der_pol(y: &Array) -> Array {
    // port_models.py:177: return jnp.array([y[1], (1 - y[0] ** 2) * y[1] - y[0]])
    let value = y.index(i![1]);
    let value2 = y.index(i![0]);
    concatenate(
        (value.expand_dims(-1), ((1.0 - value2.powi(2)) * &value - &value2).expand_dims(-1)),
        0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn rk4_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rk4.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let y0 = array("in.0");
        let dt = array("in.1");
        let found = jit(rk4).call(&y0, &dt).expect("the function compiles");
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
