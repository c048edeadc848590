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

/// Calls `method` of a distribution with the argument `x[0]` if the method is listed.
macro_rules! methods {
    ($distribution:expr, $x:ident, $method:ident: $($name:ident)*) => {
        match $method {
            $(stringify!($name) => $distribution.$name(&$x[0]),)*
            _ => return None,
        }
    };
}

/// Calls a method of a distribution whose last operands are `loc` and `scale`.
fn with_loc_and_scale(name: &str, method: &str, x: &[Array]) -> Option<Array> {
    let (loc, scale) = (&x[x.len().checked_sub(2)?], &x[x.len() - 1]);
    macro_rules! located {
        ($distribution:expr) => {
            $distribution.with_loc(loc).with_scale(scale)
        };
    }
    Some(match name {
        "norm" => methods!(stats::Normal::new(loc, scale), x, method:
            logpdf pdf cdf logcdf sf logsf ppf isf),
        "uniform" => methods!(stats::Uniform::new(loc, scale), x, method: logpdf pdf cdf ppf),
        "expon" => methods!(stats::Exponential::new(loc, scale), x, method:
            logpdf pdf cdf logcdf sf logsf ppf),
        "laplace" => methods!(stats::Laplace::new(loc, scale), x, method: logpdf pdf cdf),
        "logistic" => methods!(stats::LogisticDistribution::new(loc, scale), x, method:
            logpdf pdf cdf sf ppf isf),
        "cauchy" => methods!(stats::Cauchy::new(loc, scale), x, method:
            logpdf pdf cdf logcdf sf logsf ppf isf),
        "gumbel_r" => methods!(stats::GumbelR::new(loc, scale), x, method:
            logpdf pdf cdf logcdf sf logsf ppf),
        "gumbel_l" => methods!(stats::GumbelL::new(loc, scale), x, method:
            logpdf pdf cdf logcdf sf logsf ppf),
        "pareto" => methods!(located!(stats::Pareto::new(&x[1])), x, method:
            logpdf pdf cdf logcdf sf logsf ppf),
        "truncnorm" => methods!(located!(stats::TruncatedNormal::new(&x[1], &x[2])), x, method:
            logpdf pdf cdf logcdf sf logsf),
        "gamma" => methods!(located!(stats::Gamma::new(&x[1])), x, method:
            logpdf pdf cdf sf logsf),
        "chi2" => methods!(located!(stats::ChiSquared::new(&x[1])), x, method: logpdf cdf sf),
        "t" => methods!(located!(stats::StudentT::new(&x[1])), x, method: logpdf pdf),
        "beta" => methods!(located!(stats::Beta::new(&x[1], &x[2])), x, method: logpdf cdf sf),
        _ => return None,
    })
}

fn distribution(op: &str, x: &[Array]) -> Option<Array> {
    let (name, method) = op.split_once('.')?;
    Some(match name {
        "poisson" => methods!(stats::Poisson::new(&x[1]), x, method: logpmf cdf),
        "binom" => methods!(stats::Binomial::new(&x[1], &x[2]), x, method: logpmf),
        "nbinom" => methods!(stats::NegativeBinomial::new(&x[1], &x[2]), x, method: logpmf),
        "betabinom" => {
            methods!(stats::BetaBinomial::new(&x[1], &x[2], &x[3]), x, method: logpmf)
        }
        "multinomial" => methods!(stats::Multinomial::new(5, &x[1]), x, method: logpmf),
        "bernoulli" => methods!(stats::Bernoulli::new(&x[1]), x, method: logpmf cdf ppf),
        "geom" => methods!(stats::Geometric::new(&x[1]), x, method: logpmf pmf),
        "gennorm" => methods!(stats::GeneralizedNormal::new(&x[1]), x, method: logpdf cdf),
        "dirichlet" => methods!(stats::Dirichlet::new(&x[1]), x, method: logpdf),
        "vonmises" => methods!(stats::VonMises::new(&x[1]), x, method: logpdf),
        "wrapcauchy" => methods!(stats::WrappedCauchy::new(&x[1]), x, method: logpdf pdf),
        _ => return with_loc_and_scale(name, method, x),
    })
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
    let options = match op.strip_prefix("attention")? {
        "" => AttentionOptions::default(),
        "_causal" => {
            AttentionOptions { is_causal: true, scale: Some(0.3), ..AttentionOptions::default() }
        }
        "_mask" => AttentionOptions {
            mask: Some(x[3].clone()),
            bias: Some(x[4].clone()),
            ..AttentionOptions::default()
        },
        "_lengths" => AttentionOptions {
            query_lengths: Some(x[3].clone()),
            key_lengths: Some(x[4].clone()),
            ..AttentionOptions::default()
        },
        _ => AttentionOptions { local_window: Some((2, 1)), ..AttentionOptions::default() },
    };
    Some(dot_product_attention_with(&x[0], &x[1], &x[2], &options))
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
