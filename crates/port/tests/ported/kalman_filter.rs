//! `kalman_filter` of `port_models.py:124`, traced with JAX 0.10.2 and written by `oxidax
//! port`.

use oxidax::prelude::*;

/// `Model` of the Python program.
#[derive(Clone, Debug, Tree)]
pub struct Model {
    pub transition: Array,
    pub observation: Array,
    pub process_noise: Array,
    pub sensor_noise: Array,
}

/// Returns the filtered means and the log likelihood of observations.
pub fn kalman_filter(model: &Model, observations: &Array) -> (Array, Array) {
    // port_models.py:141: _, (means, lls) = lax.scan(step, (jnp.zeros(n), jnp.eye(n)), observation…
    let (_, (means, lls)) = scan(
        |(mean, cov): (Array, Array), z: Array| {
            // port_models.py:129: mean = model.transition @ mean
            let mean = model.transition.matmul(&mean);
            // port_models.py:130: cov = model.transition @ cov @ model.transition.T + model.proces…
            let cov =
                model.transition.matmul(&cov).matmul(&model.transition.t()) + &model.process_noise;
            // port_models.py:131: innovation = z - model.observation @ mean
            let innovation = &z - model.observation.matmul(&mean);
            // port_models.py:132: s = model.observation @ cov @ model.observation.T + model.sensor…
            let s = model.observation.matmul(&cov);
            let s2 = s.matmul(&model.observation.t()) + &model.sensor_noise;
            // port_models.py:133: gain = jnp.linalg.solve(s, model.observation @ cov).T
            let gain = linalg::solve(&s2, &s).t();
            // port_models.py:134: mean = mean + gain @ innovation
            let mean = &mean + gain.matmul(&innovation);
            // port_models.py:135: cov = cov - gain @ s @ gain.T
            let cov = &cov - gain.matmul(&s2).matmul(&gain.t());
            // port_models.py:136: _, logdet = jnp.linalg.slogdet(2 * jnp.pi * s)
            let logdet = (std::f64::consts::TAU * &s2).reshape(()).abs().log();
            // port_models.py:137: ll = -0.5 * (innovation @ jnp.linalg.solve(s, innovation) + logd…
            let ll = -0.5 * (innovation.dot(&linalg::solve(&s2, &innovation)) + &logdet);
            ((mean.clone(), cov), (mean, ll))
        },
        (zeros([2]), eye(2)),
        observations,
    );
    // port_models.py:142: return means, jnp.sum(lls)
    (means, lls.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn kalman_filter_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kalman_filter.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let model = Model {
            transition: array("in.0"),
            observation: array("in.1"),
            process_noise: array("in.2"),
            sensor_noise: array("in.3"),
        };
        let observations = array("in.4");
        let found = jit(kalman_filter).call(&model, &observations).expect("the function compiles");
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
