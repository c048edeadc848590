//! `custom_vjp`: a function with a reverse derivative of the user's.

use super::held::{
    Aliases, Captured, Held, OutAxis, batched_function, captured_varies, eval_traced, expect_types,
    is_looking, logical, looking, own,
};
use super::tangent::CustomTangent;
use crate::control_flow::Call;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    LowerCtx, Operand, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Sample, Split,
    Spmd, Tangent, bind, trace,
};
use crate::primitives::rules::dense;
use crate::primitives::{cos, sin};
use crate::stablehlo::Value;
use crate::transforms::staging::{Traced, short_name, template_of, trace_function, trace_rules};
use crate::tree::{Tree, TreeDef, leaves_of, rebuild};
use serde::Serialize;
use std::panic::Location;
use std::sync::Arc;

/// Applies a program whose reverse derivative the user wrote.
///
/// | | |
/// |-|-|
/// | operands   | those of the function, what it captures, what its rules capture |
/// | results    | those of the function |
/// | lowering   | a call of a private function |
/// | derivative | the forward rule, and a [`CustomTangent`], which transposes to the backward rule |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct CustomVjp {
    /// The function itself, from its own operands, which are the first, to its results.
    #[serde(flatten)]
    pub function: Call,
    /// How many operands the function was called with.
    pub n_arguments: usize,
    /// How many its rules captured; they are the last.
    n_captured: usize,
    /// How many arrays the forward rule hands to the backward rule.
    n_residuals: usize,
    /// From arguments and what the rules captured to the results, then the residuals.
    forward: Held,
    /// From residuals, what the rules captured and the results' cotangents to the arguments'
    /// cotangents.
    backward: Held,
}

impl CustomVjp {
    /// The operands of the forward rule among those of the equation.
    fn of_rules<T: Clone>(&self, operands: &[T]) -> Vec<T> {
        let captured = &operands[operands.len() - self.n_captured..];
        operands[..self.n_arguments].iter().chain(captured).cloned().collect()
    }
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
            return Err(captured_varies("custom_vjp", &self.function.name));
        }
        let inputs = self.of_rules(primals);
        let mut outputs = self.forward.run(&inputs);
        let mut known = outputs.split_off(outputs.len() - self.n_residuals);
        known.extend_from_slice(&inputs[self.n_arguments..]);
        let varying: Vec<Array> =
            tangents.iter().filter(|t| t.aval().dtype.is_inexact()).map(dense).collect();
        let primitive = CustomTangent {
            name: self.function.name.clone(),
            n_known: known.len(),
            arguments: tangents.iter().map(|tangent| tangent.aval().clone()).collect(),
            results: outputs.iter().map(|output| output.aval().clone()).collect(),
            backward: self.backward.clone(),
        };
        let operands: Vec<&Array> = known.iter().chain(&varying).collect();
        let mut dense = bind(primitive, &operands).into_iter();
        let tangents = outputs.iter().map(|output| match output.dtype().is_inexact() {
            true => Tangent::Dense(dense.next().expect("one per inexact result")),
            false => Tangent::zero_like(output),
        });
        let tangents = tangents.collect();
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
        let logical = self.of_rules(&logical(operands, axes));
        let rule_axes = self.of_rules(axes);
        // Everything that the forward rule gives is batched at the front.
        let out_axes = vec![OutAxis::At(0); n_outputs + self.n_residuals];
        let forward = self.forward.batched(logical.clone(), rule_axes.clone(), out_axes, axis);
        let known = axis.in_scope(|| {
            let residuals = |inputs: &[Array]| self.forward.run(inputs).split_off(n_outputs);
            trace_rules(logical.iter().cloned(), residuals)
        });
        let mut avals = known.avals_out();
        avals.extend_from_slice(&logical[self.n_arguments..]);
        avals.extend(self.function.program.avals_out());
        let mut in_axes = vec![Some(0); self.n_residuals];
        in_axes.extend_from_slice(&rule_axes[self.n_arguments..]);
        in_axes.extend(vec![Some(0); n_outputs]);
        let out_axes =
            axes[..self.n_arguments].iter().map(|at| at.map_or(OutAxis::Sum, OutAxis::At));
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

