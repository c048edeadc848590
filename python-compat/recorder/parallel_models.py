"""Layers and training steps that are distributed over devices."""

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_table import P, case, grid, split

I = P("i")
RING = [(k, (k + 1) % 8) for k in range(8)]


def values(*operands, wrt=None, tolerance=None):
    """Registers a function as a case of this family."""
    return case("models", *operands, wrt=wrt, tolerance=tolerance)


def gradients(loss, *xs):
    """Returns a loss and its gradients by all operands."""
    value, grads = jax.value_and_grad(loss, tuple(range(len(xs))))(*xs)
    return [value, *grads]


@values("f32[8,3]", "f32[3,4]", "f32[4]", "f32[4,2]")
def mlp_with_spread_examples(x, w, b, v):
    """Data parallel: the loss is a mean over devices."""

    def each(x, w, b, v):
        return lax.pmean((jnp.tanh(x @ w + b) @ v**2).mean(), "i")

    loss = lambda w, b, v: split(each, (I, P(), P(), P()), P())(x, w, b, v)
    return gradients(loss, w, b, v)


@values("f32[2,3]", "f32[3,8]", "f32[8]", "f32[8,2]", wrt=(0, 1, 2, 3))
def mlp_with_spread_weights(x, w, b, v):
    """Tensor parallel: columns of the first layer, rows of the second."""
    each = lambda x, w, b, v: lax.psum(jnp.tanh(x @ w + b) @ v, "i")
    return [split(each, (P(), P(None, "i"), I, I), P())(x, w, b, v)]


@values("f32[4,3]", "f32[3,4]", "f32[4,2]")
def mlp_on_a_grid(x, w, v):
    """Splits examples along `a` and weights along `b`. The step is inside."""

    def each(x, w, v):
        loss = lambda w, v: lax.pmean((lax.psum(jnp.tanh(x @ w) @ v, "b") ** 2).mean(), "a")
        value, (dw, dv) = jax.value_and_grad(loss, (0, 1))(w, v)
        return value, w - 0.1 * dw, v - 0.1 * dv

    specs = (P("a"), P(None, "b"), P("b"))
    return list(split(each, specs, (P(), *specs[1:]), grid())(x, w, v))


@values("f32[8,4]", "f32[8,4]", "f32[4,8]")
def weights_gathered_where_they_are_used(x, w, v):
    """Stores weights in shards, gathers them for the step, and scatters their gradients."""

    def each(x, w, v):
        def loss(w, v):
            whole = lax.all_gather(w, "i", tiled=True), lax.all_gather(v, "i", axis=1, tiled=True)
            return ((jnp.tanh(x @ whole[0].T) @ whole[1].T) ** 2).mean()

        value, (dw, dv) = jax.value_and_grad(loss, (0, 1))(w, v)
        return lax.pmean(value, "i"), dw, dv

    return list(split(each, (I, I, P(None, "i")), (P(), I, P(None, "i")))(x, w, v))


@values("f32[8,3,2]")
def batch_norm_over_all(x):
    def each(x):
        mean = lax.pmean(x.mean(0), "i")
        variance = lax.pmean(((x - mean) ** 2).mean(0), "i")
        return ((x - mean) * lax.rsqrt(variance + 0.1)) ** 3

    return gradients(lambda x: split(each, I, I)(x).sum(), x)


@values("f32[2,8]", "f32[8]", wrt=(0, 1))
def layer_norm_of_spread_features(x, scale):
    def each(x, scale):
        mean = lax.pmean(x.mean(-1, keepdims=True), "i")
        variance = lax.pmean(((x - mean) ** 2).mean(-1, keepdims=True), "i")
        return (x - mean) * lax.rsqrt(variance + 1e-3) * scale

    return [split(each, (P(None, "i"), I), P(None, "i"))(x, scale)]


