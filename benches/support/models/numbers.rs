//! Reproducible numbers, equal on all sides: a hash of the element's index.

/// Returns `n` numbers, uniform over `-1..1`.
///
/// The hash is the last stage of MurmurHash3 (Appleby 2011).
pub fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|at| (hash(at) >> 8) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Returns `n` integers below `end`.
pub fn integers(n: usize, end: usize) -> Vec<i32> {
    (0..n).map(|at| (hash(at) as usize % end) as i32).collect()
}

fn hash(at: usize) -> u32 {
    let mut h = at as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// Returns the values of a leaf: scales and variances are one, biases and means zero, and arrays of
/// several axes have variance `1 / fan_in`, where `fan_in` is the product of all axes except the
/// last.
pub fn leaf(path: &str, shape: &[usize]) -> Vec<f32> {
    let n = shape.iter().product();
    match path.rsplit('.').next().unwrap_or_default() {
        "scale" | "var" => vec![1.0; n],
        "bias" | "mean" => vec![0.0; n],
        _ => {
            let fan_in = n / shape.last().copied().unwrap_or(1).max(1);
            let most = (3.0 / fan_in as f64).sqrt() as f32;
            numbers(n).iter().map(|x| x * most).collect()
        }
    }
}

/// Returns the lengths of `n` sentences, from all tokens to half of them.
pub fn lengths(batch: usize, context: usize) -> Vec<usize> {
    (0..batch).map(|at| context - at * (context / 2) / batch).collect()
}
