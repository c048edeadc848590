//! `reduce`: a reduction by an arbitrary associative function.

mod function;
mod halving;

pub use function::reduce;

use super::derive::avals_of;
use super::parse;
use crate::core::varying::joint;
use crate::core::{
    Access, Array, Aval, BatchAxis, Batched, Cost, DType, Error, Exemplar, HigherOrder, JvpResult,
    Known, LowerCtx, Marks, Primitive, Program, Pruned, RuleResult, RunCount, Sample, Shape,
    SplitEqn, Spmd, Tangent, Used, Varying, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at_front, without_axes};
use crate::stablehlo::{TensorType, Value, i64_array};
use crate::transforms::batch::{batch_program, without_batch_axis};
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Reduces several arrays together along axes, by a program that combines two elements.
///
/// | | |
/// |-|-|
/// | operands   | `n` arrays `any[…]` of one shape, then `n` initial scalars of their dtypes |
/// | results    | `n` arrays without the reduced axes |
/// | lowering   | [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) |
/// | derivative | that of combining neighbours until one element is left |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Reduce {
    /// The reduced axes, in increasing order.
    pub axes: Vec<usize>,
    /// Combines `n` scalars and `n` scalars into `n`. It must be associative, and the initial
    /// scalars must be its neutral element.
    #[serde(skip)]
    pub combine: Arc<Program>,
}

impl Reduce {
    /// Returns the reduction as a program of ordinary operations.
    fn halving(&self, operands: &[Aval]) -> Program {
        trace_rules(operands.iter().cloned(), |operands| {
            let (arrays, inits) = operands.split_at(operands.len() / 2);
            halving::reduce_by_halving(&self.combine, arrays, inits, &[], &self.axes)
        })
    }
}

impl Primitive for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let n = self.combine.outputs().len();
        ensure!(n > 0, "combines nothing");
        ensure!(
            operands.len() == 2 * n && self.combine.inputs().len() == 2 * n,
            "a program that gives {n} results takes {} and reduces as many operands, got {} and {}",
            2 * n,
            self.combine.inputs().len(),
            operands.len()
        );
        let (arrays, inits) = operands.split_at(n);
        let shape = &arrays[0].shape;
        ensure_shape!(
            self.axes.windows(2).all(|pair| pair[0] < pair[1])
                && self.axes.iter().all(|&axis| axis < shape.rank()),
            "axes {:?} must increase and be less than the rank {}",
            self.axes,
            shape.rank()
        );
        let (inputs, outputs) = (self.combine.avals_in(), self.combine.avals_out());
        let mut results = Vec::new();
        for (index, (x, init)) in arrays.iter().zip(inits).enumerate() {
            ensure_shape!(
                x.shape == *shape,
                "operand {index} is {x}, the first has the shape {shape}"
            );
            let scalar = Aval::new(x.dtype, Shape::scalar());
            ensure_shape!(
                init.same_type(&scalar),
                "operand {index} has the initial value {init}, not {scalar}"
            );
            let programs = [
                ("takes", &inputs[index]),
                ("takes", &inputs[n + index]),
                ("gives", &outputs[index]),
            ];
            for (verb, aval) in programs {
                ensure_shape!(
                    aval.same_type(&scalar),
                    "the program {verb} {aval} for operand {index}, which is {x}"
                );
            }
            let weak = x.weak && init.weak;
            results.push(Aval { weak, ..x.with_shape(without_axes(shape, &self.axes)) });
        }
        Ok(results)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_program(&self.halving(&avals_of(primals)), primals, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let n = operands.len() / 2;
        // A program that refers to the batch axis by name cannot be reused either.
        if axes[n..].iter().any(Option::is_some) || axis.is_among(self.combine.axis_names()) {
            let avals: Vec<Aval> =
                operands.iter().zip(axes).map(|(x, &axis)| without_batch_axis(x, axis)).collect();
            let (outputs, axes) = batch_program(&self.halving(&avals), operands, axes, axis);
            return Ok(Batched { outputs, axes });
        }
        let mut operands = operands.to_vec();
        let front = batch_at_front(&operands[..n], &axes[..n], axis);
        operands.splice(..n, front);
        let axes = self.axes.iter().map(|axis| axis + 1).collect();
        let batched = Reduce { axes, combine: self.combine.clone() };
        let outputs = bind(batched, &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes: vec![Some(0); n] })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let scalars: Vec<TensorType> =
            self.combine.avals_in().iter().map(Aval::stablehlo).collect();
        let (outside, arguments) = ctx.open_region(&scalars);
        let combined = ctx.inline(&self.combine, &arguments)?;
        let region = ctx.close_region(outside, &combined);
        let dimensions = format!("dimensions = {}", i64_array(&self.axes));
        let results: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        Ok(ctx.op_full("reduce", operands, &dimensions, vec![region], &results))
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n_combinations = operands[0].size().saturating_sub(results[0].size());
        let combinations = passes::cost(&self.combine).times(n_combinations);
        Cost {
            flops: combinations.flops,
            transcendentals: combinations.transcendentals,
            access: Access::Reduction,
            ..Cost::whole(operands, results)
        }
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for Reduce {
    fn operand_varying(&self, operands: &[Aval]) -> Option<Vec<Varying>> {
        Some(vec![joint(operands); operands.len()])
    }

    fn result_varying(&self, operands: &[Aval], results: &[Aval]) -> Option<Vec<Varying>> {
        Some(vec![joint(operands); results.len()])
    }
}

