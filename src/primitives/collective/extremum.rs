//! Maximum and minimum over named axes.

use super::lowering::{self, Groups};
use super::sum::other_names;
use super::{AxisIndexGroups, PSum};
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
/// | result     | type of `x`, the same for all examples, or for those of a group; NaN if there is one; complex numbers by real, then imaginary part |
/// | lowering   | values gathered, and their maximum; `vmap` makes it a maximum along the batch axis |
/// | derivative | mean of the tangents of all examples that equal the result |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PMax {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
    /// The groups of indices; `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_index_groups: Option<AxisIndexGroups>,
}

/// Minimum over all examples along named axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: any[…]` |
/// | result     | type of `x`, the same for all examples, or for those of a group; NaN if there is one; complex numbers by real, then imaginary part |
/// | lowering   | values gathered, and their minimum; `vmap` makes it a minimum along the batch axis |
/// | derivative | mean of the tangents of all examples that equal the result |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PMin {
    /// The distinct names of the axes.
    pub axis_names: Vec<String>,
    /// The groups of indices; `None` for all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub axis_index_groups: Option<AxisIndexGroups>,
}

/// Returns the tangent of the extremum `y` of `x` over examples: the mean of the tangents at ties.
fn chosen_tangent(over: &Over<'_>, x: &Array, y: &Array, dx: &Array) -> Array {
    let axis_index_groups = over.groups.clone();
    let sum = PSum { axis_names: over.names.to_vec(), axis_index_groups };
    let sum = |x: &Array| bind1(sum.clone(), [x]);
    let chosen = convert_element_type(&eq(x, y), x.dtype());
    div(sum(&mul(dx, &chosen)), sum(&chosen))
}

/// The parameters of a collective extremum.
#[derive(Clone, Copy)]
struct Over<'a> {
    names: &'a [String],
    groups: &'a Option<AxisIndexGroups>,
}

/// The parts of a collective extremum that `PMax` and `PMin` share.
trait Extremum: Primitive + Clone {
    /// The reduction of one array.
    type Reduction: Primitive;

    /// Creates the collective over these axes.
    fn over(axis_names: Vec<String>, axis_index_groups: Option<AxisIndexGroups>) -> Self;

    /// Creates the reduction along one axis.
    fn reduction(axis: usize) -> Self::Reduction;
}

fn jvp<E: Extremum>(over: &Over<'_>, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
    let x = &primals[0];
    let y = bind1(E::over(over.names.to_vec(), over.groups.clone()), [x]);
    let dy = tangents[0].map(y.aval(), |dx| chosen_tangent(over, x, &y, dx));
    Ok((vec![y], vec![dy]))
}

fn batch<E: Extremum>(
    over: &Over<'_>,
    x: &Array,
    from: Option<usize>,
    axis: &BatchAxis,
) -> Batched {
    let Over { names, groups } = *over;
    if !axis.is_among(names) {
        let y = bind1(E::over(names.to_vec(), groups.clone()), [x]);
        return batched(y, from.unwrap_or(0));
    }
    if let Some(groups) = groups {
        let along = groups.along(names);
        return along.batch_all(std::slice::from_ref(x), &[from], axis, |all| {
            along.reduce_groups(&all[0], |x| bind1(E::reduction(1), [x]))
        });
    }
    // The extremum of equal values is the value.
    let y = from.map_or(x.clone(), |dim| bind1(E::reduction(dim), [x]));
    let rest = other_names(names, axis);
    let y = if rest.is_empty() { y } else { bind1(E::over(rest, None), [&y]) };
    Batched { outputs: vec![y], axes: vec![None] }
}

