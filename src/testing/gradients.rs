//! Numerical checks of the derivatives of users' functions.

use super::numbers::{Stream, array, numbers};
use crate::core::{Array, Aval, DType, Error, Loc, catch};
use crate::primitives::{add, conj, mul, sub};
use crate::transforms::{jvp, vjp};
use crate::tree::{Function, PrimalArgs, Primals, leaves_of, paths, rebuild, rooted};
use num_complex::Complex64;

/// Options of [`check_grads_with`] and its variants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckGradsOptions {
    /// The highest order of derivative to check, 2 by default.
    pub order: usize,
    /// Checks forward mode. True by default.
    pub forward: bool,
    /// Checks reverse mode. True by default.
    pub reverse: bool,
    /// The absolute tolerance. By default it depends on the dtype: 1e-5 for `f64`, 2e-3 for `f32`,
    /// 2e-2 for `f16`, 1e-1 for `bf16`.
    pub atol: Option<f64>,
    /// The tolerance relative to the numerical derivative. By default as the absolute one.
    pub rtol: Option<f64>,
    /// The step of the central differences. By default it depends on the dtype: 1e-5 for `f64`,
    /// 5e-3 for `f32`, 1e-1 for narrower ones.
    pub eps: Option<f64>,
    /// Selects the random directions.
    pub seed: u64,
}

impl Default for CheckGradsOptions {
    fn default() -> CheckGradsOptions {
        CheckGradsOptions {
            order: 2,
            forward: true,
            reverse: true,
            atol: None,
            rtol: None,
            eps: None,
            seed: 0,
        }
    }
}

/// A function of lists of arrays of inexact dtypes.
type ListFunction<'a> = dyn Fn(Vec<Array>) -> Vec<Array> + 'a;

/// Compares the derivatives of `f` at `primals` with central differences along random directions,
/// in forward and reverse mode, to second order.
///
/// For a function of several arguments, `primals` is a tuple. Leaves of integer or boolean dtype
/// are kept constant. Use `f64` where possible: differences in `f32` have two to three digits.
/// `f` must be smooth near `primals`.
///
/// # Errors
/// A description of the first derivative that differs, and errors that `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::testing::check_grads;
/// let x = Array::from_slice(&[0.3f64, -0.2], [2])?;
/// check_grads(|x: &Array| tanh(x) * x, &x)?;
/// // A wrong rule is found.
/// let wrong = custom_jvp(|x: &Array| sin(x), |x: &Array, dx: &Array| (sin(x), dx * sin(x)));
/// assert!(check_grads(|x: &Array| wrong(x), &x).is_err());
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn check_grads<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
) -> Result<(), Error> {
    check_grads_with(f, primals, CheckGradsOptions::default())
}

/// As [`check_grads`], with options.
///
/// # Errors
/// As [`check_grads`].
#[track_caller]
pub fn check_grads_with<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
    options: CheckGradsOptions,
) -> Result<(), Error> {
    let loc = Loc::caller();
    let primals = catch(|| loc.scope(|| primals.tree()))?;
    let f = |primals| f.apply(A::from_primals(primals));
    let all = leaves_of(&primals);
    let is_inexact: Vec<bool> = all.iter().map(|leaf| leaf.dtype().is_inexact()).collect();
    let names: Vec<String> = paths(&primals).iter().map(|path| rooted(path)).collect();
    let select = |leaves: Vec<Array>| -> Vec<Array> {
        leaves.into_iter().filter(|leaf| leaf.dtype().is_inexact()).collect()
    };
    let of_inexact = |inexact: Vec<Array>| {
        let mut inexact = inexact.into_iter();
        let leaves = all.iter().zip(&is_inexact).map(|(leaf, &is_inexact)| match is_inexact {
            true => inexact.next().expect("one value per inexact leaf"),
            false => leaf.clone(),
        });
        select(leaves_of(&f(rebuild(&primals, leaves.collect()))))
    };
    let check = Check { options, loc, names };
    let mut stream = Stream(options.seed);
    check.orders(&of_inexact, select(all.clone()), options.order, &mut stream, "")
}

/// Compares the tangents of `f` along a random direction with central differences: forward mode,
/// first order. `options` may set tolerances, the step and the seed.
///
/// # Errors
/// As [`check_grads`].
#[track_caller]
pub fn check_jvp<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
    options: CheckGradsOptions,
) -> Result<(), Error> {
    let options = CheckGradsOptions { order: 1, forward: true, reverse: false, ..options };
    check_grads_with(f, primals, options)
}

/// Compares the pullback of `f`, applied to a random cotangent, with central differences along a
/// random direction: reverse mode, first order. `options` may set tolerances, the step and the
/// seed.
///
/// # Errors
/// As [`check_grads`].
#[track_caller]
pub fn check_vjp<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
    options: CheckGradsOptions,
) -> Result<(), Error> {
    let options = CheckGradsOptions { order: 1, forward: false, reverse: true, ..options };
    check_grads_with(f, primals, options)
}

/// A check of one function.
struct Check {
    options: CheckGradsOptions,
    loc: Loc,
    /// The paths of the arguments, for errors.
    names: Vec<String>,
}

/// Returns the tolerance and the step for values of these types: those of the narrowest.
fn defaults(leaves: &[Array]) -> (f64, f64) {
    let of = |dtype: DType| match dtype {
        DType::F64 | DType::C128 => (1e-5, 1e-5),
        DType::F32 | DType::C64 => (2e-3, 5e-3),
        DType::F16 => (2e-2, 1e-1),
        _ => (1e-1, 1e-1),
    };
    let each = leaves.iter().map(|leaf| of(leaf.dtype()));
    each.fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1)))
}

