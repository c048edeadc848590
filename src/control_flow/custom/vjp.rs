//! `custom_vjp`: a function with a user-defined reverse derivative.

use super::captures::{Captures, Rebinding, captured_tangent_error, is_tracing_rule, tracing_rule};
use super::held_function::{
    HeldFunction, OutAxis, batched_function, eval_traced, example_avals, expect_types,
    function_text_form, n_own, own,
};
use super::remat_opt::RematOpt;
use super::symbolic::{Perturbed, SymbolicZeros, take_dense, with_all_dense, with_dense};
use super::tangent::CustomTangent;
use crate::control_flow::Call;
use crate::control_flow::derive::avals_of;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, ProgramInput, Pruned, RuleError,
    RuleResult, RunCount, Sample, SplitEqn, Spmd, Tangent, TextForm, TreeError, Used, bind, trace,
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

/// Applies a program with a user-defined reverse derivative.
///
/// | | |
/// |-|-|
/// | operands   | those of the function, its captures, the captures of its rules |
/// | results    | those of the function |
/// | lowering   | a call of a private function |
/// | derivative | the forward rule, and a [`CustomTangent`], whose transpose is the backward rule |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct CustomVjp {
    /// The function itself. Its operands are the first of the equation's.
    #[serde(flatten)]
    pub function: Call,
    /// The number of operands that are arguments of the function.
    pub n_arguments: usize,
    /// The number of operands that the rules capture. They are the last.
    n_captured: usize,
    /// The number of residuals, which the forward rule passes to the backward rule.
    n_residuals: usize,
    /// The function replaces the forward rule where no residual is used.
    #[serde(skip_serializing_if = "is_false")]
    optimize_remat: bool,
    /// Maps the arguments and the captures of the rules to the results, then the residuals.
    forward: HeldFunction,
    /// Maps the residuals, the captures of the rules and the cotangents of the results to the
    /// cotangents of the arguments.
    backward: HeldFunction,
}

impl CustomVjp {
    /// Selects the operands of the forward rule among those of the equation.
    fn rule_operands<T: Clone>(&self, operands: &[T]) -> Vec<T> {
        let captured = &operands[operands.len() - self.n_captured..];
        operands[..self.n_arguments].iter().chain(captured).cloned().collect()
    }