@values("f32[8,4]", "f32[4,3]", "f32[4,3]", "f32[4,3]", tolerance={"rtol": 5e-5, "atol": 1e-5})
def attention_with_gathered_keys(x, q, k, v):
    """Splits the positions. Every device gathers all keys and values."""

    def each(x, q, k, v):
        keys, gathered_values = (lax.all_gather(x @ w, "i", tiled=True) for w in (k, v))
        return jax.nn.softmax((x @ q) @ keys.T / 2.0) @ gathered_values

    loss = lambda q, k, v: (split(each, (I, P(), P(), P()), I)(x, q, k, v) ** 2).sum()
    return gradients(loss, q, k, v)


@values(
    "f32[3,4]",
    "f32[8,4,2]",
    "f32[8,4,2]",
    "f32[8,4,2]",
    "f32[8,2,4]",
    wrt=(0, 1, 4),
    tolerance={"rtol": 5e-5, "atol": 1e-5},
)
def attention_with_spread_heads(x, q, k, v, o):
    def each(x, q, k, v, o):
        weights = jax.nn.softmax((x @ q[0]) @ (x @ k[0]).T / 2.0)
        return lax.psum(weights @ (x @ v[0]) @ o[0], "i")

    return [split(each, (P(), I, I, I, I), P())(x, q, k, v, o)]


def ring_attention(q, k, v):
    """Passes keys and values around a ring. Sums are relative to the largest score so far."""

    def step(carry, _):
        k, v, maximum, total, out = carry
        scores = q @ k.T
        new = jnp.maximum(maximum, scores.max(1, keepdims=True))
        weights, shrink = jnp.exp(scores - new), jnp.exp(maximum - new)
        total, out = total * shrink + weights.sum(1, keepdims=True), out * shrink + weights @ v
        k, v = (lax.ppermute(y, "i", RING) for y in (k, v))
        return (k, v, new, total, out), None

    first = q[:, :1] * 0
    (_, _, _, total, out), _ = lax.scan(
        step, (k, v, first - 1e9, first, v[:1] * 0 + first), None, length=8
    )
    return out / total


@values("f32[8,2]", "f32[8,2]", "f32[8,3]", tolerance={"rtol": 5e-5, "atol": 1e-5})
def attention_around_a_ring(q, k, v):
    loss = lambda q, k, v: (split(ring_attention, (I, I, I), I)(q, k, v) ** 2).sum()
    return [split(ring_attention, (I, I, I), I)(q, k, v), *gradients(loss, q, k, v)]


@values("f32[8,2]", "f32[8,2]", "f32[8,3]", tolerance={"rtol": 5e-5, "atol": 1e-5})
def rematerialized_attention_around_a_ring(q, k, v):
    f = jax.checkpoint(ring_attention)
    loss = lambda q, k, v: (split(f, (I, I, I), I)(q, k, v) ** 2).sum()
    return gradients(loss, q, k, v)


@values("f32[8,16]", "f32[16,3]", "f32[16,3]")
def experts_on_devices(x, w, v):
    """Sends two numbers of each device's row to every other device, whose expert replies."""

    def each(x, w, v):
        received = lax.all_to_all(x.reshape(8, 2), "i", 0, 0)
        answered = lax.all_to_all(jnp.tanh(received @ w) @ v.T, "i", 0, 0)
        return answered.reshape(1, 16) * x

    loss = lambda w, v: (split(each, (I, I, I), I)(x, w, v) ** 2).sum()
    return gradients(loss, w, v)


@values("f32[16,3]", "i32[5]", wrt=(0,))
def table_in_parts(table, tokens):
    """Looks up tokens in a split table. Every device returns zeros for tokens of other shards."""

    def each(table, tokens):
        at = jnp.abs(tokens) % 16 - 2 * lax.axis_index("i")
        is_local = (at >= 0) & (at < 2)
        rows = jnp.where(is_local[:, None], table[jnp.where(is_local, at, 0)], 0)
        return lax.psum(rows, "i")

    return [split(each, (I, P()), P())(table, tokens)]