// XLA's CPU collectives drop NaN in maxima and do not order complex numbers. So values are gathered
// and each device reduces them.
fn lower<E: Extremum>(
    primitive: &E,
    over: &Over<'_>,
    ctx: &mut LowerCtx<'_>,
    operands: &[Value],
    results: &[Aval],
) -> RuleResult<Vec<Value>> {
    let groups = match over.groups {
        None => Groups::along(ctx, primitive.name(), over.names)?,
        Some(groups) if groups.are_equal() => {
            groups.along(over.names).device_groups(ctx, primitive.name())?
        }
        Some(groups) => {
            let along = groups.along(over.names);
            return along.lower_all(ctx, operands, |all| {
                along.reduce_groups(&all[0], |x| bind1(E::reduction(1), [x]))
            });
        }
    };
    let all = lowering::stack(ctx, &groups, &operands[0], results[0].dtype);
    E::reduction(0).lower(ctx, &[all], results)
}

macro_rules! extremum {
    ($Collective:ident $Reduction:ident) => {
        impl Extremum for $Collective {
            type Reduction = $Reduction;
            fn over(
                axis_names: Vec<String>,
                axis_index_groups: Option<AxisIndexGroups>,
            ) -> $Collective {
                $Collective { axis_names, axis_index_groups }
            }
            fn reduction(axis: usize) -> $Reduction {
                $Reduction { axes: vec![axis] }
            }
        }

        impl $Collective {
            fn parameters(&self) -> Over<'_> {
                Over { names: &self.axis_names, groups: &self.axis_index_groups }
            }
        }

        impl Primitive for $Collective {
            fn name(&self) -> &'static str {
                Self::NAME
            }
            fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
                let [x] = arity(operands)?;
                if let Some(groups) = &self.axis_index_groups {
                    groups.check(&self.axis_names)?;
                }
                Ok(vec![x.clone()])
            }
            fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
                jvp::<$Collective>(&self.parameters(), primals, tangents)
            }
            fn batch(
                &self,
                operands: &[Array],
                axes: &[Option<usize>],
                axis: &BatchAxis,
            ) -> RuleResult<Batched> {
                Ok(batch::<$Collective>(&self.parameters(), &operands[0], axes[0], axis))
            }
            fn lower(
                &self,
                ctx: &mut LowerCtx<'_>,
                operands: &[Value],
                results: &[Aval],
            ) -> RuleResult<Vec<Value>> {
                lower(self, &self.parameters(), ctx, operands, results)
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
                Some(match &self.axis_index_groups {
                    Some(groups) => {
                        groups.along(&self.axis_names).communication(Collective::AllGather)
                    }
                    None => Communication::along(Collective::AllGather, &self.axis_names),
                })
            }
            fn axis_names(&self) -> Option<Vec<String>> {
                Some(self.axis_names.clone())
            }
            fn result_varying(&self, operands: &[Aval], _: &[Aval]) -> Option<Vec<Varying>> {
                Some(vec![match self.axis_index_groups {
                    Some(_) => operands[0].varying.clone(),
                    None => operands[0].varying.without(&self.axis_names),
                }])
            }
        }
    };
}

extremum!(PMax ReduceMax);
extremum!(PMin ReduceMin);

fn exemplars(make: fn(Vec<String>, Option<AxisIndexGroups>) -> Exemplar) -> Vec<Exemplar> {
    let over = |names: &[&str], sample| {
        let exemplar = make(names.iter().map(ToString::to_string).collect(), None);
        Exemplar { operands: vec![sample], ..exemplar }.along([("i", 3), ("j", 2)])
    };
    let in_groups = |groups: &[&[usize]], sample| {
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        let groups = AxisIndexGroups { axis_sizes: vec![2, 3], groups };
        let exemplar = make(vec!["j".into(), "i".into()], Some(groups));
        Exemplar { operands: vec![sample], ..exemplar }.along([("i", 3), ("j", 2)])
    };
    vec![
        in_groups(&[&[0, 3, 4], &[5, 2, 1]], Sample::uniform(DType::F32, [2], -1.0, 1.0)),
        in_groups(&[&[0, 3, 4, 1], &[5, 2]], Sample::uniform(DType::F64, [], -1.0, 1.0)),
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
        exemplars(|names, groups| Exemplar::new(PMax::over(names, groups), []))
    }
}

impl Registered for PMin {
    const NAME: &'static str = "pmin";
    fn exemplars() -> Vec<Exemplar> {
        exemplars(|names, groups| Exemplar::new(PMin::over(names, groups), []))
    }
}
