//! The tangent of a function that has a reverse rule only: it can be transposed, and nothing else.

use super::held::{Held, OutAxis, logical};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, JvpResult, LowerCtx, Operand, Primitive, RuleError,
    RuleResult, Spmd, Tangent, bind,
};
use crate::ensure_shape;
use crate::primitives::rules::{batch_at, dense};
use crate::stablehlo::Value;
use serde::Serialize;

/// The derivative of a [`CustomVjp`](super::CustomVjp) along tangents, which nobody knows how to
/// compute; its transpose is the user's backward rule.
///
/// | | |
/// |-|-|
/// | operands   | residuals and what the rules captured; tangents of the inexact arguments |
/// | results    | tangents of the inexact results |
/// | lowering   | refused: it would be forward mode |
/// | derivative | linear in the tangents |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "custom_lin")]
pub struct CustomTangent {
    /// The function's name, for reading.
    pub name: String,
    /// How many operands stand before the tangents.
    pub(super) n_known: usize,
    /// The types of all arguments of the function.
    #[serde(skip)]
    pub(super) arguments: Vec<Aval>,
    /// The types of all its results.
    #[serde(skip)]
    pub(super) results: Vec<Aval>,
    /// From the known operands and the results' cotangents to the arguments' cotangents.
    pub(super) backward: Held,
}

fn inexact(avals: &[Aval]) -> Vec<Aval> {
    avals.iter().filter(|aval| aval.dtype.is_inexact()).cloned().collect()
}

impl CustomTangent {
    fn no_forward_mode(&self) -> RuleError {
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
        let varying = inexact(&self.arguments);
        let tangents = operands.get(self.n_known..).unwrap_or_default();
        ensure_shape!(
            tangents.len() == varying.len()
                && tangents.iter().zip(&varying).all(|(a, b)| a.same_type(b)),
            "tangents of `{}` do not have its arguments' types",
            self.name
        );
        Ok(inexact(&self.results))
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        if tangents[..self.n_known].iter().any(|tangent| !tangent.is_zero()) {
            return Err(self.no_forward_mode());
        }
        let varied: Vec<Array> = tangents[self.n_known..].iter().map(dense).collect();
        let (known, _) = primals.split_at(self.n_known);
        let outputs = bind(self.clone(), &primals.iter().collect::<Vec<_>>());
        let tangents = bind(self.clone(), &known.iter().chain(&varied).collect::<Vec<_>>());
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
        let mut avals = logical(known, known_axes);
        avals.extend(self.results.iter().cloned());
        let mut in_axes = known_axes.to_vec();
        in_axes.extend(vec![Some(0); self.results.len()]);
        let out_axes = vec![OutAxis::At(0); self.arguments.len()];
        let at_front = |avals: &[Aval]| -> Vec<Aval> {
            avals.iter().map(|aval| aval.with_shape(aval.shape.insert(0, axis.size))).collect()
        };
        let batched = CustomTangent {
            name: self.name.clone(),
            n_known: self.n_known,
            arguments: at_front(&self.arguments),
            results: at_front(&self.results),
            backward: self.backward.batched(avals, in_axes, out_axes, axis),
        };
        let tangents: Vec<Array> =
            tangents.iter().zip(tangent_axes).map(|(x, &at)| batch_at(x, at, 0, axis)).collect();
        let outputs = bind(batched, &known.iter().chain(&tangents).collect::<Vec<_>>());
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }

    fn lower(&self, _: &mut LowerCtx<'_>, _: &[Value], _: &[Aval]) -> RuleResult<Vec<Value>> {
        Err(self.no_forward_mode())
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let (known, tangents) = operands.split_at(self.n_known);
        let known: Option<Vec<Array>> = known.iter().map(|x| x.known().cloned()).collect();
        let mut inputs = known.ok_or_else(|| self.no_forward_mode())?;
        let mut given = cts.iter();
        inputs.extend(self.results.iter().map(|aval| match aval.dtype.is_inexact() {
            true => dense(given.next().expect("one cotangent per inexact result")),
            false => dense(&Tangent::Zero(aval.clone())),
        }));
        let pulled = self.backward.run(&inputs).into_iter();
        let pulled = pulled.filter(|ct| ct.dtype().is_inexact());
        let of_tangents = tangents
            .iter()
            .zip(pulled)
            .map(|(operand, ct)| operand.is_linear().then_some(Tangent::Dense(ct)));
        Ok(vec![None; self.n_known].into_iter().chain(of_tangents).collect())
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
