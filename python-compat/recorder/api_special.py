"""Functions of `jax.scipy.special`, distributions and ranks of `jax.scipy.stats`, and attention."""

import jax
from jax.scipy import special as s
from jax.scipy import stats as t

from .api_table import B, I, R, Row, V

BOTH = ("f32", "f64")
_X = R((2, 4))
_P = R((2, 4), 0.05, 0.95)
_LOOSE = {"rtol": 1e-5, "atol": 1e-6}
_SCALE = R((4,), 0.5, 2)


def _distribution(
    name,
    functions,
    operand=_X,
    wrt=(0, 1, 2),
    kinds=("f32",),
    more=(),
    tolerance=_LOOSE,
    loc=(-2, 2),
):
    module = getattr(t, name)
    wide = [*more, R((4,), *loc), _SCALE]
    for function in functions:
        first = _P if function in ("ppf", "isf") else operand
        yield Row(
            f"{name}.{function}",
            [first, *wide],
            getattr(module, function),
            wrt,
            kinds,
            batch=function in ("logpdf", "ppf"),
            tolerance=tolerance,
        )


def _attention(**options):
    def run(q, k, v, *more):
        named = dict(zip(options.get("arrays", ()), more))
        rest = {key: value for key, value in options.items() if key != "arrays"}
        return jax.nn.dot_product_attention(q, k, v, **named, **rest)

    return run


_Q, _K, _V = R((2, 3, 4, 5)), R((2, 6, 2, 5)), R((2, 6, 2, 5))