impl HigherOrder for Reduce {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("combine", &self.combine)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Counted]
    }

    fn split(&self, _: &Marks<Known>) -> Option<SplitEqn> {
        None
    }

    /// Returns `None`: all arrays are combined together.
    fn prune(&self, _: &Marks<Used>) -> Option<Pruned> {
        None
    }

    /// Returns `None`: the order of the combinations is up to the compiler.
    fn with_programs(&self, _: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        None
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.halving(&avals_of(operands)), operands))
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        axes: Vec<usize>,
    }
    let Parameters { axes } = parse::parameters(params)?;
    let [combine] = parse::exact("reduce", programs)?;
    Ok(Arc::new(Reduce { axes, combine: Arc::new(combine) }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let scalar = |dtype| Aval::new(dtype, Shape::scalar());
    let program = |dtypes: &[DType], f: fn(&[Array]) -> Vec<Array>| {
        let avals = dtypes.iter().chain(dtypes).map(|&dtype| scalar(dtype));
        Arc::new(trace_rules(avals, f))
    };
    let exemplar = |axes: &[usize], combine: &Arc<Program>, samples: Vec<Sample>| {
        Exemplar::new(Reduce { axes: axes.to_vec(), combine: combine.clone() }, samples)
    };
    let uniform = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -1.0, 1.0);
    let listed = |dtype, value| Sample::listed(dtype, Shape::scalar(), &[value]);
    let pairs = program(&[DType::F64, DType::F64], |x| {
        // Composition of affine maps: (a, b) represents y = a y + b.
        vec![&x[0] * &x[2], &x[1] * &x[2] + &x[3]]
    });
    let of_bytes = program(&[DType::U8], |x| vec![&x[0] + &x[1]]);
    let wide = program(&[DType::F32], |x| vec![crate::primitives::logaddexp(&x[0], &x[1])]);
    let (f32, f64) = (DType::F32, DType::F64);
    let affine = |shape: &[usize]| {
        vec![uniform(f64, shape), uniform(f64, shape), listed(f64, 1.0), listed(f64, 0.0)]
    };
    vec![
        exemplar(&[1], &pairs, affine(&[2, 5])),
        exemplar(&[0, 2], &pairs, affine(&[2, 2, 3])),
        exemplar(&[0], &pairs, affine(&[0, 2])),
        // Without axes to reduce, XLA ignores the initial value, which finite differences vary.
        exemplar(&[], &pairs, affine(&[2])).without_derivative(),
        exemplar(&[1], &pairs, affine(&[2, 1])).without_derivative(),
        exemplar(&[0], &of_bytes, vec![uniform(DType::U8, &[7]), listed(DType::U8, 0.0)]),
        // Derivative laws run in f64, and the types of a program are fixed.
        exemplar(&[0], &wide, vec![uniform(f32, &[3, 2]), listed(f32, f64::NEG_INFINITY)])
            .without_derivative(),
    ]
}
