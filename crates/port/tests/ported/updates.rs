//! `updates` of `port_functions.py:144`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::PaddingDim;

/// Slices and updates at computed positions.
pub fn updates(x: &Array, i: &Array, row: &Array) -> (Array, Array, Array, Array, Array) {
    let constant =
        Array::from_slice(&[0i32, 2], [2]).expect("as many numbers as the shape has elements");
    let constant2 =
        Array::from_slice(&[1i32, 0, 5], [3]).expect("as many numbers as the shape has elements");
    // port_functions.py:146: a = x.at[i].set(row)
    let a = where_(lt(i, 0), i + 4, i);
    let a2 = x.at(i![i]).set(row);
    // port_functions.py:147: b = a.at[jnp.array([0, 2])].add(1.0)
    let b = a2.at(i![&constant]).add(ones([2, 3]));
    // port_functions.py:148: c = jax.lax.dynamic_update_slice(b, 2 * row[None], (i, 0))
    let c = dynamic_update_slice(&b, &(2.0 * row.expand_dims(0)), (&a, full([], 0)));
    // port_functions.py:149: d = jax.lax.dynamic_slice(c, (i, 1), (2, 2))
    let d = dynamic_slice(&c, (&a, full([], 1)), [2, 2]);
    // port_functions.py:150: e = jnp.flip(jnp.pad(d, ((1, 0), (0, 2))), axis=1)
    let value = lax_pad(
        &d,
        0.0,
        &[PaddingDim { low: 1, high: 0, interior: 0 }, PaddingDim { low: 0, high: 2, interior: 0 }],
    );
    let e = value.flip(-1);
    // port_functions.py:151: order = jnp.argsort(x[:, 0])
    let (_, order) = sort_key_val(&x.index(i![.., 0]), &arange(4), 0);
    // port_functions.py:152: return c, e, x[order], jnp.take(row, jnp.array([1, 0, 5])), jnp.roll(…
    (
        c,
        e,
        x.index(i![&order]),
        row.take(&constant2, 0),
        concatenate((x.index(i![3..]), x.index(i![..3])), 0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn updates_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/updates.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let i = array("in.1");
        let row = array("in.2");
        let found = jit(updates).call(&x, &i, &row).expect("the function compiles");
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
