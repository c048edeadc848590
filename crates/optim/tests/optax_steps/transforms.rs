//! Gradient transformations on their own, as `python-compat/recorder/optax_transforms.py` has them.

use super::{RATE, linear};
use oxidax::optim::{
    self, AdabeliefOptions, FactoredRmsOptions, LionMode, Mask, MultiStepsOptions,
    OptimisticAdamOptions, OptimisticGradientOptions, Optimizer, PolyakOptions, RadamOptions,
    ScaleByAdanOptions, ScaleByLbfgsOptions, ScaleByLionOptions, ScaleByRmsOptions,
    StatefulSchedule, UpdateArgs,
};
use oxidax::prelude::*;
use oxidax_optim as contrib;
use oxidax_optim::{
    ScaleByAcpropOptions, ScaleByAdemamixOptions, ScaleByGaloreOptions,
    ScaleBySimplifiedAdemamixOptions, ScaleBySophiaOptions, SophiaOptions,
};

/// Makes updates above a limit NaN.
fn marked(limit: f64) -> Optimizer {
    optim::stateless(move |_, update, _| where_(gt(update, limit), f64::NAN, update))
}

/// A schedule with its number of steps as the state.
struct Counted;

impl StatefulSchedule for Counted {
    type State = Array;

    fn init(&self) -> Array {
        scalar(0)
    }

    fn value(&self, count: &Array, _: &UpdateArgs<'_>) -> Array {
        linear().value(count)
    }

    fn update(&self, count: Array, _: &UpdateArgs<'_>) -> Array {
        count + 1
    }
}

fn scaled(name: &str) -> Option<Optimizer> {
    Some(match name {
        "scale_by_adadelta" => optim::scale_by_adadelta(),
        "scale_by_adamax" => optim::scale_by_adamax(),
        "scale_by_adan" => {
            optim::scale_by_adan_with(ScaleByAdanOptions { b2: 0.9, ..Default::default() })
        }
        "scale_by_amsgrad" => optim::scale_by_amsgrad(),
        "scale_by_belief" => optim::scale_by_belief(),
        "scale_by_factored_rms" => {
            let options = FactoredRmsOptions { min_dim_size_to_factor: 2, ..Default::default() };
            optim::scale_by_factored_rms_with(options)
        }
        "scale_by_factored_rms_whole" => {
            let options = FactoredRmsOptions { factored: false, ..Default::default() };
            optim::scale_by_factored_rms_with(options)
        }
        "scale_by_lbfgs" => {
            let options = ScaleByLbfgsOptions { memory_size: 4, scale_init_precond: false };
            optim::scale_by_lbfgs_with(options)
        }
        "scale_by_lion" => optim::scale_by_lion(),
        "scale_by_novograd" => optim::scale_by_novograd(),
        "scale_by_optimistic_gradient" => {
            let options = OptimisticGradientOptions { alpha: 0.9, beta: 0.8 };
            optim::scale_by_optimistic_gradient_with(options)
        }
        "scale_by_param_block_rms" => optim::scale_by_param_block_rms(1e-3),
        "scale_by_radam" => optim::scale_by_radam(),
        "scale_by_radam_nesterov" => {
            let options = RadamOptions { eps_root: 1e-3, nesterov: true, ..Default::default() };
            optim::scale_by_radam_with(options)
        }
        "scale_by_belief_nesterov" => {
            let options = AdabeliefOptions { nesterov: true, ..AdabeliefOptions::default() };
            optim::scale_by_belief_with(options)
        }
        "scale_by_lion_smooth" | "scale_by_lion_refined" => {
            let is_smooth = name == "scale_by_lion_smooth";
            let mode = if is_smooth { LionMode::Smooth(1.5) } else { LionMode::Refined };
            optim::scale_by_lion_with(ScaleByLionOptions { mode, ..Default::default() })
        }
        "scale_by_rms" => optim::scale_by_rms_with(ScaleByRmsOptions {
            initial_scale: 0.1,
            bias_correction: true,
            ..Default::default()
        }),
        "scale_by_rms_outside" => {
            let options = ScaleByRmsOptions { eps_in_sqrt: false, ..Default::default() };
            optim::scale_by_rms_with(options)
        }
        "scale_by_rss" => optim::scale_by_rss(),
        "scale_by_sign" => optim::scale_by_sign(),
        "scale_by_stddev" => optim::scale_by_rms_with(ScaleByRmsOptions {
            initial_scale: 0.1,
            centered: true,
            ..Default::default()
        }),
        "scale_by_yogi" => optim::scale_by_yogi(),
        "scale_by_muon" => optim::masked(optim::scale_by_muon(), Mask::min_rank(2)),
        "scale_by_acprop" => {
            let options = ScaleByAcpropOptions { eps: 1e-6, eps_root: 1e-6, ..Default::default() };
            contrib::scale_by_acprop_with(options)
        }
        "scale_by_ademamix" => {
            let options = ScaleByAdemamixOptions { alpha: 3.0.into(), ..Default::default() };
            contrib::scale_by_ademamix_with(options)
        }
        "scale_by_adopt" => contrib::scale_by_adopt(),
        "scale_by_galore" => {
            let options = ScaleByGaloreOptions { rank: 2, ..Default::default() };
            contrib::scale_by_galore_with(options)
        }
        "scale_by_simplified_ademamix" => {
            let options =
                ScaleBySimplifiedAdemamixOptions { alpha: 2.0.into(), ..Default::default() };
            contrib::scale_by_simplified_ademamix_with(options)
        }
        "add_noise" => optim::add_noise(0.1, 0.6, random::key(3)),
        "zero_nans" => marked(1.5).chain(optim::zero_nans()),
        "stateless_with_tree_map" => optim::stateless(|_, update, weight| update + weight * 0.1),
        _ => return None,
    })
}

