//! Functions compared with Optax: numerics, moments, clipping, assignments, second-order products,
//! states and trees. `python-compat/recorder/optax_functions_suite.py` records the fixture.

#![allow(clippy::unwrap_used, reason = "a case without its parameters fails")]

use oxidax::linalg::{NormOptions, VectorNorm};
use oxidax::optim::{
    self, AdaptiveGradClipOptions, BacktrackingOptions, CosineDecayOptions,
    ExponentialDecayOptions, FactoredRmsOptions, Mask, MuonDimensionNumbers, MuonOptions,
    MuonPreconditioning, OnecycleOptions, ScaleByMuonOptions, UpdateOptions,
};
use oxidax::prelude::*;
use oxidax::random::Key;
use oxidax_optim::losses::{self, CtcOptions, LossOptions};
use oxidax_optim::perturbations::{Noise, PerturbedOptions, make_perturbed_fun_with};
use oxidax_optim::second_order::{fisher_diag, hessian_diag, hvp};
use oxidax_optim::{
    self as contrib, DpsgdOptions, LayerShare, MicrobatchOptions, PowerIterationOptions,
    assignment, projections, trees,
};
use oxidax_parity::Suite;
use serde_json::Value;
use std::path::Path;

fn key(data: &Array) -> Key {
    Key::from_data(data.astype(DType::U32))
}

fn positive(a: &Array) -> Array {
    a.matmul(&a.t()) + eye((a.shape()[0], a.dtype()))
}

/// Returns the value of `f` at `x`, and the product of `ct` with its derivative.
fn with_gradient(f: impl Fn(&Array) -> Array, x: &Array, ct: &Array) -> Vec<Array> {
    let (value, pullback) = vjp(|x: &Array| f(x), x);
    vec![value, pullback.apply(ct)]
}

fn numerics(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(vec![match op {
        "global_norm" => optim::global_norm(&x.to_vec()),
        "safe_norm" | "safe_norm_of_zeros" => optim::safe_norm(&x[0], 0.5),
        "safe_root_mean_squares" | "safe_root_mean_squares_of_zeros" => {
            optim::safe_root_mean_squares(&x[0], 0.25)
        }
        "safe_increment" | "safe_increment_at_the_end" => optim::safe_increment(&x[0]),
        "scale_gradient" => {
            return Some(with_gradient(|x| contrib::scale_gradient(x, 0.3), &x[0], &x[1]));
        }
        "incremental_update" => optim::incremental_update(&x[0], &x[1], 0.3),
        "periodic_update" | "periodic_update_between" => {
            optim::periodic_update(&x[0], &x[1], &x[2], 3)
        }
        "update_moment" => optim::update_moment(&x[0], &x[1], 0.9, 2),
        "update_moment_per_elem_norm" => optim::update_moment_per_elem_norm(&x[0], &x[1], 0.9, 2),
        "update_infinity_moment" => optim::update_infinity_moment(&x[0], &x[1], 0.9, 1e-8),
        "bias_correction" => optim::bias_correction(&x[0], 0.9, &x[1]),
        "projection_box" => projections::projection_box(&x[0], &x[1], &x[2]),
        "convex_kl_divergence" => losses::convex_kl_divergence(&x[0], &x[1]),
        _ => return None,
    }])
}

fn linear(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    if op.contains("hungarian_algorithm") {
        let (rows, columns) = assignment::hungarian_algorithm(&x[0]);
        return Some(vec![rows, columns]);
    }
    Some(match op {
        "matrix_inverse_pth_root" => vec![contrib::matrix_inverse_pth_root(&positive(&x[0]), 4).0],
        "power_iteration" => {
            let a = positive(&x[0]);
            let options = PowerIterationOptions { num_iters: 60, error_tolerance: 0.0 };
            let (value, vector) = contrib::power_iteration(|v: &Array| a.matmul(v), &x[1], options);
            vec![value, vector]
        }
        "nnls" => vec![contrib::nnls(&x[0], &x[1], 300)],
        "multi_normal_log_prob" => vec![contrib::multi_normal(&x[0], &x[1]).log_prob(&x[2])],
        "multi_normal_sample" => {
            vec![contrib::multi_normal(&x[0], &x[1]).sample(key(&x[2]), &[4])]
        }
        "ctc_forward" => {
            let paddings = array![[0f32, 0., 0., 0., 0., 0.], [0., 0., 0., 0., 1., 1.]];
            let (labels, label_paddings) =
                (array![[1, 2, 2], [3, 1, 0]], array![[0f32, 0., 0.], [0., 0., 1.]]);
            let found = losses::ctc_loss_with_forward_probs(
                &x[0],
                &paddings,
                &labels,
                &label_paddings,
                CtcOptions::default(),
            );
            vec![found.loss, found.log_alpha_blank, found.log_alpha_label]
        }
        _ => return None,
    })
}