/// Gives `f` a reverse derivative of its own: `forward` takes the arguments to the value of `f` and
/// whatever the way back needs (the *residuals*, any tree); `backward` takes the residuals and the
/// value's cotangent to the arguments' cotangents.
///
/// Such a function has no forward mode: `jvp` of it is an error. Cotangents are dense; those of
/// integer leaves are zeros, and what `backward` gives for integer arguments is not used. All closures may
/// capture arrays, traced ones too, but cannot be differentiated with respect to those. The rules are
/// traced once at every call of the function, so that their mistakes show at once.
///
/// The function returned throws `Tree` if a rule's result has not the structure, shapes and dtypes that
/// it must have, and whatever the closures throw.
///
/// ```no_run
/// use oxidax::prelude::*;
/// // The identity, whose gradient is clipped.
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
pub fn custom_vjp<P, O, R, F, Fwd, Bwd>(f: F, forward: Fwd, backward: Bwd) -> impl Fn(&P) -> O
where
    P: Tree,
    O: Tree,
    R: Tree,
    F: Fn(&P) -> O,
    Fwd: Fn(&P) -> (O, R) + Send + Sync + 'static,
    Bwd: Fn(&R, &O) -> P + Send + Sync + 'static,
{
    let (forward, backward) = (Arc::new(forward), Arc::new(backward));
    let location = Location::caller();
    move |primals| apply(&f, &forward, &backward, primals, location)
}

fn apply<P, O, R, F, Fwd, Bwd>(
    f: &F,
    forward: &Arc<Fwd>,
    backward: &Arc<Bwd>,
    primals: &P,
    location: &'static Location<'static>,
) -> O
where
    P: Tree,
    O: Tree,
    R: Tree,
    F: Fn(&P) -> O,
    Fwd: Fn(&P) -> (O, R) + Send + Sync + 'static,
    Bwd: Fn(&R, &O) -> P + Send + Sync + 'static,
{
    // With nothing under way that could ask for a derivative, the function is itself.
    if !trace::is_tracing() || is_looking::<(Fwd, Bwd)>() {
        return f(primals);
    }
    let name = short_name::<F>();
    let leaves = leaves_of(primals);
    let avals = leaves.iter().map(|leaf| leaf.aval().clone());
    let traced = trace_function(name.clone(), avals, |leaves| f(&rebuild(primals, leaves)));
    let forward = Forward {
        rule: forward.clone(),
        scope: format!("custom_vjp({name}), forward rule"),
        primals: template_of(primals),
        outputs: template_of(&traced.template),
        location,
    };
    let found = looking::<(Fwd, Bwd), _>(|| forward.trace());
    let residuals = template_of(&found.template.1);
    let backward = Backward {
        rule: backward.clone(),
        scope: format!("custom_vjp({name}), backward rule"),
        primals: template_of(primals),
        outputs: template_of(&traced.template),
        residuals,
        location,
    };
    let found_backward = looking::<(Fwd, Bwd), _>(|| backward.trace());
    let captured = Captured::of(found.captures.into_iter().chain(found_backward.captures));
    let operands: Vec<&Array> =
        leaves.iter().chain(&traced.captures).chain(&captured.operands).collect();
    let n_residuals = leaves_of(&backward.residuals).len();
    let structures = [TreeDef::of(primals), TreeDef::of(&traced.template)];
    let backward_structures =
        [TreeDef::of(&backward.residuals), TreeDef::of(primals), TreeDef::of(&traced.template)];
    let primitive = CustomVjp {
        function: Call { name, program: Arc::new(traced.program) },
        n_arguments: leaves.len(),
        n_captured: captured.operands.len(),
        n_residuals,
        forward: Held::new::<Fwd>(structures, forward.flat(captured.aliases()))
            .speaking_of(found.program.axis_names()),
        backward: Held::new::<Bwd>(backward_structures, backward.flat(captured.aliases()))
            .speaking_of(found_backward.program.axis_names()),
    };
    let outputs = trace::at_location(Some(location), || bind(primitive, &operands));
    rebuild(&traced.template, outputs)
}

