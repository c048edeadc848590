//! [`Elementwise`]: primitives that compute each element of the result from the elements at the
//! same index in the operands.
//!
//! An elementwise primitive is described by five constants. One blanket implementation of
//! [`Primitive`] derives its rules from them.

use super::composite::lower_by_dyn;
use super::rules::{
    arity, batch_shared, linear_jvp_shared, same_bits_type, same_float_type, same_inexact_type,
    same_integer_type, same_numeric_type, same_type, zero_jvp_shared,
};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, CheckSet, Cost, CounterOp, DynKey, Exemplar,
    JvpResult, LowerCtx, Operand, OperandCheck, Parameters, Primitive, Registered, RuleError,
    RuleResult, Tangent, bind_shared,
};
use crate::stablehlo::Value;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;

/// A primitive that is computed element by element.
///
/// Implement this trait for a struct whose fields are the primitive's parameters. It then is a
/// [`Primitive`]: `vmap` applies the same operation to the batch, and the other rules follow from
/// the constants. The constants without a value are required, so a forgotten rule is a compile
/// error.
///
/// ```
/// use oxidax::core::{Array, DType, Exemplar, Sample, bind1};
/// use oxidax::primitives::{CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule};
/// use oxidax::primitives::{abs, mul};
/// use serde::{Deserialize, Serialize};
///
/// /// `x · |x|`
/// #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
/// struct SignedSquare;
///
/// impl Elementwise for SignedSquare {
///     const NAME: &'static str = "signed_square";
///     const TYPE: TypeRule<Self> = TypeRule::unary(Dtypes::Float);
///     const DERIVATIVE: Derivative<Self> = Derivative::Unary(|_, x, _, dx| mul(dx, abs(x) * 2.0));
///     const LOWERING: Lowering<Self> = Lowering::Composite(|_, x| mul(&x[0], abs(&x[0])));
///     const COST: CostRule<Self> = CostRule::Arithmetic;
///     fn exemplars() -> Vec<Exemplar> {
///         vec![Exemplar::new(SignedSquare, [Sample::uniform(DType::F32, [2, 3], 0.5, 2.0)])]
///     }
/// }
///
/// fn signed_square(x: &Array) -> Array {
///     bind1(SignedSquare, [x])
/// }
/// ```
pub trait Elementwise:
    Debug + DynKey + Parameters + DeserializeOwned + Clone + Send + Sync + 'static
{
    /// The name, as JAX or StableHLO spells it. Unique.
    const NAME: &'static str;

    /// The number of operands, their dtypes, and the type of the result.
    const TYPE: TypeRule<Self>;

    /// The forward derivative.
    const DERIVATIVE: Derivative<Self>;

    /// The operation in StableHLO.
    const LOWERING: Lowering<Self>;

    /// The counts of arithmetic and memory traffic.
    const COST: CostRule<Self>;

    /// The transposition, for operations that are linear in some operands.
    const TRANSPOSE: Option<TransposeRule<Self>> = None;

    /// The operation on a loop counter, if the primitive is one.
    fn counter_op(&self) -> Option<CounterOp> {
        None
    }

    /// Conditions on the operands, with the signature of [`Analysis::checks`].
    fn checks(&self, _enabled: CheckSet, _operands: &[&Array]) -> Vec<OperandCheck> {
        Vec::new()
    }

    /// Returns instances with sample operands, on which every law is checked.
    fn exemplars() -> Vec<Exemplar>;
}

/// The dtypes that an elementwise operation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtypes {
    /// Every dtype.
    Any,
    /// Integers, floats and complex numbers.
    Numeric,
    /// Integers.
    Integer,
    /// `bool` and integers.
    Bits,
    /// Floats.
    Float,
    /// Floats and complex numbers.
    Inexact,
}

