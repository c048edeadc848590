//! Special functions in terms of operations that StableHLO keeps.
//!
//! oxidax lowers them to operations of CHLO, which StableHLO does not promise to keep and which JAX
//! reads from files from version 0.10 on. Expansions cover real numbers; `bessel_i1e`, `polygamma`,
//! `zeta` and complex numbers are operations of CHLO in files too.

use crate::control_flow::Call;
use crate::core::{Array, Aval, DType, Eqn, Program};
use crate::ops::special::LANCZOS;
use crate::ops::take_along_axis;
use crate::primitives::{
    abs, argsort_descending, atan2, cos, div, eq, exp, expm1, floor, full_like, ge, gt, le, log,
    log1p, lt, mul, neg, select, sign, sin, slice_in_dim, sqrt, square,
};
use crate::transforms::staging::trace_rules;
use std::borrow::Cow;
use std::f64::consts::{LN_2, PI};
use std::sync::Arc;

/// An elementwise function of floats of 32 or 64 bits.
type Expansion = fn(&Array) -> Array;

/// Returns the expansion of a primitive.
fn elementwise(name: &str) -> Option<Expansion> {
    Some(match name {
        "acos" => |x| atan2(sqrt(1.0 - x), sqrt(1.0 + x)) * 2.0,
        "acosh" => acosh,
        "asin" => |x| atan2(x, sqrt((1.0 - x) * (1.0 + x)) + 1.0) * 2.0,
        "asinh" => asinh,
        "atanh" => |x| (log1p(x) - log1p(neg(x))) * 0.5,
        "cosh" => |x| exp(x - LN_2) + exp(neg(x) - LN_2),
        "digamma" => digamma,
        "erf" => erf,
        "erf_inv" => erf_inv,
        "erfc" => erfc,
        "lgamma" => lgamma,
        "sinh" => sinh,
        _ => return None,
    })
}

/// Replaces equations that are lowered to CHLO by calls of their expansions.
pub(super) fn expand(program: &Program) -> Cow<'_, Program> {
    let expanded: Vec<Option<Program>> =
        program.eqns().iter().map(|eqn| expansion(program, eqn)).collect();
    if expanded.iter().all(Option::is_none) {
        return Cow::Borrowed(program);
    }
    let eqns = program.eqns().iter().zip(expanded).map(|(eqn, body)| match body {
        None => eqn.clone(),
        Some(body) => {
            let name = eqn.primitive.name().to_owned();
            let call = Call { name, program: Arc::new(body) };
            Eqn { primitive: Arc::new(call), ..eqn.clone() }
        }
    });
    Cow::Owned(Program::new(program.avals(), program.inputs(), eqns.collect(), program.outputs()))
}

/// Returns the program that replaces an equation.
fn expansion(program: &Program, eqn: &Eqn) -> Option<Program> {
    let avals: Vec<Aval> = eqn.operands.iter().map(|var| program.aval(*var).clone()).collect();
    let name = eqn.primitive.name();
    if name == "top_k" {
        let result = program.aval(*eqn.results.first()?);
        let axis = (0..result.rank()).find(|axis| result.shape[*axis] != avals[0].shape[*axis]);
        let axis = axis.unwrap_or_else(|| top_k_axis(eqn, result.rank()));
        let k = result.shape[axis];
        return Some(trace_rules(avals, |x| top_k(&x[0], k, axis)));
    }
    let function = elementwise(name).filter(|_| avals[0].dtype.is_float())?;
    let dtype = avals[0].dtype;
    Some(trace_rules(avals, |x| match dtype {
        DType::F32 | DType::F64 => vec![function(&x[0])],
        _ => vec![function(&x[0].astype(DType::F32)).astype(dtype)],
    }))
}

/// Returns the axis of an equation that chooses all elements along it.
fn top_k_axis(eqn: &Eqn, rank: usize) -> usize {
    let any: &dyn std::any::Any = &*eqn.primitive;
    any.downcast_ref::<crate::primitives::TopK>().map_or(rank - 1, |top_k| top_k.axis)
}

fn top_k(x: &Array, k: usize, axis: usize) -> Vec<Array> {
    let positions = argsort_descending(x, axis as isize);
    let positions = slice_in_dim(&positions, 0, k as isize, 1, axis as isize);
    let positions = positions.astype(DType::I32);
    vec![take_along_axis(x, &positions, axis as isize), positions]
}

