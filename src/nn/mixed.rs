//! Mixed precision: which dtype is kept, which computed in, and how small gradients survive.

use crate::core::{Array, DType, Error, Loc, RuleError, Shape, catch, throw_operands};
use crate::ops::isfinite;
use crate::primitives::{
    bitwise_and, convert_element_type, full, ge, maximum, mul, reduce_and, scalar, where_,
    zeros_like,
};
use crate::tree::{self, Tree};
use std::fmt;
use std::str::FromStr;

/// Three dtypes: of the parameters as they are kept, of the arithmetic, and of what comes out.
///
/// Casts touch real floats alone: integers, booleans and complex leaves stay as they are.
///
/// ```
/// use oxidax::prelude::*;
///
/// let policy = nn::DTypePolicy::mixed_bf16();
/// let forward = move |layer: nn::Linear, x: Array| {
///     let (layer, x) = policy.cast_to_compute(&(layer, x));
///     policy.cast_to_output(&layer.forward(&x))
/// };
/// let y = eval_shape(
///     |key: random::Key, x: Array| forward(nn::Linear::new(key, 3, 2), x),
///     (random::Key::of_type(), Aval::new(DType::F32, [8, 3])),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Micikevicius et al., "Mixed precision training", arXiv:1710.03740 (2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DTypePolicy {
    /// Of the parameters, between steps.
    pub param: DType,
    /// Of the arithmetic.
    pub compute: DType,
    /// Of results that leave the model: logits, losses.
    pub output: DType,
}

impl DTypePolicy {
    /// `f32` everywhere.
    pub const fn full() -> DTypePolicy {
        DTypePolicy { param: DType::F32, compute: DType::F32, output: DType::F32 }
    }

    /// Parameters and results `f32`, arithmetic `bf16`: needs no loss scaling, since `bf16` has the range
    /// of `f32`.
    pub const fn mixed_bf16() -> DTypePolicy {
        DTypePolicy { compute: DType::BF16, ..DTypePolicy::full() }
    }

    /// Parameters and results `f32`, arithmetic `f16`: use a [`LossScale`].
    pub const fn mixed_f16() -> DTypePolicy {
        DTypePolicy { compute: DType::F16, ..DTypePolicy::full() }
    }

    /// The tree with its floats in the parameters' dtype.
    #[track_caller]
    pub fn cast_to_param<T: Tree>(&self, tree: &T) -> T {
        cast(tree, self.param)
    }

    /// The tree with its floats in the dtype of the arithmetic.
    #[track_caller]
    pub fn cast_to_compute<T: Tree>(&self, tree: &T) -> T {
        cast(tree, self.compute)
    }

    /// The tree with its floats in the results' dtype.
    #[track_caller]
    pub fn cast_to_output<T: Tree>(&self, tree: &T) -> T {
        cast(tree, self.output)
    }
}

#[track_caller]
fn cast<T: Tree>(tree: &T, dtype: DType) -> T {
    Loc::caller().scope(|| {
        tree::map(tree, |leaf| match leaf.dtype().is_float() {
            true => convert_element_type(leaf, dtype),
            false => leaf.clone(),
        })
    })
}

impl fmt::Display for DTypePolicy {
    /// `param=f32,compute=bf16,output=f32`, which parses back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "param={},compute={},output={}", self.param, self.compute, self.output)
    }
}

impl FromStr for DTypePolicy {
    type Err = Error;

    /// Reads `param=f32,compute=bf16,output=f32`, or one dtype for all three.
    ///
    /// # Errors
    /// `Op` (value) that names the part that is no float dtype, or missing.
    fn from_str(text: &str) -> Result<DTypePolicy, Error> {
        let dtype = |name: &str| match DType::from_name(name) {
            Some(dtype) if dtype.is_float() => Ok(dtype),
            _ => refuse(format!("`{name}` in `{text}` is no float dtype")),
        };
        if !text.contains('=') {
            let all = dtype(text.trim())?;
            return Ok(DTypePolicy { param: all, compute: all, output: all });
        }
        let (mut param, mut compute, mut output) = (None, None, None);
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let slot = match name.trim() {
                "param" | "params" => &mut param,
                "compute" => &mut compute,
                "output" => &mut output,
                other => {
                    return refuse(format!(
                        "`{other}` in `{text}` is none of param, compute, output"
                    ));
                }
            };
            *slot = Some(dtype(value.trim())?);
        }
        match (param, compute, output) {
            (Some(param), Some(compute), Some(output)) => {
                Ok(DTypePolicy { param, compute, output })
            }
            _ => refuse(format!("`{text}` does not name all of param, compute and output")),
        }
    }
}

fn refuse<T>(message: String) -> Result<T, Error> {
    catch(|| throw_operands("dtype_policy", RuleError::value(message), &[]))
}

