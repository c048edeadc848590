//! `interp` of `jax/_src/numpy/lax_numpy.py:2652`, traced with JAX 0.10.2 and written by
//! `oxidax port`.

use oxidax::prelude::*;

/// One-dimensional linear interpolation.
pub fn interp(x: &Array, xp: &Array, fp: &Array) -> Array {
    let value = xp.searchsorted(x).clip(1, 4);
    let difference = &value - 1;
    let part = fp.index(i![&difference]);
    let part2 = xp.index(i![&difference]);
    let difference = xp.index(i![&value]) - &part2;
    let mask = le(difference.abs(), 1.4210855e-14);
    let product = (x - &part2) / where_(&mask, 1, &difference) * (fp.index(i![&value]) - &part);
    let selected =
        where_(lt(x, xp.index(i![0])), fp.index(i![0]), where_(&mask, &part, &part + &product));
    where_(gt(x, xp.index(i![4])), fp.index(i![4]), &selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn interp_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/interp.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let xp = array("in.1");
        let fp = array("in.2");
        let found = jit(interp).call(&x, &xp, &fp).expect("the function compiles");
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
