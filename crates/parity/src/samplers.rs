//! Samplers with parameters, choices and modes compared with JAX: outside of any trace, mapped over
//! keys, inside a compiled program, and their derivatives.

#[cfg(test)]
use crate::fixtures::{Case, Suite};
use crate::ops::{dtype, list, whole};
use crate::verify::Computation;
use oxidax::core::Scalar;
use oxidax::prelude::*;
use oxidax::primitives::Like;
use oxidax::random::{
    self, BernoulliOptions, CategoricalOptions, ChoiceOptions, CovarianceRoot, GumbelOptions, Key,
    MultivariateNormalOptions, OrthogonalOptions, RandomMode,
};
use serde_json::Value;

#[cfg(test)]
fn suite() -> Suite {
    Suite::load("samplers")
}

/// A recorded parameter: an array or a Python number.
#[derive(Clone)]
enum Parameter {
    Array(Array),
    Number(Scalar),
}

impl ArrayLike for Parameter {
    fn like(&self) -> Like<'_> {
        match self {
            Parameter::Array(x) => Like::Array(x),
            Parameter::Number(value) => Like::Scalar(*value),
        }
    }
}

fn number(value: &Value) -> Parameter {
    Parameter::Number(match value.as_i64() {
        Some(int) => Scalar::from(int),
        None => Scalar::from(value.as_f64().unwrap()),
    })
}

fn mode(value: &Value) -> RandomMode {
    match value.as_str() {
        Some("high") => RandomMode::High,
        Some("highest") => RandomMode::Highest,
        _ => RandomMode::Low,
    }
}

/// Returns one draw with one key.
fn drawn(op: &str, params: &Value, key: Key, arrays: &[Array]) -> Array {
    let dtype = dtype(&params["dtype"]);
    let shape: Option<Shape> = (!params["shape"].is_null()).then(|| list(&params["shape"]).into());
    let fixed = || shape.clone().unwrap();
    let parameters: Vec<Parameter> = match params["numbers"].as_array() {
        Some(numbers) => numbers.iter().map(number).collect(),
        None => arrays.iter().cloned().map(Parameter::Array).collect(),
    };
    let [a, b, c] = [0, 1, 2].map(|at| parameters.get(at).or(parameters.last()).cloned());
    let first = || a.clone().unwrap();
    let second = || b.clone().unwrap();
    let size = |name: &str| usize::try_from(whole(&params[name])).unwrap();
    match op {
        "cauchy" => random::cauchy(key, (fixed(), dtype)),
        "laplace" => random::laplace(key, (fixed(), dtype)),
        "logistic" => random::logistic(key, (fixed(), dtype)),
        "maxwell" => random::maxwell(key, (fixed(), dtype)),
        "rademacher" => random::rademacher(key, (fixed(), dtype)),
        "gamma" => random::gamma(key, (shape, dtype), first()),
        "loggamma" => random::loggamma(key, (shape, dtype), first()),
        "chisquare" => random::chisquare(key, (shape, dtype), first()),
        "t" => random::t(key, (shape, dtype), first()),
        "beta" => random::beta(key, (shape, dtype), first(), second()),
        "f" => random::f(key, (shape, dtype), first(), second()),
        "pareto" => random::pareto(key, (shape, dtype), first()),
        "rayleigh" => random::rayleigh(key, (shape, dtype), first()),
        "wald" => random::wald(key, (shape, dtype), first()),
        "lognormal" => random::lognormal(key, (shape, dtype), first()),
        "weibull_min" => random::weibull_min(key, (shape, dtype), first(), second()),
        "generalized_normal" => random::generalized_normal(key, (shape, dtype), first()),
        "triangular" => random::triangular(key, (shape, dtype), first(), second(), c.unwrap()),
        "double_sided_maxwell" => {
            random::double_sided_maxwell(key, (fixed(), dtype), first(), second())
        }
        "poisson" => random::poisson(key, (shape, dtype), first()),
        "geometric" => random::geometric(key, (shape, dtype), first()),
        "binomial" => random::binomial(key, (shape, dtype), first(), second()),
        "multinomial" => random::multinomial(key, (shape, dtype), first(), &arrays[1]),
        "dirichlet" => random::dirichlet(key, (shape, dtype), &arrays[0]),
        "ball" => random::ball(key, (fixed(), dtype), size("d"), first()),
        "multivariate_normal" => {
            let method = match params["method"].as_str() {
                Some("eigh") => CovarianceRoot::Eigh,
                Some("svd") => CovarianceRoot::Svd,
                _ => CovarianceRoot::Cholesky,
            };
            let options = MultivariateNormalOptions { method };
            random::multivariate_normal_with(key, (shape, dtype), &arrays[0], &arrays[1], options)
        }
        "orthogonal" if size("n") == size("m") => {
            random::orthogonal(key, (fixed(), dtype), size("n"))
        }
        "orthogonal" => {
            let options = OrthogonalOptions { m: Some(size("m")) };
            random::orthogonal_with(key, (fixed(), dtype), size("n"), options)
        }
        "choice" => {
            let p = params["p"].as_bool().unwrap().then(|| arrays.last().unwrap());
            let among = if params["a"].is_null() { first() } else { number(&params["a"]) };
            let options = ChoiceOptions {
                replace: params["replace"].as_bool().unwrap(),
                p,
                axis: whole(&params["axis"]) as isize,
                mode: mode(&params["mode"]),
            };
            random::choice_with(key, fixed(), among, options)
        }
        "gumbel" => {
            let options = GumbelOptions { mode: mode(&params["mode"]) };
            random::gumbel_with(key, (fixed(), dtype), options)
        }
        "bernoulli" => {
            let options = BernoulliOptions { mode: mode(&params["mode"]) };
            random::bernoulli_with(key, shape, first(), options)
        }
        "truncated_normal" => random::truncated_normal(key, (shape, dtype), first()..second()),
        "categorical" => {
            let options = CategoricalOptions {
                axis: whole(&params["axis"]) as isize,
                shape,
                replace: params["replace"].as_bool().unwrap(),
                mode: mode(&params["mode"]),
            };
            random::categorical_with(key, &arrays[0], options)
        }
        other => panic!("no function for {other}"),
    }
}