/// Multiplies a loss so that its gradients do not underflow in `f16`, and finds the factor by itself:
/// halved when a gradient overflows, doubled after `period` steps without.
///
/// A tree: it goes into the training step and comes out like the optimizer's state.
///
/// ```
/// use oxidax::prelude::*;
///
/// fn step(w: Array, scale: nn::LossScale, x: Array) -> (Array, nn::LossScale) {
///     let gradient = grad(|w: &Array| scale.scale(&(w * &x).sum()))(&w);
///     let gradient = scale.unscale(&gradient);
///     let finite = nn::all_finite(&gradient);
///     // A step whose gradients overflowed is left out.
///     let next = nn::select_tree(&finite, &(&w - &gradient * 0.1), &w);
///     (next, scale.adjust(&finite))
/// }
/// let x = Aval::new(DType::F16, [3]);
/// let (w, _) = eval_shape(
///     |w: Array, x: Array| step(w, nn::LossScale::dynamic(32768.0), x),
///     (x.clone(), x),
/// )?;
/// assert_eq!(w.dtype(), DType::F16);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: Micikevicius et al., "Mixed precision training", arXiv:1710.03740 (2018), section 3.2.
#[derive(Clone, Debug, Tree)]
pub struct LossScale {
    /// The factor, `f32[]`.
    pub factor: Array,
    /// How many steps in a row have been finite, `i32[]`.
    pub good_steps: Array,
    /// The least factor, `f32[]`.
    pub min: Array,
    /// After how many finite steps in a row the factor is doubled; never if 0.
    #[tree(static)]
    pub period: u32,
}

impl LossScale {
    /// Starts at `factor`, a power of two such as 32768; doubled after 2000 finite steps, never below 1.
    #[track_caller]
    pub fn dynamic(factor: f32) -> LossScale {
        LossScale {
            factor: scalar(factor).astype(DType::F32),
            good_steps: scalar(0).astype(DType::I32),
            min: scalar(1.0).astype(DType::F32),
            period: 2000,
        }
    }

    /// Stays at `factor`.
    #[track_caller]
    pub fn fixed(factor: f32) -> LossScale {
        let one = LossScale::dynamic(factor);
        LossScale { min: one.factor.clone(), period: 0, ..one }
    }

    /// The loss times the factor, in the loss's dtype.
    #[track_caller]
    pub fn scale(&self, loss: &Array) -> Array {
        mul(loss, convert_element_type(&self.factor, loss.dtype()))
    }

    /// The gradients divided by the factor. Do this in the parameters' dtype: what `f16` cannot hold is lost
    /// again otherwise.
    #[track_caller]
    pub fn unscale<T: Tree>(&self, gradients: &T) -> T {
        Loc::caller().scope(|| {
            let inverse = 1.0 / &self.factor;
            tree::map(gradients, |leaf| match leaf.dtype().is_inexact() {
                true => mul(leaf, convert_element_type(&inverse, leaf.dtype())),
                false => leaf.clone(),
            })
        })
    }

    /// The factor for the next step; `finite`, `bool[]`, says whether this one's gradients were.
    ///
    /// Throws `Op` if `finite` has axes.
    #[track_caller]
    pub fn adjust(&self, finite: &Array) -> LossScale {
        finite.expect_shape(Shape::scalar());
        let halved = maximum(&self.factor * 0.5, &self.min);
        if self.period == 0 {
            return LossScale { factor: where_(finite, &self.factor, &halved), ..self.clone() };
        }
        let steps = &self.good_steps + 1;
        let due = ge(&steps, self.period as i32);
        let doubled = &self.factor * 2.0;
        // Doubling must not end at infinity, from which halving does not come back.
        let grown = where_(&isfinite(&doubled), &doubled, &self.factor);
        let grown = where_(&due, &grown, &self.factor);
        let none = zeros_like(&steps);
        LossScale {
            factor: where_(finite, &grown, &halved),
            good_steps: where_(finite, where_(&due, &none, &steps), &none),
            ..self.clone()
        }
    }
}

/// Whether every element of every leaf is finite: `bool[]`.
#[track_caller]
pub fn all_finite<T: Tree>(tree: &T) -> Array {
    Loc::caller().scope(|| {
        let each = tree::leaves(tree).into_iter().map(|leaf| {
            let axes: Vec<isize> = (0..leaf.rank() as isize).collect();
            reduce_and(&isfinite(&leaf), &axes)
        });
        each.reduce(|a, b| bitwise_and(&a, &b)).unwrap_or_else(|| full([], true))
    })
}

/// `on_true` where `condition`, a `bool[]`, holds, else `on_false`, leaf by leaf.
///
/// Throws `Tree` if the two are not alike, `Op` if `condition` has axes.
#[track_caller]
pub fn select_tree<T: Tree>(condition: &Array, on_true: &T, on_false: &T) -> T {
    condition.expect_shape(Shape::scalar());
    Loc::caller().scope(|| tree::zip_map(on_true, on_false, |a, b| where_(condition, a, b)))
}
