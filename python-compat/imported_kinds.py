"""The functions of `imported_functions.py`, by kind."""

import dataclasses
import zlib
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclasses.dataclass
class Case:
    """A function with the arguments of its calls."""

    function: Callable
    calls: list
    # Shapes with dimension variables, as text for each argument's leaf in order; None if known.
    symbolic: Any = None
    vjp_order: int = 0
    platforms: Any = None
    tolerance: float = 1e-6
    constraints: tuple = ()
    jitted: Any = None

    def exported(self):
        arguments = self.calls[0]
        if self.symbolic is None:
            types = jax.tree_util.tree_map(type_of, arguments)
        else:
            scope = export.SymbolicScope(self.constraints)
            leaves, tree = jax.tree_util.tree_flatten(arguments)
            types = [
                type_of(leaf) if text is None else jax.ShapeDtypeStruct(
                    export.symbolic_shape(text, scope=scope, like=leaf.shape), leaf.dtype)
                for leaf, text in zip(leaves, self.symbolic, strict=True)
            ]
            types = jax.tree_util.tree_unflatten(tree, types)
        options = {} if self.platforms is None else {"platforms": self.platforms}
        return export.export(self.jit(), **options)(*types)

    def jit(self):
        return self.jitted if self.jitted is not None else jax.jit(self.function)

    def run(self, exported, arguments):
        if self.jitted is not None:
            return self.jitted(*arguments)
        return exported.call(*arguments)


def type_of(leaf):
    return jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype)


