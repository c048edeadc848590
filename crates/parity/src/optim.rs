//! Optimizers, gradient transformations and schedules over 100 steps, compared with Optax.

use crate::fixtures::Case;
#[cfg(test)]
use crate::fixtures::Suite;
use crate::ops::list;
use crate::verify::Computation;
use oxidax::optim::{
    AdafactorOptions, AdamOptions, AdamWOptions, ExponentialDecayOptions, FactoredRmsOptions,
    Interpolation, LambOptions, LionOptions, Mask, MuonOptions, Optimizer, RmsPropOptions,
    ScaleByMuonOptions, ScaleByRmsOptions, Schedule, SgdOptions, TrustRatioOptions,
    WarmupCosineDecay,
};
use oxidax::prelude::*;

const RATE: f64 = 0.05;

#[cfg(test)]
fn suite() -> Suite {
    Suite::load("optim")
}

fn optimizer(name: &str) -> Optimizer {
    let adamw = AdamWOptions::default;
    let matrices = || Mask::min_rank(2);
    match name {
        "sgd_cosine" => optim::sgd(optim::cosine_decay_schedule(0.1, 80, 0.1)),
        "momentum_bf16_trace" => {
            let accumulator_dtype = Some(DType::BF16);
            let options = SgdOptions { momentum: Some(0.9), nesterov: true, accumulator_dtype };
            optim::sgd_with(RATE, options)
        }
        "adam_eps_root" => {
            let adam = AdamOptions::default();
            let options = AdamOptions { b1: 0.8, b2: 0.95, eps: 1e-3, eps_root: 1e-4, ..adam };
            optim::adam_with(RATE, options)
        }
        "adamw_masked" => {
            let options = AdamWOptions { weight_decay: 0.1, mask: matrices(), ..adamw() };
            optim::adamw_with(RATE, options)
        }
        "adamw_bf16_mu" => {
            let options = AdamWOptions { mu_dtype: Some(DType::BF16), ..adamw() };
            optim::adamw_with(RATE, options)
        }
        "adamw_bf16" => {
            let mu_dtype = Some(DType::F32);
            optim::adamw_with(RATE, AdamWOptions { weight_decay: 0.01, mu_dtype, ..adamw() })
        }
        "adamw_wsd" => {
            optim::adamw_with(schedule("wsd"), AdamWOptions { weight_decay: 0.1, ..adamw() })
        }
        "nadam" => optim::nadam(RATE),
        "nadamw" => optim::nadamw(RATE),
        "adamax" => optim::adamax(RATE),
        "adabelief" => optim::adabelief(RATE),
        "radam" => optim::radam(RATE),
        "lion" => optim::lion(0.01),
        "lion_options" => {
            let (weight_decay, mask) = (0.1, matrices());
            let lion = LionOptions::default();
            optim::lion_with(0.01, LionOptions { b1: 0.95, b2: 0.98, weight_decay, mask, ..lion })
        }
        "lamb" => {
            optim::lamb_with(RATE, LambOptions { weight_decay: 0.01, ..LambOptions::default() })
        }
        "rmsprop" => optim::rmsprop(RATE),
        "rmsprop_centered" => {
            let rms = ScaleByRmsOptions::default();
            let rms = ScaleByRmsOptions { decay: 0.95, eps: 1e-4, centered: true, ..rms };
            let momentum = Some(0.9);
            optim::rmsprop_with(RATE, RmsPropOptions { rms, momentum, nesterov: true })
        }
        "rmsprop_bias" => {
            let rms = ScaleByRmsOptions {
                eps: 1e-6,
                initial_scale: 0.5,
                eps_in_sqrt: false,
                bias_correction: true,
                ..ScaleByRmsOptions::default()
            };
            let momentum = Some(0.5);
            optim::rmsprop_with(RATE, RmsPropOptions { rms, momentum, nesterov: false })
        }
        "adagrad" => optim::adagrad(RATE),
        "adafactor" => {
            let factored_rms =
                FactoredRmsOptions { min_dim_size_to_factor: 4, ..FactoredRmsOptions::default() };
            let options = AdafactorOptions { factored_rms, ..AdafactorOptions::default() };
            optim::adafactor_with(RATE, options)
        }
        "adafactor_whole" => optim::adafactor(RATE),
        "adafactor_options" => {
            let options = AdafactorOptions {
                factored_rms: FactoredRmsOptions {
                    min_dim_size_to_factor: 2,
                    decay_rate: 0.7,
                    ..FactoredRmsOptions::default()
                },
                multiply_by_parameter_scale: false,
                clipping_threshold: None,
                momentum: Some(0.9),
                weight_decay_rate: Some(1e-3),
                weight_decay_mask: matrices(),
                ..AdafactorOptions::default()
            };
            optim::adafactor_with(RATE, options)
        }
        "muon" => optim::muon(0.02),
        "muon_options" => {
            let scaling = ScaleByMuonOptions {
                nesterov: false,
                beta: 0.9,
                ns_steps: 4,
                ..ScaleByMuonOptions::default()
            };
            let options = MuonOptions {
                scaling,
                weight_decay: 0.1,
                adam_learning_rate: Some(RATE.into()),
                adam_weight_decay: 0.01,
                ..MuonOptions::default()
            };
            optim::muon_with(0.02, options)
        }
        "sign_sgd" => optim::sign_sgd(0.01),
        "ema" => optim::ema(0.9).chain(optim::scale(-RATE)),
        "clip" => optim::clip(0.5).chain(optim::sgd(RATE)),
        "clip_by_global_norm" => optim::clip_by_global_norm(1.0).chain(optim::sgd(RATE)),
        "clip_by_block_rms" => optim::clip_by_block_rms(0.7).chain(optim::sgd(RATE)),
        "adaptive_grad_clip" => optim::adaptive_grad_clip(0.3).chain(optim::sgd(RATE)),
        "trust_ratio" => {
            let options = TrustRatioOptions { min_norm: 0.01, trust_coefficient: 0.5, eps: 1e-3 };
            optim::scale_by_trust_ratio_with(options).chain(optim::sgd(RATE))
        }
        "masked" => {
            let frozen = optim::masked(optim::set_to_zero(), Mask::paths(["[1]"]));
            frozen.chain(optim::adam(RATE))
        }
        "partition" => optim::partition([
            ("w", Mask::paths(["[0]"]), optim::lion(0.01)),
            ("rest", Mask::all(), optim::adam(RATE)),
        ]),
        "multi_steps" => optim::multi_steps(optim::adamw(RATE), 4),
        "apply_if_finite" => optim::apply_if_finite(optim::adam(RATE), 3),
        "inject_hyperparams" => optim::adamw(optim::hyperparam("learning_rate", RATE)),
        "decay_schedule" => {
            let rate = optim::linear_schedule(0.1, 0.0, 50);
            optim::add_decayed_weights(rate).chain(optim::sgd(RATE))
        }
        "trained_adamw" => optim::adamw(0.02),
        "trained_momentum" => optim::momentum(RATE, 0.9),
        "trained_rmsprop" => {
            let rms = ScaleByRmsOptions { eps: 1e-3, ..ScaleByRmsOptions::default() };
            optim::rmsprop_with(0.01, RmsPropOptions { rms, ..RmsPropOptions::default() })
        }
        other => panic!("no optimizer for {other}"),
    }
}