fn examples(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let by_layer = |share| {
        let (sums, counts) = contrib::per_example_layer_norm_clip(&x.to_vec(), 1.5, share);
        [sums, counts].concat()
    };
    let aggregate = |gradients: &Vec<Array>| {
        contrib::differentially_private_aggregate(gradients, 1.5, 0.0, random::key(0))
    };
    Some(match op {
        "per_example_global_norm_clip" => {
            let (mut sums, count) = contrib::per_example_global_norm_clip(&x.to_vec(), 1.5);
            sums.push(count);
            sums
        }
        "per_example_layer_norm_clip" => by_layer(LayerShare::Uniform),
        "per_example_layer_norm_clip_by_size" => by_layer(LayerShare::BySize),
        "differentially_private_aggregate" => aggregate(&x.to_vec()),
        "dpsgd" => {
            let options = DpsgdOptions { momentum: Some(0.9), ..DpsgdOptions::default() };
            let optimizer = contrib::dpsgd_with(0.1, options);
            let parameters: Vec<Array> = x.iter().map(|x| x.index(i![0])).collect();
            let state = optimizer.init(&parameters);
            let second = vec![x[1].expand_dims(-1) * &x[0], x[1].clone()];
            let (_, state) = optimizer.update(&aggregate(&x.to_vec()), &state, &parameters);
            optimizer.update(&aggregate(&second), &state, &parameters).0
        }
        "microbatch" => {
            let options = MicrobatchOptions { microbatch_size: 2, ..Default::default() };
            vec![contrib::microbatch(|x: &Array| sin(x).sum_axes(0), options)(&x[0])]
        }
        _ => return None,
    })
}

fn second_order(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let loss = |inputs: &Array, targets: &Array| {
        let (inputs, targets) = (inputs.clone(), targets.clone());
        move |p: &Array| (tanh(inputs.matmul(p)) - &targets).square().mean()
    };
    let perturbed = |noise| {
        let hard = |x: &Array| one_hot(argmax(x, 0), 4);
        let options = PerturbedOptions { num_samples: 50, sigma: 0.5, noise, ..Default::default() };
        let soft = make_perturbed_fun_with(hard, options);
        with_gradient(|point| soft(key(&x[2]), point), &x[0], &x[1])
    };
    Some(match op {
        "hvp" => vec![hvp(loss(&x[2], &x[3]), &x[1], &x[0])],
        "hessian_diag" => vec![hessian_diag(loss(&x[1], &x[2]), &x[0])],
        "fisher_diag" => vec![fisher_diag(loss(&x[1], &x[2]), &x[0])],
        "perturbed_gumbel" => perturbed(Noise::Gumbel),
        "perturbed_normal" => perturbed(Noise::Normal),
        _ => return None,
    })
}

fn rows(x: &Array) -> impl Iterator<Item = Array> + '_ {
    (0..x.shape()[0]).map(|row| x.index(i![row as isize]))
}

fn complex_steps(real: &Array, imaginary: &Array) -> Array {
    let optimizer = contrib::split_real_and_imaginary(optim::adam(0.1));
    let gradients = complex(real, imaginary);
    let mut parameters = gradients.index(i![0]);
    let mut state = optimizer.init(&parameters);
    for row in rows(&gradients) {
        let (updates, next) = optimizer.update(&row, &state, &parameters);
        parameters = optim::apply_updates(&parameters, &updates);
        state = next;
    }
    parameters
}

fn stored_gradient(x: &Array) -> Vec<Array> {
    let f = |x: &Array| ((x - 1.0).square() * (x + 2.0)).sum();
    let options = BacktrackingOptions { store_grad: true, ..Default::default() };
    let optimizer =
        optim::sgd(0.1).chain(optim::scale_by_backtracking_linesearch_with(15, options));
    let state = optimizer.init(x);
    let (value, gradient) = optim::value_and_grad_from_state(f, x, &state);
    let options = UpdateOptions {
        value: Some(&value),
        gradient: Some(&gradient),
        value_fn: Some(&f),
        ..UpdateOptions::default()
    };
    let (updates, state) = optimizer.update_with(&gradient, &state, x, options);
    let x = optim::apply_updates(x, &updates);
    let (value, gradient) = optim::value_and_grad_from_state(f, &x, &state);
    vec![x, value, gradient]
}