def numbers(name, *shape, dtype=np.float32, low=-1.0, high=1.0):
    """Numbers that depend on the name alone."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    x = generator.uniform(low, high, shape)
    return jnp.asarray(x.astype(dtype))


def integers(name, *shape, low=0, high=10, dtype=np.int32):
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return jnp.asarray(generator.integers(low, high, shape).astype(dtype))


def layers(name, *sizes):
    return [
        {"bias": numbers(f"{name}b{i}", n), "weight": numbers(f"{name}w{i}", m, n)}
        for i, (m, n) in enumerate(zip(sizes, sizes[1:]))
    ]


def mlp(activation):
    def f(params, x):
        for layer in params[:-1]:
            x = activation(x @ layer["weight"] + layer["bias"])
        return x @ params[-1]["weight"] + params[-1]["bias"]

    return f


def mlps():
    x = numbers("x", 5, 4)
    params = layers("mlp", 4, 8, 8, 3)
    for activation in (jax.nn.relu, jax.nn.gelu, jax.nn.silu):
        yield activation.__name__, Case(mlp(activation), [(params, x)])

    def loss(params, x, labels):
        logits = mlp(jnp.tanh)(params, x)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return -picked.mean(), (logits.argmax(-1) == labels).sum()

    labels = integers("labels", 5, high=3)
    yield "loss", Case(loss, [(params, x, labels)])

    def step(params, x, labels):
        gradients = jax.grad(lambda p: loss(p, x, labels)[0])(params)
        return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, gradients)

    yield "step", Case(step, [(params, x, labels)])


def convolutions():
    image = numbers("image", 2, 9, 9, 3)
    kernel, second = numbers("kernel", 3, 3, 3, 4), numbers("second", 3, 3, 4, 4)
    orders = ("NHWC", "HWIO", "NHWC")

    def conv(x, k, stride=1, padding="SAME", **options):
        return lax.conv_general_dilated(x, k, (stride, stride), padding, dimension_numbers=orders,
                                        **options)

    def network(params, x):
        x = jax.nn.relu(conv(x, params["first"]))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(conv(x, params["second"], 2))
        x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
        return x.mean((1, 2)) @ params["head"]

    params = {"first": kernel, "second": second, "head": numbers("head", 4, 10)}
    yield "network", Case(network, [(params, image)])

    def gradient(params, x):
        return jax.grad(lambda p: (network(p, x) ** 2).sum())(params)

    yield "network_gradient", Case(gradient, [(params, image)], tolerance=3e-6)
    deep = numbers("deep", 3, 3, 1, 6)
    yield "depthwise", Case(lambda x, k: conv(x, k, feature_group_count=3), [(image, deep)])
    dilated = lambda x, k: conv(x, k, padding=((2, 1), (0, 3)), rhs_dilation=(2, 1),
                                lhs_dilation=(1, 2))
    yield "dilated", Case(dilated, [(image, kernel)])

    def batch_norm(x, scale, offset):
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset, mean, variance

    yield "batch_norm", Case(batch_norm, [(image, numbers("s", 3), numbers("o", 3))])


def transformers():
    d, heads = 8, 2

    def norm(x, scale):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-6) * scale

    def attention(x, w):
        t = x.shape[-2]
        q, k, v = jnp.split(x @ w["qkv"], 3, axis=-1)
        q, k, v = (y.reshape(*y.shape[:-1], heads, d // heads) for y in (q, k, v))
        scores = jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(d // heads)
        mask = jnp.tril(jnp.ones((t, t), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
        return jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ w["out"]

    def block(x, w):
        x = x + attention(norm(x, w["norm1"]), w)
        return x + jax.nn.gelu(norm(x, w["norm2"]) @ w["up"]) @ w["down"]

    def weights(name):
        return {
            "qkv": numbers(name + "q", d, 3 * d), "out": numbers(name + "o", d, d),
            "up": numbers(name + "u", d, 2 * d), "down": numbers(name + "d", 2 * d, d),
            "norm1": numbers(name + "1", d), "norm2": numbers(name + "2", d),
        }

    params = {"embed": numbers("embed", 11, d), "position": numbers("position", 16, d),
              "blocks": [weights("a"), weights("b")], "norm": numbers("n", d)}

    def gpt(params, tokens):
        x = params["embed"][tokens] + params["position"][: tokens.shape[1]]
        for w in params["blocks"]:
            x = block(x, w)
        return norm(x, params["norm"]) @ params["embed"].T

    tokens = integers("tokens", 2, 6, high=11)
    yield "block", Case(lambda x, w: block(x, w), [(numbers("x", 2, 5, d), weights("a"))])
    yield "gpt", Case(gpt, [(params, tokens)], tolerance=3e-6)

    def loss(params, tokens):
        logits = gpt(params, tokens[:, :-1])
        hot = jax.nn.one_hot(tokens[:, 1:], 11)
        return -(hot * jax.nn.log_softmax(logits)).sum(-1).mean()

    yield "gpt_loss", Case(loss, [(params, tokens)])
    yield "gpt_gradient", Case(jax.grad(loss), [(params, tokens)], tolerance=3e-6)

    def decode(params, tokens):
        def step(i, tokens):
            logits = gpt(params, tokens)
            best = jnp.argmax(logits[:, i], -1).astype(tokens.dtype)
            return lax.dynamic_update_slice(tokens, best[:, None], (0, i + 1))

        return lax.fori_loop(2, 5, step, tokens)

    yield "greedy_decoding", Case(decode, [(params, tokens)])


def loops():
    xs = numbers("xs", 7, 3)

    def cumulative(xs):
        return lax.scan(lambda c, x: (c * 0.5 + x, jnp.sin(c)), jnp.zeros(3), xs)

    yield "scan", Case(cumulative, [(xs,)])

    def lstm(w, xs):
        def cell(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ w["x"] + h @ w["h"] + w["b"], 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return lax.scan(cell, (jnp.zeros(4), jnp.zeros(4)), xs)

    w = {"x": numbers("wx", 3, 16), "h": numbers("wh", 4, 16), "b": numbers("wb", 16)}
    yield "lstm", Case(lstm, [(w, xs)])
    yield "lstm_gradient", Case(
        jax.grad(lambda w, xs: jnp.square(lstm(w, xs)[1]).sum()), [(w, xs)], tolerance=3e-6)
    reverse = lambda xs: lax.scan(lambda c, x: (c + x, c * x), jnp.ones(3), xs, reverse=True)
    yield "reverse_scan", Case(reverse, [(xs,)])
    nested = lambda xs: lax.scan(
        lambda c, x: (lax.fori_loop(0, 3, lambda i, y: y * 0.9 + x * i, c), c.sum()),
        jnp.ones(3), xs)
    yield "nested_scan", Case(nested, [(xs,)])
    associative = lambda xs: lax.associative_scan(lambda a, b: a * b + b, xs)
    yield "associative_scan", Case(associative, [(xs,)])


def conditions():
    newton = lambda a: lax.while_loop(
        lambda x: jnp.abs(x * x - a) > 1e-5 * a, lambda x: 0.5 * (x + a / x), a)
    yield "newton", Case(newton, [(jnp.float32(3.0),)])

    def collatz(n):
        step = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
        return lax.while_loop(lambda s: s[0] != 1, step, (n, jnp.int32(0)))

    yield "collatz", Case(collatz, [(jnp.int32(27),), (jnp.int32(1),)])
    branch = lambda p, x: lax.cond(p, jnp.sin, lambda x: x * x, x)
    x = numbers("x", 4)
    yield "cond", Case(branch, [(jnp.bool_(True), x), (jnp.bool_(False), x)])
    switch = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: -x], x)
    yield "switch", Case(switch, [(jnp.int32(0), x), (jnp.int32(7), x)])

    def mapped(x):
        grow = lambda x: lax.while_loop(lambda y: y.sum() < 9.0, lambda y: 1.5 * y + 0.1, x)
        return jax.vmap(grow)(x)

    yield "mapped_while", Case(mapped, [(numbers("m", 3, 2, low=0.1),)])


def results():
    x, y = numbers("x", 3, 4), numbers("y", 3, 4)

    def nested(x, y):
        return {"sum": x + y, "parts": [(x * y).sum(0), (x, None)], "same": x, "one": 1.0}

    yield "tree", Case(nested, [(x, y)])
    yield "none", Case(lambda x: (), [(x,)])
    yield "unused_arguments", Case(lambda x, y, z: y * 2, [(x, y, x)])
    moments = lambda x: (x.mean(0), x.var(0), x.min(0), x.max(0), x.argmin(0), jnp.median(x))
    yield "moments", Case(moments, [(x,)])

    def sorting(x, k):
        values, indices = lax.top_k(x, 2)
        order = lax.sort((k, x), dimension=1, num_keys=1)
        two = lax.sort((k, x, -x), dimension=0, num_keys=2)
        return jnp.sort(x, 0), jnp.argsort(x), values, indices, order, two

    yield "sorting", Case(sorting, [(x, integers("k", 3, 4, high=3))])

    def indexing(x, i):
        y = x.at[i].add(1.0).at[:, 2].set(0.5).at[1, 1].multiply(3.0).at[0].max(0.25)
        masked = jnp.where(x > 0, x, 0.0)
        taken = jnp.take(x, i, axis=1, mode="fill", fill_value=9.0)
        return y, x[i, i], x[::-1, 1:3], jnp.roll(masked, 1, 1), taken, jnp.pad(x, 1)

    yield "indexing", Case(indexing, [(x, jnp.int32([0, 2, 2]))])

    def elementwise(x, y):
        unary = [jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.exp, jnp.expm1, jnp.log1p, jnp.sqrt,
                 jnp.cbrt, jnp.abs, jnp.sign, jnp.floor, jnp.ceil, jnp.round, jnp.isfinite,
                 jax.scipy.special.erf, jax.scipy.special.erfinv, jax.scipy.special.gammaln,
                 jax.scipy.special.digamma, jnp.arcsin, jnp.arctanh, jnp.sinh, jnp.logical_not]
        binary = [jnp.maximum, jnp.minimum, jnp.arctan2, jnp.power, jnp.fmod, jnp.remainder,
                  jnp.nextafter, jnp.hypot, jnp.logaddexp, jnp.floor_divide]
        return [f(x) for f in unary], [f(jnp.abs(x), y) for f in binary]

    yield "elementwise", Case(elementwise, [(jnp.abs(x) * 0.9, y)])

    def bits(a, b):
        return (a & b, a | b, a ^ b, ~a, a << 2, a >> 1, lax.population_count(a), lax.clz(a),
                lax.shift_right_logical(a, jnp.int32(3)), lax.rem(a, b), lax.div(a, b),
                lax.bitcast_convert_type(a, jnp.float32))

    yield "bits", Case(bits, [(integers("a", 6, low=-99, high=99), integers("b", 6, low=1))])
    spectrum = lambda x: (jnp.fft.rfft(x), jnp.fft.ifft2(jnp.fft.fft2(x)), jnp.fft.irfft(x + 0j))
    yield "spectrum", Case(spectrum, [(x,)], tolerance=3e-6)
    key = jax.random.key(7)

    def drawing(key):
        a, b = jax.random.split(key)
        return (jax.random.normal(a, (3,)), jax.random.uniform(b, (2, 2)),
                jax.random.permutation(a, 6), jax.random.bernoulli(b, 0.3, (5,)),
                jax.random.randint(a, (4,), 0, 100), jax.random.categorical(b, jnp.zeros(4)))

    yield "drawing", Case(drawing, [(jax.random.PRNGKey(7),)])
    yield "typed_key", Case(lambda key: jax.random.normal(key, (3,)), [(key,)])
    cumulative = lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x), lax.cumlogsumexp(x))
    yield "cumulative", Case(cumulative, [(x,)])


def narrow():
    x, w = numbers("x", 4, 6), numbers("w", 6, 3)
    for dtype in ("bfloat16", "float16"):
        a, b = x.astype(dtype), w.astype(dtype)
        yield dtype, Case(lambda a, b: jax.nn.softmax(jnp.tanh(a @ b)), [(a, b)], tolerance=2e-2)
    mixed = lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32)
    yield "mixed", Case(mixed, [(x.astype("bfloat16"), w.astype("bfloat16"))])

    def quantized(x, w):
        scale = jnp.abs(w).max(0) / 127
        q = jnp.round(w / scale).astype(jnp.int8)
        activations = jnp.clip(jnp.round(x * 127), -128, 127).astype(jnp.int8)
        product = lax.dot(activations, q, preferred_element_type=jnp.int32)
        return product.astype(jnp.float32) * scale / 127, q, product

    yield "int8", Case(quantized, [(x, w)])
    wide = lambda a: (a.astype(jnp.int8) + jnp.int8(3), a * 2, a.astype(jnp.float32))
    yield "int4", Case(wide, [(integers("a", 8, low=-8, high=7).astype(jnp.int4),)])

    def rounded(x):
        # Old versions drop conversions there and back.
        return lax.optimization_barrier(x.astype(jnp.float8_e4m3fn)).astype(jnp.float32)

    yield "float8", Case(rounded, [(x,)])
    yield "complex", Case(lambda a, b: (a @ b, jnp.abs(a), a.conj().T, jnp.exp(a), a.real),
                          [(x + 1j * x, w - 2j * w)], tolerance=3e-6)
    yield "unsigned", Case(lambda a: (a + 250, a // 3, a.astype(jnp.float32), a > 2),
                           [(integers("u", 9, dtype=np.uint8),)])


def symbolic():
    x = lambda n, m=4: numbers(f"x{n}{m}", n, m)
    params = layers("mlp", 4, 8, 3)
    known = [None] * 4
    yield "mlp", Case(mlp(jax.nn.relu), [(params, x(2)), (params, x(7))], known + ["b, 4"])
    two = lambda x, w: (x @ w, x.sum(0), jnp.concatenate([x, x[:, 1:]], 1), x.reshape(-1))
    yield "two", Case(two, [(x(2), numbers("w", 4, 3)), (x(3, 5), numbers("v", 5, 3))],
                      ["b, n", "n, 3"])
    softmax = lambda x: jax.nn.softmax(x) * x.shape[0]
    yield "softmax", Case(softmax, [(x(3, 4),), (x(5, 2),)], ["b, n"])
    even = lambda x: x.reshape(2, -1, x.shape[1]).sum(0) + jnp.arange(x.shape[0] // 2)[:, None]
    yield "even", Case(even, [(x(4),), (x(6),)], ["2*b, 4"])
    windows = lambda x: (x[:-1] - x[1:], x[::2], jnp.pad(x, ((1, 2), (0, 0))),
                         jnp.broadcast_to(x[0], x.shape), x.mean())
    yield "slices", Case(windows, [(x(5),), (x(8),)], ["b, 4"], constraints=("b >= 3",))
    loop = lambda x: lax.fori_loop(0, x.shape[0], lambda i, y: y + x[i] * i, jnp.zeros(4))
    yield "loop", Case(loop, [(x(3),), (x(6),)], ["b, 4"])
    scanned = lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.ones(4), x)
    yield "scan", Case(scanned, [(x(3),), (x(6),)], ["b, 4"])
    picked = lambda x, i: (x[i], x.at[i].add(1.0), jnp.argmax(x, 0), jnp.sort(x, 0))
    yield "indexing", Case(picked, [(x(3), jnp.int32([0, 2])), (x(5), jnp.int32([4, 4, 1]))],
                           ["b, 4", "k"])
    drawn = lambda key, x: x * jax.random.uniform(key, x.shape)
    key = jax.random.PRNGKey(3)
    yield "drawing", Case(drawn, [(key, x(3)), (key, x(4))], [None, "b, 4"])
    convolved = lambda x, k: lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    k = numbers("k", 3, 3, 2, 2)
    yield "convolution", Case(convolved, [(numbers("i1", 1, 5, 5, 2), k),
                                          (numbers("i3", 3, 5, 5, 2), k)], ["b, 5, 5, 2", None])


def sharded():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    at = lambda *spec: NamedSharding(mesh, PartitionSpec(*spec))
    x, w = numbers("x", 8, 4), numbers("w", 4, 6)

    def product(x, w):
        y = lax.with_sharding_constraint(jnp.tanh(x @ w), at("data", "model"))
        return y, y.sum()

    jitted = jax.jit(product, in_shardings=(at("data"), at(None, "model")),
                     out_shardings=(at("data", "model"), at()))
    yield "product", Case(product, [(x, w)], jitted=jitted)

    def step(w, x):
        return w - 0.1 * jax.grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w)

    jitted = jax.jit(step, in_shardings=(at("model"), at("data")), out_shardings=at("model"))
    yield "step", Case(step, [(w, x)], jitted=jitted)

    def mean(x):
        total = lax.psum(x.sum(0), "data")
        index = lax.axis_index("data").astype(jnp.float32)
        moved = lax.ppermute(x, "data", [(i, (i + 1) % 4) for i in range(4)])
        gathered = lax.all_gather(x, "data").sum()
        return total / 8, x * index + moved, lax.pmax(gathered, "model")

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map
    names = shard_map.__code__.co_varnames if hasattr(shard_map, "__code__") else ()
    check = {"check_rep": False} if jax.__version_info__ < (0, 6, 1) else {"check_vma": False}
    specs = PartitionSpec("data"), (PartitionSpec(), PartitionSpec("data"), PartitionSpec())
    mapped = shard_map(mean, mesh=mesh, in_specs=specs[0], out_specs=specs[1], **check)
    yield "shard_map", Case(mapped, [(x,)], jitted=jax.jit(mapped))


def gradients():
    w, x = numbers("w", 4, 2), numbers("x", 3, 4)
    yield "tanh", Case(lambda w, x: jnp.tanh(x @ w), [(w, x)], vjp_order=1)
    params = layers("mlp", 4, 8, 3)
    yield "mlp", Case(mlp(jax.nn.gelu), [(params, x)], vjp_order=2, tolerance=3e-6)

    def taken(table, i):
        return {"rows": table[i], "index": i + 1}

    yield "integers", Case(taken, [(x, jnp.int32([2, 0, 2]))], vjp_order=1)
    scanned = lambda w, x: lax.scan(lambda c, r: (jnp.tanh(c @ w[:, :1] + r), c), jnp.ones(4), x)
    yield "scan", Case(scanned, [(w, x)], vjp_order=1)

    @jax.custom_vjp
    def clipped(x):
        return x * x

    clipped.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * 2 * x,))
    yield "custom_vjp", Case(lambda x: clipped(x) + x, [(x,)], vjp_order=1)
    yield "symbolic", Case(lambda w, x: jnp.sin(x @ w), [(w, x), (w, numbers("z", 5, 4))],
                           [None, "b, 4"], vjp_order=1)


def algebra():
    a = numbers("a", 4, 4)
    positive = a @ a.T + 2 * jnp.eye(4)
    b = numbers("b", 4, 2)
    linalg = jnp.linalg
    yield "cholesky", Case(linalg.cholesky, [(positive,)], tolerance=3e-6)
    triangular = lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1)
    yield "triangular_solve", Case(triangular, [(linalg.cholesky(positive), b)], tolerance=3e-6)
    yield "solve", Case(linalg.solve, [(a, b)], tolerance=3e-5)
    yield "inverse", Case(lambda a: (linalg.inv(a), linalg.det(a), linalg.slogdet(a)[1]), [(a,)],
                          tolerance=3e-5)
    yield "lu", Case(lambda a: tuple(jax.lax.linalg.lu(a)), [(a,), ], tolerance=3e-6)
    batch = jnp.stack([a, a.T])
    yield "lu_batch", Case(lambda a: tuple(jax.lax.linalg.lu(a)), [(batch,)], tolerance=3e-6)
    yield "qr", Case(lambda a: tuple(linalg.qr(a)), [(numbers("q", 5, 3),)], tolerance=3e-6)
    full = lambda a: tuple(linalg.qr(a, mode="complete"))
    yield "qr_complete", Case(full, [(numbers("q", 5, 3),)], tolerance=3e-6)

    def eigenvectors(a):
        # They are unique up to their signs.
        w, v = linalg.eigh(a)
        return w, jnp.abs(v), (v * w) @ v.T

    yield "eigh", Case(eigenvectors, [(positive,)], tolerance=1e-5)

    def decomposed(a):
        # Singular vectors are unique up to their signs.
        u, s, vt = linalg.svd(a, full_matrices=False)
        return jnp.abs(u), s, jnp.abs(vt), (u * s) @ vt

    yield "svd", Case(decomposed, [(numbers("s", 5, 3),)], tolerance=1e-5)
    yield "singular_values", Case(lambda a: linalg.svd(a, compute_uv=False),
                                  [(numbers("s", 5, 3),)], tolerance=1e-5)
    yield "eigenvalues", Case(linalg.eigvals, [(a,)], tolerance=1e-5)
    yield "cho_solve", Case(lambda a, b: jax.scipy.linalg.cho_solve(
        (linalg.cholesky(a), True), b), [(positive, b)], tolerance=1e-5)
    yield "least_squares", Case(lambda a, b: linalg.lstsq(a, b)[0],
                                [(numbers("l", 6, 3), numbers("r", 6))], tolerance=3e-5)
    yield "expm", Case(jax.scipy.linalg.expm, [(a,)], tolerance=1e-5)


KINDS = {
    "mlp": mlps, "convolution": convolutions, "transformer": transformers, "scan": loops,
    "while": conditions, "results": results, "narrow": narrow, "symbolic": symbolic,
    "sharded": sharded, "gradient": gradients, "algebra": algebra,
}


def all_cases():
    for kind, make in KINDS.items():
        for name, case in make():
            yield kind, name, case
