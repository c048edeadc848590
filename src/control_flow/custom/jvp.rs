//! `custom_jvp`: a function with a forward derivative of the user's.

use super::held::{
    Aliases, Captured, Held, OutAxis, batched_function, captured_varies, eval_traced, expect_types,
    is_looking, logical, looking, own,
};
use crate::control_flow::Call;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    LowerCtx, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Sample, Split,
    Spmd, Tangent, bind, trace,
};
use crate::primitives::rules::dense;
use crate::primitives::{cos, sin};
use crate::stablehlo::Value;
use crate::transforms::staging::{short_name, template_of, trace_function, trace_rules};
use crate::tree::{Tree, TreeDef, leaves_of, rebuild};
use serde::Serialize;
use std::panic::Location;
use std::sync::Arc;

/// Applies a program whose forward derivative the user wrote.
///
/// | | |
/// |-|-|
/// | operands   | those of the function, what it captures, what its rule captures |
/// | results    | those of the function |
/// | lowering   | a call of a private function |
/// | derivative | the user's rule, in the function's own operands |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct CustomJvp {
    /// The function itself, from its own operands, which are the first, to its results.
    #[serde(flatten)]
    pub function: Call,
    /// How many operands the function was called with; the others were captured.
    pub n_arguments: usize,
    /// From all operands and the arguments' tangents to the results and their tangents.
    rule: Held,
}

impl Primitive for CustomJvp {
    fn name(&self) -> &'static str {
        "custom_jvp"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        self.function.abstract_eval(own(&self.function, operands))
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (tangents, captured) = tangents.split_at(self.n_arguments);
        if captured.iter().any(|tangent| !tangent.is_zero()) {
            return Err(captured_varies("custom_jvp", &self.function.name));
        }
        let mut inputs = primals.to_vec();
        inputs.extend(tangents.iter().map(dense));
        let mut outputs = self.rule.run(&inputs);
        let tangents = outputs.split_off(outputs.len() / 2);
        let tangents = tangents.into_iter().map(|tangent| match tangent.dtype().is_inexact() {
            true => Tangent::Dense(tangent),
            false => Tangent::zero_like(&tangent),
        });
        Ok((outputs, tangents.collect()))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let function = batched_function(&self.function, operands, axes, axis);
        let n_outputs = self.function.program.outputs().len();
        let mut avals = logical(operands, axes);
        avals.extend_from_within(..self.n_arguments);
        let mut in_axes = axes.to_vec();
        in_axes.extend_from_within(..self.n_arguments);
        let out_axes = vec![OutAxis::At(0); 2 * n_outputs];
        let rule = self.rule.batched(avals, in_axes, out_axes, axis);
        let batched = CustomJvp { function, rule, ..self.clone() };
        let outputs = bind(batched, &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes: vec![Some(0); n_outputs] })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        self.function.lower(ctx, own(&self.function, operands), results)
    }

    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        self.function.cost(own(&self.function, operands), results)
    }

    fn effects(&self) -> Effects {
        self.function.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let mut pulled = self.function.transpose(cts, own(&self.function, operands))?;
        pulled.resize(operands.len(), None);
        Ok(pulled)
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for CustomJvp {
    fn axis_names(&self) -> Option<Vec<String>> {
        Some([self.function.program.axis_names(), self.rule.axis_names()].concat())
    }
}

impl HigherOrder for CustomJvp {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        self.function.programs()
    }

    fn run_counts(&self, operands: &[Aval], results: &[Aval]) -> Vec<RunCount> {
        self.function.run_counts(own(&self.function, operands), results)
    }

    /// Inside a rule of another function's this one may be applied to a tangent. It is linear there, and
    /// stands for its program.
    fn split(&self, known: &[bool]) -> Option<Split> {
        self.function.split(own(&self.function, known))
    }

    /// The user's rule gives all results.
    fn prune(&self, _: &[bool]) -> Option<Pruned> {
        None
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        self.function.interpret(own(&self.function, operands))
    }
}

/// Gives `f` a forward derivative of its own: `rule` takes the arguments and their tangents to the
/// value of `f` and its tangent. Reverse mode transposes what the rule does with the tangents, which
/// must be linear in them.
///
/// Tangents are dense; those of integer leaves are zeros of the leaf's own dtype. The rule may call
/// the function it belongs to, as higher derivatives often want. Both closures may capture arrays,
/// traced ones too, but cannot be differentiated with respect to those. The rule is traced once at every
/// call of the function, so that its mistakes show at once.
///
/// The function returned throws `Tree` if the rule's value or tangent has not the structure, shapes and
/// dtypes of `f`'s, and whatever either closure throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// // log(1 + exp(x)), whose derivative does not overflow.
/// fn log1pexp(x: &Array) -> Array {
///     let f = |x: &Array| log1p(&exp(x));
///     let rule = |x: &Array, dx: &Array| (log1pexp(x), dx * sigmoid(x));
///     custom_jvp(f, rule)(x)
/// }
/// let x = Array::from_slice(&[100.0f32], [])?;
/// assert_eq!(grad(log1pexp)(&x).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "defjvp")]
#[track_caller]
pub fn custom_jvp<P, O, F, R>(f: F, rule: R) -> impl Fn(&P) -> O
where
    P: Tree,
    O: Tree,
    F: Fn(&P) -> O,
    R: Fn(&P, &P) -> (O, O) + Send + Sync + 'static,
{
    let (rule, location) = (Arc::new(rule), Location::caller());
    move |primals| apply(&f, &rule, primals, location)
}

