"""Thirty JAX functions with example arguments, for the tests of `oxidax port`.

    python port_functions.py FOLDER
    python port_functions.py --check

The first command writes a JSON file and a safetensors file for each. The second compares them with
the committed ones in `crates/port/tests/data`. Half are public functions of JAX itself, traced
as JAX implements them; the others are models and steps as JAX users write them.
"""

import json
import os
import sys
import zlib

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


def permuted(key, x):
    """Permutations, choices and other samplers, with keys from `fold_in`."""
    first, second = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
    order = jax.random.permutation(first, x)
    chosen = jax.random.choice(second, x, (3,))
    cut = jax.random.truncated_normal(first, -1.0, 2.0, (4,))
    return order, chosen, cut, jax.random.exponential(second, (4,)), second


TABLE = np.sin(np.arange(20)[:, None] / 100.0 ** (np.arange(16) / 16)).astype(np.float32)


def with_positions(x):
    """Adds a table of positions, which the function captures."""
    return x + TABLE[: x.shape[1]] * jnp.sqrt(x.shape[-1] / 2)


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


def spectral(a, b):
    """Decompositions, put together again: vectors have no unique sign."""
    w, v = jnp.linalg.eigh(a)
    u, s, vt = jnp.linalg.svd(b, full_matrices=False)
    q, r = jnp.linalg.qr(b)
    l = jnp.linalg.cholesky(a)
    x = jsp.linalg.solve_triangular(l, b.T, lower=True)
    return w, (v * w) @ v.T, s, (u * s) @ vt, q @ r, l, x


def elementwise(x, y, n):
    """Elementwise functions of each kind."""
    a = jnp.exp2(x) + jnp.expm1(x) * jnp.log1p(y) - jnp.cbrt(x) / jnp.arctan2(x, y)
    b = jax.lax.rsqrt(y) + jsp.special.erf(x) + jsp.special.gammaln(y) + jsp.special.digamma(y)
    c = jnp.where(jnp.isfinite(a) & ~(x > 0.5), jnp.sinh(x), jnp.floor(y) ** 3)
    d = jnp.round(2 * x) + jnp.sign(x) * jnp.abs(y) + jnp.clip(x, -0.5, 0.5) + x % y
    e = (n << 2) ^ (n | 5) - n // 3 + n % 4
    f = jax.nn.softplus(x) + jax.nn.elu(x) + jax.nn.log_sigmoid(y) + jax.nn.leaky_relu(x)
    return a, b, c, d, e, f, jax.lax.bitcast_convert_type(x, jnp.int32)


def updates(x, i, row):
    """Slices and updates at computed positions."""
    a = x.at[i].set(row)
    b = a.at[jnp.array([0, 2])].add(1.0)
    c = jax.lax.dynamic_update_slice(b, 2 * row[None], (i, 0))
    d = jax.lax.dynamic_slice(c, (i, 1), (2, 2))
    e = jnp.flip(jnp.pad(d, ((1, 0), (0, 2))), axis=1)
    order = jnp.argsort(x[:, 0])
    return c, e, x[order], jnp.take(row, jnp.array([1, 0, 5])), jnp.roll(x, 1, axis=0)


def branches(x, n):
    """`cond`, `switch`, and a loop whose end is an argument."""
    a = jax.lax.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x)
    b = jax.lax.switch(n, [jnp.sin, jnp.cos, lambda x: x ** 2], x)
    c = jax.lax.fori_loop(0, n, lambda i, y: y + i * x, x)
    return a, b, c


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
    "permuted": (permuted, lambda: [jax.random.key(5), f32(6)]),
    "with_positions": (with_positions, lambda: [f32(2, 20, 16)]),
    "top_scores": (top_scores, lambda: [f32(3, 6), uint(3, high=9)]),
    "spectral": (spectral, lambda: [positive_definite(3), f32(4, 3)]),
    "elementwise": (elementwise, lambda: [f32(5), np.abs(f32(5)) + 0.5, uint(5, high=50)]),
    "updates": (updates, lambda: [f32(4, 3), np.int32(1), f32(3)]),
    "branches": (branches, lambda: [f32(3), np.int32(2)]),
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


def read_safetensors(path):
    """The arrays of a file, as bytes by name."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    kinds = {"F32": np.float32, "I32": np.int32, "U32": np.uint32, "BOOL": np.bool_}
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        array = np.frombuffer(body[start:end], kinds[entry["dtype"]])
        arrays[name] = array.reshape(entry["shape"])
    return arrays


def differences(name, contents, tensors, folder):
    """The parts of a traced function that differ from the committed files."""
    path = os.path.join(folder, f"{name}.json")
    with open(path, encoding="utf-8") as file:
        committed = json.load(file)
    contents["tensors"] = f"{name}.safetensors"
    contents = json.loads(json.dumps(contents))
    wrong = [key for key in contents if contents[key] != committed.get(key)]
    recorded = read_safetensors(os.path.join(folder, contents["tensors"]))
    for key, value in tensors.items():
        if not np.allclose(recorded[key], np.asarray(value), rtol=1e-5, atol=1e-6, equal_nan=True):
            wrong.append(key)
    return wrong


def main():
    root = os.path.dirname(os.path.abspath(__file__))
    check = sys.argv[1] == "--check"
    folder = sys.argv[1]
    if check:
        folder = os.path.join(root, "..", "crates", "port", "tests", "data")
    os.makedirs(folder, exist_ok=True)
    failed = False
    for name, (function, examples) in FUNCTIONS.items():
        R.seed(zlib.crc32(name.encode()))
        modules = [port_models, sys.modules[__name__]]
        contents, tensors = port.trace(function, examples(), name, root, modules, INTERCEPTION)
        if not check:
            port.write(contents, tensors, os.path.join(folder, f"{name}.json"))
            continue
        wrong = differences(name, contents, tensors, folder)
        if wrong:
            failed = True
            print(f"{name}: {', '.join(wrong)} differ from crates/port/tests/data", flush=True)
    if failed:
        raise SystemExit("error: run `port_functions.py ../crates/port/tests/data` and commit")


if __name__ == "__main__":
    main()
