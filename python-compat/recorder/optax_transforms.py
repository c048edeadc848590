"""Optax's gradient transformations on their own: cases of `optax_steps.py`."""

import jax
import jax.numpy as jnp
import optax
from optax import contrib

RATE = 0.05


def _marked(limit):
    """Returns a transformation that makes large updates NaN."""
    return optax.stateless(
        lambda updates, params: jax.tree.map(lambda u: jnp.where(u > limit, jnp.nan, u), updates)
    )


def _matrices(params):
    return jax.tree.map(lambda p: p.ndim >= 2, params)


def _dimensions(updates):
    return jax.tree.map(lambda _: contrib.MuonDimensionNumbers(), updates)


def transforms():
    """Returns the transformations that take gradients only, each with a learning rate."""
    scales = {
        "scale_by_adadelta": optax.scale_by_adadelta(),
        "scale_by_adamax": optax.scale_by_adamax(),
        "scale_by_adan": optax.scale_by_adan(b2=0.9),
        "scale_by_amsgrad": optax.scale_by_amsgrad(),
        "scale_by_belief": optax.scale_by_belief(),
        "scale_by_factored_rms": optax.scale_by_factored_rms(min_dim_size_to_factor=2),
        "scale_by_factored_rms_whole": optax.scale_by_factored_rms(factored=False),
        "scale_by_lbfgs": optax.scale_by_lbfgs(4, scale_init_precond=False),
        "scale_by_lion": optax.scale_by_lion(),
        "scale_by_novograd": optax.scale_by_novograd(),
        "scale_by_optimistic_gradient": optax.scale_by_optimistic_gradient(0.9, 0.8),
        "scale_by_param_block_rms": optax.scale_by_param_block_rms(),
        "scale_by_radam": optax.scale_by_radam(),
        "scale_by_radam_nesterov": optax.scale_by_radam(eps_root=1e-3, nesterov=True),
        "scale_by_belief_nesterov": optax.scale_by_belief(nesterov=True),
        "scale_by_lion_smooth": optax.scale_by_lion(mode="smooth", smooth_beta=1.5),
        "scale_by_lion_refined": optax.scale_by_lion(mode="refined"),
        "scale_by_rms": optax.scale_by_rms(initial_scale=0.1, bias_correction=True),
        "scale_by_rms_outside": optax.scale_by_rms(eps_in_sqrt=False),
        "scale_by_rss": optax.scale_by_rss(),
        "scale_by_sign": optax.scale_by_sign(),
        "scale_by_stddev": optax.scale_by_stddev(initial_scale=0.1),
        "scale_by_yogi": optax.scale_by_yogi(),
        "scale_by_muon": optax.masked(
            contrib.scale_by_muon(weight_dimension_numbers=_dimensions), _matrices
        ),
        "scale_by_acprop": contrib.scale_by_acprop(eps=1e-6, eps_root=1e-6),
        "scale_by_ademamix": contrib.scale_by_ademamix(alpha=3.0),
        "scale_by_adopt": contrib.scale_by_adopt(),
        "scale_by_galore": contrib.scale_by_galore(rank=2),
        "scale_by_simplified_ademamix": contrib.scale_by_simplified_ademamix(alpha=2.0),
        "add_noise": optax.add_noise(0.1, 0.6, key=jax.random.key(3)),
        "zero_nans": optax.chain(_marked(1.5), optax.zero_nans()),
        "stateless_with_tree_map": optax.stateless_with_tree_map(lambda u, p: u + 0.1 * p),
    }
    chained = {
        name: optax.chain(scale, optax.scale_by_learning_rate(RATE))
        for name, scale in scales.items()
    }
    linear = optax.linear_schedule(0.1, 0.01, 80)

    class Counted:
        def init(self):
            return jnp.zeros([], jnp.int32)

        def __call__(self, count, **extra):
            return linear(count)

        def update(self, count, **extra):
            return count + 1

    return chained | {
        "optimistic_adam_v1": optax.optimistic_adam(RATE, optimism=0.03),
        "inject_stateful_hyperparams": optax.inject_stateful_hyperparams(optax.sgd)(
            learning_rate=Counted()
        ),
        "inject_hyperparams_schedule": optax.inject_hyperparams(optax.adam)(learning_rate=linear),
        "scale_by_schedule": optax.chain(optax.scale_by_schedule(linear), optax.scale(-1.0)),
        "scale_by_rprop": optax.chain(optax.scale_by_rprop(0.01), optax.scale(-1.0)),
        # These scales have the rate in them.
        "scale_by_cocob": contrib.scale_by_cocob(),
        "scale_by_madgrad": contrib.scale_by_madgrad(0.05),
        "skip_not_finite": optax.chain(
            _marked(1.9),
            optax.MultiSteps(
                optax.adam(RATE), 2, should_skip_update_fn=optax.skip_not_finite
            ).gradient_transformation(),
        ),
        "multi_transform": optax.multi_transform(
            {"matrix": optax.adam(RATE), "vector": optax.sgd(RATE)}, ["matrix", "vector"]
        ),
        "schedule_free": contrib.schedule_free(optax.adam(RATE, b1=0.0), RATE),
    }


def _sophia(gamma):
    estimator = contrib.hutchinson_estimator_diag_hessian(jax.random.key(5))
    return contrib.sophia(RATE, weight_decay=0.01, gamma=gamma, update_interval=3,
                          hessian_diagonal_fn=estimator)  # fmt: skip


def trained_transforms():
    """Returns the transformations that take the value or the loss itself."""
    return {
        "scale_by_polyak": optax.chain(
            optax.scale_by_polyak(f_min=0.05, max_learning_rate=0.4), optax.scale(-1.0)
        ),
        # Estimates of the Hessian's diagonal, with the key.
        "hutchinson": optax.chain(
            contrib.hutchinson_estimator_diag_hessian(jax.random.key(5)), optax.scale(-0.1)
        ),
        "sophia": _sophia(1.0),
        "sophia_rough": _sophia(0.01),
    }