ROWS = [
    Row("special.xlogy", [V([0.0, 0.5, 2.0, 0.0]), V([0.0, 0.5, 3.0, 2.0])], s.xlogy, None, BOTH),
    Row("special.xlogy_grad", [_P, _P], s.xlogy, (0, 1), BOTH),
    Row("special.xlog1py", [_P, _P], s.xlog1py, (0, 1), BOTH),
    Row("special.xlog1py_zero", [V([0.0, 0.5]), V([-1.0, 0.5])], s.xlog1py),
    Row("special.entr", [V([-1.0, 0.0, 0.5, 2.0])], s.entr, None),
    Row("special.entr_grad", [_P], s.entr, (0,), BOTH),
    Row(
        "special.rel_entr",
        [V([0.0, 0.5, -1.0, 1.0, 0.0]), V([0.5, 0.25, 1.0, 0.0, 0.0])],
        s.rel_entr,
    ),
    Row("special.rel_entr_grad", [_P, _P], s.rel_entr, (0, 1), tolerance=_LOOSE),
    Row("special.kl_div", [_P, _P], s.kl_div, (0, 1), tolerance=_LOOSE),
    Row("special.logit", [_P], s.logit, (0,), BOTH, tolerance=_LOOSE),
    Row(
        "special.boxcox",
        [R((4,), 0.2, 3), V([0.0, 0.5, -1.0, 2.0])],
        s.boxcox,
        (0,),
        BOTH,
        tolerance=_LOOSE,
    ),
    Row(
        "special.boxcox1p",
        [R((4,), 0.2, 3), V([0.0, 0.5, -1.0, 2.0])],
        s.boxcox1p,
        (0,),
        tolerance=_LOOSE,
    ),
    Row(
        "special.gamma",
        [V([0.5, 1.0, 4.0, -0.5, -1.5, 2.75])],
        s.gamma,
        (0,),
        BOTH,
        tolerance=_LOOSE,
    ),
    Row("special.gammasgn", [V([0.5, -0.5, -1.5, 3.0])], s.gammasgn, exact=True),
    Row("special.betaln", [R((4,), 0.2, 5), R((4,), 0.2, 5)], s.betaln, (0, 1), tolerance=_LOOSE),
    Row("special.beta", [R((4,), 0.2, 5), R((4,), 0.2, 5)], s.beta, (0, 1), tolerance=_LOOSE),
    Row(
        "special.multigammaln",
        [R((4,), 3, 9)],
        lambda a: s.multigammaln(a, 3),
        (0,),
        tolerance=_LOOSE,
    ),
    Row("special.factorial", [V([0.0, 1.0, 5.0, 2.5])], s.factorial, (0,), tolerance=_LOOSE),
    Row("special.poch", [R((4,), 0.5, 3), R((4,), 0.5, 3)], s.poch, (0,), tolerance=_LOOSE),
    Row("special.comb", [V([5.0, 10.0, 4.0]), V([2.0, 3.0, 5.0])], s.comb, tolerance=_LOOSE),
    Row("special.i0", [R((5,), -4, 4)], s.i0, (0,), tolerance=_LOOSE),
    Row("special.i1", [R((5,), -4, 4)], s.i1, (0,), tolerance=_LOOSE),
    Row("special.ndtr", [R((8,), -5, 5)], s.ndtr, (0,), BOTH, tolerance=_LOOSE),
    Row(
        "special.log_ndtr",
        [V([-8.0, -1.0, 0.0, 2.0, 6.0])],
        s.log_ndtr,
        (0,),
        BOTH,
        tolerance=_LOOSE,
    ),
    # Values only: JAX's derivative is that of three terms of the series.
    Row(
        "special.log_ndtr_tail",
        [V([-100.0, -30.0, -20.5, -12.0])],
        s.log_ndtr,
        None,
        BOTH,
        tolerance=_LOOSE,
    ),
    Row(
        "special.ndtri",
        [V([1e-6, 0.01, 0.2, 0.5, 0.7, 0.97, 0.999])],
        s.ndtri,
        (0,),
        BOTH,
        tolerance={"rtol": 2e-5, "atol": 1e-6},
    ),
    Row("special.ndtri_edges", [V([0.0, 1.0])], s.ndtri, exact=True),
    *_distribution("norm", ["logpdf", "pdf", "cdf", "logcdf", "sf", "logsf"], kinds=BOTH),
    # With 64-bit types on, JAX computes f64 from f32 here.
    *_distribution("norm", ["ppf", "isf"], kinds=("f64",)),
    *_distribution("uniform", ["logpdf", "pdf", "cdf", "ppf"]),
    *_distribution("expon", ["logpdf", "pdf", "cdf", "sf", "logsf", "ppf"]),
    *_distribution("laplace", ["logpdf", "pdf", "cdf"]),
    *_distribution("logistic", ["logpdf", "pdf", "cdf", "sf", "ppf", "isf"]),
    *_distribution("cauchy", ["logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"]),
    *_distribution("gumbel_r", ["logcdf", "cdf", "sf", "logsf"]),
    *_distribution("gumbel_r", ["logpdf", "pdf", "ppf"], wrt=None),
    *_distribution("gumbel_l", ["logcdf", "cdf", "sf", "logsf"]),
    *_distribution("gumbel_l", ["logpdf", "pdf", "ppf"], wrt=None),
    *_distribution(
        "pareto",
        ["logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf"],
        R((2, 4), 4.5, 9),
        (0, 1, 2, 3),
        more=[R((4,), 0.5, 3)],
    ),
    *_distribution(
        "truncnorm",
        ["logpdf", "pdf", "cdf", "logcdf", "sf", "logsf"],
        R((2, 4), -0.9, 0.9),
        None,
        more=[R((4,), -6, -5), R((4,), 5, 6)],
    ),
    *_distribution(
        "gamma",
        ["logpdf", "pdf", "cdf", "sf", "logsf"],
        R((2, 4), 2.5, 6),
        (0, 1, 2, 3),
        more=[R((4,), 0.5, 4)],
    ),
    *_distribution(
        "chi2", ["logpdf", "cdf", "sf"], R((2, 4), 2.5, 6), (0, 2, 3), more=[R((4,), 1, 6)]
    ),
    *_distribution("t", ["logpdf", "pdf"], R((2, 4)), (0, 1, 2, 3), more=[R((4,), 1, 6)]),
    *_distribution(
        "beta",
        ["logpdf", "cdf", "sf"],
        R((2, 4), 0.05, 0.45),
        None,
        more=[R((4,), 0.5, 4), R((4,), 0.5, 4)],
        loc=(-0.01, 0.01),
    ),
    Row(
        "poisson.logpmf",
        [V([0.0, 1.0, 4.0, -1.0]), R((4,), 0.5, 4)],
        t.poisson.logpmf,
        (1,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row(
        "poisson.cdf",
        [V([0.0, 1.5, 4.0, -1.0]), R((4,), 0.5, 4)],
        t.poisson.cdf,
        None,
        tolerance=_LOOSE,
    ),
    Row(
        "binom.logpmf",
        [V([0.0, 1.0, 4.0, 6.0]), V([5.0, 5.0, 4.0, 5.0]), R((4,), 0.1, 0.9)],
        t.binom.logpmf,
        (2,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row(
        "nbinom.logpmf",
        [V([0.0, 1.0, 4.0, 6.0]), V([5.0, 5.0, 4.0, 2.0]), R((4,), 0.1, 0.9)],
        t.nbinom.logpmf,
        (2,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row(
        "betabinom.logpmf",
        [V([0.0, 1.0, 4.0]), V([5.0, 5.0, 4.0]), R((3,), 0.5, 3), R((3,), 0.5, 3)],
        t.betabinom.logpmf,
        (2, 3),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row("gennorm.logpdf", [_X, R((4,), 0.5, 3)], t.gennorm.logpdf, (0, 1), tolerance=_LOOSE),
    Row("gennorm.cdf", [_X, R((4,), 0.5, 3)], t.gennorm.cdf, None, tolerance=_LOOSE),
    Row(
        "dirichlet.logpdf",
        [V([[0.25, 0.5], [0.25, 0.125], [0.5, 0.375]]), R((3,), 0.5, 3)],
        t.dirichlet.logpdf,
        (1,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row(
        "multinomial.logpmf",
        [V([1, 2, 2]), V([0.25, 0.5, 0.25])],
        lambda x, p: t.multinomial.logpmf(x, 5, p),
        (1,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row("vonmises.logpdf", [_X, R((4,), 0.5, 3)], t.vonmises.logpdf, (0, 1), tolerance=_LOOSE),
    Row(
        "bernoulli.logpmf",
        [V([0.0, 1.0, 2.0, 1.0]), R((4,), 0.1, 0.9)],
        t.bernoulli.logpmf,
        (1,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row("bernoulli.cdf", [V([-1.0, 0.0, 0.5, 1.0]), R((4,), 0.1, 0.9)], t.bernoulli.cdf, None),
    Row("bernoulli.ppf", [_P, R((4,), 0.1, 0.9)], t.bernoulli.ppf, None),
    Row(
        "geom.logpmf",
        [V([0.0, 1.0, 2.0, 5.0]), R((4,), 0.1, 0.9)],
        t.geom.logpmf,
        (1,),
        tolerance=_LOOSE,
        batch=False,
    ),
    Row("geom.pmf", [V([1.0, 2.0, 5.0]), R((3,), 0.1, 0.9)], t.geom.pmf, None),
    Row(
        "wrapcauchy.logpdf",
        [R((4,), 0.1, 6), R((4,), 0.1, 0.9)],
        t.wrapcauchy.logpdf,
        (0, 1),
        tolerance=_LOOSE,
    ),
    Row("wrapcauchy.pdf", [R((4,), -1, 7), R((4,), 0.1, 0.9)], t.wrapcauchy.pdf, None),
    *[
        Row(
            f"rankdata.{method}",
            [I((2, 7), 0, 4)],
            lambda x, m=method: t.rankdata(x, m, axis=1),
            batch=False,
        )
        for method in ("average", "min", "max", "dense", "ordinal")
    ],
    Row("rankdata.nan", [V([1.0, float("nan"), 0.0])], lambda x: t.rankdata(x), batch=False),
    Row("mode", [I((3, 7), 0, 4)], lambda x: list(t.mode(x, axis=1)), exact=True, batch=False),
    Row("sem", [R((3, 5))], lambda x: t.sem(x, axis=1), (0,)),
    Row("attention", [_Q, _K, _V], _attention(), (0, 1, 2), batch=False, tolerance=_LOOSE),
    Row(
        "attention_causal",
        [R((2, 5, 2, 3)), R((2, 5, 2, 3)), R((2, 5, 2, 3))],
        _attention(is_causal=True, scale=0.3),
        (0, 1, 2),
        tolerance=_LOOSE,
    ),
    Row(
        "attention_mask",
        [_Q, _K, _V, B((2, 4, 3, 6)), R((1, 4, 3, 6))],
        _attention(arrays=("mask", "bias")),
        (0, 1, 2, 4),
        batch=False,
        tolerance=_LOOSE,
    ),
    Row(
        "attention_lengths",
        [_Q, _K, _V, V([2, 3]), V([4, 1])],
        _attention(arrays=("query_seq_lengths", "key_value_seq_lengths")),
        (0, 1, 2),
        batch=False,
        tolerance=_LOOSE,
    ),
    Row(
        "attention_window",
        [R((1, 5, 2, 3)), R((1, 5, 2, 3)), R((1, 5, 2, 3))],
        _attention(local_window_size=(2, 1)),
        (0, 1, 2),
        tolerance=_LOOSE,
    ),
]