pub(crate) fn computation(params: &Value) -> Computation {
    match params["derivatives"].is_null() {
        // The sampler is compiled on its own.
        true => Computation::Alone(|case| Ok(sample(case.op(), case.params(), &case.inputs()))),
        false => Computation::Joined(sample),
    }
}

/// Computes a case: one draw, or one for each of the keys that its key is split into.
fn sample(op: &str, params: &Value, inputs: &[Array]) -> Vec<Array> {
    let key = Key::from_data(inputs[0].clone());
    let one = |key: Key| drawn(op, params, key, &inputs[1..]);
    let result = match params["keys"].as_u64() {
        Some(n) => vmap(one).apply(random::split(key, [n as usize])),
        None => one(key),
    };
    // Indices are `i32` here, and in JAX when 64-bit types are disabled. Those of `top_k` are
    // always `i32`.
    let positions = op == "choice" || op == "categorical" && params["replace"] == true;
    match (positions, dtype(&params["dtype"])) {
        (true, DType::I64) => vec![result.astype(DType::I64)],
        _ => vec![result],
    }
}

#[cfg(test)]
const CONTINUOUS: &[&str] = &[
    "cauchy",
    "laplace",
    "logistic",
    "maxwell",
    "pareto",
    "rayleigh",
    "wald",
    "lognormal",
    "weibull_min",
    "triangular",
    "double_sided_maxwell",
    "truncated_normal",
];
#[cfg(test)]
const GAMMA: &[&str] = &[
    "gamma",
    "loggamma",
    "chisquare",
    "t",
    "beta",
    "f",
    "generalized_normal",
    "dirichlet",
    "ball",
];
#[cfg(test)]
const COUNTS: &[&str] =
    &["rademacher", "poisson", "geometric", "binomial", "multinomial", "bernoulli"];
#[cfg(test)]
const MATRICES: &[&str] = &["multivariate_normal", "orthogonal"];
#[cfg(test)]
const CHOICES: &[&str] = &["choice", "categorical", "gumbel"];

#[test]
fn every_operation_has_its_test() {
    let all = [CONTINUOUS, GAMMA, COUNTS, MATRICES, CHOICES].concat();
    let suite = suite();
    let without: Vec<&str> = suite.ops().filter(|op| !all.contains(op)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    /// Checks each case separately, with the sampler compiled on its own.
    fn check(ops: &[&str]) {
        let values = suite().without(|_, params, _| !params["derivatives"].is_null());
        values.check_each(|op| ops.contains(&op), sample);
    }

    #[test]
    fn inverses_and_normals() {
        check(CONTINUOUS);
    }

    #[test]
    fn gamma_family() {
        check(GAMMA);
    }

    #[test]
    fn counts() {
        check(COUNTS);
    }

    #[test]
    fn matrices() {
        check(MATRICES);
    }

    #[test]
    fn choices() {
        check(CHOICES);
    }

    /// Operations inside a compiled program return the bits that they return outside.
    #[test]
    fn samplers_in_one_program() {
        let plain = |case: Case<'_>| case.wrt().is_none() && case.name().ends_with("own_shape");
        suite().check_values(plain, sample, |case, drawn| case.expect_outputs(drawn));
    }

    #[test]
    fn derivatives_by_parameters() {
        suite().without(|_, params, _| params["derivatives"].is_null()).check_ops(|_| true, sample);
    }
}
