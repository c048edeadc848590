//! Special functions, distributions, ranks and attention.

use oxidax::prelude::*;
use oxidax::stats::{self, RankMethod};

fn special_function(op: &str, x: &[Array]) -> Option<Array> {
    Some(match op {
        "xlogy" | "xlogy_grad" => special::xlogy(&x[0], &x[1]),
        "xlog1py" | "xlog1py_zero" => special::xlog1py(&x[0], &x[1]),
        "entr" | "entr_grad" => special::entr(&x[0]),
        "rel_entr" | "rel_entr_grad" => special::rel_entr(&x[0], &x[1]),
        "kl_div" => special::kl_div(&x[0], &x[1]),
        "logit" => special::logit(&x[0]),
        "boxcox" => special::boxcox(&x[0], &x[1]),
        "boxcox1p" => special::boxcox1p(&x[0], &x[1]),
        "gamma" => special::gamma(&x[0]),
        "gammasgn" => special::gammasgn(&x[0]),
        "betaln" => special::betaln(&x[0], &x[1]),
        "beta" => special::beta(&x[0], &x[1]),
        "multigammaln" => special::multigammaln(&x[0], 3),
        "factorial" => special::factorial(&x[0]),
        "poch" => special::poch(&x[0], &x[1]),
        "comb" => special::comb(&x[0], &x[1]),
        "i0" => special::i0(&x[0]),
        "i1" => special::i1(&x[0]),
        "ndtr" => special::ndtr(&x[0]),
        "log_ndtr" | "log_ndtr_tail" => special::log_ndtr(&x[0]),
        "ndtri" | "ndtri_edges" => special::ndtri(&x[0]),
        _ => return None,
    })
}

macro_rules! distributions {
    (@call $function:path, $x:ident, 2) => { $function(&$x[0], &$x[1]) };
    (@call $function:path, $x:ident, 3) => { $function(&$x[0], &$x[1], &$x[2]) };
    (@call $function:path, $x:ident, 4) => { $function(&$x[0], &$x[1], &$x[2], &$x[3]) };
    (@call $function:path, $x:ident, 5) => { $function(&$x[0], &$x[1], &$x[2], &$x[3], &$x[4]) };
    ($given:expr, $x:ident; $($name:ident [$($function:ident)*] $operands:tt;)*) => {{
        $($(if $given == (stringify!($name), stringify!($function)) {
            return Some(distributions!(@call stats::$name::$function, $x, $operands));
        })*)*
        None
    }};
}

fn distribution(op: &str, x: &[Array]) -> Option<Array> {
    match op {
        "poisson.logpmf" => return Some(stats::poisson::logpmf(&x[0], &x[1], 0)),
        "poisson.cdf" => return Some(stats::poisson::cdf(&x[0], &x[1], 0)),
        "binom.logpmf" => return Some(stats::binom::logpmf(&x[0], &x[1], &x[2], 0)),
        "nbinom.logpmf" => return Some(stats::nbinom::logpmf(&x[0], &x[1], &x[2], 0)),
        "betabinom.logpmf" => {
            return Some(stats::betabinom::logpmf(&x[0], &x[1], &x[2], &x[3], 0));
        }
        "multinomial.logpmf" => return Some(stats::multinomial::logpmf(&x[0], 5, &x[1])),
        "bernoulli.logpmf" => return Some(stats::bernoulli::logpmf(&x[0], &x[1], 0)),
        "geom.logpmf" => return Some(stats::geom::logpmf(&x[0], &x[1], 0)),
        "geom.pmf" => return Some(stats::geom::pmf(&x[0], &x[1], 0)),
        _ => {}
    }
    distributions!(op.split_once('.')?, x;
        norm [logpdf pdf cdf logcdf sf logsf ppf isf] 3;
        uniform [logpdf pdf cdf ppf] 3;
        expon [logpdf pdf cdf logcdf sf logsf ppf] 3;
        laplace [logpdf pdf cdf] 3;
        logistic [logpdf pdf cdf sf ppf isf] 3;
        cauchy [logpdf pdf cdf logcdf sf logsf ppf isf] 3;
        gumbel_r [logpdf pdf cdf logcdf sf logsf ppf] 3;
        gumbel_l [logpdf pdf cdf logcdf sf logsf ppf] 3;
        pareto [logpdf pdf cdf logcdf sf logsf ppf] 4;
        truncnorm [logpdf pdf cdf logcdf sf logsf] 5;
        gamma [logpdf pdf cdf sf logsf] 4;
        chi2 [logpdf cdf sf] 4;
        t [logpdf pdf] 4;
        beta [logpdf cdf sf] 5;
        gennorm [logpdf cdf] 2;
        dirichlet [logpdf] 2;
        vonmises [logpdf] 2;
        bernoulli [cdf ppf] 2;
        wrapcauchy [logpdf pdf] 2;
    )
}

fn ranked(op: &str, x: &[Array]) -> Option<Array> {
    let method = match op.strip_prefix("rankdata.")? {
        "average" | "nan" => RankMethod::Average,
        "min" => RankMethod::Min,
        "max" => RankMethod::Max,
        "dense" => RankMethod::Dense,
        _ => RankMethod::Ordinal,
    };
    Some(stats::rankdata(&x[0], method, -1))
}

fn attention(op: &str, x: &[Array]) -> Option<Array> {
    let how = match op.strip_prefix("attention")? {
        "" => Attention::default(),
        "_causal" => Attention { is_causal: true, scale: Some(0.3), ..Attention::default() },
        "_mask" => {
            Attention { mask: Some(x[3].clone()), bias: Some(x[4].clone()), ..Attention::default() }
        }
        "_lengths" => Attention {
            query_lengths: Some(x[3].clone()),
            key_lengths: Some(x[4].clone()),
            ..Attention::default()
        },
        _ => Attention { local_window: Some((2, 1)), ..Attention::default() },
    };
    Some(dot_product_attention(&x[0], &x[1], &x[2], &how))
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    if let Some(name) = op.strip_prefix("special.") {
        return special_function(name, x).map(|result| vec![result]);
    }
    if op == "mode" {
        let (value, count) = stats::mode(&x[0], 1);
        return Some(vec![value, count]);
    }
    if op == "sem" {
        return Some(vec![stats::sem(&x[0], 1, 1.0)]);
    }
    let result = ranked(op, x).or_else(|| attention(op, x)).or_else(|| distribution(op, x));
    result.map(|result| vec![result])
}
