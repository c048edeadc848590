"""Solvers: jax.scipy.sparse.linalg, jax.scipy.optimize and jax.experimental.ode."""

import jax
import jax.numpy as jnp
import jax.scipy.sparse.linalg as solvers
import numpy as np
from jax.experimental.ode import odeint
from jax.scipy.optimize import minimize

from .ops_elementwise import inside
from .scipy_linalg_suite import definite, matrix
from .suite import Suite

# Iterations stop at a tolerance, and odeint's steps have their own error.
TOLERANCE = {
    "f32": {"rtol": 2e-4, "atol": 2e-5},
    "f64": {"rtol": 1e-6, "atol": 1e-7},
    "c64": {"rtol": 2e-4, "atol": 2e-5},
    "c128": {"rtol": 1e-6, "atol": 1e-7},
}
EXACT_STEPS = {"rtol": 0.0, "atol": 0.0}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_solvers", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in ("f32", "f64", "c128"):
        _linear(suite, kind)
    for kind in ("f32", "f64"):
        _minimize(suite, kind)
        _odeint(suite, kind)
    _odeint_complex(suite)
    return suite


def _linear(suite, kind):
    a, b = definite("solve_definite", kind, (6, 6)), inside("solve_b", (-1, 1), kind, (6,))
    general = matrix("solve_general", kind, (6, 6))
    tol = 1e-6 if kind == "f32" else 1e-12

    def case(op, label, inputs, solve):
        suite.case(f"{op}_{label}_{kind}", op, inputs, solve, {"tol": tol}, wrt=[0, 1])

    def run(solver, **options):
        return lambda a, b: solver(lambda x: a @ x, b, tol=tol, **options)[0]

    case("cg", "plain", [a, b], run(solvers.cg))
    case("bicgstab", "plain", [general, b], run(solvers.bicgstab))
    case("gmres", "plain", [general, b], run(solvers.gmres))
    case("gmres_incremental", "plain", [general, b], run(solvers.gmres, solve_method="incremental"))

    def preconditioned(solver, **options):
        def solve(a, b):
            inverse = 1 / jnp.diag(a)
            return solver(lambda x: a @ x, b, tol=tol, M=lambda x: inverse * x, **options)[0]

        return solve

    case("cg_preconditioned", "plain", [a, b], preconditioned(solvers.cg))
    case("bicgstab_preconditioned", "plain", [general, b], preconditioned(solvers.bicgstab))

    def trees(solver):
        def solve(a, b):
            def matvec(x):
                full = a @ jnp.concatenate([x[0], x[1].reshape(-1)])
                return full[:2], full[2:].reshape(2, 2)

            x = solver(matvec, (b[:2], b[2:].reshape(2, 2)), tol=tol)[0]
            return jnp.concatenate([x[0], x[1].reshape(-1)])

        return solve

    case("bicgstab_tree", "plain", [general, b], trees(solvers.bicgstab))
    case("gmres_tree", "plain", [general, b], trees(solvers.gmres))


def himmelblau(x):
    """A function with four minima."""
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def quartic(x):
    """A flat minimum."""
    return jnp.sum((x - 1.5) ** 4) + jnp.sum(x**2)


def _minimize(suite, kind):
    # Not Rosenbrock's function: JAX's line search gives up where the second end of an interval is
    # the smaller one, and ends after four steps.
    functions = {"himmelblau": himmelblau, "quartic": quartic}
    starts = {
        "himmelblau": np.array([1.0, 1.0]),
        "quartic": np.array([4.0, -3.0, 0.1]),
    }
    for name, f in functions.items():
        # In f32 the line search ends earlier, and rounding decides where.
        if (name, kind) == ("quartic", "f32"):
            continue
        x0 = starts[name].astype(np.float32 if kind == "f32" else np.float64)

        def run(x0, f=f):
            result = minimize(f, x0, method="BFGS")
            return [result.x, result.fun, result.success]

        # Rounding moves the end of the iteration within the tolerance of the gradient.
        bound = 2e-3 if kind == "f32" else 1e-5
        tolerance = {"rtol": bound, "atol": bound}
        suite.case(
            f"minimize_{name}_{kind}", "minimize", [x0], jax.jit(run), {"function": name},
            tolerance,
        )  # fmt: skip
        # Rounding changes the number of steps for the other function.
        if (name, kind) == ("quartic", "f64"):
            steps = lambda x0, f=f: [
                jnp.asarray(n, jnp.int32)
                for n in (lambda r: (r.nit, r.nfev, r.status))(minimize(f, x0, method="BFGS"))
            ]
            name_ = f"minimize_steps_{name}_{kind}"
            suite.case(name_, "minimize_steps", [x0], jax.jit(steps), {"function": name})


