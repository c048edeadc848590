"""JAX's side of `benches/models.rs`: the same models under Optax, with the same numbers in them.

    OXIDAX_BENCH_PYTHON=python-compat/.venv/bin/python cargo bench --bench models

With `--serve` it answers each line of standard input, a request in JSON, by a line of numbers. `start` makes a model and calls it once:
how many parameters it has, the seconds of that call, and what came out first. `run` calls it so often: milliseconds a call, by the clock and of
processors.

The MLP and GPT-2 are those of `recorder`, written with `jax.numpy`; ResNet-50 and BERT are modules of Flax.
"""

import functools
import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from recorder import gpt2_suite, training

COMPARED = 8


def hashed(n):
    """The last stage of MurmurHash3, of 0 to n - 1."""
    h = np.arange(n, dtype=np.uint32)
    h = (h ^ (h >> 16)) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def drawn_numbers(n):
    """`numbers::numbers`: evenly spread over -1..1."""
    return (hashed(n) >> 8).astype(np.float32) / np.float32(1 << 23) - np.float32(1)


def drawn_integers(n, end):
    """`numbers::integers`."""
    return (hashed(n) % np.uint32(end)).astype(np.int32)


def drawn(types):
    """`drawn::tree`: the leaves of a tree of types by their names and shapes."""

    def leaf(path, of_type):
        name = path[-1].key
        if name in ("scale", "var"):
            return jnp.ones(of_type.shape)
        if name in ("bias", "mean"):
            return jnp.zeros(of_type.shape)
        n = int(np.prod(of_type.shape))
        most = np.float32(np.sqrt(3.0 / (n // of_type.shape[-1])))
        return jnp.asarray((drawn_numbers(n) * most).reshape(of_type.shape))

    return jax.tree_util.tree_map_with_path(leaf, types)


def trained(step, state):
    """A step over and over; the first results are the next call's arguments."""

    def call():
        nonlocal state
        *state, loss = step(*state)
        return [float(loss)]

    return call


def mlp(_sizes, _bf16):
    """`support/mlp.rs`."""
    sizes, batch = [784, 1024, 1024, 10], 128
    params = drawn(jax.eval_shape(lambda key: training.init(key, sizes), jax.random.key(0)))
    images = jnp.asarray((np.arange(batch * sizes[0]) % 255).astype(np.float32).reshape(batch, -1) / np.float32(255))
    labels = jnp.asarray(np.arange(batch, dtype=np.int32) % 10)
    step = training.make_step("gelu")
    return params, trained(lambda *state: step(*state, images, labels), (params, training.optimizer().init(params)))


def gpt2(sizes, bf16):
    """`examples/gpt2`, with its recipe."""
    recipe = gpt2_suite.RECIPE | {"steps": 2000, "warmup": 100}
    sizes = sizes | {"epsilon": 1e-5}
    rule = gpt2_suite.optimizer(recipe)
    params = drawn(jax.eval_shape(lambda key: gpt2_suite.init(key, sizes["vocabulary"], sizes), jax.random.key(0)))
    text = drawn_integers(sizes["batch"] * (sizes["context"] + 1), sizes["vocabulary"]).reshape(sizes["batch"], -1)
    tokens, following = jnp.asarray(text[:, :-1]), jnp.asarray(text[:, 1:])
    compute = jnp.bfloat16 if bf16 else jnp.float32

    def loss(params, tokens, following):
        logits = gpt2_suite.forward(jax.tree.map(lambda leaf: leaf.astype(compute), params), tokens, sizes)
        return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), following).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, tokens, following):
        value, grads = jax.value_and_grad(loss)(params, tokens, following)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return params, trained(lambda *state: step(*state, tokens, following), (params, rule.init(params)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 beside a shortcut."""

    features: int
    stride: int

    @nn.compact
    def __call__(self, x):
        y = nn.relu(ConvNorm(self.features, 1)(x))
        y = nn.relu(ConvNorm(self.features, 3, self.stride)(y))
        y = ConvNorm(4 * self.features, 1)(y)
        if self.stride != 1 or x.shape[-1] != 4 * self.features:
            x = ConvNorm(4 * self.features, 1, self.stride)(x)
        return nn.relu(y + x)


class ConvNorm(nn.Module):
    """A convolution, and the normalization of what comes out."""

    features: int
    window: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        padding = ((self.window // 2,) * 2,) * 2
        y = nn.Conv(self.features, (self.window,) * 2, strides=self.stride, padding=padding, use_bias=False)(x)
        return nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5)(y)


class ResNet50(nn.Module):
    """Strides in the 3x3 convolutions, as torchvision and Flax's own example have it."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(ConvNorm(64, 7, 2)(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                x = Bottleneck(64 << stage, 2 if stage > 0 and block == 0 else 1)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


def resnet50(sizes, _bf16):
    """`support/models/resnet.rs`."""
    batch, side = sizes["batch"], sizes["side"]
    images = jnp.asarray(drawn_numbers(batch * side * side * 3).reshape(batch, side, side, 3))
    labels = jnp.asarray(drawn_integers(batch, 1000))
    model, rule = ResNet50(), optax.sgd(0.1, momentum=0.9)
    variables = drawn(jax.eval_shape(model.init, jax.random.key(0), images))
    params, stats = variables["params"], variables["batch_stats"]

    def loss(params, stats, images, labels):
        logits, changed = model.apply({"params": params, "batch_stats": stats}, images, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), changed["batch_stats"]

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(params, stats, state, images, labels):
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, stats, images, labels)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), stats, state, value

    return params, trained(lambda *state: step(*state, images, labels), (params, stats, rule.init(params)))


