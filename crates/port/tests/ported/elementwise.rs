//! `elementwise` of `port_functions.py:133`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// Elementwise functions of each kind.
pub fn elementwise(
    x: &Array,
    y: &Array,
    n: &Array,
) -> (Array, Array, Array, Array, Array, Array, Array) {
    // port_functions.py:135: a = jnp.exp2(x) + jnp.expm1(x) * jnp.log1p(y) - jnp.cbrt(x) / jnp.arc…
    let a = x.exp2() + x.expm1() * y.log1p() - x.cbrt() / atan2(x, y);
    // port_functions.py:136: b = jax.lax.rsqrt(y) + jsp.special.erf(x) + jsp.special.gammaln(y) +…
    let b = y.rsqrt() + x.erf() + y.lgamma() + y.digamma();
    // port_functions.py:137: c = jnp.where(jnp.isfinite(a) & ~(x > 0.5), jnp.sinh(x), jnp.floor(y)…
    let c = where_(a.isfinite() & gt(x, 0.5).logical_not(), x.sinh(), y.floor().powi(3));
    // port_functions.py:138: d = jnp.round(2 * x) + jnp.sign(x) * jnp.abs(y) + jnp.clip(x, -0.5, 0…
    let d = (2.0 * x).round() + x.sign() * y.abs() + x.clip(-0.5, 0.5) + remainder(x, y);
    // port_functions.py:139: e = (n << 2) ^ (n | 5) - n // 3 + n % 4
    let e = shift_left(n, 2) ^ ((n | 5) - floor_divide(n, 3) + remainder(n, 4));
    // port_functions.py:140: f = jax.nn.softplus(x) + jax.nn.elu(x) + jax.nn.log_sigmoid(y) + jax.…
    let f = x.softplus() + elu(x, 1.0) + y.log_sigmoid() + leaky_relu(x, 0.01);
    // port_functions.py:141: return a, b, c, d, e, f, jax.lax.bitcast_convert_type(x, jnp.int32)
    (a, b, c, d, e, f, bitcast_convert_type(x, DType::I32))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn elementwise_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/elementwise.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let y = array("in.1");
        let n = array("in.2");
        let found = jit(elementwise).call(&x, &y, &n).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 7);
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
