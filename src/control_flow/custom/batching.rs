//! `custom_vmap`: a function with a user-defined batching rule.

use super::held_function::{HeldFunction, Identity};
use super::jvp::CustomJvp;
use crate::control_flow::derive::avals_of;
use crate::control_flow::{Call, map};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Error, Loc, Mapped, Marks, Program, RuleError, RuleResult,
    Tangent, TreeError, bind, trace,
};
use crate::primitives::rules::{batch_at, broadcast_axis};
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::{template_of, trace_call, trace_function, trace_rules};
use crate::tree::{
    Function, PrimalArgs, TransformedFn, Tree, TreeDef, leaves_of, rebuild, rooted,
    shared_arguments, transformed,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The arguments of a batching rule of [`custom_vmap`].
pub struct VmapInputs<P> {
    /// The size of the batch.
    pub axis_size: usize,
    /// The arguments. A mapped leaf has the batch as its first axis.
    pub arguments: P,
    mapped: Marks<Mapped>,
}

impl<P: Tree> VmapInputs<P> {
    /// Marks the leaves that have a batch axis, in the order of
    /// [`tree::leaves`](crate::tree::leaves).
    #[doc(alias = "in_batched")]
    pub fn mapped(&self) -> &Marks<Mapped> {
        &self.mapped
    }

    /// Returns true if the leaf at this index has a batch axis.
    pub fn is_mapped(&self, index: usize) -> bool {
        self.mapped[index]
    }

    /// Returns the arguments with a batch axis on every leaf. Leaves that are equal for all
    /// examples are broadcast.
    pub fn all_mapped(&self) -> P {
        let leaves = leaves_of(&self.arguments).into_iter().enumerate().map(|(index, leaf)| {
            if self.mapped[index] { leaf } else { broadcast_axis(&leaf, 0, self.axis_size) }
        });
        rebuild(&self.arguments, leaves.collect())
    }
}

/// The result of a batching rule of [`custom_vmap`].
pub struct VmapOutput<O> {
    value: O,
    mapped: Option<Marks<Mapped>>,
    all: bool,
}

impl<O> VmapOutput<O> {
    /// Returns a value of which every leaf has the batch as its first axis.
    #[doc(alias = "out_batched")]
    pub fn mapped(value: O) -> VmapOutput<O> {
        VmapOutput { value, mapped: None, all: true }
    }

    /// Returns a value that is equal for all examples.
    pub fn unmapped(value: O) -> VmapOutput<O> {
        VmapOutput { value, mapped: None, all: false }
    }

    /// Returns a value of which the marked leaves have the batch as their first axis.
    pub fn with_marks(value: O, mapped: Marks<Mapped>) -> VmapOutput<O> {
        VmapOutput { value, mapped: Some(mapped), all: false }
    }
}

/// The batching rule on lists of arrays: maps the size of the batch, the marks of the operands that
/// have a batch axis, and all operands, to the results and the marks of those with a batch axis.
type ListRule = dyn Fn(usize, &Marks<Mapped>, &[Array]) -> RuleResult<(Vec<Array>, Marks<Mapped>)>
    + Send
    + Sync;

/// A batching rule that a primitive holds. Its identity is that of the user-defined function.
#[derive(Clone)]
pub(super) struct BatchRule {
    run: Arc<ListRule>,
    identity: Identity,
}

impl PartialEq for BatchRule {
    fn eq(&self, other: &BatchRule) -> bool {
        self.identity == other.identity
    }
}

impl Eq for BatchRule {}

impl Hash for BatchRule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for BatchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl BatchRule {
    /// Applies the rule to a batch of the operands of `custom`.
    pub(super) fn batch(
        &self,
        custom: &CustomJvp,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let mapped: Marks<Mapped> = Marks::of(axes, Option::is_some);
        let operands: Vec<Array> = operands
            .iter()
            .zip(axes)
            .map(|(x, &from)| if from.is_some() { batch_at(x, from, 0, axis) } else { x.clone() })
            .collect();
        let run = || (self.run)(axis.size, &mapped, &operands);
        let (outputs, mapped) = trace::without_outer_refs(run)?;
        let program = &custom.function.program;
        for ((output, aval), is_mapped) in
            outputs.iter().zip(program.avals_out()).zip(mapped.iter())
        {
            let expected =
                if is_mapped { aval.with_shape(aval.shape.insert(0, axis.size)) } else { aval };
            if output.shape() != &expected.shape || output.dtype() != expected.dtype {
                return Err(RuleError::shape(format!(
                    "the batching rule of `{}` gives {}, expected {expected}",
                    custom.function.name,
                    output.aval()
                ))
                .help("return `VmapOutput::mapped` only for leaves with the batch as first axis"));
            }
        }
        let axes = mapped.iter().map(|is_mapped| is_mapped.then_some(0)).collect();
        Ok(Batched { outputs, axes })
    }

    /// Returns the batching rule of the tangent: the derivative of this rule. Its operands are the
    /// `n` operands, then their tangents.
    fn tangent(&self, n: usize) -> BatchRule {
        let rule = self.clone();
        let run = move |size: usize, mapped: &Marks<Mapped>, operands: &[Array]| {
            let (primals, tangents) = operands.split_at(n);
            // An operand and its tangent are mapped alike.
            let joint: Marks<Mapped> = (0..n).map(|i| mapped[i] || mapped[n + i]).collect();
            let mut inputs = Vec::with_capacity(2 * n);
            for (offset, arrays) in [(0, primals), (n, tangents)] {
                for (index, x) in arrays.iter().enumerate() {
                    let is_missing = joint[index] && !mapped[offset + index];
                    inputs.push(if is_missing { broadcast_axis(x, 0, size) } else { x.clone() });
                }
            }
            let mut marks = Ok(Marks::none(0));
            let traced =
                trace_function("custom_vmap".into(), avals_of(&inputs[..n]), |primals| match (rule
                    .run)(
                    size, &joint, &primals,
                ) {
                    Ok((outputs, mapped)) => {
                        marks = Ok(mapped);
                        outputs
                    }
                    Err(error) => {
                        marks = Err(error);
                        Vec::new()
                    }
                });
            let marks = marks?;
            let mut tangents: Vec<Tangent> = inputs[n..].iter().map(as_tangent).collect();
            inputs.truncate(n);
            inputs.extend(traced.captures);
            tangents.extend(inputs[n..].iter().map(Tangent::zero_like));
            let (_, tangents) = jvp_program(&traced.program, &inputs, &tangents);
            Ok((tangents.iter().map(Tangent::to_dense).collect(), marks))
        };
        BatchRule { run: Arc::new(run), identity: self.identity.clone() }
    }
}

fn as_tangent(x: &Array) -> Tangent {
    if x.dtype().is_inexact() { Tangent::Dense(x.clone()) } else { Tangent::zero_like(x) }
}

/// Returns the primitive that applies `function` with a batching rule. Its derivative is that of
/// the program, whose batching rule is the derivative of the rule.
fn with_batch_rule(function: Call, rule: BatchRule) -> CustomJvp {
    let n = function.program.inputs().len();
    let (held, held_rule) = (function.clone(), rule.clone());
    let derivative = move |inputs: &[Array]| {
        let outputs = bind(
            with_batch_rule(held.clone(), held_rule.clone()),
            &inputs[..n].iter().collect::<Vec<_>>(),
        );
        let program = tangent_program(&held.program);
        let tangent = Call { name: format!("jvp_{}", held.name), program: Arc::new(program) };
        let tangent = with_batch_rule(tangent, held_rule.tangent(n));
        let tangents = bind(tangent, &inputs.iter().collect::<Vec<_>>());
        [outputs, tangents].concat()
    };
    let identity = rule.identity.clone();
    CustomJvp {
        n_arguments: n,
        rule: HeldFunction::with_identity(identity, derivative),
        batch_rule: Some(rule),
        function,
    }
}

/// Returns the program that maps the inputs of `program` and their tangents to the tangents of its
/// outputs.
fn tangent_program(program: &Program) -> Program {
    let avals: Vec<Aval> = program.avals_in();
    let inputs = [&avals[..], &avals].concat();
    trace_rules(inputs, |inputs| {
        let (primals, tangents) = inputs.split_at(avals.len());
        let tangents: Vec<Tangent> = tangents.iter().map(as_tangent).collect();
        let (_, tangents) = jvp_program(program, primals, &tangents);
        tangents.iter().map(Tangent::to_dense).collect()
    })
}

/// Returns `f` with a user-defined batching rule: `vmap` applies `rule` in place of batching the
/// operations of `f`.
///
/// `rule` receives the size of the batch and the arguments, whose mapped leaves have the batch as
/// first axis, and returns the results as [`VmapOutput`]. For a function of several arguments they
/// are a tuple. A second `vmap` batches the operations of the rule, in which calls of the
/// function itself have their rule again. Derivatives are those of `f`; in forward mode the rule of
/// a derivative is the derivative of the rule, in reverse mode `vmap` batches the operations.
///
/// Arrays that `f` captures must not be mapped, and the rule must not capture arrays: make them
/// arguments.
///
/// The returned function throws `Tree` if the rule's value does not have the structure of that of
/// `f`, `Op` if it has other shapes or dtypes, and whatever either closure throws.
///
/// ```
/// use oxidax::control_flow::{VmapInputs, VmapOutput};
/// use oxidax::prelude::*;
/// // A product whose batches are one larger product.
/// let dot = custom_vmap(
///     |w: &Array, x: &Array| w.matmul(x),
///     |inputs: VmapInputs<(Array, Array)>| {
///         let (w, x) = &inputs.arguments;
///         match (inputs.is_mapped(0), inputs.is_mapped(1)) {
///             (false, true) => VmapOutput::mapped(x.matmul(&w.t())),
///             _ => {
///                 let (w, x) = inputs.all_mapped();
///                 VmapOutput::mapped((w * expand_dims(&x, &[1])).sum_axes(-1))
///             }
///         }
///     },
/// );
/// let (w, xs) = (ones([2, 3]), ones([5, 3]));
/// let y = vmap(|x: Array| dot(&w, &x)).apply(&xs);
/// assert_eq!(y.shape().dims(), [5, 2]);
/// ```
#[doc(alias = "def_vmap")]
#[track_caller]
pub fn custom_vmap<'f, A, O, M, F, R>(f: F, rule: R) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    M: 'f,
    F: Function<A, M, Output = O> + 'f,
    R: Fn(VmapInputs<A::Primals>) -> VmapOutput<O> + Send + Sync + 'static,
{
    let loc = Loc::caller();
    let rule = Arc::new(rule);
    transformed::<A, _>(f.name(), move |arguments| {
        let primals = shared_arguments::<A>(arguments).into_primals();
        apply(f.name(), |primals| f.apply(A::from_primals(primals)), &rule, primals, loc)
    })
}

/// Returns `f` with a batching rule that applies it to one example after the other: under `vmap` it
/// is a loop, as [`map`](crate::control_flow::map()) is. It takes the memory of one example, and
/// keeps what `vmap` would change, such as a `cond` that runs only one branch.
///
/// ```
/// use oxidax::prelude::*;
/// let f = sequential_vmap(|x: &Array| cond(gt(x, 0.0), |x: &Array| sin(x), |x: &Array| -x, x));
/// let y = vmap(|x: Array| f(&x)).apply(array![-1f32, 0.0]);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn sequential_vmap<'f, A, O, M, F>(f: F) -> impl TransformedFn<'f, A, O>
where
    A: PrimalArgs,
    O: Tree,
    M: 'f,
    F: Function<A, M, Output = O> + 'f,
{
    let loc = Loc::caller();
    transformed::<A, _>(f.name(), move |arguments| {
        let primals = shared_arguments::<A>(arguments).into_primals();
        let name = f.name();
        let f = |primals| f.apply(A::from_primals(primals));
        if !trace::is_tracing() {
            return f(primals);
        }
        let call = trace_call(name.clone(), f, &primals);
        let rule = sequential_rule(Call { name, program: Arc::new(call.program) });
        let operands: Vec<&Array> = call.operands.iter().collect();
        let outputs = loc.scope(|| bind(rule, &operands));
        rebuild(&call.template, outputs)
    })
}

/// Returns the primitive that applies `function` to the examples of a batch one after the other.
fn sequential_rule(function: Call) -> CustomJvp {
    struct Sequential;
    let held = function.clone();
    let run = move |_: usize, mapped: &Marks<Mapped>, operands: &[Array]| {
        let one = |example: Vec<Array>| {
            let mut example = example.into_iter();
            let mut operands = operands.to_vec();
            for position in mapped.positions() {
                operands[position] = example.next().expect("one value per mapped operand");
            }
            bind(sequential_rule(held.clone()), &operands.iter().collect::<Vec<_>>())
        };
        let outputs: Vec<Array> = map(one, mapped.select(operands));
        let n_outputs = outputs.len();
        Ok((outputs, Marks::all(n_outputs)))
    };
    let run: Arc<ListRule> = Arc::new(run);
    let identity = Identity::of::<Sequential>([], &run);
    with_batch_rule(function, BatchRule { run, identity })
}

fn apply<P, O, R>(name: String, f: impl Fn(P) -> O, rule: &Arc<R>, primals: P, loc: Loc) -> O
where
    P: Tree,
    O: Tree,
    R: Fn(VmapInputs<P>) -> VmapOutput<O> + Send + Sync + 'static,
{
    // Outside a trace there is no batch.
    if !trace::is_tracing() {
        return f(primals);
    }
    let call = trace_call(name.clone(), f, &primals);
    let (inputs, outputs) = (template_of(&primals), template_of(&call.template));
    let structures = [TreeDef::of(&inputs), TreeDef::of(&outputs)];
    let (rule, function) = (rule.clone(), name.clone());
    let n_arguments = call.n_arguments;
    let run = move |axis_size: usize, mapped: &Marks<Mapped>, operands: &[Array]| {
        let (arguments, _) = operands.split_at(n_arguments);
        if mapped.slice(n_arguments..mapped.len()).any() {
            return Err(RuleError::unsupported(format!(
                "`{function}` captures an array that is mapped over, which its batching rule does \
                 not receive"
            ))
            .help("make the array one of the function's arguments"));
        }
        let arguments = rebuild(&inputs, arguments.to_vec());
        let mapped = mapped.slice(0..n_arguments);
        let result = rule(VmapInputs { axis_size, arguments, mapped });
        expect_structure(&outputs, &result.value, loc);
        let leaves = leaves_of(&result.value);
        let marks = result.mapped.unwrap_or_else(|| match result.all {
            true => Marks::all(leaves.len()),
            false => Marks::none(leaves.len()),
        });
        if marks.len() != leaves.len() {
            return Err(RuleError::value(format!(
                "the batching rule of `{function}` marks {} leaves of {}",
                marks.len(),
                leaves.len()
            )));
        }
        Ok((leaves, marks))
    };
    let run: Arc<ListRule> = Arc::new(run);
    let identity = Identity::of::<R>(structures, &run);
    let rule = BatchRule { run, identity };
    let primitive = with_batch_rule(Call { name, program: Arc::new(call.program) }, rule);
    let operands: Vec<&Array> = call.operands.iter().collect();
    let outputs = loc.scope(|| bind(primitive, &operands));
    rebuild(&call.template, outputs)
}

/// Throws `Tree` unless the rule's value has the structure of the function's.
fn expect_structure<O: Tree>(expected: &O, found: &O, loc: Loc) {
    if let Some(difference) = TreeDef::of(expected).difference(&TreeDef::of(found)) {
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(&difference.path),
            message: format!(
                "custom_vmap: the rule's value differs in structure: expected {}, got {}",
                difference.a, difference.b
            ),
            loc,
            help: Some("return the structure that the function returns".into()),
        })));
    }
}