impl Dtypes {
    /// Returns the type of a result that has the operands' type, which must be one of these dtypes.
    ///
    /// # Errors
    /// If dtypes or shapes differ, or the dtype is another one.
    pub fn same_type(self, operands: &[Aval]) -> RuleResult<Aval> {
        match self {
            Dtypes::Any => same_type(operands),
            Dtypes::Numeric => same_numeric_type(operands),
            Dtypes::Integer => same_integer_type(operands),
            Dtypes::Bits => same_bits_type(operands),
            Dtypes::Float => same_float_type(operands),
            Dtypes::Inexact => same_inexact_type(operands),
        }
    }
}

/// The types of an elementwise operation `E`.
#[derive(Clone, Copy, Debug)]
pub enum TypeRule<E> {
    /// This number of operands, of one shape and one of these dtypes. The result has their type.
    Same(usize, Dtypes),
    /// A rule with the signature of [`Primitive::abstract_eval`].
    Custom(fn(&E, &[Aval]) -> RuleResult<Vec<Aval>>),
}

impl<E> TypeRule<E> {
    /// One operand of one of these dtypes, and a result of the same type.
    pub const fn unary(dtypes: Dtypes) -> TypeRule<E> {
        TypeRule::Same(1, dtypes)
    }

    /// Two operands of one shape and one of these dtypes, and a result of the same type.
    pub const fn binary(dtypes: Dtypes) -> TypeRule<E> {
        TypeRule::Same(2, dtypes)
    }
}

/// The forward derivative of an elementwise operation `E`.
#[derive(Clone, Copy, Debug)]
pub enum Derivative<E> {
    /// Zero wherever it exists: rounding, comparison, operations on integers.
    Zero,
    /// The operation is linear in its only operand.
    Linear,
    /// The tangent of `y = f(x)`, from `x`, `y` and the tangent of `x`.
    Unary(fn(&E, x: &Array, y: &Array, dx: &Array) -> Array),
    /// The contribution of each of two operands to the tangent of `z = f(x, y)`, from `x`, `y`, `z`
    /// and the tangent of the operand.
    Binary(BinaryTangent<E>, BinaryTangent<E>),
    /// A rule with the signature of [`Primitive::jvp`].
    Custom(fn(&E, &[Array], &[Tangent]) -> JvpResult),
}

/// Computes the contribution of one operand's tangent to the tangent of `z = f(x, y)`.
pub type BinaryTangent<E> = fn(&E, x: &Array, y: &Array, z: &Array, tangent: &Array) -> Array;

