//! `custom_jvp`: a function with a user-defined forward derivative.

use super::batching::BatchRule;
use super::captures::{Captures, Rebinding, captured_tangent_error, is_tracing_rule, tracing_rule};
use super::held_function::{
    HeldFunction, OutAxis, batched_function, eval_traced, example_avals, expect_types,
    function_text_form, n_own, own,
};
use super::symbolic::{SymbolicZeros, take_dense, with_all_dense, with_dense};
use crate::control_flow::Call;
use crate::control_flow::derive::avals_of;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleError, RuleResult,
    RunCount, Sample, SplitEqn, Spmd, Tangent, TextForm, Used, bind, trace,
};
use crate::primitives::{cos, sin};
use crate::stablehlo::Value;
use crate::transforms::staging::{Traced, template_of, trace_call, trace_function, trace_rules};
use crate::tree::{
    Function, PrimalArgs, TransformedFn, Tree, TreeDef, count_leaves, leaves_of, rebuild,
    shared_arguments, transformed,
};
use serde::Serialize;
use std::sync::Arc;

/// Applies a program with a user-defined forward derivative, batching rule, or both.
///
/// | | |
/// |-|-|
/// | operands   | those of the function, its captures, the captures of its rule |
/// | results    | those of the function |
/// | lowering   | a call of a private function |
/// | derivative | the user's rule, with respect to the function's own operands |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct CustomJvp {
    /// The function itself. Its operands are the first of the equation's.
    #[serde(flatten)]
    pub function: Call,
    /// The number of operands that are arguments of the function; the others are captured.
    pub n_arguments: usize,
    /// Maps all operands and the tangents of the arguments to the results and their tangents.
    pub(super) rule: HeldFunction,
    /// The user's batching rule, if there is one.
    #[serde(skip)]
    pub(super) batch_rule: Option<BatchRule>,
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
            return Err(captured_tangent_error("custom_jvp", &self.function.name));
        }
        let mut inputs = primals.to_vec();
        inputs.extend(tangents.iter().map(Tangent::to_dense));
        let mut outputs = with_dense(Marks::of_tangents(tangents), || self.rule.run(&inputs));
        let tangents = outputs.split_off(outputs.len() / 2);
        let to_tangent = |tangent: Array| {
            if tangent.dtype().is_inexact() {
                Tangent::Dense(tangent)
            } else {
                Tangent::zero_like(&tangent)
            }
        };
        Ok((outputs, tangents.into_iter().map(to_tangent).collect()))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        if let Some(rule) = &self.batch_rule {
            return rule.batch(self, operands, axes, axis);
        }
        let function = batched_function(&self.function, operands, axes, axis);
        let n_outputs = self.function.program.outputs().len();
        let mut avals = example_avals(operands, axes);
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
        let mut operand_cts = self.function.transpose(cts, own(&self.function, operands))?;
        operand_cts.resize(operands.len(), None);
        Ok(operand_cts)
    }

    fn is_opaque(&self) -> bool {
        true
    }

    fn text_form(&self) -> TextForm {
        function_text_form(&self.function)
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

    /// Splits the plain program. Inside a rule of another function, the function may be applied to
    /// a tangent, in which it is linear.
    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        self.function.split(&known.slice(0..n_own(&self.function, known.len())))
    }

    /// Returns `None`: the user's rule computes all results.
    fn prune(&self, _: &Marks<Used>) -> Option<Pruned> {
        None
    }

    /// Replaces the function. The rules of its derivative stay as they are.
    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        let function = Call { program, ..self.function.clone() };
        Some(Arc::new(CustomJvp { function, ..self.clone() }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        self.function.interpret(own(&self.function, operands))
    }
}

/// Returns `f` with a user-defined forward derivative. `rule` maps the arguments and their tangents
/// to the value of `f` and its tangent, which must be linear in the tangents. Reverse mode
/// transposes it.
///
/// For a function of several arguments, the rule takes two tuples: `|(x, y): &(Array, Array),
/// (dx, dy): &(Array, Array)| …`. `f` may borrow. The rule owns what it uses, because derivatives
/// run it after the call: make it a `move` closure of clones, which share their elements.
///
/// Tangents are dense. Those of integer leaves are zeros of the leaf's dtype. The rule may call the
/// function it belongs to, which higher derivatives often need. Both closures may capture arrays,
/// including traced ones, but cannot be differentiated with respect to those. The rule is traced at
/// every call of the function, so that errors in it are reported immediately.
///
/// The returned function throws `Tree` if the rule's value or tangent does not have the structure,
/// shapes and dtypes of the value of `f`, and whatever either closure throws.
///
/// ```
/// use oxidax::prelude::*;
/// // log(1 + exp(x)) with a derivative that does not overflow.
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
pub fn custom_jvp<'f, A, O, M, MR, F, R>(f: F, rule: R) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    M: 'f,
    MR: 'static,
    F: Function<A, M, Output = O> + 'f,
    R: Function<(A::Primals, A::Primals), MR, Output = (O, O)> + Send + Sync + 'static,
{
    let rule = move |primals, tangents| rule.apply((primals, tangents));
    with_rule(f.name(), move |arguments: A| f.apply(arguments), rule, Loc::caller())
}

