//! `resample` of `port_functions.py:110`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// `jax.scipy.ndimage.map_coordinates`, bilinear.
pub fn resample(image: &Array, coordinates: &Array) -> Array {
    // port_functions.py:112: return jsp.ndimage.map_coordinates(image, [coordinates[0], coordinate…
    let value = coordinates.index(i![0]);
    let value2 = coordinates.index(i![1]);
    let value3 = value.floor();
    let difference = &value - &value3;
    let difference2 = 1.0 - &difference;
    let converted = value3.astype(DType::I32);
    let sum = &converted + 1;
    let mask = ge(&converted, 0) & lt(&converted, 5);
    let mask2 = ge(&sum, 0) & lt(&sum, 5);
    let value = value2.floor();
    let difference3 = &value2 - &value;
    let difference4 = 1.0 - &difference3;
    let converted2 = value.astype(DType::I32);
    let sum2 = &converted2 + 1;
    let mask3 = ge(&converted2, 0) & lt(&converted2, 6);
    let mask4 = ge(&sum2, 0) & lt(&sum2, 6);
    let selected = where_(&mask & &mask3, image.index(i![&converted, &converted2]), 0.0);
    let product = &difference2
        * &difference3
        * where_(&mask & &mask4, image.index(i![&converted, &sum2]), 0.0);
    let product2 = &difference
        * &difference4
        * where_(&mask2 & &mask3, image.index(i![&sum, &converted2]), 0.0);
    let product3 =
        &difference * &difference3 * where_(&mask2 & &mask4, image.index(i![&sum, &sum2]), 0.0);
    &difference2 * &difference4 * &selected + &product + &product2 + &product3
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn resample_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resample.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let image = array("in.0");
        let coordinates = array("in.1");
        let found = jit(resample).call(&image, &coordinates).expect("the function compiles");
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
