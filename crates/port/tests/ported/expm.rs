//! `expm` of `jax/_src/scipy/linalg.py:1371`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// Compute the matrix exponential
pub fn expm(a: &Array) -> Array {
    let constant = Array::from_slice(&[0.425873f32, 1.8801527], [2])
        .expect("as many numbers as the shape has elements");
    let largest = maximum(0.0, a.abs().sum_axes(0).max());
    let largest2 = maximum(0.0, ((&largest / 3.9257247).log() / full([], 2.0).log()).floor());
    let ratio = a / pow(2.0, &largest2);
    let selected = where_(
        ge(constant.index(i![1]), constant.index(i![0])),
        constant.searchsorted(&largest),
        2 - constant.flip(0).searchsorted(&largest),
    );
    let (value, value2) = switch(
        clamp(0, &selected, 2),
        (
            |_: ()| {
                let value = eye(3);
                let product = einsum_with(
                    "ab,bc->ac",
                    (&ratio, &ratio),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let product2 = einsum_with(
                    "ab,bc->ac",
                    (&ratio, 1.0 * &product + 60.0 * &value),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                (product2, 12.0 * &product + 120.0 * &value)
            },
            |_: ()| {
                let value = eye(3);
                let product = einsum_with(
                    "ab,bc->ac",
                    (&ratio, &ratio),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let product2 = einsum_with(
                    "ab,bc->ac",
                    (&product, &product),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let product3 = einsum_with(
                    "ab,bc->ac",
                    (&ratio, 1.0 * &product2 + 420.0 * &product + 15120.0 * &value),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                (product3, 30.0 * &product2 + 3360.0 * &product + 30240.0 * &value)
            },
            |_: ()| {
                let value = eye(3);
                let product = einsum_with(
                    "ab,bc->ac",
                    (&ratio, &ratio),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let product2 = einsum_with(
                    "ab,bc->ac",
                    (&product, &product),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let product3 = einsum_with(
                    "ab,bc->ac",
                    (&product2, &product),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let sum =
                    1.0 * &product3 + 1512.0 * &product2 + 277200.0 * &product + 8648640.0 * &value;
                let product4 = einsum_with(
                    "ab,bc->ac",
                    (&ratio, &sum),
                    MatmulOptions { precision: Precision::Highest, ..Default::default() },
                );
                let sum = 56.0 * &product3
                    + 25200.0 * &product2
                    + 1995840.0 * &product
                    + 1.729728e7 * &value;
                (product4, sum)
            },
        ),
        (),
    );
    let sum = &value + &value2;
    let sum2 = -&value + &value2;
    cond(
        gt(&largest2, 16.0),
        |_: ()| full([3, 3], f64::NAN),
        |_: ()| {
            let (c, _) = scan(
                |c: Array, i: Array| {
                    let value = cond(
                        lt(&i, &largest2),
                        |_: ()| {
                            einsum_with(
                                "ab,bc->ac",
                                (&c, &c),
                                MatmulOptions {
                                    precision: Precision::Highest,
                                    ..Default::default()
                                },
                            )
                        },
                        |_: ()| c.clone(),
                        (),
                    );
                    (value, ())
                },
                linalg::solve(&sum2, &sum),
                iota(DType::F32, 16),
            );
            c
        },
        (),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn expm_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expm.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let a = array("in.0");
        let found = jit(expm).call(&a).expect("the function compiles");
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