class Encoder(nn.Module):
    """A layer of BERT."""

    heads: int
    inner: int

    @nn.compact
    def __call__(self, x, mask):
        norm = functools.partial(nn.LayerNorm, epsilon=1e-12)
        b, t, width = x.shape
        query, key, value = (nn.Dense(width)(x).reshape(b, t, self.heads, -1) for _ in range(3))
        found = nn.dot_product_attention(query, key, value, mask=mask)
        x = norm()(x + nn.Dense(width)(found.reshape(b, t, width)))
        return norm()(x + nn.Dense(width)(nn.gelu(nn.Dense(self.inner)(x), approximate=False)))


class Bert(nn.Module):
    """Embeddings of sentences: the mean of their tokens, of length 1."""

    sizes: dict

    @nn.compact
    def __call__(self, tokens, seen):
        sizes = self.sizes
        table = lambda n: nn.Embed(n, sizes["width"])
        x = table(sizes["vocabulary"])(tokens) + table(sizes["positions"])(jnp.arange(tokens.shape[1])) + table(2)(jnp.zeros_like(tokens))
        x = nn.LayerNorm(epsilon=1e-12)(x)
        for _ in range(sizes["layers"]):
            x = Encoder(sizes["heads"], sizes["inner"])(x, seen[:, None, None, :])
        counted = seen[:, :, None].astype(x.dtype)
        mean = (x * counted).sum(1) / counted.sum(1)
        return mean / jnp.sqrt((mean * mean).sum(-1, keepdims=True))


def bert(sizes, _bf16):
    """`support/models/bert.rs`."""
    batch, context = sizes["batch"], sizes["context"]
    tokens = jnp.asarray(drawn_integers(batch * context, sizes["vocabulary"]).reshape(batch, context))
    lengths = np.array([context - at * (context // 2) // batch for at in range(batch)])
    seen = jnp.asarray(np.arange(context)[None, :] < lengths[:, None])
    model = Bert(sizes)
    params = drawn(jax.eval_shape(model.init, jax.random.key(0), tokens, seen))
    embed = jax.jit(model.apply)
    return params, lambda: np.asarray(embed(params, tokens, seen)).ravel()[:COMPARED].tolist()


MODELS = {"mlp": mlp, "gpt2": gpt2, "resnet50": resnet50, "bert": bert}


def serve():
    """Answers requests until there are no more."""
    call = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "start":
            wanted, call = request["start"], None
            params, call = MODELS[wanted["model"]](wanted["sizes"], wanted.get("bf16", False))
            parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
            del params
            start = time.perf_counter()
            values = call()
            answer = [parameters, time.perf_counter() - start, *values]
        else:
            clocks = (time.perf_counter, time.process_time)
            start = [clock() for clock in clocks]
            for _ in range(request["calls"]):
                call()
            answer = [(clock() - begin) * 1000 / request["calls"] for clock, begin in zip(clocks, start)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