/// As [`custom_jvp`], with a rule that knows which tangents are zero. `rule` maps the arguments and
/// their tangents, as [`SymbolicZeros`], to the value of `f` and its tangent. For a function of
/// several arguments, both are of a tuple.
///
/// When the rule is traced to check its result, no tangent is a symbolic zero.
///
/// ```
/// use oxidax::control_flow::SymbolicZeros;
/// use oxidax::prelude::*;
/// let f = custom_jvp_symbolic(
///     |x: &Array, y: &Array| x * y,
///     |(x, y): &(Array, Array), tangents: &SymbolicZeros<(Array, Array)>| {
///         let parts = [tangents.get(0).map(|dx| dx * y), tangents.get(1).map(|dy| dy * x)];
///         let tangent = parts.into_iter().flatten().reduce(|a, b| a + b);
///         (x * y, tangent.unwrap_or_else(|| zeros_like(x)))
///     },
/// );
/// let (x, y) = (full([], 2.0), full([], 3.0));
/// assert_eq!(grad(|x: &Array| f(x, &y))(&x).item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "symbolic_zeros")]
#[track_caller]
pub fn custom_jvp_symbolic<'f, A, O, M, F, R>(f: F, rule: R) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    M: 'f,
    F: Function<A, M, Output = O> + 'f,
    R: Fn(&A::Primals, &SymbolicZeros<A::Primals>) -> (O, O) + Send + Sync + 'static,
{
    let rule = move |primals: A::Primals, tangents: A::Primals| {
        let dense = take_dense(count_leaves(&tangents));
        rule(&primals, &SymbolicZeros::new(tangents, dense))
    };
    with_rule(f.name(), move |arguments: A| f.apply(arguments), rule, Loc::caller())
}

/// Returns `f` with a rule for the forward derivative.
pub(super) fn with_rule<'f, A, O, R>(
    name: String,
    f: impl Fn(A) -> O + 'f,
    rule: R,
    loc: Loc,
) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    R: Fn(A::Primals, A::Primals) -> (O, O) + Send + Sync + 'static,
{
    let rule = Arc::new(rule);
    transformed::<A, _>(name.clone(), move |arguments| {
        let primals = shared_arguments::<A>(arguments).into_primals();
        apply(&name, |primals| f(A::from_primals(primals)), &rule, primals, loc)
    })
}

fn apply<P, O, R>(name: &str, f: impl Fn(P) -> O, rule: &Arc<R>, primals: P, loc: Loc) -> O
where
    P: Tree,
    O: Tree,
    R: Fn(P, P) -> (O, O) + Send + Sync + 'static,
{
    // Outside a trace no derivative can be taken.
    if !trace::is_tracing() || is_tracing_rule::<R>() {
        return f(primals);
    }
    let (name, primals) = (name.to_string(), &primals);
    let call = trace_call(name.clone(), f, primals);
    let rule = UserRule {
        rule: rule.clone(),
        scope: format!("custom_jvp({name})"),
        primals: template_of(primals),
        outputs: template_of(&call.template),
        loc,
    };
    let traced_rule = with_all_dense(|| tracing_rule::<R, _>(|| rule.trace()));
    let captures = Captures::of(traced_rule.captures);
    let structures = [TreeDef::of(primals), TreeDef::of(&call.template)];
    let rule = rule.flat(call.n_captures(), captures.rebinding());
    let primitive = CustomJvp {
        function: Call { name, program: Arc::new(call.program) },
        n_arguments: call.n_arguments,
        rule: HeldFunction::new::<R>(structures, rule)
            .with_axis_names(traced_rule.program.axis_names()),
        batch_rule: None,
    };
    let operands = [call.operands, captures.operands].concat();
    let outputs = loc.scope(|| bind(primitive, &operands.iter().collect::<Vec<_>>()));
    rebuild(&call.template, outputs)
}

/// The user's rule, which can be run on lists of arrays.
struct UserRule<P, O, R> {
    rule: Arc<R>,
    scope: String,
    primals: P,
    outputs: O,
    loc: Loc,
}

impl<P, O, R> UserRule<P, O, R>
where
    P: Tree,
    O: Tree,
    R: Fn(P, P) -> (O, O) + Send + Sync + 'static,
{
    /// Traces the rule on the types of the arguments and checks its result.
    fn trace(&self) -> Traced<(O, O)> {
        let avals = avals_of(&leaves_of(&self.primals));
        let inputs = [&avals[..], &avals].concat();
        trace_function(self.scope.clone(), inputs, |mut leaves| {
            let tangents = leaves.split_off(avals.len());
            let primals = rebuild(&self.primals, leaves);
            let (value, tangent) = (self.rule)(primals, rebuild(&self.primals, tangents));
            expect_types("custom_jvp: the rule's value", &self.outputs, &value, self.loc);
            expect_types("custom_jvp: the rule's tangent", &self.outputs, &tangent, self.loc);
            (value, tangent)
        })
    }

    /// Returns the rule as a function of lists. Its inputs are the arguments, the captures of the
    /// function, the captures of the rule, and the tangents.
    fn flat(
        self,
        n_captures: usize,
        rebinding: Rebinding,
    ) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static {
        move |inputs| {
            let n = leaves_of(&self.primals).len();
            let (primals, rest) = inputs.split_at(n);
            let (captured, tangents) = rest.split_at(rest.len() - n);
            rebinding.with(&captured[n_captures..], || {
                eval_traced(&self.trace(), &[primals, tangents].concat())
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
    let rule = HeldFunction::new::<Exemplary>([], |inputs| {
        let [x, y, dx, dy] = inputs else { unreachable!("two operands and their tangents") };
        vec![x * &sin(y), dx * &sin(y) + x * &cos(y) * dy]
    });
    let function = Call { name: "f".into(), program: Arc::new(program) };
    let custom = CustomJvp { function, n_arguments: 2, rule, batch_rule: None };
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    vec![Exemplar::new(custom, [sample(), sample()])]
}
