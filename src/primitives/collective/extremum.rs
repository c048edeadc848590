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
use crate::primitives::reduce::{ReduceMax, ReduceMin, reduce_max, reduce_min};
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

macro_rules! extremum {
    ($Struct:ident $name:literal $reduce:ident $Reduce:ident) => {
        impl Primitive for $Struct {
            fn name(&self) -> &'static str {
                $name
            }
            fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
                let [x] = arity(operands)?;
                Ok(vec![x.clone()])
            }
            fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
                let x = &primals[0];
                let y = bind1(self.clone(), [x]);
                let dy =
                    tangents[0].map(y.aval(), |dx| chosen_tangent(&self.axis_names, x, &y, dx));
                Ok((vec![y], vec![dy]))
            }
            fn batch(
                &self,
                operands: &[Array],
                axes: &[Option<usize>],
                axis: &BatchAxis,
            ) -> RuleResult<Batched> {
                let x = &operands[0];
                if !axis.is_among(&self.axis_names) {
                    return Ok(batched(bind1(self.clone(), [x]), axes[0].unwrap_or(0)));
                }
                // The extremum of equal values is the value.
                let y = axes[0].map_or(x.clone(), |dim| $reduce(x, &[dim as isize]));
                let y = match other_names(&self.axis_names, axis) {
                    none if none.is_empty() => y,
                    axis_names => bind1($Struct { axis_names }, [&y]),
                };
                Ok(Batched { outputs: vec![y], axes: vec![None] })
            }
            // XLA's CPU collectives drop NaN in maxima and do not order complex numbers. So values
            // are gathered and each device reduces them.
            fn lower(
                &self,
                ctx: &mut LowerCtx<'_>,
                operands: &[Value],
                results: &[Aval],
            ) -> RuleResult<Vec<Value>> {
                let groups = Groups::along(ctx, self.name(), &self.axis_names)?;
                let all = lowering::stack(ctx, &groups, &operands[0], results[0].dtype);
                $Reduce { axes: vec![0] }.lower(ctx, &[all], results)
            }
            fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
                Cost {
                    flops: Cost::elementwise(operands, results).flops,
                    ..Cost::whole(operands, results)
                }
            }
            fn spmd(&self) -> Option<&dyn Spmd> {
                Some(self)
            }
        }

        impl Spmd for $Struct {
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

extremum!(PMax "pmax" reduce_max ReduceMax);
extremum!(PMin "pmin" reduce_min ReduceMin);

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