    /// Binds the forward rule as a [`RematOpt`].
    fn bind_forward(&self, operands: &[Array]) -> Vec<Array> {
        let (rule, captures) = self.forward.trace(&avals_of(&self.rule_operands(operands)));
        // Both programs take the operands of the equation, then the concrete captures of the rule.
        let n_own = n_own(&self.function, operands.len());
        let n_operands = operands.len();
        let operands: Vec<&Array> = operands.iter().chain(&captures).collect();
        let is_of_rule = |at: usize| at < self.n_arguments || at >= n_operands - self.n_captured;
        let mut next = 0..;
        let (mut of_rule, mut of_function) = (Vec::new(), Vec::new());
        for (at, operand) in operands.iter().enumerate() {
            let unused = || ProgramInput::Unused(operand.aval().clone());
            of_rule.push(match is_of_rule(at) {
                true => ProgramInput::Existing(next.next().expect("there is no end")),
                false => unused(),
            });
            of_function.push(if at < n_own { ProgramInput::Existing(at) } else { unused() });
        }
        let primitive = RematOpt {
            name: self.function.name.clone(),
            forward: Arc::new(rule.with_inputs(&of_rule)),
            function: Arc::new(self.function.program.with_inputs(&of_function)),
        };
        bind(primitive, &operands)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Primitive for CustomVjp {
    fn name(&self) -> &'static str {
        "custom_vjp"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        self.function.abstract_eval(own(&self.function, operands))
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (tangents, captured) = tangents.split_at(self.n_arguments);
        if captured.iter().any(|tangent| !tangent.is_zero()) {
            return Err(captured_tangent_error("custom_vjp", &self.function.name));
        }
        let inputs = self.rule_operands(primals);
        let mut outputs = with_dense(Marks::of_tangents(tangents), || match self.optimize_remat {
            true => self.bind_forward(primals),
            false => self.forward.run(&inputs),
        });
        let mut residuals = outputs.split_off(outputs.len() - self.n_residuals);
        residuals.extend_from_slice(&inputs[self.n_arguments..]);
        let varying: Vec<Array> = tangents
            .iter()
            .filter(|tangent| tangent.aval().dtype.is_inexact())
            .map(Tangent::to_dense)
            .collect();
        let primitive = CustomTangent {
            name: self.function.name.clone(),
            n_known: residuals.len(),
            arguments: tangents.iter().map(|tangent| tangent.aval().clone()).collect(),
            results: outputs.iter().map(|output| output.aval().clone()).collect(),
            backward: self.backward.clone(),
        };
        let operands: Vec<&Array> = residuals.iter().chain(&varying).collect();
        let dense = bind(primitive, &operands);
        let inexact = Marks::of(&outputs, |output| output.dtype().is_inexact());
        let tangents = inexact.tangents(avals_of(&outputs), dense);
        Ok((outputs, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let function = batched_function(&self.function, operands, axes, axis);
        let n_outputs = self.function.program.outputs().len();
        let rule_avals = self.rule_operands(&example_avals(operands, axes));
        let rule_axes = self.rule_operands(axes);
        // All outputs of the forward rule have their batch axis in front.
        let out_axes = vec![OutAxis::At(0); n_outputs + self.n_residuals];
        let forward = self.forward.batched(rule_avals.clone(), rule_axes.clone(), out_axes, axis);
        let (rule, _) = axis.in_scope(|| self.forward.trace(&rule_avals));
        let mut avals = rule.avals_out().split_off(n_outputs);
        avals.extend_from_slice(&rule_avals[self.n_arguments..]);
        avals.extend(self.function.program.avals_out());
        let mut in_axes = vec![Some(0); self.n_residuals];
        in_axes.extend_from_slice(&rule_axes[self.n_arguments..]);
        in_axes.extend(vec![Some(0); n_outputs]);
        let out_axes =
            axes[..self.n_arguments].iter().map(|axis| axis.map_or(OutAxis::Sum, OutAxis::At));
        let backward = self.backward.batched(avals, in_axes, out_axes.collect(), axis);
        let batched = CustomVjp { function, forward, backward, ..self.clone() };
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

impl Spmd for CustomVjp {
    fn axis_names(&self) -> Option<Vec<String>> {
        let rules = [self.forward.axis_names(), self.backward.axis_names()];
        Some([self.function.program.axis_names(), rules[0], rules[1]].concat())
    }
}

impl HigherOrder for CustomVjp {
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
        Some(Arc::new(CustomVjp { function, ..self.clone() }))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        self.function.interpret(own(&self.function, operands))
    }
}

/// Returns `f` with a user-defined reverse derivative. `forward` maps the arguments to the value of
/// `f` and the *residuals*, any tree that the backward pass needs. `backward` maps the residuals
/// and the cotangent of the value to the cotangents of the arguments.
///
/// For a function of several arguments, `backward` returns a tuple of cotangents. `f` may borrow.
/// The rules own what they use, because derivatives run them after the call: make them `move`
/// closures of clones, which share their elements.
///
/// The function cannot be differentiated in forward mode. Cotangents are dense. Those of integer
/// leaves are zeros, and the cotangents that `backward` returns for integer arguments are ignored.
/// All closures may capture arrays, including traced ones, but cannot be differentiated with
/// respect to those. The rules are traced at every call of the function, so that errors in them are
/// reported immediately.
///
/// The returned function throws `Tree` if the result of a rule does not have the required
/// structure, shapes and dtypes, and whatever the closures throw.
///
/// ```
/// use oxidax::prelude::*;
/// // The identity with a clipped gradient.
/// let clipped = custom_vjp(
///     |x: &Array| x.clone(),
///     |x: &Array| (x.clone(), ()),
///     |(): &(), ct: &Array| clip(ct, -1.0, 1.0),
/// );
/// let x = Array::from_slice(&[3.0f32], [])?;
/// let gradient = grad(|x: &Array| clipped(x) * 10.0)(&x);
/// assert_eq!(gradient.item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "defvjp")]
#[track_caller]
pub fn custom_vjp<'f, A, O, R, M, MF, MB, F, Fwd, Bwd>(
    f: F,
    forward: Fwd,
    backward: Bwd,
) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    R: Tree,
    M: 'f,
    MF: 'static,
    MB: 'static,
    F: Function<A, M, Output = O> + 'f,
    Fwd: Function<A, MF, Output = (O, R)> + Send + Sync + 'static,
    Bwd: Function<(R, O), MB, Output = A::Primals> + Send + Sync + 'static,
{
    custom_vjp_with(f, forward, backward, CustomVjpOptions::default())
}

/// Options of [`custom_vjp_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CustomVjpOptions {
    /// Applies the function itself, in place of the forward rule, where no residual is used. Under
    /// [`remat`](crate::control_flow::remat()) that is the forward pass: the forward rule runs when
    /// values are recomputed. Useful if the forward rule is slower than the function, or uses more
    /// memory. False by default.
    ///
    /// A derivative of the derivative uses the forward rule everywhere.
    #[doc(alias = "optimize_remat_of_custom_vjp_fwd")]
    pub optimize_remat: bool,
}

/// As [`custom_vjp`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// let options = CustomVjpOptions { optimize_remat: true };
/// let f = custom_vjp_with(
///     |x: &Array| sin(x),
///     |x: &Array| (sin(x), cos(x)),
///     |slope: &Array, ct: &Array| ct * slope,
///     options,
/// );
/// // The forward pass computes no cosine.
/// let slope = grad(remat(|x: &Array| sin(f(x))))(&zeros([]));
/// assert_eq!(slope.item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn custom_vjp_with<'f, A, O, R, M, MF, MB, F, Fwd, Bwd>(
    f: F,
    forward: Fwd,
    backward: Bwd,
    options: CustomVjpOptions,
) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    R: Tree,
    M: 'f,
    MF: 'static,
    MB: 'static,
    F: Function<A, M, Output = O> + 'f,
    Fwd: Function<A, MF, Output = (O, R)> + Send + Sync + 'static,
    Bwd: Function<(R, O), MB, Output = A::Primals> + Send + Sync + 'static,
{
    let forward = move |primals| forward.apply(A::from_primals(primals));
    let backward = move |residuals, cts| backward.apply((residuals, cts));
    let call = CallOptions { loc: Loc::caller(), options };
    with_rules(f.name(), move |arguments: A| f.apply(arguments), forward, backward, call)
}

/// The line of a call and its options.
#[derive(Clone, Copy)]
struct CallOptions {
    loc: Loc,
    options: CustomVjpOptions,
}

/// As [`custom_vjp`], with rules that know which derivatives are needed. `forward` receives the
/// arguments as [`Perturbed`], which tells by which leaves is differentiated; `backward` receives
/// the cotangents as [`SymbolicZeros`]. For a function of several arguments, those are tuples.
///
/// The residuals have the same structure and types whatever is perturbed. Cotangents that
/// `backward` returns for leaves that are not perturbed are ignored. When the rules are traced to
/// check their results, everything is perturbed and no cotangent is a symbolic zero.
///
/// ```
/// use oxidax::control_flow::{Perturbed, SymbolicZeros};
/// use oxidax::prelude::*;
/// let f = custom_vjp_symbolic(
///     |x: &Array| (sin(x), cos(x)),
///     |x: &Perturbed<Array>| ((sin(x.value()), cos(x.value())), x.value().clone()),
///     |x: &Array, cts: &SymbolicZeros<(Array, Array)>| {
///         let parts = [cts.get(0).map(|ct| ct * cos(x)), cts.get(1).map(|ct| -ct * sin(x))];
///         parts.into_iter().flatten().reduce(|a, b| a + b).unwrap_or_else(|| zeros_like(x))
///     },
/// );
/// let slope = grad(|x: &Array| f(x).0)(&zeros([]));
/// assert_eq!(slope.item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "symbolic_zeros")]
#[track_caller]
pub fn custom_vjp_symbolic<'f, A, O, R, M, F, Fwd, Bwd>(
    f: F,
    forward: Fwd,
    backward: Bwd,
) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    R: Tree,
    M: 'f,
    F: Function<A, M, Output = O> + 'f,
    Fwd: Fn(&Perturbed<A::Primals>) -> (O, R) + Send + Sync + 'static,
    Bwd: Fn(&R, &SymbolicZeros<O>) -> A::Primals + Send + Sync + 'static,
{
    let forward = move |primals: A::Primals| {
        let perturbed = take_dense(count_leaves(&primals));
        forward(&Perturbed::new(primals, perturbed))
    };
    let backward = move |residuals: R, cts: O| {
        let dense = take_dense(count_leaves(&cts));
        backward(&residuals, &SymbolicZeros::new(cts, dense))
    };
    let call = CallOptions { loc: Loc::caller(), options: CustomVjpOptions::default() };
    with_rules(f.name(), move |arguments: A| f.apply(arguments), forward, backward, call)
}