fn schedule(name: &str) -> Schedule {
    let scales = || [(30, 0.1), (60, 3.0), (90, 0.5)];
    let ending_at =
        |end_value| ExponentialDecayOptions { end_value: Some(end_value), ..Default::default() };
    let warm = |init_value, peak_value, warmup_steps, decay_steps, end_value| WarmupCosineDecay {
        init_value,
        peak_value,
        warmup_steps,
        decay_steps,
        end_value,
        exponent: 1.0,
    };
    match name {
        "constant" => optim::constant_schedule(0.1),
        "linear" => optim::linear_schedule(0.1, 0.7, 60).delayed(20),
        "polynomial" => optim::polynomial_schedule(1.0, 0.1, 2.5, 80),
        "piecewise_constant" => optim::piecewise_constant_schedule(0.1, scales()),
        "piecewise_linear" => {
            optim::piecewise_interpolate_schedule(Interpolation::Linear, 0.1, scales())
        }
        "piecewise_cosine" => {
            optim::piecewise_interpolate_schedule(Interpolation::Cosine, 0.1, scales())
        }
        "exponential" => optim::exponential_decay(0.5, 20, 0.7),
        "exponential_stairs" => {
            let options = ExponentialDecayOptions {
                staircase: true,
                end_value: Some(0.2),
                ..Default::default()
            };
            optim::exponential_decay_with(0.5, 20, 0.7, options).delayed(15)
        }
        "exponential_up" => optim::exponential_decay_with(0.5, 20, 1.3, ending_at(0.9)),
        "cosine" => optim::cosine_decay_schedule(0.5, 90, 0.1),
        "warmup_constant" => optim::warmup_constant_schedule(0.01, 0.5, 30),
        "warmup_cosine" => optim::warmup_cosine_decay_schedule(0.01, 0.5, 20, 100, 0.05),
        "warmup_cosine_exponent" => {
            WarmupCosineDecay { exponent: 1.5, ..warm(0.0, 0.5, 20, 100, 0.05) }.schedule()
        }
        "warmup_exponential" => {
            optim::warmup_exponential_decay_schedule(0.01, 0.5, 20, 30, 0.6, ending_at(0.1))
        }
        "sgdr" => {
            optim::sgdr_schedule([warm(0.0, 0.3, 10, 40, 0.01), warm(0.0, 0.2, 10, 60, 0.01)])
        }
        "linear_onecycle" => optim::linear_onecycle_schedule(100, 0.5),
        "cosine_onecycle" => optim::cosine_onecycle_schedule(100, 0.5),
        "wsd" => optim::warmup_stable_decay_schedule(0.1, 10, 60, 30, 0.001),
        other => panic!("no schedule for {other}"),
    }
}