/// Evaluates a polynomial whose first coefficient is that of the highest power.
fn polynomial(x: &Array, coefficients: &[f64]) -> Array {
    let (first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
    rest.iter().fold(full_like(x, *first), |sum, coefficient| sum * x + *coefficient)
}

fn acosh(x: &Array) -> Array {
    let t = x - 1.0;
    let near = log1p(&t + sqrt(&t * (x + 1.0)));
    // The product overflows in f32.
    select(&gt(x, 1e15), &(log(x) + LN_2), &near)
}

fn asinh(x: &Array) -> Array {
    let size = abs(x);
    let squares = square(&size);
    let near = log1p(&size + &squares / (sqrt(&squares + 1.0) + 1.0));
    sign(x) * select(&gt(&size, 1e15), &(log(&size) + LN_2), &near)
}

fn sinh(x: &Array) -> Array {
    let size = abs(x);
    let e = expm1(&size);
    let near = (&e + &e / (&e + 1.0)) * 0.5;
    // Half of the exponential is finite where the exponential is not.
    let far = exp(&size - LN_2) - exp(neg(&size) - LN_2);
    sign(x) * select(&lt(&size, 1.0), &near, &far)
}

/// The error function of numbers up to 0.46875.
///
/// Source: Cody, Rational Chebyshev approximations for the error function, Mathematics of
/// Computation 23 (1969), with the coefficients of the paper's double precision.
fn erf_near(x: &Array) -> Array {
    const P: [f64; 5] = [
        0.185_777_706_184_603_15,
        3.161_123_743_870_565_5,
        113.864_154_151_050_16,
        377.485_237_685_302,
        3_209.377_589_138_469_4,
    ];
    const Q: [f64; 5] = [
        1.0,
        23.601_290_952_344_122,
        244.024_637_934_444_17,
        1_282.616_526_077_372_3,
        2_844.236_833_439_171,
    ];
    let squares = square(x);
    x * polynomial(&squares, &P) / polynomial(&squares, &Q)
}

/// The complement of the error function of numbers from 0.46875 on. Source: as [`erf_near`].
fn erfc_far(x: &Array) -> Array {
    const P: [f64; 9] = [
        2.153_115_354_744_038_3e-8,
        0.564_188_496_988_670_1,
        8.883_149_794_388_377,
        66.119_190_637_141_63,
        298.635_138_197_400_1,
        881.952_221_241_769,
        1_712.047_612_634_070_7,
        2_051.078_377_826_071_6,
        1_230.339_354_797_997_2,
    ];
    const Q: [f64; 9] = [
        1.0,
        15.744_926_110_709_835,
        117.693_950_891_312_5,
        537.181_101_862_009_9,
        1_621.389_574_566_690_3,
        3_290.799_235_733_459_7,
        4_362.619_090_143_247,
        3_439.367_674_143_721_6,
        1_230.339_354_803_749_5,
    ];
    const TAIL_P: [f64; 6] = [
        0.016_315_387_137_302_097,
        0.305_326_634_961_232_36,
        0.360_344_899_949_804_45,
        0.125_781_726_111_229_26,
        0.016_083_785_148_742_275,
        0.000_658_749_161_529_837_8,
    ];
    const TAIL_Q: [f64; 6] = [
        1.0,
        2.568_520_192_289_822,
        1.872_952_849_923_467_3,
        0.527_905_102_951_428_5,
        0.060_518_341_312_441_32,
        0.002_335_204_976_268_691_8,
    ];
    let middle = polynomial(x, &P) / polynomial(x, &Q);
    let inverse = div(full_like(x, 1.0), square(x));
    let rest = &inverse * polynomial(&inverse, &TAIL_P) / polynomial(&inverse, &TAIL_Q);
    let tail = (1.0 / PI.sqrt() - rest) / x;
    exp(neg(square(x))) * select(&le(x, 4.0), &middle, &tail)
}

fn erf(x: &Array) -> Array {
    let size = abs(x);
    let is_near = le(&size, 0.46875);
    // Each branch gets numbers of its range, so that the other is finite.
    let far = select(&is_near, &full_like(x, 1.0), &size);
    let near = select(&is_near, x, &full_like(x, 0.0));
    select(&is_near, &erf_near(&near), &(sign(x) * (1.0 - erfc_far(&far))))
}

fn erfc(x: &Array) -> Array {
    let size = abs(x);
    let is_near = le(&size, 0.46875);
    let far = erfc_far(&select(&is_near, &full_like(x, 1.0), &size));
    let far = select(&lt(x, 0.0), &(2.0 - &far), &far);
    let near = 1.0 - erf_near(&select(&is_near, x, &full_like(x, 0.0)));
    select(&is_near, &near, &far)
}

/// Source: Giles, Approximating the erfinv function, GPU Computing Gems (2012), in single
/// precision; two steps of Newton's method for `f64`.
fn erf_inv(x: &Array) -> Array {
    const CENTRAL: [f64; 9] = [
        2.810_226_36e-8,
        3.432_739_39e-7,
        -3.523_387_7e-6,
        -4.391_506_54e-6,
        2.185_808_7e-4,
        -1.253_725_03e-3,
        -4.177_681_64e-3,
        2.466_407_27e-1,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -2.002_142_57e-4,
        1.009_505_58e-4,
        1.349_343_22e-3,
        -3.673_428_44e-3,
        5.739_507_73e-3,
        -7.622_461_3e-3,
        9.438_870_47e-3,
        1.001_674_06,
        2.832_976_82,
    ];
    let w = neg(log1p(neg(square(x))));
    let central = polynomial(&(&w - 2.5), &CENTRAL);
    let tail = polynomial(&(sqrt(&w) - 3.0), &TAIL);
    let mut y = select(&lt(&w, 5.0), &central, &tail) * x;
    if x.dtype() == DType::F64 {
        for _ in 0..2 {
            let slope = exp(neg(square(&y))) * (2.0 / PI.sqrt());
            // Near 1, the complement has more digits.
            let error = select(
                &ge(abs(x), 0.5),
                &(sign(x) * ((1.0 - abs(x)) - erfc(&abs(&y)))),
                &(erf(&y) - x),
            );
            y = &y - error / slope;
        }
    }
    select(&ge(abs(x), 1.0), &div(x, 1.0 - abs(x)), &y)
}

/// Returns Lanczos' series at `z`, and its derivative.
fn lanczos(z: &Array) -> (Array, Array) {
    let (_, coefficients) = LANCZOS;
    let (mut sum, mut slope) = (full_like(z, coefficients[0]), full_like(z, 0.0));
    for (index, coefficient) in coefficients.iter().enumerate().skip(1) {
        let shifted = z + index as f64;
        let term = div(full_like(z, *coefficient), &shifted);
        slope -= &term / &shifted;
        sum += term;
    }
    (sum, slope)
}

fn lgamma(x: &Array) -> Array {
    let reflects = lt(x, 0.5);
    let z = select(&reflects, &neg(x), &(x - 1.0));
    let (sum, _) = lanczos(&z);
    let t = &z + 7.5;
    // The logarithm of t as that of 7.5 and a quotient keeps digits for small z.
    let log_t = log1p(&z / 7.5) + 7.5_f64.ln();
    let value = (&z + 0.5 - &t / &log_t) * &log_t + log(&sum) + (2.0 * PI).sqrt().ln();
    let size = abs(x);
    let fraction = &size - floor(&size);
    let fraction = select(&gt(&fraction, 0.5), &(1.0 - &fraction), &fraction);
    let reflected = PI.ln() - log(sin(fraction * PI)) - &value;
    let value = select(&reflects, &reflected, &value);
    select(&ge(&size, f64::INFINITY), &full_like(x, f64::INFINITY), &value)
}

fn digamma(x: &Array) -> Array {
    let reflects = lt(x, 0.5);
    let z = select(&reflects, &neg(x), &(x - 1.0));
    let (sum, slope) = lanczos(&z);
    let log_t = log1p(&z / 7.5) + 7.5_f64.ln();
    let value = &log_t + slope / sum - div(full_like(x, 7.0), &z + 7.5);
    // The cotangent has the period 1.
    let fraction = x + floor(abs(x) + 0.5);
    let angle = mul(&fraction, PI);
    let reflected = &value - cos(&angle) * PI / sin(&angle);
    let is_pole = eq(x, floor(x));
    let value = select(&reflects, &reflected, &value);
    let at_pole = select(&le(x, 0.0), &is_pole, &full_like(&is_pole, false));
    select(&at_pole, &full_like(x, f64::NAN), &value)
}