/// The lowering of an elementwise operation `E`.
#[derive(Clone, Copy, Debug)]
pub enum Lowering<E> {
    /// One operation without attributes, in StableHLO or with its prefix: `"chlo.erf"`.
    Op(&'static str),
    /// Array functions of the operands, which are traced when the operation is lowered.
    Composite(fn(&E, &[Array]) -> Array),
    /// A rule with the signature of [`Primitive::lower`].
    Custom(LowerRule<E>),
}

/// A function with the signature of [`Primitive::lower`].
pub type LowerRule<E> = fn(&E, &mut LowerCtx<'_>, &[Value], &[Aval]) -> RuleResult<Vec<Value>>;

/// The lowering of operations that return their operand: nothing.
pub(super) fn lower_identity<E>(
    _: &E,
    _: &mut LowerCtx<'_>,
    operands: &[Value],
    _: &[Aval],
) -> RuleResult<Vec<Value>> {
    Ok(operands.to_vec())
}

/// The cost of an elementwise operation `E`.
#[derive(Clone, Copy, Debug)]
pub enum CostRule<E> {
    /// One arithmetic operation per element.
    Arithmetic,
    /// One transcendental function per element.
    Transcendental,
    /// Data movement only.
    Movement,
    /// A rule with the signature of [`Primitive::cost`].
    Custom(fn(&E, &[Aval], &[Aval]) -> Cost),
}

/// The transposition of an elementwise operation `E`, with the signature of
/// [`Primitive::transpose`].
pub type TransposeRule<E> = fn(&E, &[Tangent], &[Operand]) -> RuleResult<Vec<Option<Tangent>>>;

impl<E: Elementwise> Registered for E {
    const NAME: &'static str = <E as Elementwise>::NAME;
    fn exemplars() -> Vec<Exemplar> {
        <E as Elementwise>::exemplars()
    }
}

// One copy of each method is compiled per primitive, so the bodies are calls.
impl<E: Elementwise> Analysis for E {
    fn counter_op(&self) -> Option<CounterOp> {
        Elementwise::counter_op(self)
    }
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        Elementwise::checks(self, enabled, operands)
    }
}

impl<E: Elementwise> Primitive for E {
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
    fn name(&self) -> &'static str {
        <E as Elementwise>::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        match E::TYPE {
            TypeRule::Same(n, dtypes) => result_type(n, dtypes, operands),
            TypeRule::Custom(rule) => rule(self, operands),
        }
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        if let Derivative::Custom(rule) = E::DERIVATIVE {
            return rule(self, primals, tangents);
        }
        let this: Arc<dyn Primitive> = Arc::new(self.clone());
        match E::DERIVATIVE {
            Derivative::Zero | Derivative::Custom(_) => zero_jvp_shared(&this, primals),
            Derivative::Linear => linear_jvp_shared(&this, primals, tangents),
            Derivative::Unary(rule) => {
                let tangent = |_, y: &Array, dx: &Array| rule(self, &primals[0], y, dx);
                sum_of_tangents(&this, primals, tangents, &tangent)
            }
            Derivative::Binary(by_x, by_y) => {
                let tangent = |operand, z: &Array, tangent: &Array| {
                    let rule = if operand == 0 { by_x } else { by_y };
                    rule(self, &primals[0], &primals[1], z, tangent)
                };
                sum_of_tangents(&this, primals, tangents, &tangent)
            }
        }
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let this: Arc<dyn Primitive> = Arc::new(self.clone());
        batch_shared(&this, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        match E::LOWERING {
            Lowering::Op(name) => Ok(vec![ctx.op_as(name, operands, "", &results[0].stablehlo())]),
            Lowering::Composite(rule) => {
                lower_by_dyn(ctx, operands, &mut |x: &[Array]| vec![rule(self, x)])
            }
            Lowering::Custom(rule) => rule(self, ctx, operands, results),
        }
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        match E::COST {
            CostRule::Arithmetic => Cost::elementwise(operands, results),
            CostRule::Transcendental => Cost::transcendental(operands, results),
            CostRule::Movement => Cost::movement(operands, results),
            CostRule::Custom(rule) => rule(self, operands, results),
        }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        match E::TRANSPOSE {
            Some(rule) => rule(self, cts, operands),
            None => Err(RuleError::not_linear(<E as Elementwise>::NAME)),
        }
    }
}

fn result_type(n_operands: usize, dtypes: Dtypes, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
    match n_operands {
        1 => arity::<1>(operands).map(|_| ())?,
        2 => arity::<2>(operands).map(|_| ())?,
        3 => arity::<3>(operands).map(|_| ())?,
        n if n == operands.len() => {}
        n => {
            return Err(RuleError::value(format!("takes {n} operands, got {}", operands.len())));
        }
    }
    Ok(vec![dtypes.same_type(operands)?])
}

/// Applies the primitive and adds up what each operand's tangent contributes to the result's.
fn sum_of_tangents(
    primitive: &Arc<dyn Primitive>,
    primals: &[Array],
    tangents: &[Tangent],
    contribution: &dyn Fn(usize, &Array, &Array) -> Array,
) -> JvpResult {
    let y = bind_shared(primitive, &primals.iter().collect::<Vec<_>>()).swap_remove(0);
    let mut sum = Tangent::zero_like(&y);
    for (operand, tangent) in tangents.iter().enumerate() {
        sum = sum.add(&tangent.map(y.aval(), |dx| contribution(operand, &y, dx)));
    }
    Ok((vec![y], vec![sum]))
}
