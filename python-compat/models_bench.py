"""Runs the models of `benches/models.rs` in JAX, with the same initial numbers.

    OXIDAX_BENCH_PYTHON=python-compat/.venv/bin/python cargo bench --bench models

With `--serve`, answers requests as `models_serving.serve` describes.

The MLP and GPT-2 are those of `recorder` and use only `jax.numpy`. ResNet-50 and BERT are Flax
modules. The optimizers are Optax's.
"""

import functools
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from models_serving import COMPARED, draw_integers, draw_numbers, serve
from recorder import gpt2_suite, training


def draw_tree(types):
    """Fills a tree of types by the names and shapes of its leaves, as `drawn::tree` does."""

    def leaf(path, leaf_type):
        name = path[-1].key
        if name in ("scale", "var"):
            return jnp.ones(leaf_type.shape)
        if name in ("bias", "mean"):
            return jnp.zeros(leaf_type.shape)
        n = int(np.prod(leaf_type.shape))
        limit = np.float32(np.sqrt(3.0 / (n // leaf_type.shape[-1])))
        return jnp.asarray((draw_numbers(n) * limit).reshape(leaf_type.shape))

    return jax.tree_util.tree_map_with_path(leaf, types)


def training_loop(step, state):
    """Returns a function that repeats a step on its results. It returns the loss of each step."""

    def call():
        nonlocal state
        *state, loss = step(*state)
        return [float(loss)]

    return call


def mlp(_sizes, _bf16):
    """Builds the model of `support/mlp.rs`."""
    sizes, batch = [784, 1024, 1024, 10], 128
    params = draw_tree(jax.eval_shape(lambda key: training.init(key, sizes), jax.random.key(0)))
    images = jnp.asarray(
        (np.arange(batch * sizes[0]) % 255).astype(np.float32).reshape(batch, -1) / np.float32(255)
    )
    labels = jnp.asarray(np.arange(batch, dtype=np.int32) % 10)
    step = training.make_step("gelu")
    return params, training_loop(
        lambda *state: step(*state, images, labels), (params, training.optimizer().init(params))
    )


def gpt2(sizes, bf16):
    """Builds the model of `examples/gpt2` with its training recipe."""
    recipe = gpt2_suite.RECIPE | {"steps": 2000, "warmup": 100}
    sizes = sizes | {"epsilon": 1e-5}
    optimizer = gpt2_suite.optimizer(recipe)
    params = draw_tree(
        jax.eval_shape(
            lambda key: gpt2_suite.init(key, sizes["vocabulary"], sizes), jax.random.key(0)
        )
    )
    text = draw_integers(sizes["batch"] * (sizes["context"] + 1), sizes["vocabulary"]).reshape(
        sizes["batch"], -1
    )
    tokens, targets = jnp.asarray(text[:, :-1]), jnp.asarray(text[:, 1:])
    compute = jnp.bfloat16 if bf16 else jnp.float32

    def loss(params, tokens, targets):
        logits = gpt2_suite.forward(
            jax.tree.map(lambda leaf: leaf.astype(compute), params), tokens, sizes
        )
        return optax.softmax_cross_entropy_with_integer_labels(
            logits.astype(jnp.float32), targets
        ).mean()

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, tokens, targets):
        value, grads = jax.value_and_grad(loss)(params, tokens, targets)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return params, training_loop(
        lambda *state: step(*state, tokens, targets), (params, optimizer.init(params))
    )


def decode(sizes, _bf16):
    """Builds the greedy decoding of `support/models/gpt2.rs`, with a cache of keys and values."""
    prompt, count, heads = sizes["prompt"], sizes["tokens"], sizes["heads"]
    length, width = prompt + count, sizes["width"]
    params = draw_tree(
        jax.eval_shape(
            lambda key: gpt2_suite.init(key, sizes["vocabulary"], sizes), jax.random.key(0)
        )
    )
    tokens = jnp.asarray(draw_integers(prompt, sizes["vocabulary"]).reshape(1, prompt))

    def norm(p, x):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]

    def linear(p, x):
        return x @ p["weight"] + p["bias"]

    def read(params, tokens, caches, start):
        """Returns the most likely next token, and the caches with the keys of `tokens`."""
        positions = start + jnp.arange(tokens.shape[1])
        x = params["wte"][tokens] + params["wpe"][positions]
        mask = jnp.arange(length)[None, None, None, :] <= positions[:, None]
        filled = []
        for p, cache in zip(params["h"], caches):
            parts = jnp.split(linear(p["attn"]["c_attn"], norm(p["ln_1"], x)), 3, axis=-1)
            query, *new = (part.reshape(*tokens.shape, heads, -1) for part in parts)
            cache = [
                jax.lax.dynamic_update_slice_in_dim(old, part, start, 1)
                for old, part in zip(cache, new)
            ]
            filled.append(cache)
            attended = jax.nn.dot_product_attention(query, *cache, mask=mask)
            x = x + linear(p["attn"]["c_proj"], attended.reshape(x.shape))
            inner = jax.nn.gelu(linear(p["mlp"]["c_fc"], norm(p["ln_2"], x)))
            x = x + linear(p["mlp"]["c_proj"], inner)
        logits = norm(params["ln_f"], x[:, -1]) @ params["wte"].T
        return jnp.argmax(logits, -1), filled

    @jax.jit
    def generate(params, tokens):
        empty = jnp.zeros((1, length, heads, width // heads))
        state = read(params, tokens, [[empty, empty] for _ in params["h"]], 0)

        def step(state, position):
            token, caches = state
            return read(params, token[:, None], caches, position), token

        return jax.lax.scan(step, state, prompt + jnp.arange(count))[1]

    return params, lambda: np.asarray(generate(params, tokens)).ravel()[:COMPARED].tolist()


class Bottleneck(nn.Module):
    """Convolutions 1x1, 3x3 and 1x1 with a shortcut."""

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
    """A convolution followed by batch normalization."""

    features: int
    window: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        padding = ((self.window // 2,) * 2,) * 2
        y = nn.Conv(
            self.features, (self.window,) * 2, strides=self.stride, padding=padding, use_bias=False
        )(x)
        return nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5)(y)


class ResNet50(nn.Module):
    """ResNet-50 with strides in the 3x3 convolutions, as in torchvision and Flax's example."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(ConvNorm(64, 7, 2)(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                x = Bottleneck(64 << stage, 2 if stage > 0 and block == 0 else 1)(x)
        return nn.Dense(1000)(x.mean((1, 2)))


def resnet50(sizes, _bf16):
    """Builds the model of `support/models/resnet.rs`."""
    batch, side = sizes["batch"], sizes["side"]
    images = jnp.asarray(draw_numbers(batch * side * side * 3).reshape(batch, side, side, 3))
    labels = jnp.asarray(draw_integers(batch, 1000))
    model, optimizer = ResNet50(), optax.sgd(0.1, momentum=0.9)
    variables = draw_tree(jax.eval_shape(model.init, jax.random.key(0), images))
    params, stats = variables["params"], variables["batch_stats"]

    def loss(params, stats, images, labels):
        logits, new_stats = model.apply(
            {"params": params, "batch_stats": stats}, images, mutable=["batch_stats"]
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new_stats[
            "batch_stats"
        ]

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(params, stats, state, images, labels):
        (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(
            params, stats, images, labels
        )
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), stats, state, value

    return params, training_loop(
        lambda *state: step(*state, images, labels), (params, stats, optimizer.init(params))
    )


class Encoder(nn.Module):
    """A layer of BERT."""

    heads: int
    inner: int

    @nn.compact
    def __call__(self, x, mask):
        norm = functools.partial(nn.LayerNorm, epsilon=1e-12)
        b, t, width = x.shape
        query, key, value = (nn.Dense(width)(x).reshape(b, t, self.heads, -1) for _ in range(3))
        attended = nn.dot_product_attention(query, key, value, mask=mask)
        x = norm()(x + nn.Dense(width)(attended.reshape(b, t, width)))
        return norm()(x + nn.Dense(width)(nn.gelu(nn.Dense(self.inner)(x), approximate=False)))


class Bert(nn.Module):
    """Sentence embeddings: the mean of the token vectors, normalized to length 1."""

    sizes: dict

    @nn.compact
    def __call__(self, tokens, mask):
        sizes = self.sizes
        table = lambda n: nn.Embed(n, sizes["width"])
        x = (
            table(sizes["vocabulary"])(tokens)
            + table(sizes["positions"])(jnp.arange(tokens.shape[1]))
            + table(2)(jnp.zeros_like(tokens))
        )
        x = nn.LayerNorm(epsilon=1e-12)(x)
        for _ in range(sizes["layers"]):
            x = Encoder(sizes["heads"], sizes["inner"])(x, mask[:, None, None, :])
        weights = mask[:, :, None].astype(x.dtype)
        mean = (x * weights).sum(1) / weights.sum(1)
        return mean / jnp.sqrt((mean * mean).sum(-1, keepdims=True))


def bert(sizes, _bf16):
    """Builds the model of `support/models/bert.rs`."""
    batch, context = sizes["batch"], sizes["context"]
    tokens = jnp.asarray(
        draw_integers(batch * context, sizes["vocabulary"]).reshape(batch, context)
    )
    lengths = np.array([context - row * (context // 2) // batch for row in range(batch)])
    mask = jnp.asarray(np.arange(context)[None, :] < lengths[:, None])
    model = Bert(sizes)
    params = draw_tree(jax.eval_shape(model.init, jax.random.key(0), tokens, mask))
    embed = jax.jit(model.apply)
    return params, lambda: np.asarray(embed(params, tokens, mask)).ravel()[:COMPARED].tolist()


MODELS = {"mlp": mlp, "gpt2": gpt2, "decode": decode, "resnet50": resnet50, "bert": bert}


def counted(model):
    """Returns a function that returns the number of parameters of a model and its call."""

    def start(*settings):
        params, call = model(*settings)
        return sum(leaf.size for leaf in jax.tree.leaves(params)), call

    return start


if __name__ == "__main__":
    serve(jax.__version__, {name: counted(model) for name, model in MODELS.items()})