/// Returns `f` with rules for the reverse derivative.
fn with_rules<'f, A, O, R, Fwd, Bwd>(
    name: String,
    f: impl Fn(A) -> O + 'f,
    forward: Fwd,
    backward: Bwd,
    call: CallOptions,
) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    R: Tree,
    Fwd: Fn(A::Primals) -> (O, R) + Send + Sync + 'static,
    Bwd: Fn(R, O) -> A::Primals + Send + Sync + 'static,
{
    let (forward, backward) = (Arc::new(forward), Arc::new(backward));
    transformed::<A, _>(name.clone(), move |arguments| {
        let primals = shared_arguments::<A>(arguments).into_primals();
        let rules = (&forward, &backward);
        apply(&name, |primals| f(A::from_primals(primals)), rules, primals, call)
    })
}

fn apply<P, O, R, Fwd, Bwd>(
    name: &str,
    f: impl Fn(P) -> O,
    (forward, backward): (&Arc<Fwd>, &Arc<Bwd>),
    primals: P,
    CallOptions { loc, options }: CallOptions,
) -> O
where
    P: Tree,
    O: Tree,
    R: Tree,
    Fwd: Fn(P) -> (O, R) + Send + Sync + 'static,
    Bwd: Fn(R, O) -> P + Send + Sync + 'static,
{
    // Outside a trace no derivative can be taken.
    if !trace::is_tracing() || is_tracing_rule::<(Fwd, Bwd)>() {
        return f(primals);
    }
    let (name, primals) = (name.to_string(), &primals);
    let call = trace_call(name.clone(), f, primals);
    let forward = Forward {
        rule: forward.clone(),
        scope: format!("custom_vjp({name}), forward rule"),
        primals: template_of(primals),
        outputs: template_of(&call.template),
        loc,
    };
    let traced_forward = with_all_dense(|| tracing_rule::<(Fwd, Bwd), _>(|| forward.trace()));
    let residuals = template_of(&traced_forward.template.1);
    let backward = Backward {
        rule: backward.clone(),
        scope: format!("custom_vjp({name}), backward rule"),
        primals: template_of(primals),
        outputs: template_of(&call.template),
        residuals,
        loc,
    };
    let traced_backward = with_all_dense(|| tracing_rule::<(Fwd, Bwd), _>(|| backward.trace()));
    let rule_captures = traced_forward.captures.into_iter().chain(traced_backward.captures);
    let captures = Captures::of(rule_captures);
    let operands: Vec<&Array> = call.operands.iter().chain(&captures.operands).collect();
    let n_residuals = leaves_of(&backward.residuals).len();
    let structures = [TreeDef::of(primals), TreeDef::of(&call.template)];
    let backward_structures =
        [TreeDef::of(&backward.residuals), TreeDef::of(primals), TreeDef::of(&call.template)];
    let primitive = CustomVjp {
        function: Call { name, program: Arc::new(call.program) },
        n_arguments: call.n_arguments,
        n_captured: captures.operands.len(),
        n_residuals,
        optimize_remat: options.optimize_remat,
        forward: HeldFunction::new::<Fwd>(
            structures,
            forward.flat(captures.rebinding(), avals_of(&leaves_of(&backward.residuals))),
        )
        .with_axis_names(traced_forward.program.axis_names()),
        backward: HeldFunction::new::<Bwd>(
            backward_structures,
            backward.flat(captures.rebinding()),
        )
        .with_axis_names(traced_backward.program.axis_names()),
    };
    let outputs = loc.scope(|| bind(primitive, &operands));
    rebuild(&call.template, outputs)
}

