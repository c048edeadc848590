//! The tangent of a function that has a reverse rule only. It can be transposed but not evaluated.

use super::held_function::{HeldFunction, OutAxis, example_avals};
use super::symbolic::with_dense;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, JvpResult, LowerCtx, Operand, Primitive, RuleError,
    RuleResult, Spmd, Tangent, bind,
};
use crate::ensure_shape;
use crate::primitives::rules::batch_at_front;
use crate::primitives::zeros_of;
use crate::stablehlo::Value;
use serde::Serialize;

/// The derivative of a [`CustomVjp`](super::CustomVjp) along tangents. It cannot be computed; its
/// transpose is the user's backward rule.
///
/// | | |
/// |-|-|
/// | operands   | residuals and captures of the rules, then tangents of the inexact arguments |
/// | results    | tangents of the inexact results |
/// | lowering   | an error: forward mode is not supported |
/// | derivative | linear in the tangents |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "custom_lin")]
pub struct CustomTangent {
    /// The name of the function, for printing.
    pub name: String,
    /// The number of operands before the tangents.
    pub(super) n_known: usize,
    /// The types of all arguments of the function.
    #[serde(skip)]
    pub(super) arguments: Vec<Aval>,
    /// The types of all results of the function.
    #[serde(skip)]
    pub(super) results: Vec<Aval>,
    /// Maps the known operands and the cotangents of the results to the cotangents of the
    /// arguments.
    pub(super) backward: HeldFunction,
}

fn inexact_avals(avals: &[Aval]) -> Vec<Aval> {
    avals.iter().filter(|aval| aval.dtype.is_inexact()).cloned().collect()
}

impl CustomTangent {
    fn forward_mode_error(&self) -> RuleError {
        RuleError::unsupported(format!(
            "`{}` has a reverse rule only (`custom_vjp`), so forward mode (`jvp`, `linearize`, \
             `jacfwd`) cannot pass through it",
            self.name
        ))
        .help("use reverse mode, or give it a `custom_jvp`, which serves both")
    }
}

impl Primitive for CustomTangent {
    fn name(&self) -> &'static str {
        "custom_tangent"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let varying = inexact_avals(&self.arguments);
        let tangents = operands.get(self.n_known..).unwrap_or_default();
        ensure_shape!(
            tangents.len() == varying.len()
                && tangents.iter().zip(&varying).all(|(a, b)| a.same_type(b)),
            "tangents of `{}` do not have its arguments' types",
            self.name
        );
        Ok(inexact_avals(&self.results))
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        if tangents[..self.n_known].iter().any(|tangent| !tangent.is_zero()) {
            return Err(self.forward_mode_error());
        }
        let dense: Vec<Array> = tangents[self.n_known..].iter().map(Tangent::to_dense).collect();
        let known = &primals[..self.n_known];
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let tangents = bind(self.clone(), &known.iter().chain(&dense).collect::<Vec<_>>());
        Ok((outputs, tangents.into_iter().map(Tangent::Dense).collect()))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let (known, tangents) = operands.split_at(self.n_known);
        let (known_axes, tangent_axes) = axes.split_at(self.n_known);
        let mut avals = example_avals(known, known_axes);
        avals.extend(self.results.iter().cloned());
        let mut in_axes = known_axes.to_vec();
        in_axes.extend(vec![Some(0); self.results.len()]);
        let out_axes = vec![OutAxis::At(0); self.arguments.len()];
        let at_front = |avals: &[Aval]| -> Vec<Aval> {
            avals.iter().map(|aval| axis.batch_of(aval, 0)).collect()
        };
        let batched = CustomTangent {
            name: self.name.clone(),
            n_known: self.n_known,
            arguments: at_front(&self.arguments),
            results: at_front(&self.results),
            backward: self.backward.batched(avals, in_axes, out_axes, axis),
        };
        let tangents: Vec<Array> = batch_at_front(tangents, tangent_axes, axis);
        let outputs = bind(batched, &known.iter().chain(&tangents).collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(&self, _: &mut LowerCtx<'_>, _: &[Value], _: &[Aval]) -> RuleResult<Vec<Value>> {
        Err(self.forward_mode_error())
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let (known, tangents) = operands.split_at(self.n_known);
        let known: Option<Vec<Array>> = known.iter().map(|x| x.known().cloned()).collect();
        let mut inputs = known.ok_or_else(|| self.forward_mode_error())?;
        let mut cts = cts.iter();
        let mut dense = Vec::with_capacity(self.results.len());
        for aval in &self.results {
            let ct = aval.dtype.is_inexact().then(|| cts.next()).flatten();
            dense.push(ct.is_some_and(|ct| !ct.is_zero()));
            inputs.push(ct.map_or_else(|| zeros_of(aval), Tangent::to_dense));
        }
        let dense = dense.into_iter().collect();
        let mut argument_cts = with_dense(dense, || self.backward.run(&inputs));
        argument_cts.retain(|ct| ct.dtype().is_inexact());
        let mut operand_cts = vec![None; self.n_known];
        for (operand, ct) in tangents.iter().zip(argument_cts) {
            operand_cts.push(operand.is_linear().then_some(Tangent::Dense(ct)));
        }
        Ok(operand_cts)
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for CustomTangent {
    fn axis_names(&self) -> Option<Vec<String>> {
        Some(self.backward.axis_names().to_vec())
    }
}