fn apply<P, O, F, R>(f: &F, rule: &Arc<R>, primals: &P, location: &'static Location<'static>) -> O
where
    P: Tree,
    O: Tree,
    F: Fn(&P) -> O,
    R: Fn(&P, &P) -> (O, O) + Send + Sync + 'static,
{
    // With nothing under way that could ask for a derivative, the function is itself.
    if !trace::is_tracing() || is_looking::<R>() {
        return f(primals);
    }
    let name = short_name::<F>();
    let leaves = leaves_of(primals);
    let avals = leaves.iter().map(|leaf| leaf.aval().clone());
    let traced = trace_function(name.clone(), avals, |leaves| f(&rebuild(primals, leaves)));
    let rule = UserRule {
        rule: rule.clone(),
        scope: format!("custom_jvp({name})"),
        primals: template_of(primals),
        outputs: template_of(&traced.template),
        location,
    };
    let found = looking::<R, _>(|| rule.trace());
    let captured = Captured::of(found.captures);
    let operands: Vec<&Array> =
        leaves.iter().chain(&traced.captures).chain(&captured.operands).collect();
    let structures = [TreeDef::of(primals), TreeDef::of(&traced.template)];
    let primitive = CustomJvp {
        function: Call { name, program: Arc::new(traced.program) },
        n_arguments: leaves.len(),
        rule: Held::new::<R>(structures, rule.flat(traced.captures.len(), captured.aliases()))
            .speaking_of(found.program.axis_names()),
    };
    let outputs = trace::at_location(Some(location), || bind(primitive, &operands));
    rebuild(&traced.template, outputs)
}

/// The rule with what it takes to run it on flat arrays.
struct UserRule<P, O, R> {
    rule: Arc<R>,
    scope: String,
    primals: P,
    outputs: O,
    location: &'static Location<'static>,
}

impl<P, O, R> UserRule<P, O, R>
where
    P: Tree,
    O: Tree,
    R: Fn(&P, &P) -> (O, O) + Send + Sync + 'static,
{
    /// Traces the rule on the arguments' types, and checks what it gives.
    fn trace(&self) -> crate::transforms::staging::Traced<(O, O)> {
        let avals: Vec<Aval> =
            leaves_of(&self.primals).iter().map(|leaf| leaf.aval().clone()).collect();
        let n = avals.len();
        let both = avals.iter().chain(&avals).cloned().collect::<Vec<_>>();
        trace_function(self.scope.clone(), both, |mut leaves| {
            let tangents = leaves.split_off(n);
            let primals = rebuild(&self.primals, leaves);
            let (value, tangent) = (self.rule)(&primals, &rebuild(&self.primals, tangents));
            expect_types("custom_jvp: the rule's value", &self.outputs, &value, self.location);
            expect_types("custom_jvp: the rule's tangent", &self.outputs, &tangent, self.location);
            (value, tangent)
        })
    }

    /// Inputs: the arguments, what the function captured, what the rule captured, the tangents.
    fn flat(
        self,
        n_captures: usize,
        aliases: Aliases,
    ) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static {
        move |inputs| {
            let n = leaves_of(&self.primals).len();
            let (primals, rest) = inputs.split_at(n);
            let (captured, tangents) = rest.split_at(rest.len() - n);
            aliases.with(&captured[n_captures..], || {
                let arguments: Vec<Array> = primals.iter().chain(tangents).cloned().collect();
                eval_traced(&self.trace(), &arguments)
            })
        }
    }
}

pub(in crate::control_flow) fn make(
    _: serde_json::Value,
    _: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    Err(RuleError::unsupported("custom_jvp holds a closure and cannot be read from text"))
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let aval = || Aval::new(DType::F64, [2, 3]);
    let program = trace_rules([aval(), aval()], |inputs| vec![&inputs[0] * &sin(&inputs[1])]);
    struct Exemplary;
    let rule = Held::new::<Exemplary>([], |inputs| {
        let [x, y, dx, dy] = inputs else { unreachable!("two operands and their tangents") };
        vec![x * &sin(y), dx * &sin(y) + x * &cos(y) * dy]
    });
    let function = Call { name: "f".into(), program: Arc::new(program) };
    let custom = CustomJvp { function, n_arguments: 2, rule };
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    vec![Exemplar::new(custom, [sample(), sample()])]
}
