"""Models and steps written as JAX users write them, for the tests of `oxidax port`."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


def mlp_params(normal):
    """Weights of two layers."""
    return {"hidden": {"w": normal(4, 8), "b": normal(8)},
            "out": {"w": normal(8, 3), "b": normal(3)}}


def linear(p, x):
    return x @ p["w"] + p["b"]


def mlp(params, x):
    """Returns the logits of a network with one hidden layer."""
    h = jax.nn.gelu(linear(params["hidden"], x))
    return linear(params["out"], h)


def cross_entropy(logits, labels):
    """Returns the mean cross entropy of integer labels."""
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    picked = jnp.take_along_axis(log_probs, labels[:, None], axis=-1)
    return -jnp.mean(picked)


def mlp_loss(params, x, labels):
    """Returns the loss of the network, with weight decay."""
    logits = mlp(params, x)
    decay = sum(jnp.sum(w ** 2) for w in jax.tree_util.tree_leaves(params))
    return cross_entropy(logits, labels) + 1e-3 * decay


def train_step(params, velocity, x, labels):
    """Takes one step of gradient descent with momentum."""
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, labels)
    velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree_util.tree_map(lambda p, v: p - 0.1 * v, params, velocity)
    return params, velocity, loss


def block_params(normal):
    """Weights of one GPT-2 block of 8 features."""
    vector = lambda: 1.0 + 0.5 * small(8)
    small = lambda *shape: 0.2 * normal(*shape)
    return {"ln_1": {"scale": vector(), "bias": small(8)},
            "attn": {"qkv": {"w": small(8, 24), "b": small(24)},
                     "proj": {"w": small(8, 8), "b": small(8)}},
            "ln_2": {"scale": vector(), "bias": small(8)},
            "mlp": {"fc": {"w": small(8, 32), "b": small(32)},
                    "proj": {"w": small(32, 8), "b": small(8)}}}


def layer_norm(p, x, eps=1e-5):
    """Normalizes the last axis."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + eps) * p["scale"] + p["bias"]


