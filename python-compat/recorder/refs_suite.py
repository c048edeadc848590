"""Mutable references under transformations.

`params.function` names the function, after `ref_`. `op` is `call` (with derivatives in both
modes), `vmap` over axis 0 of the operands `params.mapped`, or `vmap(grad)`: the gradient of
`sum(y**2)` over all results by operand 0, for every row.

JAX does not batch or differentiate every function with references. Where it does not, the expected
results are those of the same function without references.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .ops_elementwise import inside
from .suite import Suite

LOOSE = {"f32": {"rtol": 2e-5, "atol": 5e-6}, "f64": {"rtol": 1e-11, "atol": 1e-12}}
FUNCTIONS = {}
OPERANDS = {}
MAPPED = {}
# Functions without references that compute the same, for cases that JAX refuses.
PURE = {}
ROWS = 3


def function(*specs, mapped=((0,),)):
    """Registers a function with the shapes of its operands and the sets that `vmap` maps."""

    def register(f):
        FUNCTIONS[f.__name__] = f
        OPERANDS[f.__name__] = specs
        MAPPED[f.__name__] = mapped
        return f

    return register


@function((5,))
def summed(xs):
    total = jax.new_ref(jnp.zeros_like(xs[0]))

    def step(_, x):
        total[...] += x * x
        return (), total[...]

    _, sums = lax.scan(step, (), xs)
    return [jax.freeze(total), sums]


@function((4,), (), mapped=((0,), (1,), (0, 1)))
def recurrence(xs, a):
    history = jax.new_ref(jnp.zeros((5,), xs.dtype))
    history[0] = a

    def body(i, _):
        history[i + 1] = jnp.sin(history[i] * xs[i]) + a

    lax.fori_loop(0, 4, body, None)
    return [history[...]]


def _pure_recurrence(xs, a):
    history = [a]
    for x in xs:
        history.append(jnp.sin(history[-1] * x) + a)
    return [jnp.stack(history)]


PURE["recurrence"] = _pure_recurrence


@function((4,))
def exchanged(x):
    r = jax.new_ref(x * 2.0)
    old = jax.ref.swap(r, 1, x[3] * x[0])
    r[2] = old * r[1]
    return [jax.freeze(r), old]


@function((4,), (6,), mapped=((0,), (1,)))
def scattered(x, w):
    r = jax.new_ref(x)
    rows = np.array([0, 2, 2, 1, 3, 0])
    r.addupdate(w * w, rows)
    return [r[...], r[np.array([3, 3, 1])] * w[:3]]


@function((3,), (), mapped=((0,), (1,)))
def chosen(x, a):
    r = jax.new_ref(jnp.sin(x))

    def larger():
        r[0] = r[1] * a

    def smaller():
        r[...] = r[...] + a

    lax.cond(a > 0.0, larger, smaller)
    lax.cond(a > 9.0, larger, lambda: None)
    return [r[...]]


def _pure_chosen(x, a):
    r = jnp.sin(x)
    for bound, smaller in [(0.0, r + a), (9.0, None)]:
        larger = r.at[0].set(r[1] * a)
        r = jnp.where(a > bound, larger, r if smaller is None else smaller)
    return [r]


PURE["chosen"] = _pure_chosen


@function((3,), np.int32(1), mapped=())
def switched(x, index):
    first, second = jax.new_ref(x), jax.new_ref(x * x)

    def add():
        first[...] += second[...]
        return first[0]

    def multiply():
        second[...] *= first[...]
        return second[0]

    y = lax.switch(index, [add, multiply, lambda: x[2]])
    return [y, first[...], second[...]]


@function((3, 4), ())
def nested(rows, a):
    total = jax.new_ref(jnp.zeros((), rows.dtype))
    largest = jax.new_ref(jnp.zeros((3,), rows.dtype))

    def row(i, xs):
        def element(_, x):
            total[...] = jnp.cos(total[...] * a) + x
            return (), ()

        lax.scan(element, (), xs)
        largest[i] = total[...] * xs[0]
        return i + 1, total[...]

    _, ys = lax.scan(row, 0, rows)
    return [ys, largest[...], total[...]]


@function((6, 2), (3, 3), (2, 3))
def hidden_state(xs, w_h, w_x):
    h = jax.new_ref(jnp.zeros((3,), xs.dtype))

    def step(_, x):
        h[...] = jnp.tanh(h[...] @ w_h + x @ w_x)
        return (), h[0]

    _, ys = lax.scan(step, (), xs, reverse=True)
    return [jax.freeze(h), ys]


@function((3,))
def inner_jit(x):
    @jax.jit
    def push(r, value):
        r[1:] = r[:2] * value
        return r[0]

    r = jax.new_ref(x)
    first = push(r, x[0])
    second = push(r, x[1] + 1.0)
    return [r[...], first * second]


@function((4, 2), (4,), mapped=((0,), (1,)))
def mapped_argument(rows, scales):
    r = jax.new_ref(rows)

    def one(row, scale):
        row[0] = row[1] * scale
        return row[...].sum()

    sums = jax.vmap(one)(r, scales)
    return [r[...], sums]


@function((5, 4))
def slices(x):
    r = jax.new_ref(x)
    r[1:3, 0] = jnp.exp(r[0, 1:3])
    r[::2] = r[::2] * 3.0
    r[..., 1:2] += x[:, 3:]
    return [r[...], r[1], r[:, 1:]]


@function((3,), (3,), mapped=((0,), (0, 1)))
def crossed(x, y):
    a, b = jax.new_ref(x), jax.new_ref(y)

    def body(i, c):
        old = jax.ref.swap(a, ..., b[...] * c)
        b[...] = jnp.sin(old)
        return c + a[0]

    c = lax.fori_loop(0, 3, body, jnp.ones((), x.dtype))
    return [a[...], b[...], c]


@function((4,))
def mapped_loop(xs):
    count = jax.new_ref(jnp.zeros((), xs.dtype))

    def one(x):
        count[...] += x
        return x * count[...]

    ys = lax.map(one, xs)
    return [ys, count[...]]


@function((3,), ())
def branch_values(x, a):
    r = jax.empty_ref(jax.ShapeDtypeStruct((3,), x.dtype))
    r[...] = x * a

    def step(c, i):
        def keep():
            return r[i]

        def change():
            r[i] = r[i] * c
            return r[i] + a

        return lax.cond(i % 2 == 0, keep, change), r[0]

    c, ys = lax.scan(step, a, jnp.arange(3))
    return [c, ys, r[...]]


def _pure_branch_values(x, a):
    r, c, ys = x * a, a, []
    for i in range(3):
        if i % 2:
            r = r.at[i].set(r[i] * c)
            c = r[i] + a
        else:
            c = r[i]
        ys.append(r[0])
    return [c, jnp.stack(ys), r]


PURE["branch_values"] = _pure_branch_values


def _draw(name, index, spec, kind, rows=None):
    if not isinstance(spec, tuple):
        return np.arange(-1, ROWS - 1, dtype=np.int32) * 2 + spec if rows else np.asarray(spec)
    return inside(f"{name}{index}", (-1.2, 1.4), kind, spec if rows is None else (rows, *spec))


def _total(f):
    def total(x, *rest):
        return sum(jnp.sum(y**2) for y in f(x, *rest))

    return total


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("refs", __doc__.strip(), stride=stride, tolerance=LOOSE)
    for name, specs in OPERANDS.items():
        for kind in ("f32", "f64"):
            _cases(suite, name, specs, kind)
    return suite


def _cases(suite, name, specs, kind):
    f, params = FUNCTIONS[name], {"function": f"ref_{name}"}
    pure = PURE.get(name, f)
    inputs = [_draw(name, i, spec, kind) for i, spec in enumerate(specs)]
    real = [i for i, spec in enumerate(specs) if isinstance(spec, tuple)]
    recorded = pure if name == "branch_values" else f
    suite.case(f"{name}_{kind}", "call", inputs, jax.jit(recorded), params, wrt=real)
    if kind == "f32":
        return
    for mapped in MAPPED[name]:
        label = "".join(map(str, mapped))
        batch = [
            _draw(name, i, spec, kind, ROWS if i in mapped else None)
            for i, spec in enumerate(specs)
        ]
        axes = [0 if i in mapped else None for i in range(len(specs))]
        more = params | {"mapped": list(mapped)}
        per_row = jax.jit(jax.vmap(pure, axes))
        suite.case(f"{name}_vmap{label}_{kind}", "vmap", batch, per_row, more)
        of_row = jax.jit(jax.vmap(jax.grad(_total(pure)), axes))
        suite.case(f"{name}_vmap{label}_grad_{kind}", "vmap(grad)", batch, of_row, more)