/// Returns an array of the given type with elements uniform in `-1..1`.
fn random(aval: &Aval, stream: &mut Stream) -> Result<Array, Error> {
    let mut next = || 2.0 * stream.next() - 1.0;
    let is_complex = aval.dtype.is_complex();
    let elements: Vec<Complex64> = (0..aval.size())
        .map(|_| Complex64::new(next(), if is_complex { next() } else { 0.0 }))
        .collect();
    array(aval, &elements)
}

fn random_like(leaves: &[Array], stream: &mut Stream) -> Result<Vec<Array>, Error> {
    leaves.iter().map(|leaf| random(leaf.aval(), stream)).collect()
}

/// Returns the real part of the inner product of two lists of arrays, the first one conjugated.
fn inner_product(a: &[Array], b: &[Array]) -> Result<f64, Error> {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        sum += numbers(&conj(a))?.pair(&numbers(b)?);
    }
    Ok(sum)
}

impl Check {
    /// Checks the derivatives of `f` up to `order`. `path` names the derivatives taken so far.
    fn orders(
        &self,
        f: &ListFunction<'_>,
        primals: Vec<Array>,
        order: usize,
        stream: &mut Stream,
        path: &str,
    ) -> Result<(), Error> {
        if order == 0 || primals.is_empty() {
            return Ok(());
        }
        let tangents = random_like(&primals, stream)?;
        let numerical = self.numerical_tangents(f, &primals, &tangents)?;
        let n = primals.len();
        if self.options.forward {
            let (outputs, found) = catch(|| jvp(f, &primals, &tangents))?;
            let path = format!("{path}jvp");
            for (index, (found, expected)) in found.iter().zip(&numerical).enumerate() {
                let role = format!("{path}: the tangent of output {index}");
                self.compare(&role, &outputs, &numbers(found)?.0, &numbers(expected)?.0)?;
            }
            let derivative = |mut inputs: Vec<Array>| {
                let tangents = inputs.split_off(n);
                let (mut outputs, tangents) = jvp(f, &inputs, &tangents);
                outputs.extend(tangents);
                outputs
            };
            let inputs = primals.iter().chain(&tangents).cloned().collect();
            self.orders(&derivative, inputs, order - 1, stream, &format!("{path} of "))?;
        }
        if self.options.reverse {
            let (outputs, pullback) = catch(|| vjp(f, &primals))?;
            let cotangents = random_like(&outputs, stream)?;
            let conjugates: Vec<Array> = cotangents.iter().map(conj).collect();
            let pulled = catch(|| pullback(&conjugates))?;
            let pulled: Vec<Array> = pulled.iter().map(conj).collect();
            let path = format!("{path}vjp");
            let (found, expected) =
                (inner_product(&tangents, &pulled)?, inner_product(&numerical, &cotangents)?);
            let role = format!("{path}: the cotangents along a direction");
            let number = |x: f64| [Complex64::new(x, 0.0)];
            self.compare(&role, &outputs, &number(found), &number(expected))?;
            let derivative = |mut inputs: Vec<Array>| {
                let cotangents = inputs.split_off(n);
                vjp(f, &inputs).1(&cotangents)
            };
            let inputs = primals.iter().chain(&cotangents).cloned().collect();
            self.orders(&derivative, inputs, order - 1, stream, &format!("{path} of "))?;
        }
        Ok(())
    }

    /// Returns `(f(x + eps·v) - f(x - eps·v)) / 2eps`.
    fn numerical_tangents(
        &self,
        f: &ListFunction<'_>,
        primals: &[Array],
        tangents: &[Array],
    ) -> Result<Vec<Array>, Error> {
        let eps = self.options.eps.unwrap_or_else(|| defaults(primals).1);
        catch(|| {
            let moved = |step: f64| {
                let pairs = primals.iter().zip(tangents);
                f(pairs.map(|(x, v)| add(x, mul(v, step))).collect())
            };
            let (above, below) = (moved(eps), moved(-eps));
            let pairs = above.iter().zip(&below);
            pairs.map(|(above, below)| mul(sub(above, below), 0.5 / eps)).collect()
        })
    }

    fn compare(
        &self,
        role: &str,
        outputs: &[Array],
        found: &[Complex64],
        expected: &[Complex64],
    ) -> Result<(), Error> {
        let (tolerance, _) = defaults(outputs);
        let atol = self.options.atol.unwrap_or(tolerance);
        let rtol = self.options.rtol.unwrap_or(tolerance);
        let is_far = |(a, b): (&Complex64, &Complex64)| {
            let distance = (a - b).norm();
            distance.is_nan() || distance > atol + rtol * b.norm()
        };
        let Some(index) = found.iter().zip(expected).position(is_far) else { return Ok(()) };
        let show = |z: Complex64| match z.im {
            0.0 => format!("{}", z.re),
            _ => format!("{z}"),
        };
        Err(Error::Runtime {
            doing: "checking derivatives".into(),
            code: None,
            message: format!(
                "{role} differs at element {index}: {} by the rules, {} by central differences \
                 (atol {atol:e}, rtol {rtol:e}; arguments {})",
                show(found[index]),
                show(expected[index]),
                self.names.join(", ")
            ),
            loc: self.loc,
            help: Some(
                "if the rules are right, widen the tolerances or set `eps`, or check in `f64`"
                    .into(),
            ),
        })
    }
}