def self_attention(p, x, n_head):
    """Causal self-attention with `n_head` heads."""
    b, t, c = x.shape
    q, k, v = jnp.split(linear(p["qkv"], x), 3, axis=-1)
    q, k, v = (y.reshape(b, t, n_head, c // n_head) for y in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(c // n_head)
    mask = jnp.tril(jnp.ones((t, t), dtype=bool))
    scores = jnp.where(mask, scores, -1e10)
    weights = jax.nn.softmax(scores, axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return linear(p["proj"], out.reshape(b, t, c))


def gpt2_block(params, x):
    """One transformer block of GPT-2, with weights in nested dicts."""
    x = x + self_attention(params["attn"], layer_norm(params["ln_1"], x), n_head=2)
    h = layer_norm(params["ln_2"], x)
    h = jax.nn.gelu(linear(params["mlp"]["fc"], h))
    return x + linear(params["mlp"]["proj"], h)


def lstm_params(normal):
    """Weights of an LSTM of 4 units with 3 inputs."""
    return {"wx": normal(3, 16), "wh": normal(4, 16), "b": normal(16)}


def lstm(params, xs):
    """Runs an LSTM over time, and returns the last state and all outputs."""

    def step(carry, x):
        h, c = carry
        gates = x @ params["wx"] + h @ params["wh"] + params["b"]
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((xs.shape[1], params["wh"].shape[0]))
    return lax.scan(step, (zeros, zeros), xs)


class Model(NamedTuple):
    """A linear Gaussian model."""

    transition: Any
    observation: Any
    process_noise: Any
    sensor_noise: Any


def kalman_model():
    """Position and velocity, of which the position is measured."""
    return Model(jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[1.0, 0.0]]),
                 0.01 * jnp.eye(2), jnp.array([[0.25]]))


def kalman_filter(model, observations):
    """Returns the filtered means and the log likelihood of observations."""

    def step(state, z):
        mean, cov = state
        mean = model.transition @ mean
        cov = model.transition @ cov @ model.transition.T + model.process_noise
        innovation = z - model.observation @ mean
        s = model.observation @ cov @ model.observation.T + model.sensor_noise
        gain = jnp.linalg.solve(s, model.observation @ cov).T
        mean = mean + gain @ innovation
        cov = cov - gain @ s @ gain.T
        _, logdet = jnp.linalg.slogdet(2 * jnp.pi * s)
        ll = -0.5 * (innovation @ jnp.linalg.solve(s, innovation) + logdet)
        return (mean, cov), (mean, ll)

    n = model.transition.shape[0]
    _, (means, lls) = lax.scan(step, (jnp.zeros(n), jnp.eye(n)), observations)
    return means, jnp.sum(lls)


def conv_params(normal):
    """Weights of a convolution and a linear layer."""
    return {"conv": {"w": normal(3, 3, 1, 4), "b": normal(4)},
            "head": {"w": normal(64, 5), "b": normal(5)}}


def conv_net(params, images):
    """A convolution, max pooling, and a linear layer."""
    x = lax.conv_general_dilated(images, params["conv"]["w"], (1, 1), "SAME",
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(x + params["conv"]["b"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    return jax.nn.log_softmax(linear(params["head"], x))


def newton_root(a):
    """The square root by Newton's method."""

    def cond(state):
        x, previous, n = state
        return (jnp.abs(x - previous) > 1e-6) & (n < 50)

    def body(state):
        x, _, n = state
        return 0.5 * (x + a / x), x, n + 1

    root, _, steps = lax.while_loop(cond, body, (a, jnp.zeros_like(a), 0))
    return root, steps


def van_der_pol(y):
    return jnp.array([y[1], (1 - y[0] ** 2) * y[1] - y[0]])


def rk4(y0, dt):
    """Integrates the Van der Pol oscillator with the classical Runge-Kutta method."""

    def step(i, y):
        k1 = van_der_pol(y)
        k2 = van_der_pol(y + dt / 2 * k1)
        k3 = van_der_pol(y + dt / 2 * k2)
        k4 = van_der_pol(y + dt * k3)
        return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, 20, step, y0)


def kmeans_step(centers, points):
    """Moves each center to the mean of the points that are nearest to it."""
    distances = jnp.sum((points[:, None, :] - centers[None, :, :]) ** 2, axis=-1)
    nearest = jnp.argmin(distances, axis=1)
    sums = jax.ops.segment_sum(points, nearest, num_segments=centers.shape[0])
    counts = jnp.bincount(nearest, length=centers.shape[0])
    moved = sums / jnp.maximum(counts, 1)[:, None]
    return jnp.where(counts[:, None] > 0, moved, centers), nearest


@dataclasses.dataclass
class AdamState:
    """Moments of Adam."""

    step: Any
    mu: Any
    nu: Any


jax.tree_util.register_dataclass(AdamState, ["step", "mu", "nu"], [])


def adam_state(normal):
    """A state after seven steps."""
    nu = jax.tree_util.tree_map(lambda x: x * x, mlp_params(normal))
    return AdamState(jnp.int32(7), mlp_params(normal), nu)


def adam_update(state, grads, params, lr=1e-2, b1=0.9, b2=0.999, eps=1e-8):
    """One step of Adam."""
    step = state.step + 1
    mu = jax.tree_util.tree_map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
    nu = jax.tree_util.tree_map(lambda v, g: b2 * v + (1 - b2) * g ** 2, state.nu, grads)
    scale = lr * jnp.sqrt(1 - b2 ** step) / (1 - b1 ** step)
    update = lambda p, m, v: p - scale * m / (jnp.sqrt(v) + eps)
    return AdamState(step, mu, nu), jax.tree_util.tree_map(update, params, mu, nu)


def logistic_regression(w, x, y):
    """Fits a logistic regression by ten steps of gradient descent."""

    def loss(w):
        logits = x @ w
        return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits)

    def step(w, _):
        value, gradient = jax.value_and_grad(loss)(w)
        return w - 0.5 * gradient, value

    return lax.scan(step, w, None, length=10)


def attention(x, w_qkv, w_out):
    """Self-attention with two heads, written by hand."""
    b, t, c = x.shape
    qkv = (x @ w_qkv).reshape(b, t, 3, 2, c // 2)
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (c // 2) ** -0.5
    scores = scores - jnp.max(scores, axis=-1, keepdims=True)
    weights = jnp.exp(scores)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return mixed.reshape(b, t, c) @ w_out


def viterbi(start, transitions, emissions):
    """The best path of a hidden Markov model in log space, and its score."""

    def forward(score, emission):
        candidates = score[:, None] + transitions
        best = jnp.argmax(candidates, axis=0)
        return jnp.max(candidates, axis=0) + emission, best

    last, pointers = lax.scan(forward, start + emissions[0], emissions[1:])

    def backward(state, pointer):
        previous = pointer[state]
        return previous, previous

    final = jnp.argmax(last)
    _, path = lax.scan(backward, final, pointers, reverse=True)
    return jnp.concatenate([path, final[None]]), jnp.max(last)


@dataclasses.dataclass
class Dense:
    """A linear layer in the manner of Flax."""

    kernel: Any
    bias: Any

    def __call__(self, x):
        return jnp.dot(x, self.kernel) + self.bias


jax.tree_util.register_dataclass(Dense, ["kernel", "bias"], [])


def stack_params(normal):
    """Three layers."""
    return [Dense(normal(3, 5), normal(5)), Dense(normal(5, 5), normal(5)),
            Dense(normal(5, 2), normal(2))]


def dense_stack(layers, x):
    """Layers with tanh between them."""
    for layer in layers[:-1]:
        x = jnp.tanh(layer(x))
    return layers[-1](x)


class NormState(NamedTuple):
    """Scale, bias and running statistics."""

    scale: Any
    bias: Any
    mean: Any
    var: Any


def batch_norm(state, x, momentum=0.9):
    """Normalizes by the statistics of the batch, and updates the running ones."""
    mean, var = jnp.mean(x, axis=0), jnp.var(x, axis=0)
    y = (x - mean) * lax.rsqrt(var + 1e-5) * state.scale + state.bias
    moved = state._replace(mean=momentum * state.mean + (1 - momentum) * mean,
                           var=momentum * state.var + (1 - momentum) * var)
    return y, moved


def example_loss(params, x, label):
    """The loss of one example."""
    return -jax.nn.log_softmax(mlp(params, x))[label]


def per_example_norms(params, xs, labels):
    """The norm of each example's gradient."""

    def norm(x, label):
        grads = jax.grad(example_loss)(params, x, label)
        return jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree_util.tree_leaves(grads)))

    return jax.vmap(norm)(xs, labels)