/// Returns row `at` of each array.
fn rows(arrays: &[Array], at: usize) -> Vec<Array> {
    arrays.iter().map(|x| x.index(i![at as isize])).collect()
}

fn stacked(rows: &[Array]) -> Array {
    let one = |x: &Array| x.reshape([&[1][..], x.shape()].concat());
    concatenate(rows.iter().map(one).collect::<Vec<_>>(), 0)
}

/// Returns the leaves after the recorded steps, and the last state.
fn run(case: Case<'_>) -> Result<(Vec<Array>, optim::State), String> {
    let optimizer = optimizer(case.op());
    let mut parameters: Vec<Array> = (0..3).map(|at| case.input(at)).collect();
    let gradients: Vec<Array> = (3..6).map(|at| case.input(at)).collect();
    let seen = list(case.param("seen"));
    let mut state = optimizer.init(&parameters);
    let step = jit(move |parameters: Vec<Array>, state: optim::State, gradients: Vec<Array>| {
        let (updates, state) = optimizer.update(&gradients, &state, &parameters);
        (optim::apply_updates(&parameters, &updates), state)
    });
    let mut history: Vec<Vec<Array>> = vec![Vec::new(); 3];
    for at in 0..case.integer("steps") as usize {
        if case.op() == "inject_hyperparams" && at == 50 {
            state.set_hyperparam("learning_rate", 0.005);
        }
        let gradients = rows(&gradients, at);
        (parameters, state) =
            step.call(&parameters, state, gradients).map_err(|error| error.to_string())?;
        if seen.contains(&(at + 1)) {
            for (leaf, value) in history.iter_mut().zip(&parameters) {
                leaf.push(value.clone());
            }
        }
    }
    assert_eq!(step.stats().compiles, 1, "the state keeps its types from the first step on");
    Ok((history.iter().map(|leaf| stacked(leaf)).collect(), state))
}

/// Returns the last parameters, and the loss before every step.
fn train(case: Case<'_>) -> Result<Vec<Array>, String> {
    let optimizer = optimizer(case.op());
    let mut parameters: Vec<Array> = (0..3).map(|at| case.input(at)).collect();
    let (x, y) = (case.input(3), case.input(4));
    let mut state = optimizer.init(&parameters);
    let step = jit(move |parameters: Vec<Array>, state: optim::State| {
        let loss = |parameters: &Vec<Array>| {
            let [w, b, s] = [&parameters[0], &parameters[1], &parameters[2]];
            let error = tanh(&(x.matmul(w) + b)) * s - &y;
            (&error * &error).mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&parameters);
        let (updates, state) = optimizer.update(&gradients, &state, &parameters);
        (optim::apply_updates(&parameters, &updates), state, loss)
    });
    let mut losses = Vec::new();
    for _ in 0..case.integer("steps") {
        let loss;
        (parameters, state, loss) =
            step.call(parameters, state).map_err(|error| error.to_string())?;
        losses.push(loss);
    }
    parameters.push(stacked(&losses));
    Ok(parameters)
}

/// Returns the values of a schedule at the recorded counts.
fn scheduled(case: Case<'_>) -> Result<Vec<Array>, String> {
    let schedule = schedule(case.op().trim_start_matches("schedule_"));
    Ok(vec![vmap(move |count: Array| schedule.value(&count)).apply(case.input(0))])
}

pub(crate) fn computation(op: &str) -> Computation {
    match op {
        _ if op.starts_with("trained_") => Computation::Alone(train),
        _ if op.starts_with("schedule_") => Computation::Alone(scheduled),
        _ => Computation::Alone(|case| Ok(run(case)?.0)),
    }
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    fn is_plain(op: &str) -> bool {
        !op.starts_with("trained_") && !op.starts_with("schedule_")
    }

    #[test]
    fn a_hundred_steps_match_optax() {
        suite().check(is_plain, |case| case.expect_outputs(&run(case)?.0));
    }

    #[test]
    fn training_with_a_loss_matches_optax() {
        suite().check(|op| op.starts_with("trained_"), |case| case.expect_outputs(&train(case)?));
    }

    #[test]
    fn schedules_match_optax() {
        suite()
            .check(|op| op.starts_with("schedule_"), |case| case.expect_outputs(&scheduled(case)?));
    }

    #[test]
    fn skipped_steps_are_counted() {
        suite().check_named("apply_if_finite", |case| {
            let (_, state) = run(case)?;
            let count = |name| state.value(name).unwrap().item::<i32>().unwrap();
            assert_eq!(count("total_notfinite"), 3);
            assert_eq!(count("notfinite_count"), 2);
            assert_eq!(count("inner.count"), 97);
            assert_eq!(state.count().item::<i32>().unwrap(), 100);
            Ok(())
        });
    }
}
