"""One training step of residual networks in Flax and Optax.

Records loss, logits, statistics, and gradients and updates of every leaf. Parameters and images are
not stored: oxidax and JAX compute them. One draw `uniform(key(0), [n], -1, 1)` fills the leaves in
the order of `layout`, first the parameters, then the running statistics. README.md states the
formula. The tables hold mean, Euclidean norm and eight elements of each leaf. `rounding` is the
difference between the step in float32 and in float64.

The deep network is computed in float64. In float32, rounding changes the sign of a few activations,
and with it the gradient that relu passes on. The last activations of these images are 2x2, so that
one sign changes the gradient of a channel by several hundredths, in JAX too.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .suite import Suite

RECIPE = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01, "label_smoothing": 0.1}
NETS = {
    "resnet_50": {
        "blocks": [3, 4, 6, 3],
        "bottleneck": True,
        "width": 64,
        "classes": 1000,
        "batch": 2,
        "size": 64,
        "dtype": "f64",
    },
    "bottlenecks": {
        "blocks": [2, 1, 1, 1],
        "bottleneck": True,
        "width": 8,
        "classes": 10,
        "batch": 8,
        "size": 64,
        "dtype": "f32",
    },
    "basic": {
        "blocks": [2, 1, 1, 1],
        "bottleneck": False,
        "width": 8,
        "classes": 10,
        "batch": 8,
        "size": 64,
        "dtype": "f32",
    },
}
OUTPUTS = ["loss", "logits", "stats", "gradients", "updates"]
TOLERANCE = {"f32": {"rtol": 1e-3, "atol": 1e-5}, "f64": {"rtol": 1e-9, "atol": 1e-11}}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def convolutions(net):
    """Yields every convolution in order: name, window, input and output channels, stride."""
    width, expansion = net["width"], 4 if net["bottleneck"] else 1
    yield "trunk.stem", 7, 3, width, 2
    n_in, n = width, width
    for stage, count in enumerate(net["blocks"]):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            name, n_out = f"trunk.stages[{stage}][{block}]", n * expansion
            sizes = (
                [(1, n_in, n, 1), (3, n, n, stride), (1, n, n_out, 1)]
                if net["bottleneck"]
                else [(3, n_in, n, stride), (3, n, n, 1)]
            )
            for at, size in enumerate(sizes):
                yield f"{name}.main[{at}]", *size
            if stride != 1 or n_in != n_out:
                yield f"{name}.shortcut", 1, n_in, n_out, stride
            n_in = n_out
        n *= 2


def layout(net):
    """Returns the parameters and the statistics in order, each as module, Flax's name and shape."""
    params, stats = [], []
    for name, k, n_in, n_out, _ in convolutions(net):
        params += [
            (f"{name}.conv", "kernel", (k, k, n_in, n_out)),
            (f"{name}.norm", "scale", (n_out,)),
            (f"{name}.norm", "bias", (n_out,)),
        ]
        stats += [(f"{name}.norm", "mean", (n_out,)), (f"{name}.norm", "var", (n_out,))]
        width = n_out if "shortcut" not in name else width
    params += [("head", "kernel", (width, net["classes"])), ("head", "bias", (net["classes"],))]
    return params, stats