/// The forward rule, which can be run on lists of arrays.
struct Forward<P, O, F> {
    rule: Arc<F>,
    scope: String,
    primals: P,
    outputs: O,
    loc: Loc,
}

impl<P, O, F> Forward<P, O, F>
where
    P: Tree,
    O: Tree,
{
    fn trace<R: Tree>(&self) -> Traced<(O, R)>
    where
        F: Fn(P) -> (O, R) + Send + Sync + 'static,
    {
        let avals = leaves_of(&self.primals).into_iter().map(|leaf| leaf.aval().clone());
        trace_function(self.scope.clone(), avals, |leaves| {
            let (value, residuals) = (self.rule)(rebuild(&self.primals, leaves));
            let role = "custom_vjp: the forward rule's value";
            expect_types(role, &self.outputs, &value, self.loc);
            (value, residuals)
        })
    }

    /// Returns the rule as a function of lists. Its inputs are the arguments, then the captures of
    /// both rules. Its residuals must have the types `residuals`.
    fn flat<R: Tree>(
        self,
        rebinding: Rebinding,
        residuals: Vec<Aval>,
    ) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static
    where
        F: Fn(P) -> (O, R) + Send + Sync + 'static,
    {
        move |inputs| {
            let (primals, captured) = inputs.split_at(leaves_of(&self.primals).len());
            rebinding.with(captured, || {
                let traced = self.trace();
                self.expect_residuals(&residuals, &avals_of(&leaves_of(&traced.template.1)));
                eval_traced(&traced, primals)
            })
        }
    }
}

