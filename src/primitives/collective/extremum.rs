//! Maximum and minimum over named axes.

use super::PSum;
use super::lowering::{self, Groups};
use super::sum::other_names;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Collective, Communication, Cost, DType, Exemplar, JvpResult,
    LowerCtx, Primitive, Registered, RuleResult, Sample, Spmd, Tangent, Varying, bind1,
};
use crate::primitives::arithmetic::{div, mul};
use crate::primitives::comparison::eq;
use crate::primitives::convert::convert_element_type;
use crate::primitives::reduce::{ReduceMax, ReduceMin};
use crate::primitives::rules::{arity, batched};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Maximum over all examples along named axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | type of `x`, the same for all examples; NaN if there is one; complex numbers by real, then imaginary part |
/// | lowering   | values gathered, and their maximum; `vmap` makes it a maximum along the batch axis |
/// | derivative | mean of the tangents of all examples that equal the result |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PMax {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
}

/// Minimum over all examples along named axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | type of `x`, the same for all examples; NaN if there is one; complex numbers by real, then imaginary part |
/// | lowering   | values gathered, and their minimum; `vmap` makes it a minimum along the batch axis |
/// | derivative | mean of the tangents of all examples that equal the result |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PMin {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
}

/// Returns the tangent of the extremum `y` of `x` over examples: the mean of the tangents at ties.
fn chosen_tangent(axis_names: &[String], x: &Array, y: &Array, dx: &Array) -> Array {
    let sum = |x: &Array| bind1(PSum { axis_names: axis_names.to_vec() }, [x]);
    let chosen = convert_element_type(&eq(x, y), x.dtype());
    div(sum(&mul(dx, &chosen)), sum(&chosen))
}

/// The parts of a collective extremum that `PMax` and `PMin` share.
trait Extremum: Primitive + Clone {
    /// The reduction of one array.
    type Reduction: Primitive;

    /// Creates the collective over these axes.
    fn over(axis_names: Vec<String>) -> Self;

    /// Creates the reduction along one axis.
    fn reduction(axis: usize) -> Self::Reduction;
}

fn jvp<E: Extremum>(names: &[String], primals: &[Array], tangents: &[Tangent]) -> JvpResult {
    let x = &primals[0];
    let y = bind1(E::over(names.to_vec()), [x]);
    let dy = tangents[0].map(y.aval(), |dx| chosen_tangent(names, x, &y, dx));
    Ok((vec![y], vec![dy]))
}

fn batch<E: Extremum>(
    names: &[String],
    x: &Array,
    from: Option<usize>,
    axis: &BatchAxis,
) -> Batched {
    if !axis.is_among(names) {
        return batched(bind1(E::over(names.to_vec()), [x]), from.unwrap_or(0));
    }
    // The extremum of equal values is the value.
    let y = from.map_or(x.clone(), |dim| bind1(E::reduction(dim), [x]));
    let rest = other_names(names, axis);
    let y = if rest.is_empty() { y } else { bind1(E::over(rest), [&y]) };
    Batched { outputs: vec![y], axes: vec![None] }
}

// XLA's CPU collectives drop NaN in maxima and do not order complex numbers. So values are gathered
// and each device reduces them.
fn lower<E: Extremum>(
    primitive: &E,
    names: &[String],
    ctx: &mut LowerCtx<'_>,
    operand: &Value,
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let groups = Groups::along(ctx, primitive.name(), names)?;
    let all = lowering::stack(ctx, &groups, operand, results[0].dtype);
    E::reduction(0).lower(ctx, &[all], results)
}

macro_rules! extremum {
    ($Collective:ident $Reduction:ident) => {
        impl Extremum for $Collective {
            type Reduction = $Reduction;
            fn over(axis_names: Vec<String>) -> $Collective {
                $Collective { axis_names }
            }
            fn reduction(axis: usize) -> $Reduction {
                $Reduction { axes: vec![axis] }
            }
        }

        impl Primitive for $Collective {
            fn name(&self) -> &'static str {
                Self::NAME
            }
            fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
                let [x] = arity(operands)?;
                Ok(vec![x.clone()])
            }
            fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
                jvp::<$Collective>(&self.axis_names, primals, tangents)
            }
            fn batch(
                &self,
                operands: &[Array],
                axes: &[Option<usize>],
                axis: &BatchAxis,
            ) -> RuleResult<Batched> {
                Ok(batch::<$Collective>(&self.axis_names, &operands[0], axes[0], axis))
            }
            fn lower(
                &self,
                ctx: &mut LowerCtx<'_>,
                operands: &[Value],
                results: &[Aval],
            ) -> RuleResult<Vec<Value>> {
                lower(self, &self.axis_names, ctx, &operands[0], results)
            }
            fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
                let flops = Cost::elementwise(operands, results).flops;
                Cost { flops, ..Cost::whole(operands, results) }
            }
            fn spmd(&self) -> Option<&dyn Spmd> {
                Some(self)
            }
        }

        impl Spmd for $Collective {
            fn communication(&self) -> Option<Communication> {
                Some(Communication::along(Collective::AllGather, &self.axis_names))
            }
            fn axis_names(&self) -> Option<Vec<String>> {
                Some(self.axis_names.clone())
            }
            fn result_varying(&self, operands: &[Aval], _: &[Aval]) -> Option<Vec<Varying>> {
                Some(vec![operands[0].varying.without(&self.axis_names)])
            }
        }
    };
}

extremum!(PMax ReduceMax);
extremum!(PMin ReduceMin);

fn exemplars(make: fn(Vec<String>) -> Exemplar) -> Vec<Exemplar> {
    let over = |names: &[&str], sample| {
        let exemplar = make(names.iter().map(ToString::to_string).collect());
        Exemplar { operands: vec![sample], ..exemplar }.along([("i", 3), ("j", 2)])
    };
    vec![
        over(&["i"], Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
        over(&["j", "i"], Sample::uniform(DType::F64, [2], -1.0, 1.0)),
        over(&["i"], Sample::listed(DType::I32, [2], &[3.0, -1.0, 7.0])),
        // Equal examples have one-sided derivatives only.
        over(&["j"], Sample::listed(DType::F32, [3], &[1.0, 1.0, f64::NAN])).without_derivative(),
        over(&["i"], Sample::listed(DType::Bool, [], &[0.0, 1.0])),
    ]
}

impl Registered for PMax {
    const NAME: &'static str = "pmax";
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|axis_names| Exemplar::new(PMax { axis_names }, []))
    }
}

impl Registered for PMin {
    const NAME: &'static str = "pmin";
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|axis_names| Exemplar::new(PMin { axis_names }, []))
    }
}
