"""Functions of Optax: numerics, moments, clipping, assignments, second-order products and trees.

Random functions take key data as their last operand.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib, perturbations, second_order

from .api_table import I, R, Row, V, record
from .suite import Suite

_FLOATS = ("f32", "bf16")
_SLACK = {"rtol": 1e-4, "atol": 1e-5}
_KEY = V([0, 42])


def _key(data):
    return jax.random.wrap_key_data(data.astype(jnp.uint32))


def _positive(a):
    return a @ a.T + jnp.eye(a.shape[0], dtype=a.dtype)


def _with_gradient(function):
    """Returns the value and the gradient, for functions without a forward derivative."""

    def run(x, ct):
        value, pullback = jax.vjp(function, x)
        return value, *pullback(ct)

    return run


NUMERICS = [
    Row("global_norm", [R((3, 4)), R((4,))], lambda a, b: optax.global_norm([a, b]), (0, 1)),
    Row("safe_norm", [R((4,))], lambda x: optax.safe_norm(x, 0.5), (0,), _FLOATS),
    Row("safe_norm_of_zeros", [V([0.0, 0.0, 0.0])], lambda x: optax.safe_norm(x, 0.5), (0,)),
    Row("safe_root_mean_squares", [R((4,))], lambda x: optax.safe_root_mean_squares(x, 0.25), (0,),
        _FLOATS),
    Row("safe_root_mean_squares_of_zeros", [V([0.0, 0.0])],
        lambda x: optax.safe_root_mean_squares(x, 0.25), (0,)),
    Row("safe_increment", [V(7)], optax.safe_increment, exact=True),
    Row("safe_increment_at_the_end", [V(2**31 - 1)], optax.safe_increment, exact=True),
    Row("scale_gradient", [R((4,)), R((4,))],
        _with_gradient(lambda x: optax.scale_gradient(x, 0.3)), kinds=_FLOATS),
    Row("incremental_update", [R((3,)), R((3,))],
        lambda new, old: optax.incremental_update(new, old, 0.3), (0, 1), _FLOATS),
    Row("periodic_update", [R((3,)), R((3,)), V(6)],
        lambda new, old, step: optax.periodic_update(new, old, step, 3), (0, 1), _FLOATS),
    Row("periodic_update_between", [R((3,)), R((3,)), V(7)],
        lambda new, old, step: optax.periodic_update(new, old, step, 3)),
    Row("update_moment", [R((3,)), R((3,))],
        lambda g, m: optax.tree.update_moment(g, m, 0.9, 2), (0, 1), _FLOATS),
    Row("update_moment_per_elem_norm", [R((3,)), R((3,))],
        lambda g, m: optax.tree.update_moment_per_elem_norm(g, m, 0.9, 2), (0, 1), _FLOATS),
    Row("update_infinity_moment", [R((3,)), R((3,), 0, 1)],
        lambda g, m: optax.tree.update_infinity_moment(g, m, 0.9, 1e-8), (0, 1), _FLOATS),
    Row("bias_correction", [R((3,)), V(3)],
        lambda m, count: optax.tree.bias_correction(m, 0.9, count), (0,), _FLOATS),
    Row("projection_box", [R((6,)), R((6,), -1, 0), R((6,), 0, 1)],
        optax.projections.projection_box, (0, 1, 2), _FLOATS),
    Row("convex_kl_divergence", [R((2, 4)), R((2, 4), 0.1, 1)],
        optax.losses.convex_kl_divergence, (0, 1), _FLOATS),
]  # fmt: skip


def _ctc(logits):
    paddings = jnp.zeros((2, 6), logits.dtype).at[1, 4:].set(1)
    labels = jnp.array([[1, 2, 2], [3, 1, 0]], jnp.int32)
    label_paddings = jnp.zeros((2, 3), logits.dtype).at[1, 2].set(1)
    return optax.losses.ctc_loss_with_forward_probs(logits, paddings, labels, label_paddings)


def _matrix_power(a, v):
    value, vector = optax.power_iteration(
        _positive(a), v0=v, num_iters=60, error_tolerance=0.0
    )
    return value, vector


def _by_row(rows, columns):
    order = jnp.argsort(rows)
    return rows[order].astype(jnp.int32), columns[order].astype(jnp.int32)


LINEAR = [
    Row("matrix_inverse_pth_root", [R((4, 4))],
        lambda a: optax.matrix_inverse_pth_root(_positive(a), 4)[0], tolerance=_SLACK, batch=False),
    Row("power_iteration", [R((4, 4)), R((4,), 0.5, 1)], _matrix_power, tolerance=_SLACK,
        batch=False),
    Row("nnls", [R((6, 4)), R((6,))], lambda a, b: optax.nnls(a, b, 300), tolerance=_SLACK,
        batch=False),
    Row("multi_normal_log_prob", [R((3,)), R((3,), -1, 1), R((5, 3))],
        lambda m, s, x: optax.multi_normal(m, s).log_prob(x), (0, 1, 2)),
    Row("multi_normal_sample", [R((3,)), R((3,), -1, 1), _KEY],
        lambda m, s, key: optax.multi_normal(m, s).sample((4,), _key(key)), (0, 1), batch=False),
    Row("ctc_forward", [R((2, 6, 4))], lambda x: tuple(_ctc(x)), tolerance=_SLACK, batch=False),
] + [
    Row(f"{name}_{label}", [R(shape, 0, 9)],
        lambda x, name=name: _by_row(*getattr(optax.assignment, name)(x)), batch=False, exact=True)
    for name in ("hungarian_algorithm", "base_hungarian_algorithm")
    for label, shape in (("square", (4, 4)), ("wide", (3, 6)), ("tall", (6, 4)))
]  # fmt: skip


def _flat(tree):
    return tuple(jax.tree.leaves(tree))


def _private(a, b):
    aggregate = contrib.differentially_private_aggregate(1.5, 0.0, key=0)
    updates, _ = aggregate.update([a, b], aggregate.init([a[0], b[0]]))
    return _flat(updates)


def _private_descent(a, b):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = contrib.dpsgd(0.1, 1.5, 0.0, seed=0, momentum=0.9)
    state = optimizer.init([a[0], b[0]])
    _, state = optimizer.update([a, b], state)
    return _flat(optimizer.update([b[..., None] * a, b], state)[0])


_EXAMPLES = [R((5, 2, 3)), R((5, 1))]
EXAMPLES = [
    Row("per_example_global_norm_clip", _EXAMPLES,
        lambda a, b: _flat(optax.per_example_global_norm_clip([a, b], 1.5)), batch=False),
    Row("per_example_layer_norm_clip", _EXAMPLES,
        lambda a, b: _flat(optax.per_example_layer_norm_clip([a, b], 1.5)), batch=False),
    Row("per_example_layer_norm_clip_by_size", _EXAMPLES,
        lambda a, b: _flat(optax.per_example_layer_norm_clip([a, b], 1.5, uniform=False)),
        batch=False),
    Row("differentially_private_aggregate", _EXAMPLES, _private, batch=False),
    Row("dpsgd", _EXAMPLES, _private_descent, batch=False),
    Row("microbatch", [R((6, 3))],
        lambda x: optax.microbatch(lambda x: jnp.sin(x).sum(0), 0, 2)(x), batch=False),
]  # fmt: skip


def _squares(params, inputs, targets):
    return jnp.mean((jnp.tanh(inputs @ params) - targets) ** 2)


def _perturbed(noise, **options):
    hard = lambda x: jax.nn.one_hot(jnp.argmax(x), 4, dtype=x.dtype)
    soft = perturbations.make_perturbed_fun(hard, 50, 0.5, noise, **options)

    def run(x, ct, key):
        value, pullback = jax.vjp(lambda x: soft(_key(key), x), x)
        return value, *pullback(ct)

    return run


SECOND_ORDER = [
    Row("hvp", [R((3, 2)), R((6,)), R((5, 3)), R((5, 2))],
        lambda p, v, x, y: second_order.hvp(_squares, v, p, x, y).ravel(), batch=False),
    Row("hessian_diag", [R((3, 2)), R((5, 3)), R((5, 2))],
        lambda p, x, y: second_order.hessian_diag(_squares, p, x, y), batch=False),
    Row("fisher_diag", [R((3, 2)), R((5, 3)), R((5, 2))],
        lambda p, x, y: second_order.fisher_diag(_squares, p, x, y), batch=False),
    Row("perturbed_gumbel", [R((4,)), R((4,)), _KEY], _perturbed(perturbations.Gumbel()),
        tolerance=_SLACK, batch=False),
    Row("perturbed_normal", [R((4,)), R((4,)), _KEY], _perturbed(perturbations.Normal()),
        tolerance=_SLACK, batch=False),
]  # fmt: skip


def _eval_params(a):
    optimizer = contrib.schedule_free(optax.sgd(0.1), 0.1)
    params, state = a[0], optimizer.init(a[0])
    for row in a[1:]:
        updates, state = optimizer.update(row, state, params)
        params = optax.apply_updates(params, updates)
    return params, contrib.schedule_free_eval_params(state, params)


def _complex_steps(a, b):
    optimizer = contrib.split_real_and_imaginary(optax.adam(0.1))
    params = a[0] + 1j * b[0]
    state = optimizer.init(params)
    for row in a + 1j * b:
        updates, state = optimizer.update(row, state, params)
        params = optax.apply_updates(params, updates)
    return params


def _stored_gradient(x):
    function = lambda x: jnp.sum((x - 1) ** 2 * (x + 2))
    optimizer = optax.chain(
        optax.sgd(0.1), optax.scale_by_backtracking_linesearch(15, store_grad=True)
    )
    state = optimizer.init(x)
    value, gradient = optax.value_and_grad_from_state(function)(x, state=state)
    updates, state = optimizer.update(
        gradient, state, x, value=value, grad=gradient, value_fn=function
    )
    x = optax.apply_updates(x, updates)
    return x, *optax.value_and_grad_from_state(function)(x, state=state)


def _random_like(a, b, key):
    return _flat(optax.tree.random_like(_key(key), [a, b]))


def _split_key_like(a, b, key):
    keys = optax.tree.split_key_like(_key(key), [a, b])
    data = [optax.tree.unwrap_random_key_data(key) for key in keys]
    return tuple(x.astype(jnp.uint32) for x in data)


STATES = [
    Row("schedule_free_eval_params", [R((4, 3))], _eval_params, batch=False),
    Row("split_real_and_imaginary", [R((4, 3)), R((4, 3))], _complex_steps, batch=False),
    Row("value_and_grad_from_state", [R((3,), -1, 1)], _stored_gradient, batch=False),
    Row("random_like", [R((2, 3)), R((4,)), _KEY], _random_like, batch=False),
    Row("split_key_like", [R((2, 3)), R((4,)), _KEY], _split_key_like, batch=False, exact=True),
    Row("cast", [R((3,))], lambda x: optax.tree.cast([x], jnp.bfloat16)[0], (0,), exact=True),
    Row("cast_like", [R((3,)), I((3,))], lambda x, i: optax.tree.cast_like([x], [i])[0],
        exact=True),
    Row("batch_shape", [R((3,))], lambda x: optax.tree.batch_shape([x], (2,))[0], (0,),
        exact=True),
]  # fmt: skip


def _muon(x, **options):
    """Returns the second step of Muon, for gradients x and 2 x."""
    muon = contrib.scale_by_muon(**options)
    _, state = muon.update([x], muon.init([x]))
    return muon.update([x * 2 + 0.1], state)[0][0]


def _muon_all(x, bias):
    dimensions = [contrib.MuonDimensionNumbers((0, 1), 2), None]
    muon = contrib.muon(
        0.1, weight_decay=0.2, weight_decay_mask=[False, True], adam_eps_root=0.1,
        consistent_rms=0.2, muon_weight_dimension_numbers=dimensions,
    )  # fmt: skip
    params = [x, bias]
    _, state = muon.update(params, muon.init(params), params)
    return tuple(muon.update([x * 2 + 0.1, bias], state, params)[0])


def _axes(reduction, output):
    return [contrib.MuonDimensionNumbers(reduction, output)]


_STEPS = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037))
_MATRIX = _axes(0, 1)
_COUNTS = V([0, 1, 7, 20, 29, 30, 31, 50, 71, 99, 100, 120])


def _curve(name, schedule):
    run = lambda counts: jax.vmap(lambda count: jnp.asarray(schedule(count), jnp.float32))(counts)
    return Row(name, [_COUNTS], run, batch=False)


def _clip(axis):
    clip = optax.adaptive_grad_clip(0.3, 1e-3, axis=axis)
    return lambda g, p: clip.update([g], clip.init([p]), [p])[0][0]


def _factored(g, p):
    scale = optax.scale_by_factored_rms(min_dim_size_to_factor=2, step_offset=-5)
    params = [p]
    _, state = scale.update([g], scale.init(params), params)
    return scale.update([g * 2], state, params)[0][0]


OPTIONS = [
    Row("muon_adaptive", [R((3, 4))],
        lambda x: _muon(x, adaptive=True, weight_dimension_numbers=_MATRIX), batch=False),
    Row("muon_spectral", [R((5, 3))],
        lambda x: _muon(x, preconditioning="spectral", weight_dimension_numbers=_MATRIX),
        batch=False),
    Row("muon_aol", [R((3, 4))],
        lambda x: _muon(x, preconditioning="aol", weight_dimension_numbers=_MATRIX), batch=False),
    Row("muon_schatten", [R((4, 3))],
        lambda x: _muon(x, preconditioning="schatten", weight_dimension_numbers=_MATRIX),
        batch=False),
    Row("muon_coefficients", [R((3, 4))],
        lambda x: _muon(x, ns_coeffs=_STEPS, ns_steps=3, weight_dimension_numbers=_MATRIX),
        batch=False),
    Row("muon_heads", [R((4, 2, 3))],
        lambda x: _muon(x, weight_dimension_numbers=_axes(0, (1, 2))), batch=False),
    Row("muon_batch", [R((2, 3, 4))],
        lambda x: _muon(x, weight_dimension_numbers=_axes(2, 1)), batch=False),
    Row("muon_batch_aol", [R((3, 2, 4))],
        lambda x: _muon(x, preconditioning="aol", weight_dimension_numbers=_axes(0, -1)),
        batch=False),
    Row("muon_all", [R((2, 2, 3)), R((3,))], _muon_all, batch=False),
    _curve("cosine_exponent", optax.cosine_decay_schedule(0.5, 90, 0.1, 1.5)),
    _curve("linear_onecycle_options", optax.linear_onecycle_schedule(100, 0.5, 0.2, 0.7, 10, 50)),
    _curve("cosine_onecycle_options", optax.cosine_onecycle_schedule(100, 0.5, 0.2, 10, 50)),
    _curve("exponential_begin", optax.exponential_decay(0.5, 20, 0.7, transition_begin=30,
                                                        end_value=0.2)),
    _curve("warmup_exponential_begin", optax.warmup_exponential_decay_schedule(
        0.1, 0.5, 10, 20, 0.7, transition_begin=20, staircase=True)),
    Row("adaptive_grad_clip_axis", [R((3, 4)), R((3, 4))], _clip(1), batch=False),
    Row("adaptive_grad_clip_axes", [R((3, 2, 4)), R((3, 2, 4))], _clip((0, 2)), batch=False),
    Row("factored_rms_offset", [R((3, 4)), R((3, 4))], _factored, batch=False),
    Row("safe_norm_axis", [R((3, 4))],
        lambda x: optax.safe_norm(x, 2.0, axis=-1, keepdims=True), (0,), _FLOATS),
    Row("safe_norm_ord", [R((3, 4))], lambda x: optax.safe_norm(x, 1.0, ord=1, axis=0), (0,)),
    Row("smooth_labels_axis", [R((3, 4), 0, 1)],
        lambda x: optax.smooth_labels(x, 0.3, axis=0), (0,), _FLOATS),
    Row("smooth_labels_where", [R((3, 4), 0, 1), R((3, 4))],
        lambda x, w: optax.smooth_labels(x, 0.3, where=w > 0), (0,)),
    Row("global_norm_mixed", [R((3, 4)), R((4,))],
        lambda a, b: optax.global_norm([a, b.astype(jnp.float32)]), kinds=("bf16",),
        tolerance={"rtol": 1e-2, "atol": 1e-2}),
    Row("global_norm_of_one", [R((3, 4))], lambda a: optax.global_norm([a]), (0,), _FLOATS),
]  # fmt: skip


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1.6e-2, "atol": 1e-2},
        "f32": {"rtol": 1e-5, "atol": 2e-6},
        "c64": {"rtol": 1e-5, "atol": 2e-6},
    }
    suite = Suite("optax_functions", __doc__.strip(), stride=stride, tolerance=tolerance)
    with warnings.catch_warnings(), jax.enable_x64(False):
        warnings.simplefilter("ignore")
        for family, rows in (
            ("numerics", NUMERICS),
            ("linear", LINEAR),
            ("examples", EXAMPLES),
            ("second_order", SECOND_ORDER),
            ("states", STATES),
            ("options", OPTIONS),
        ):
            record(suite, family, rows)
    return suite