fn states(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(match op {
        "schedule_free_eval_params" => {
            let optimizer = contrib::schedule_free(optim::sgd(0.1), 0.1);
            let mut all = rows(&x[0]);
            let mut parameters = all.next().unwrap();
            let mut state = optimizer.init(&parameters);
            for row in all {
                let (updates, next) = optimizer.update(&row, &state, &parameters);
                parameters = optim::apply_updates(&parameters, &updates);
                state = next;
            }
            let averaged = contrib::schedule_free_eval_params(&state, &parameters);
            vec![parameters, averaged]
        }
        "split_real_and_imaginary" => vec![complex_steps(&x[0], &x[1])],
        "value_and_grad_from_state" => stored_gradient(&x[0]),
        "random_like" => random::tree_like(key(&x[2]), &x[..2].to_vec(), random::normal),
        "split_key_like" => {
            let keys = trees::split_key_like(key(&x[2]), &x[..2].to_vec());
            keys.iter().map(|key| key.data().clone()).collect()
        }
        "cast" => vec![tree::cast(&x[0], DType::BF16)],
        "cast_like" => vec![x[0].astype(x[1].dtype())],
        "batch_shape" => vec![trees::batch_shape(&x[0], &[2])],
        _ => return None,
    })
}

/// Returns the second step of Muon, for gradients `x` and `2 · x + 0.1`.
fn muon(x: &Array, options: ScaleByMuonOptions) -> Vec<Array> {
    let optimizer = optim::scale_by_muon_with(options);
    let (_, state) = optimizer.update(x, &optimizer.init(x), x);
    vec![optimizer.update(&(x * 2.0 + 0.1), &state, x).0]
}

fn muon_of(x: &Array, reduction_axes: &[isize], output_axes: &[isize]) -> ScaleByMuonOptions {
    let numbers = MuonDimensionNumbers {
        reduction_axes: reduction_axes.to_vec(),
        output_axes: output_axes.to_vec(),
    };
    let rank = x.rank();
    let mask = Mask::new(move |_, aval| aval.rank() == rank);
    ScaleByMuonOptions { dimension_numbers: vec![(mask, numbers)], ..Default::default() }
}

fn muon_options(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let preconditioned =
        |preconditioning| ScaleByMuonOptions { preconditioning, ..ScaleByMuonOptions::default() };
    let options = match op {
        "muon_adaptive" => ScaleByMuonOptions { adaptive: true, ..Default::default() },
        "muon_spectral" => preconditioned(MuonPreconditioning::Spectral),
        "muon_aol" => preconditioned(MuonPreconditioning::Aol),
        "muon_schatten" => preconditioned(MuonPreconditioning::Schatten),
        "muon_coefficients" => ScaleByMuonOptions {
            ns_coeffs: vec![
                [4.0848, -6.8946, 2.9270],
                [3.9505, -6.3029, 2.6377],
                [3.7418, -5.5913, 2.3037],
            ],
            ns_steps: 3,
            ..Default::default()
        },
        "muon_heads" => muon_of(&x[0], &[0], &[1, 2]),
        "muon_batch" => muon_of(&x[0], &[2], &[1]),
        "muon_batch_aol" => ScaleByMuonOptions {
            preconditioning: MuonPreconditioning::Aol,
            ..muon_of(&x[0], &[0], &[-1])
        },
        "muon_all" => {
            let optimizer = optim::muon_with(
                0.1,
                MuonOptions {
                    matrices: Mask::min_rank(2),
                    scaling: muon_of(&x[0], &[0, 1], &[2]),
                    weight_decay: 0.2,
                    weight_decay_mask: Mask::min_rank(2).not(),
                    adam_eps_root: 0.1,
                    consistent_rms: Some(0.2),
                    ..MuonOptions::default()
                },
            );
            let parameters = x.to_vec();
            let (_, state) =
                optimizer.update(&parameters, &optimizer.init(&parameters), &parameters);
            let second = vec![&x[0] * 2.0 + 0.1, x[1].clone()];
            return Some(optimizer.update(&second, &state, &parameters).0);
        }
        _ => return None,
    };
    Some(muon(&x[0], options))
}