def _odeint(suite, kind):
    dtype = np.float32 if kind == "f32" else np.float64
    t = np.array([0.0, 0.3, 1.0, 1.1, 2.5], dtype)
    tol = 1e-5 if kind == "f32" else 1.4e-8
    bound = 1e-3 if kind == "f32" else 1e-6
    tolerance = {"rtol": bound, "atol": bound}

    def pendulum(y, t, rates):
        angle, speed = y
        return speed, -rates[0] * speed - rates[1] * jnp.sin(angle) + 0.1 * jnp.cos(t)

    def system(y, t, m):
        return jnp.sin(m @ y) - 0.2 * y * t

    def run(y0, t, rates):
        ys = odeint(pendulum, (y0[0], y0[1]), t, rates, rtol=tol, atol=tol)
        return jnp.stack(ys, 1)

    y0, rates = np.array([1.0, 0.5], dtype), np.array([0.25, 5.0], dtype)
    params = {"tol": tol}

    def case(op, label, inputs, compute, wrt=None, **more):
        name = f"{op}_{label}_{kind}"
        compute = compute if wrt else jax.jit(compute)
        suite.case(name, op, inputs, compute, params | more, tolerance)

    case("odeint_pendulum", "values", [y0, t, rates], run)

    def gradient(y0, t, rates):
        weights = jnp.arange(1.0, 11.0).reshape(5, 2).astype(y0.dtype)
        return list(
            jax.grad(lambda y0, t, r: (run(y0, t, r) * weights).sum(), argnums=(0, 1, 2))(
                y0, t, rates
            )
        )

    case("odeint_gradient", "pendulum", [y0, t, rates], gradient)
    m, many = inside("ode_m", (-1, 1), kind, (3, 3)), inside("ode_many", (-1, 1), kind, (4, 3))

    def mapped(many, t, m):
        return jax.vmap(lambda y: odeint(system, y, t, m, rtol=tol, atol=tol))(many)

    case("odeint_mapped", "system", [many, t, m], mapped)

    def mapped_gradient(many, t, m):
        return jax.grad(lambda m: mapped(many, t, m).sum())(m)

    case("odeint_mapped_gradient", "system", [many, t, m], mapped_gradient)

    def captured(y0, t, m):
        captures = lambda m: odeint(lambda y, t: system(y, t, m), y0, t, rtol=tol, atol=tol)
        return jax.grad(lambda m: captures(m).sum())(m)

    case("odeint_captured_gradient", "system", [many[0], t, m], captured)

    def captured_mapped(many, t, m):
        return jax.vmap(lambda y0: captured(y0, t, m))(many)

    case("odeint_captured_mapped", "system", [many, t, m], captured_mapped)
    short = lambda y0, t, m: odeint(system, y0, t, m, rtol=tol, atol=tol, hmax=0.05)
    case("odeint_hmax", "system", [many[0], t, m], short)


def _odeint_complex(suite):
    t = np.array([0.0, 0.5, 2.0])
    y0 = np.array([1.0 + 0.5j, -0.2j])
    turn = lambda y, t, m: m @ y
    m = np.array([[1j, 0.2], [-0.1, -0.5j]])
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    run = lambda y0, t, m: odeint(turn, y0, t, m)
    suite.case("odeint_complex_c128", "odeint_complex", [y0, t, m], jax.jit(run), {}, tolerance)