impl<P, O, F> Forward<P, O, F> {
    /// Throws `Tree` if the residuals depend on what is perturbed.
    fn expect_residuals(&self, expected: &[Aval], found: &[Aval]) {
        let is_alike = expected.len() == found.len()
            && expected.iter().zip(found).all(|(a, b)| a.same_type(b));
        if is_alike {
            return;
        }
        let list =
            |avals: &[Aval]| avals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        trace::throw(Error::Tree(Box::new(TreeError {
            path: "$".into(),
            message: format!(
                "custom_vjp: the forward rule's residuals differ between calls: ({}) and ({})",
                list(expected),
                list(found)
            ),
            loc: self.loc,
            help: Some("return the same residuals whatever arguments are perturbed".into()),
        })));
    }
}

/// The backward rule, which can be run on lists of arrays.
struct Backward<P, O, R, B> {
    rule: Arc<B>,
    scope: String,
    primals: P,
    outputs: O,
    residuals: R,
    loc: Loc,
}

impl<P, O, R, B> Backward<P, O, R, B>
where
    P: Tree,
    O: Tree,
    R: Tree,
    B: Fn(R, O) -> P + Send + Sync + 'static,
{
    fn trace(&self) -> Traced<P> {
        let (residuals, outputs) = (leaves_of(&self.residuals), leaves_of(&self.outputs));
        let avals: Vec<Aval> =
            residuals.iter().chain(&outputs).map(|leaf| leaf.aval().clone()).collect();
        trace_function(self.scope.clone(), avals, |mut leaves| {
            let cts = rebuild(&self.outputs, leaves.split_off(residuals.len()));
            let cts = (self.rule)(rebuild(&self.residuals, leaves), cts);
            let role = "custom_vjp: the backward rule's cotangent";
            expect_types(role, &self.primals, &cts, self.loc);
            cts
        })
    }

    /// Returns the rule as a function of lists. Its inputs are the residuals, the captures of both
    /// rules, and the cotangents.
    fn flat(self, rebinding: Rebinding) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static {
        move |inputs| {
            let (residuals, rest) = inputs.split_at(leaves_of(&self.residuals).len());
            let (captured, cts) = rest.split_at(rest.len() - leaves_of(&self.outputs).len());
            rebinding.with(captured, || eval_traced(&self.trace(), &[residuals, cts].concat()))
        }
    }
}

pub(in crate::control_flow) fn make(
    _: serde_json::Value,
    _: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    Err(RuleError::unsupported("custom_vjp holds closures and cannot be read from text"))
}

pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let aval = || Aval::new(DType::F64, [2, 3]);
    let program = trace_rules([aval(), aval()], |inputs| vec![&inputs[0] * &sin(&inputs[1])]);
    struct Exemplary;
    let forward = HeldFunction::new::<Exemplary>([], |inputs| {
        let [x, y] = inputs else { unreachable!("two operands") };
        vec![x * &sin(y), x.clone(), y.clone()]
    });
    let backward = HeldFunction::new::<Exemplary>([], |inputs| {
        let [x, y, ct] = inputs else { unreachable!("two residuals and a cotangent") };
        vec![ct * &sin(y), ct * x * &cos(y)]
    });
    let custom = CustomVjp {
        function: Call { name: "f".into(), program: Arc::new(program) },
        n_arguments: 2,
        n_captured: 0,
        n_residuals: 2,
        optimize_remat: false,
        forward,
        backward,
    };
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    // The derivative laws need forward mode. tests/cpu/transforms covers its reverse mode.
    vec![Exemplar::new(custom, [sample(), sample()]).without_derivative()]
}
