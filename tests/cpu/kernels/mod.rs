//! Kernels of models, compared with plain functions in `f64`.

mod attention;
mod block_rules;
mod block_sizes;
mod block_tables;
mod checked;
mod cross_entropy;
mod glu;
mod grouped_matmul;
mod interpreted;
mod language;
mod norms;
mod paged_attention;
mod planted_mistakes;
mod quantized;

use oxidax::prelude::*;

/// Returns the largest difference of two arrays, relative to the largest element of the second.
fn difference(a: &Array, b: &Array) -> f64 {
    let [a, b] = [a, b].map(|x| x.astype(DType::F64));
    let scale = b.abs().max().item::<f64>().unwrap().max(1e-3);
    (a - b).abs().max().item::<f64>().unwrap() / scale
}

/// Asserts that two lists of arrays are equal within a tolerance that fits the dtype.
fn expect_close(found: &[Array], expected: &[Array], dtype: DType, what: &str) {
    let tolerance = if dtype == DType::F32 { 2e-5 } else { 2e-2 };
    assert_eq!(found.len(), expected.len());
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        let apart = difference(a, b);
        assert!(apart <= tolerance, "{what}, array {index}: {apart:.1e}");
    }
}

/// Returns normal numbers of a dtype.
fn normal<const N: usize>(seed: i64, shape: [usize; N], dtype: DType) -> Array {
    random::normal(random::key(seed), shape).astype(dtype)
}
