//! Integrals, hypergeometric functions, recurrences, density estimates and normal vectors.

use oxidax::prelude::*;
use oxidax::stats::{self, Bandwidth, GaussianKde};

fn parts(w: &Array) -> Vec<Array> {
    vec![real(w), imag(w)]
}

fn pair((a, b): (Array, Array)) -> Vec<Array> {
    vec![a, b]
}

fn harmonic(theta: &Array, phi: &Array) -> Vec<Array> {
    let list = |values: [i32; 6]| Array::from_slice(&values, [6]).unwrap();
    let (n, m) = (list([0, 1, 2, 3, 5, 4]), list([0, -1, 2, 0, -3, 4]));
    parts(&special::sph_harm_y(&n, &m, theta, phi, 5))
}

fn special_function(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let z = || complex(&x[0], &x[1]);
    if let Some(n) = op.strip_prefix("expn_") {
        return Some(vec![special::expn(n.parse::<i32>().unwrap(), &x[0])]);
    }
    let one = match op {
        "erfcx" => special::erfcx(&x[0]),
        "dawsn" => special::dawsn(&x[0]),
        "wofz" => return Some(parts(&special::wofz(&z()))),
        "erfcx_complex" => return Some(parts(&special::erfcx(z()))),
        "loggamma_complex" => return Some(parts(&special::loggamma(&z()))),
        "loggamma" | "loggamma_outside" => special::loggamma(&x[0]),
        "expi" | "expi_negative" => special::expi(&x[0]),
        "exp1" => special::exp1(&x[0]),
        "sici" => return Some(pair(special::sici(&x[0]))),
        "fresnel" => return Some(pair(special::fresnel(&x[0]))),
        "spence" => special::spence(&x[0]),
        "owens_t" => special::owens_t(&x[0], &x[1]),
        "hyp1f1" => special::hyp1f1(&x[0], &x[1], &x[2]),
        "hyp2f1" => special::hyp2f1(&x[0], &x[1], &x[2], &x[3]),
        "bessel_jn" => special::bessel_jn(&x[0], 3, 50),
        "bessel_jn_short" => special::bessel_jn(&x[0], 3, 22),
        "sph_harm_y" => return Some(harmonic(&x[0], &x[1])),
        "bernoulli" => special::bernoulli(12, DType::F32),
        _ => return None,
    };
    Some(vec![one])
}

fn scalar_of(x: &Array) -> Array {
    x.reshape([0usize; 0])
}

fn normal(op: &str, x: &[Array]) -> Option<Array> {
    Some(match op {
        "logpdf" => {
            let cov = x[2].matmul(&x[2].t()) + eye((3, x[2].dtype()));
            stats::MultivariateNormal::new(&x[1], &cov).logpdf(&x[0])
        }
        "batches" => stats::MultivariateNormal::new(&x[1], scalar_of(&x[2])).logpdf(&x[0]),
        "scalar" => stats::MultivariateNormal::new(scalar_of(&x[1]), &x[2]).pdf(&x[0]),
        _ => return None,
    })
}

fn estimate(op: &str, x: &[Array]) -> Option<Array> {
    let n = x[0].shape()[x[0].rank() - 1];
    let weights = convert_element_type(&(iota(DType::I32, n) + 1), x[0].dtype());
    let of = |bandwidth: Bandwidth<'_>, weights| GaussianKde::new(&x[0], bandwidth, weights);
    let usual = || of(Bandwidth::Scott, None);
    Some(match op {
        "evaluate" => usual().evaluate(&x[1]),
        "line" => of(Bandwidth::Silverman, Some(&weights)).evaluate(&x[1]),
        "one_point" => of(Bandwidth::Factor(0.4), None).pdf(&x[1]),
        "logpdf" => of(Bandwidth::Scott, Some(&weights)).logpdf(&x[1]),
        "integrate_gaussian" => {
            usual().integrate_gaussian(&x[1], scalar_of(&x[2]) * eye((2, x[2].dtype())))
        }
        "integrate_box_1d" => of(Bandwidth::Scott, Some(&weights))
            .integrate_box_1d(scalar_of(&x[1]), scalar_of(&x[2])),
        "integrate_kde" => {
            usual().integrate_kde(&GaussianKde::new(&x[1], Bandwidth::default(), None))
        }
        "resample" => of(Bandwidth::Scott, Some(&weights)).resample(random::key(7), [6]),
        _ => return None,
    })
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let (family, name) = op.split_once('.')?;
    match family {
        "special" => special_function(name, x),
        "poisson" if name.starts_with("entropy") => {
            Some(vec![stats::Poisson::new(&x[0]).entropy()])
        }
        "multivariate_normal" => normal(name, x).map(|y| vec![y]),
        "kde" => estimate(name, x).map(|y| vec![y]),
        _ => None,
    }
}
