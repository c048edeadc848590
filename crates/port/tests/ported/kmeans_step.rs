//! `kmeans_step` of `port_models.py:193`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// Moves each center to the mean of the points that are nearest to it.
pub fn kmeans_step(centers: &Array, points: &Array) -> (Array, Array) {
    // port_models.py:195: distances = jnp.sum((points[:, None, :] - centers[None, :, :]) ** 2, axi…
    let distances = (points.expand_dims(1) - centers).powi(2).sum_axes(-1);
    // port_models.py:196: nearest = jnp.argmin(distances, axis=1)
    let nearest = distances.argmin_axis(-1);
    // port_models.py:197: sums = jax.ops.segment_sum(points, nearest, num_segments=centers.shape[0…
    let sums = segment_sum(points, &nearest, 3);
    // port_models.py:198: counts = jnp.bincount(nearest, length=centers.shape[0])
    let counts = segment_sum(&ones(([12], DType::I32)), &maximum(&nearest, 0), 3);
    // port_models.py:199: moved = sums / jnp.maximum(counts, 1)[:, None]
    let moved = &sums / maximum(&counts, 1).expand_dims(-1).astype(DType::F32);
    // port_models.py:200: return jnp.where(counts[:, None] > 0, moved, centers), nearest
    (where_(gt(counts.expand_dims(-1), 0), &moved, centers), nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn kmeans_step_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kmeans_step.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let centers = array("in.0");
        let points = array("in.1");
        let found = jit(kmeans_step).call(&centers, &points).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 2);
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
