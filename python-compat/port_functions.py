"""Thirty JAX functions with example arguments, for the tests of `oxidax port`.

    python port_functions.py FOLDER

writes a JSON file and a safetensors file for each. Half are public functions of JAX itself, traced
as JAX implements them; the others are models and steps as JAX users write them.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import port
import port_calls

INTERCEPTION = port_calls.Interception()
INTERCEPTION.install()

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np

import port_models

R = np.random.RandomState(0)


def f32(*shape):
    """Normal numbers."""
    return R.standard_normal(shape).astype(np.float32)


def positive_definite(n):
    """A symmetric positive definite matrix."""
    a = f32(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)


def uint(*shape, high):
    """Integers below `high`."""
    return R.randint(0, high, shape).astype(np.int32)


def causal_attention(query, key, value):
    """`jax.nn.dot_product_attention` with a causal mask."""
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


def attention_implementation(query, key, value):
    """The operations of `jax.nn.dot_product_attention`."""
    return jax.nn.dot_product_attention.oxidax_original(query, key, value)


def conv_2d(x, kernel):
    """`jax.lax.conv_general_dilated` with strides and channels last."""
    return jax.lax.conv_general_dilated(
        x, kernel, window_strides=(2, 2), padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"))


def quartiles(x):
    """`jnp.percentile` of each row."""
    return jnp.percentile(x, jnp.array([25.0, 50.0, 75.0]), axis=1)


def dropout(key, x):
    """Dropout by `jax.random.bernoulli`."""
    keep = jax.random.bernoulli(key, 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0.0)


def sample(key, logits):
    """`jax.random.categorical`, `normal` and `randint` with keys from one split."""
    for_tokens, for_noise, for_integers = jax.random.split(key, 3)
    tokens = jax.random.categorical(for_tokens, logits, axis=-1)
    noise = 0.1 * jax.random.normal(for_noise, logits.shape)
    integers = jax.random.randint(for_integers, (4,), 0, 10)
    return tokens, logits + noise, integers


def fft_convolve(x, y):
    """Convolution by `jnp.fft`."""
    n = x.shape[0] + y.shape[0] - 1
    return jnp.fft.irfft(jnp.fft.rfft(x, n) * jnp.fft.rfft(y, n), n)


def resample(image, coordinates):
    """`jax.scipy.ndimage.map_coordinates`, bilinear."""
    return jsp.ndimage.map_coordinates(image, [coordinates[0], coordinates[1]], order=1)


def top_scores(scores, k_values):
    """`jax.lax.top_k`, `sort`, `cumsum` and `argmax`."""
    values, indices = jax.lax.top_k(scores, 3)
    ordered = jnp.sort(scores, axis=-1)
    total = jnp.cumsum(ordered, axis=-1)
    return values, indices, total, jnp.argmax(scores, axis=-1) + k_values


M = port_models
FUNCTIONS = {
    "gelu": (jax.nn.gelu, lambda: [f32(3, 4)]),
    "logsumexp": (jax.nn.logsumexp, lambda: [f32(3, 4)]),
    "causal_attention": (causal_attention, lambda: [f32(2, 5, 2, 4), f32(2, 5, 2, 4),
                                                    f32(2, 5, 2, 4)]),
    "attention_implementation": (attention_implementation, lambda: [
        f32(2, 5, 2, 4), f32(2, 6, 2, 4), f32(2, 6, 2, 4)]),
    "solve": (jnp.linalg.solve, lambda: [positive_definite(4), f32(4, 2)]),
    "expm": (jsp.linalg.expm, lambda: [0.5 * f32(3, 3)]),
    "interp": (jnp.interp, lambda: [f32(7), np.linspace(-2, 2, 5, dtype=np.float32), f32(5)]),
    "quartiles": (quartiles, lambda: [f32(3, 9)]),
    "cov": (jnp.cov, lambda: [f32(3, 8)]),
    "norm_logpdf": (jsp.stats.norm.logpdf, lambda: [f32(5), f32(5), np.abs(f32(5)) + 0.5]),
    "resample": (resample, lambda: [f32(5, 6), 4 * R.rand(2, 7).astype(np.float32)]),
    "conv_2d": (conv_2d, lambda: [f32(2, 7, 6, 3), f32(3, 3, 3, 4)]),
    "fft_convolve": (fft_convolve, lambda: [f32(8), f32(5)]),
    "dropout": (dropout, lambda: [jax.random.key(3), f32(4, 6)]),
    "sample": (sample, lambda: [jax.random.PRNGKey(7), f32(4, 6)]),
    "top_scores": (top_scores, lambda: [f32(3, 6), uint(3, high=9)]),
    "mlp_loss": (M.mlp_loss, lambda: [M.mlp_params(f32), f32(8, 4), uint(8, high=3)]),
    "train_step": (M.train_step, lambda: [M.mlp_params(f32), M.mlp_params(f32), f32(8, 4),
                                          uint(8, high=3)]),
    "gpt2_block": (M.gpt2_block, lambda: [M.block_params(f32), f32(2, 6, 8)]),
    "lstm": (M.lstm, lambda: [M.lstm_params(f32), f32(5, 2, 3)]),
    "kalman_filter": (M.kalman_filter, lambda: [M.kalman_model(), f32(6, 1)]),
    "conv_net": (M.conv_net, lambda: [M.conv_params(f32), f32(2, 8, 8, 1)]),
    "newton_root": (M.newton_root, lambda: [np.float32(10.0)]),
    "rk4": (M.rk4, lambda: [f32(2), np.float32(0.1)]),
    "kmeans_step": (M.kmeans_step, lambda: [f32(3, 2), f32(12, 2)]),
    "adam_update": (M.adam_update, lambda: [M.adam_state(f32), M.mlp_params(f32),
                                            M.mlp_params(f32)]),
    "logistic_regression": (M.logistic_regression, lambda: [f32(3), f32(10, 3),
                                                            uint(10, high=2)]),
    "attention": (M.attention, lambda: [f32(2, 5, 8), f32(8, 24), f32(8, 8)]),
    "viterbi": (M.viterbi, lambda: [f32(3), f32(3, 3), f32(6, 3)]),
    "dense_stack": (M.dense_stack, lambda: [M.stack_params(f32), f32(4, 3)]),
    "batch_norm": (M.batch_norm, lambda: [M.NormState(f32(3), f32(3), f32(3), np.abs(f32(3))),
                                          f32(6, 3)]),
    "per_example_norms": (M.per_example_norms, lambda: [M.mlp_params(f32), f32(5, 4),
                                                        uint(5, high=3)]),
}


def main():
    folder = sys.argv[1]
    only = sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    root = os.path.dirname(os.path.abspath(__file__))
    for index, (name, (function, examples)) in enumerate(FUNCTIONS.items()):
        R.seed(index)
        args = examples()
        if only and name not in only:
            continue
        contents, tensors = port.trace(function, args, name, root,
                                       [port_models, sys.modules[__name__]], INTERCEPTION)
        port.write(contents, tensors, os.path.join(folder, f"{name}.json"))


if __name__ == "__main__":
    main()