/// The forward rule with what it takes to run it on flat arrays.
struct Forward<P, O, F> {
    rule: Arc<F>,
    scope: String,
    primals: P,
    outputs: O,
    location: &'static Location<'static>,
}

impl<P, O, F> Forward<P, O, F>
where
    P: Tree,
    O: Tree,
{
    fn trace<R: Tree>(&self) -> Traced<(O, R)>
    where
        F: Fn(&P) -> (O, R) + Send + Sync + 'static,
    {
        let avals = leaves_of(&self.primals).into_iter().map(|leaf| leaf.aval().clone());
        trace_function(self.scope.clone(), avals, |leaves| {
            let (value, residuals) = (self.rule)(&rebuild(&self.primals, leaves));
            let what = "custom_vjp: the forward rule's value";
            expect_types(what, &self.outputs, &value, self.location);
            (value, residuals)
        })
    }

    /// Inputs: the arguments, what the rules captured.
    fn flat<R: Tree>(
        self,
        aliases: Aliases,
    ) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static
    where
        F: Fn(&P) -> (O, R) + Send + Sync + 'static,
    {
        move |inputs| {
            let (primals, captured) = inputs.split_at(leaves_of(&self.primals).len());
            aliases.with(captured, || eval_traced(&self.trace(), primals))
        }
    }
}

/// The backward rule with what it takes to run it on flat arrays.
struct Backward<P, O, R, B> {
    rule: Arc<B>,
    scope: String,
    primals: P,
    outputs: O,
    residuals: R,
    location: &'static Location<'static>,
}

impl<P, O, R, B> Backward<P, O, R, B>
where
    P: Tree,
    O: Tree,
    R: Tree,
    B: Fn(&R, &O) -> P + Send + Sync + 'static,
{
    fn trace(&self) -> Traced<P> {
        let (residuals, outputs) = (leaves_of(&self.residuals), leaves_of(&self.outputs));
        let avals: Vec<Aval> =
            residuals.iter().chain(&outputs).map(|leaf| leaf.aval().clone()).collect();
        trace_function(self.scope.clone(), avals, |mut leaves| {
            let cts = rebuild(&self.outputs, leaves.split_off(residuals.len()));
            let cts = (self.rule)(&rebuild(&self.residuals, leaves), &cts);
            let what = "custom_vjp: the backward rule's cotangent";
            expect_types(what, &self.primals, &cts, self.location);
            cts
        })
    }

    /// Inputs: the residuals, what the rules captured, the cotangents.
    fn flat(self, aliases: Aliases) -> impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static {
        move |inputs| {
            let (residuals, rest) = inputs.split_at(leaves_of(&self.residuals).len());
            let (captured, cts) = rest.split_at(rest.len() - leaves_of(&self.outputs).len());
            aliases.with(captured, || {
                let arguments: Vec<Array> = residuals.iter().chain(cts).cloned().collect();
                eval_traced(&self.trace(), &arguments)
            })
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
    let forward = Held::new::<Exemplary>([], |inputs| {
        let [x, y] = inputs else { unreachable!("two operands") };
        vec![x * &sin(y), x.clone(), y.clone()]
    });
    let backward = Held::new::<Exemplary>([], |inputs| {
        let [x, y, ct] = inputs else { unreachable!("two residuals and a cotangent") };
        vec![ct * &sin(y), ct * x * &cos(y)]
    });
    let custom = CustomVjp {
        function: Call { name: "f".into(), program: Arc::new(program) },
        n_arguments: 2,
        n_captured: 0,
        n_residuals: 2,
        forward,
        backward,
    };
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    // It has no forward mode, which the derivative laws ask for; tests/cpu/transforms has its reverse mode.
    vec![Exemplar::new(custom, [sample(), sample()]).without_derivative()]
}
