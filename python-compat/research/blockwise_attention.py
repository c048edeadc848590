"""Trains a transformer on recalling pairs, with attention over blocks of keys in bfloat16.

Liu, Abbeel: Blockwise parallel transformer for large context models (2023). Products are in
bfloat16 with sums in float32, the softmax is computed online, and the reverse pass computes all but
the outputs of blocks again.
"""

import functools

import jax
import jax.numpy as jnp
import optax
from jax.ad_checkpoint import checkpoint_name

STEPS = 120
BATCH = 64
PAIRS = 16
SYMBOLS = 16
WIDTH = 64
HEADS = 4
BLOCK = 4
LAYERS = 2


def product(equation, x, y):
    """Returns a product in the dtype of y, with sums in float32."""
    return jnp.einsum(equation, x.astype(y.dtype), y, preferred_element_type=jnp.float32)


def project(x, w):
    """Applies a matrix."""
    return product("...i,io->...o", x, w)


def attention(q, k, v):
    """Returns causal attention for queries, keys and values [time, head_size]."""
    t, size = q.shape
    q = q * size**-0.5
    blocks = lambda a: a.reshape(t // BLOCK, BLOCK, size)
    rows = jnp.arange(t)[:, None]

    def step(carry, block):
        output, top, total = carry
        k, v, columns = block
        scores = jnp.where(columns <= rows, product("qd,kd->qk", q, k), -1e9)
        new_top = jnp.maximum(top, scores.max(-1))
        weights, scale = jnp.exp(scores - new_top[:, None]), jnp.exp(top - new_top)
        output = output * scale[:, None] + product("qk,kd->qd", weights, v)
        return (output, new_top, total * scale + weights.sum(-1)), None

    start = jnp.zeros((t, size)), jnp.full(t, -1e9), jnp.zeros(t)
    columns = jnp.arange(t).reshape(t // BLOCK, BLOCK)
    output, _, total = jax.lax.scan(step, start, (blocks(k), blocks(v), columns))[0]
    return output / total[:, None]


def norm(x):
    """Returns rows with a mean square of 1."""
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def layer(p, x):
    """Applies attention and a perceptron to activations [time, width]."""
    heads = lambda w: project(norm(x), w).astype(w.dtype).reshape(-1, HEADS, WIDTH // HEADS)
    mixed = jax.vmap(attention, 1, 1)(heads(p["q"]), heads(p["k"]), heads(p["v"]))
    x = x + checkpoint_name(project(mixed.reshape(-1, WIDTH), p["o"]), "attended")
    return x + project(jax.nn.silu(project(norm(x), p["up"])), p["down"])


def logits(params, keys, values):
    """Returns the logits of the last value, for the keys and values of pairs [time]."""
    policy = jax.checkpoint_policies.save_only_these_names("attended")
    x = (params["keys"][keys] + params["values"][values]).astype(jnp.float32)
    for p in params["layers"]:
        x = jax.checkpoint(layer, policy=policy)(p, x)
    return project(norm(x[-1]), params["out"])


def init(key):
    """Returns the parameters."""
    k_keys, k_values, k_out, k_layers = jax.random.split(key, 4)
    shapes = {n: (WIDTH, WIDTH) for n in "qkvo"}
    shapes |= {"up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
    matrix = lambda key, shape: jax.random.normal(key, shape) * shape[0] ** -0.5
    layers = [
        {name: matrix(k, shape) for k, (name, shape) in zip(jax.random.split(k, 6), shapes.items())}
        for k in jax.random.split(k_layers, LAYERS)
    ]
    embed = lambda key: jax.random.normal(key, (SYMBOLS, WIDTH))
    out = matrix(k_out, (WIDTH, SYMBOLS))
    return {"keys": embed(k_keys), "values": embed(k_values), "out": out, "layers": layers}


def batch(key):
    """Returns keys and values [b, PAIRS]; the last key occurred before, its value is asked [b]."""

    def sequence(key):
        k_keys, k_values, k_asked = jax.random.split(key, 3)
        keys = jax.random.permutation(k_keys, SYMBOLS)
        values = jax.random.randint(k_values, (PAIRS,), 1, SYMBOLS)
        asked = jax.random.randint(k_asked, (), 0, PAIRS - 1)
        return keys.at[-1].set(keys[asked]), values.at[-1].set(0), values[asked]

    return jax.vmap(sequence)(jax.random.split(key, BATCH))


def loss(dtype, params, keys, values, target):
    """Returns the mean cross entropy with products in a dtype, and the accuracy."""
    params = jax.tree.map(lambda p: p.astype(dtype), params)
    scores = jax.vmap(lambda k, v: logits(params, k, v))(keys, values)
    losses = optax.softmax_cross_entropy_with_integer_labels(scores, target)
    return losses.mean(), (scores.argmax(-1) == target).mean()


def train(steps, dtype=jnp.bfloat16):
    """Returns the loss of each step with products in a dtype, and the last accuracy."""
    params = init(jax.random.key(0))
    tx = optax.adam(3e-3)
    state = tx.init(params)

    # Without this option the compiler leaves out roundings to bfloat16 where it fuses operations.
    options = {"xla_allow_excess_precision": False}

    @functools.partial(jax.jit, compiler_options=options)
    def step(params, state, key):
        grad = jax.value_and_grad(functools.partial(loss, dtype), has_aux=True)
        (value, accuracy), grads = grad(params, *batch(key))
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, value, accuracy

    losses = []
    for i in range(steps):
        params, state, value, accuracy = step(params, state, jax.random.key(i))
        losses.append(float(value))
    return losses, float(accuracy)


if __name__ == "__main__":
    losses, accuracy = train(STEPS)
    print(f"loss     {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"accuracy {accuracy:.3f}")
