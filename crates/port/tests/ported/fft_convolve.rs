//! `fft_convolve` of `port_functions.py:104`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;
use oxidax::primitives::{FftType, PaddingDim};

/// Convolution by `jnp.fft`.
pub fn fft_convolve(x: &Array, y: &Array) -> Array {
    // port_functions.py:107: return jnp.fft.irfft(jnp.fft.rfft(x, n) * jnp.fft.rfft(y, n), n)
    let value =
        fft(&lax_pad(x, 0.0, &[PaddingDim { low: 0, high: 4, interior: 0 }]), FftType::Rfft, &[12]);
    let value2 =
        fft(&lax_pad(y, 0.0, &[PaddingDim { low: 0, high: 7, interior: 0 }]), FftType::Rfft, &[12]);
    let value = lax_pad(
        &(&value * &value2),
        full([], 0).astype(DType::C64),
        &[PaddingDim { low: 0, high: 0, interior: 0 }],
    );
    fft(&value, FftType::Irfft, &[12])
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn fft_convolve_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fft_convolve.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let y = array("in.1");
        let found = jit(fft_convolve).call(&x, &y).expect("the function compiles");
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