fn options(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let curve = |schedule: optim::Schedule| vec![vmap(|c: &Array| schedule.value(c)).apply(&x[0])];
    let cycle = OnecycleOptions {
        pct_start: 0.2,
        pct_final: 0.7,
        div_factor: 10.0,
        final_div_factor: 50.0,
    };
    let clipped = |axes: Vec<isize>| {
        let options = AdaptiveGradClipOptions { axes: Some(axes), ..Default::default() };
        let clip = optim::adaptive_grad_clip_with(0.3, options);
        vec![clip.update(&x[0], &clip.init(&x[1]), &x[1]).0]
    };
    Some(match op {
        "cosine_exponent" => {
            let options = CosineDecayOptions { alpha: 0.1, exponent: 1.5 };
            curve(optim::cosine_decay_schedule_with(0.5, 90, options))
        }
        "linear_onecycle_options" => curve(optim::linear_onecycle_schedule_with(100, 0.5, cycle)),
        "cosine_onecycle_options" => curve(optim::cosine_onecycle_schedule_with(100, 0.5, cycle)),
        "exponential_begin" => curve(optim::exponential_decay_with(
            0.5,
            20,
            0.7,
            ExponentialDecayOptions {
                transition_begin: 30,
                end_value: Some(0.2),
                ..Default::default()
            },
        )),
        "warmup_exponential_begin" => {
            let options = ExponentialDecayOptions {
                transition_begin: 20,
                staircase: true,
                ..Default::default()
            };
            curve(optim::warmup_exponential_decay_schedule(0.1, 0.5, 10, 20, 0.7, options))
        }
        "adaptive_grad_clip_axis" => clipped(vec![1]),
        "adaptive_grad_clip_axes" => clipped(vec![0, 2]),
        "factored_rms_offset" => {
            let options = FactoredRmsOptions {
                min_dim_size_to_factor: 2,
                step_offset: -5,
                ..Default::default()
            };
            let scale = optim::scale_by_factored_rms_with(options);
            let (_, state) = scale.update(&x[0], &scale.init(&x[1]), &x[1]);
            vec![scale.update(&(&x[0] * 2.0), &state, &x[1]).0]
        }
        "safe_norm_axis" => {
            let rows = NormOptions { axes: axes(-1).keepdims(), ..NormOptions::default() };
            vec![optim::safe_norm_with(&x[0], 2.0, rows)]
        }
        "safe_norm_ord" => {
            let columns = NormOptions { order: VectorNorm::L1.into(), axes: axes(0) };
            vec![optim::safe_norm_with(&x[0], 1.0, columns)]
        }
        "smooth_labels_axis" => {
            let columns = LossOptions { axes: vec![0], ..LossOptions::default() };
            vec![losses::smooth_labels_with(&x[0], 0.3, &columns)]
        }
        "smooth_labels_where" => {
            let some = LossOptions { mask: Some(gt(&x[1], 0.0)), ..LossOptions::default() };
            vec![losses::smooth_labels_with(&x[0], 0.3, &some)]
        }
        "global_norm_mixed" => {
            vec![optim::global_norm(&(x[0].clone(), x[1].astype(DType::F32)))]
        }
        "global_norm_of_one" => vec![optim::global_norm(&x[0])],
        _ => return muon_options(op, x),
    })
}

fn one_case(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    let found = match params["family"].as_str().unwrap() {
        "numerics" => numerics(op, x),
        "linear" => linear(op, x),
        "examples" => examples(op, x),
        "second_order" => second_order(op, x),
        "options" => options(op, x),
        _ => states(op, x),
    };
    found.unwrap_or_else(|| panic!("no function is called {op}"))
}

fn apply(op: &str, params: &Value, x: &[Array]) -> Vec<Array> {
    if params["vmap"] != true {
        return one_case(op, params, x);
    }
    vmap(|x: Vec<Array>| one_case(op, params, &x)).apply(x.to_vec())
}

mod on_cpu {
    use super::*;

    #[test]
    fn functions_match_optax() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python-compat/fixtures");
        let suite = Suite::open(folder, "optax_functions").unwrap_or_else(|e| panic!("{e}"));
        suite.expect_equal(apply);
    }
}