@values("f32[3,4]", "f32[4,16]", "i32[3]")
def cross_entropy_of_spread_classes(x, w, labels):
    def each(x, w, labels):
        logits = x @ w
        maximum = lax.pmax(lax.stop_gradient(logits).max(1), "i")
        normal = jnp.log(lax.psum(jnp.exp(logits - maximum[:, None]).sum(1), "i")) + maximum
        at = jnp.abs(labels) % 16 - 2 * lax.axis_index("i")
        chosen = lax.psum(jnp.where(at[:, None] == jnp.arange(2), logits, 0).sum(1), "i")
        return (normal - chosen).mean()

    return gradients(lambda x, w: split(each, (P(), P(None, "i"), P()), P())(x, w, labels), x, w)


@values("f32[4,2]", "f32[8,2,2]")
def pipeline(x, w):
    """Runs four examples through eight layers on eight devices.

    Each example starts one step after the previous one.
    """

    def each(x, w):
        rank = lax.axis_index("i")

        def step(carry, t):
            received = jnp.where(rank == 0, x[jnp.minimum(t, 3)], carry)
            out = jnp.tanh(received @ w[0] + received)
            return lax.ppermute(out, "i", RING), out

        _, outs = lax.scan(step, x[0] * 0 + w[0, 0] * 0, jnp.arange(11, dtype=jnp.int32))
        return lax.psum(jnp.where(rank == 7, outs[7:], 0), "i")

    run = split(each, (P(), I), P())
    return [run(x, w), *gradients(lambda x, w: (run(x, w) ** 2).sum(), x, w)]


@values("f32[16]", "f32[3]", wrt=(0, 1))
def convolution_with_halos(x, w):
    """Sends each device the edges of its neighbours."""

    def each(x, w):
        left = lax.ppermute(x[-1:], "i", RING)
        right = lax.ppermute(x[:1], "i", [(b, a) for a, b in RING])
        wide = jnp.concatenate([left, x, right])
        return sum(w[k] * wide[k : k + 2] for k in range(3))

    return [split(each, (I, P()), I)(x, w)]


@values("f32[16]", "f32[16]", wrt=(0, 1))
def recurrence_in_parts(a, b):
    """Computes `h' = a h + b` along all devices.

    Each device folds its shard and gathers the results of the shards before it.
    """

    def each(a, b):
        join = lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1])
        factors, sums = lax.associative_scan(join, (a, b))
        ends = [lax.all_gather(y[-1], "i") for y in (factors, sums)]
        rank = lax.axis_index("i")

        def fold(h, k):
            return jnp.where(k < rank, h * ends[0][k] + ends[1][k], h), None

        h, _ = lax.scan(fold, a[0] * 0, jnp.arange(8, dtype=jnp.int32))
        return factors * h + sums

    return [split(each, (I, I), I)(a, b)]


@values("f32[4]", "f32[8,4]", "f32[8]", tolerance={"rtol": 5e-5, "atol": 1e-5})
def ten_steps_of_momentum(w, x, y):
    def each(w, x, y):
        loss = lambda w: lax.pmean(((jnp.tanh(x @ w) - y) ** 2).mean(), "i")

        def step(carry, _):
            w, m = carry
            value, gradient = jax.value_and_grad(loss)(w)
            m = 0.9 * m + gradient
            return (w - 0.1 * m, m), value

        (w, _), losses = lax.scan(step, (w, w * 0), None, length=10)
        return w, losses

    return list(split(each, (P(), I, I), P())(w, x, y))


@values("bf16[8,4]", "f32[4,2]", tolerance={"rtol": 3e-2, "atol": 2e-2})
def mixed_precision_step(x, w):
    def each(x, w):
        loss = lambda w: lax.pmean(
            (jnp.tanh(x @ w.astype(jnp.bfloat16)).astype(jnp.float32) ** 2).mean(), "i"
        )
        value, gradient = jax.value_and_grad(loss)(w)
        return value, gradient

    return list(split(each, (I, P()), P())(x, w))
