//! Losses, samples and figures compared with `python-compat/fixtures/research.safetensors`.

use crate::{
    blockwise_attention, graph_net, hmc, implicit_layer, kalman, maml, neural_ode, own_optimizer,
    pinn, ppo,
};
use oxidax::prelude::*;
use std::path::Path;

/// The largest relative difference. The largest that occurs is 1.5e-6 in `f32` and 4e-12 in the
/// samples of `hmc`, which is computed in `f64`.
const TOLERANCE: f64 = 1e-5;

/// Returns the recorded outputs of a program, in the order of `recorder/research_suite.py`.
fn recorded<const N: usize>(program: &str) -> [Vec<f64>; N] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
    let cases = std::fs::read_to_string(folder.join("research.json")).unwrap();
    let case = cases.lines().find(|line| line.contains(&format!("\"name\": \"{program}\"")));
    let outputs = case.and_then(|case| case.split("\"outputs\": [").nth(1)).unwrap();
    let mut names = outputs.split('"').skip(1).step_by(2);
    let arrays = checkpoint::arrays(folder.join("research.safetensors")).unwrap();
    std::array::from_fn(|_| arrays[names.next().unwrap()].astype(DType::F64).to_vec().unwrap())
}

/// Checks that two lists have the same length and equal numbers up to [`TOLERANCE`].
#[track_caller]
fn expect_close<T: Copy + Into<f64>>(found: &[T], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let found: f64 = found.into();
        let difference = (found - expected).abs();
        assert!(difference <= TOLERANCE * expected.abs(), "{at}: {found}, JAX: {expected}");
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn a_neural_ode_equals_jax() {
        let [losses, unseen] = recorded("neural_ode");
        let (found, figure) = neural_ode::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &unseen);
    }

    #[test]
    fn meta_learning_equals_jax() {
        let [losses] = recorded("maml");
        expect_close(&maml::train(losses.len()).unwrap(), &losses);
    }

    #[test]
    fn hamiltonian_monte_carlo_equals_jax() {
        let [positions, schools, rate] = recorded("hmc");
        let (found, effects, accepted) = hmc::run().unwrap();
        let tenth = found.index(i![.., strided(.., 10)]);
        expect_close(&tenth.to_vec::<f64>().unwrap(), &positions);
        expect_close(&effects.to_vec::<f64>().unwrap(), &schools);
        expect_close(&[accepted], &rate);
    }

    /// Training is chaotic: a relative difference of 1e-16 grows to 1e-10 in these 20 updates (320
    /// steps of Adam), and to 1e-3 in the next five, when the first episode ends elsewhere. The
    /// program makes 60 updates.
    #[test]
    fn twenty_updates_of_policy_optimization_equal_jax() {
        let [losses, lengths] = recorded("ppo");
        assert_eq!(losses.len(), 20);
        let found = ppo::train(20).unwrap();
        let (found, episodes): (Vec<f64>, Vec<f32>) = found.into_iter().unzip();
        expect_close(&found, &losses);
        expect_close(&episodes, &lengths);
    }

    #[test]
    fn a_graph_network_equals_jax() {
        let [losses, error] = recorded("graph_net");
        let (found, figure) = graph_net::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &error);
    }

    #[test]
    fn an_own_optimizer_equals_jax() {
        let [losses, accuracy] = recorded("own_optimizer");
        let (found, figure) = own_optimizer::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &accuracy);
    }

    #[test]
    fn a_kalman_filter_equals_jax() {
        let [losses, frequency] = recorded("kalman");
        let (found, figure) = kalman::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &frequency);
    }

    #[test]
    fn an_implicit_layer_equals_jax() {
        let [losses, unseen] = recorded("implicit_layer");
        let (found, figure) = implicit_layer::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &unseen);
    }

    #[test]
    fn a_physics_informed_network_equals_jax() {
        let [losses, velocity] = recorded("pinn");
        let (found, figure) = pinn::train(losses.len()).unwrap();
        expect_close(&found, &losses);
        expect_close(&[figure], &velocity);
    }

    #[test]
    fn blockwise_attention_equals_jax() {
        let [losses] = recorded("blockwise_attention_f32");
        let (found, accuracy) = blockwise_attention::train(losses.len(), DType::F32).unwrap();
        expect_close(&found, &losses);
        assert_eq!(accuracy, 1.0);
    }

    /// Every rounding to `bf16` is where JAX has it. The compiler may leave roundings out where it
    /// fuses operations, so both sides compile with `xla_allow_excess_precision` off. Sums in
    /// another order still move single elements by one unit of `bf16`, 4e-3.
    #[test]
    fn gradients_of_blockwise_attention_in_bf16_equal_jax() {
        let [loss, norms] = recorded("blockwise_attention_gradients");
        let step = jit(|key: random::Key| {
            let params = blockwise_attention::init(key.clone());
            let batch = blockwise_attention::batch(key);
            let loss = |params: &_| blockwise_attention::loss(DType::BF16, params, &batch);
            let ((value, _), grads) = value_and_grad_aux(loss)(&params);
            let norms = tree::leaves(&grads).iter().map(tree::norm).collect::<Vec<_>>();
            (value, stack(&norms, 0))
        });
        let step = step.compiler_options([("xla_allow_excess_precision", false)]);
        let (value, found) = step.call(random::key(0)).unwrap();
        expect_close(&value.to_vec::<f32>().unwrap(), &loss);
        for (found, expected) in found.to_vec::<f32>().unwrap().into_iter().zip(&norms) {
            let difference = (f64::from(found) - expected).abs();
            assert!(difference <= 5e-5 * expected, "{found}, JAX: {expected}");
        }
    }

    /// A sum in another order moves a factor by one unit of `bf16`, and each step of Adam
    /// multiplies the difference: after a step, losses of JAX on a processor without AVX differ by
    /// 1e-4 from those with it, and later by up to 1 %.
    #[test]
    fn training_blockwise_attention_in_bf16_is_as_near_to_jax_as_jax_with_other_sums() {
        let [losses, accuracy] = recorded("blockwise_attention_bf16");
        let (found, figure) = blockwise_attention::train(losses.len(), DType::BF16).unwrap();
        expect_close(&found[..1], &losses[..1]);
        for (found, expected) in found.iter().zip(&losses) {
            let difference = (f64::from(*found) - expected).abs();
            assert!(difference <= 1e-3 + 0.01 * expected, "{found}, JAX: {expected}");
        }
        expect_close(&[figure], &accuracy);
    }
}