class Net(nn.Module):
    """The model of `crates/models/src/resnet` with Flax's layers."""

    net: dict
    dtype: type

    @nn.compact
    def __call__(self, x):
        sizes = {name: rest for name, *rest in convolutions(self.net)}

        def layer(name, x):
            k, _, n_out, stride = sizes[name]
            x = nn.Conv(
                n_out,
                (k, k),
                stride,
                [(k // 2, k // 2)] * 2,
                use_bias=False,
                dtype=self.dtype,
                name=f"{name}.conv",
            )(x)
            return nn.BatchNorm(
                use_running_average=False, momentum=0.9, dtype=self.dtype, name=f"{name}.norm"
            )(x)

        x = nn.max_pool(nn.relu(layer("trunk.stem", x)), (3, 3), (2, 2), [(1, 1)] * 2)
        for stage, count in enumerate(self.net["blocks"]):
            for block in range(count):
                name, y = f"trunk.stages[{stage}][{block}]", x
                for at in range(3 if self.net["bottleneck"] else 2):
                    y = layer(f"{name}.main[{at}]", nn.relu(y) if at else y)
                x = nn.relu(
                    y + (layer(f"{name}.shortcut", x) if f"{name}.shortcut" in sizes else x)
                )
        return nn.Dense(self.net["classes"], dtype=self.dtype, name="head")(x.mean((1, 2)))


def start(net):
    """Returns the initial parameters and statistics as Flax's two trees in f32."""
    params, stats = layout(net)
    sizes = [int(np.prod(shape)) for *_, shape in params + stats]
    draws = np.asarray(jax.random.uniform(jax.random.key(0), (sum(sizes),), jnp.float32, -1, 1))
    trees, at = ({}, {}), 0
    for (module, name, shape), size, tree in zip(
        params + stats, sizes, [trees[0]] * len(params) + [trees[1]] * len(stats)
    ):
        u, at = draws[at : at + size].reshape(shape), at + size
        if len(shape) > 1:
            value = u * np.float32(np.sqrt(6 / np.prod(shape[:-1])))
        elif name in ("scale", "var"):
            value = np.float32(1) + np.float32(0.2) * u
        else:
            value = np.float32(0.1) * u
        tree.setdefault(module, {})[name] = value
    return trees


def examples(net):
    """Returns images u8[b, size, size, 3] and classes."""
    shape = (net["batch"], net["size"], net["size"], 3)
    images = jax.random.randint(jax.random.key(1), shape, 0, 256, jnp.int32)
    return np.asarray(images).astype(np.uint8), np.array(
        [(7 * i + 3) % net["classes"] for i in range(net["batch"])], np.int32
    )


def table(leaves):
    """Returns mean, norm and eight elements of each leaf: [leaves, 10]."""
    rows = []
    for leaf in leaves:
        flat = np.asarray(leaf, np.float64).ravel()
        rows.append(
            [
                flat.mean(),
                np.linalg.norm(flat),
                *(flat[flat.size * (2 * k + 1) // 16] for k in range(8)),
            ]
        )
    return np.array(rows)


def step(net, dtype):
    """Computes one step in a dtype. Returns the arrays of `OUTPUTS`, with tables in float64."""
    params, stats = jax.tree.map(lambda x: jnp.asarray(x.astype(dtype)), start(net))
    images, labels = examples(net)
    model = Net(net, dtype)
    shapes = jax.eval_shape(
        lambda: model.init(jax.random.key(0), jnp.zeros((1, *images.shape[1:]), dtype))
    )
    assert jax.tree.map(jnp.shape, shapes["params"]) == jax.tree.map(jnp.shape, params), (
        "Flax's parameters differ from `layout`"
    )
    decay = optax.add_decayed_weights(
        RECIPE["weight_decay"], lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)
    )
    optimizer = optax.chain(
        decay, optax.sgd(RECIPE["learning_rate"], RECIPE["momentum"], nesterov=True)
    )

    def loss(params, stats, images):
        x = (images.astype(dtype) / 255 - jnp.array(MEAN, dtype)) / jnp.array(DEVIATION, dtype)
        logits, new = model.apply(
            {"params": params, "batch_stats": stats}, x, mutable=["batch_stats"]
        )
        soft = optax.smooth_labels(
            jax.nn.one_hot(labels, net["classes"], dtype=dtype), RECIPE["label_smoothing"]
        )
        return optax.softmax_cross_entropy(logits, soft).mean(), (logits, new["batch_stats"])

    @jax.jit
    def run(params, stats, images):
        (value, (logits, stats)), gradients = jax.value_and_grad(loss, has_aux=True)(
            params, stats, images
        )
        updates, _ = optimizer.update(gradients, optimizer.init(params), params)
        return value, logits, stats, gradients, updates

    value, logits, stats, gradients, updates = run(params, stats, images)
    ordered = lambda tree, names: table([tree[module][name] for module, name, _ in names])
    names, stat_names = layout(net)
    return [
        np.asarray(value),
        np.asarray(logits),
        ordered(stats, stat_names),
        ordered(gradients, names),
        ordered(updates, names),
    ]


def rounding(narrow, wide, net):
    """Returns the difference between float32 and float64.

    The loss has a relative difference. Logits are compared by the largest one, and tables by the
    root mean square of each leaf.
    """
    sizes = [np.array([np.prod(shape) for *_, shape in leaves]) for leaves in layout(net)]
    differences = {
        "loss": abs(float(narrow[0]) / float(wide[0]) - 1),
        "logits": np.abs(narrow[1] - wide[1]).max() / np.abs(wide[1]).max(),
    }
    for name, a, b, n in zip(OUTPUTS[2:], narrow[2:], wide[2:], (sizes[1], sizes[0], sizes[0])):
        rms = b[:, 1] / np.sqrt(n)
        differences[name] = max(
            (np.abs(a - b)[:, 1] / b[:, 1]).max(),
            (np.abs(a - b)[:, [0, *range(2, 10)]] / rms[:, None]).max(),
        )
    return {name: float(f"{value:.1e}") for name, value in differences.items()}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite: one step of each network."""
    suite = Suite("resnet", __doc__.strip(), stride=stride)
    for name, net in NETS.items():
        notes = {}

        def outputs(net=net, notes=notes):
            wide = step(net, np.float64)
            if net["dtype"] == "f64":
                print(f"resnet: {name}: loss {wide[0]:.6f}")
                return wide
            with jax.enable_x64(False):
                narrow = step(net, np.float32)
            notes["rounding"] = rounding(narrow, wide, net)
            print(
                f"resnet: {name}: loss {narrow[0]:.6f}, "
                f"float32 and float64 differ by {notes['rounding']}"
            )
            # Tables of a step in f32 are stored in f32.
            return [narrow[0], narrow[1], *(table.astype(np.float32) for table in narrow[2:])]

        suite.case(
            name,
            "train_step",
            [],
            outputs,
            net | RECIPE,
            TOLERANCE[net["dtype"]],
            output_names=OUTPUTS,
            notes=notes,
        )
    return suite