/// Returns the transformation of a case, with its learning rate.
pub(crate) fn transform(name: &str) -> Optimizer {
    if let Some(scale) = scaled(name) {
        return scale.chain(optim::scale_by_learning_rate(RATE));
    }
    let descent = || optim::scale(-1.0);
    match name {
        "scale_by_schedule" => optim::scale(linear()).chain(descent()),
        "scale_by_rprop" => optim::scale_by_rprop(0.01).chain(descent()),
        "scale_by_cocob" => contrib::scale_by_cocob(),
        "scale_by_madgrad" => contrib::scale_by_madgrad(0.05),
        // Version 1 has the rate in the factors: beta is its `optimism` over the rate.
        "optimistic_adam_v1" => {
            let optimistic = OptimisticGradientOptions { alpha: 1.0, beta: 0.03 / RATE };
            let options = OptimisticAdamOptions { optimistic, ..OptimisticAdamOptions::default() };
            optim::optimistic_adam_with(RATE, options)
        }
        "skip_not_finite" => {
            let should_skip = Some(optim::skip_not_finite());
            let options = MultiStepsOptions { should_skip, ..MultiStepsOptions::default() };
            marked(1.9).chain(optim::multi_steps_with(optim::adam(RATE), 2.0, options))
        }
        "multi_transform" => optim::partition([
            ("matrix", Mask::min_rank(2), optim::adam(RATE)),
            ("vector", Mask::min_rank(2).not(), optim::sgd(RATE)),
        ]),
        "inject_stateful_hyperparams" => {
            optim::inject_stateful_hyperparams("learning_rate", Counted, optim::sgd)
        }
        "inject_hyperparams_schedule" => {
            optim::inject_stateful_hyperparams("learning_rate", linear(), optim::adam)
        }
        "schedule_free" => {
            let adam = optim::adam_with(RATE, optim::AdamOptions { b1: 0.0, ..Default::default() });
            contrib::schedule_free(adam, RATE)
        }
        "scale_by_polyak" => {
            let options =
                PolyakOptions { f_min: 0.05, max_learning_rate: 0.4, ..Default::default() };
            optim::scale_by_polyak_with(options).chain(descent())
        }
        "hutchinson" => {
            contrib::hutchinson_estimator_diag_hessian(random::key(5)).chain(optim::scale(-0.1))
        }
        "sophia" | "sophia_rough" => {
            let scaling = ScaleBySophiaOptions {
                update_interval: 3,
                gamma: if name == "sophia" { 1.0 } else { 0.01 },
                hessian_diagonal: contrib::hutchinson_estimator_diag_hessian(random::key(5)),
                ..Default::default()
            };
            let options = SophiaOptions { scaling, weight_decay: 0.01, ..Default::default() };
            contrib::sophia_with(RATE, options)
        }
        other => panic!("no optimizer for {other}"),
    }
}
