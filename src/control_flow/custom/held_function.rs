//! User-defined rules as primitives hold them: functions of lists of arrays that can be compared,
//! batched, and run after the traces of their captures have ended.

use crate::control_flow::Call;
use crate::core::named_axes::{NamedAxis, axes_in_scope, with_missing_axes};
use crate::core::trace::{Mode, Tracing};
use crate::core::{Array, Aval, BatchAxis, Error, Loc, Program, TextForm, TreeError, trace};
use crate::passes;
use crate::primitives::reduce_sum;
use crate::primitives::rules::{batch_at, batch_at_front};
use crate::transforms::batch::{batch_program, without_batch_axis};
use crate::transforms::staging::{Traced, trace_rules};
use crate::tree::{Tree, TreeDef, expect_alike, leaves_of, paths, rooted};
use serde::{Serialize, Serializer};
use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type ListFunction = dyn Fn(&[Array]) -> Vec<Array> + Send + Sync;

/// A function that a primitive holds. Functions without captures are equal if they have the same
/// type, other functions only if they are the same object.
#[derive(Clone)]
pub(super) struct HeldFunction {
    run: Arc<ListFunction>,
    identity: Identity,
    /// The names of the axes that it refers to.
    axis_names: Vec<String>,
    /// The axes in scope where it was defined.
    scope: Vec<NamedAxis>,
}

/// The identity of a function that a primitive holds, by which programs are compared.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// The type of a function without captures, and the structures of its trees.
    Type(TypeId, Arc<[TreeDef]>),
    Address(usize),
    Batched(Box<Identity>, Vec<Option<usize>>, Vec<OutAxis>, BatchAxis),
}

impl Identity {
    /// Returns the identity of a function that calls the user's function `R` on trees of the given
    /// structures: its type if it captures nothing, else the address of the object.
    pub(super) fn of<R: 'static>(
        structures: impl Into<Arc<[TreeDef]>>,
        object: &Arc<impl ?Sized>,
    ) -> Identity {
        if size_of::<R>() == 0 {
            Identity::Type(TypeId::of::<R>(), structures.into())
        } else {
            Identity::Address(Arc::as_ptr(object).cast::<()>() as usize)
        }
    }
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Identity::Type(id, _) => id.hash(state),
            Identity::Address(address) => address.hash(state),
            Identity::Batched(inner, axes, ..) => {
                inner.hash(state);
                axes.hash(state);
            }
        }
    }
}

/// The batch axis of a result of a batched function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutAxis {
    /// At this position.
    At(usize),
    /// Summed over, for the cotangent of a value that all examples share.
    Sum,
}

impl HeldFunction {
    /// Holds `run`, which calls the user's function `R` on trees of the given structures.
    pub(super) fn new<R: 'static>(
        structures: impl Into<Arc<[TreeDef]>>,
        run: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> HeldFunction {
        let run: Arc<ListFunction> = Arc::new(run);
        let identity = Identity::of::<R>(structures, &run);
        HeldFunction { run, identity, axis_names: Vec::new(), scope: axes_in_scope() }
    }

    /// Holds `run`, which is determined by a user's function of this identity.
    pub(super) fn with_identity(
        identity: Identity,
        run: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> HeldFunction {
        let run = Arc::new(run);
        HeldFunction { run, identity, axis_names: Vec::new(), scope: axes_in_scope() }
    }

    /// Sets the names of the axes that the function refers to.
    pub(super) fn with_axis_names(self, axis_names: &[String]) -> HeldFunction {
        HeldFunction { axis_names: axis_names.to_vec(), ..self }
    }

    /// Returns the names of the axes that the function refers to.
    pub(super) fn axis_names(&self) -> &[String] {
        &self.axis_names
    }

    pub(super) fn run(&self, inputs: &[Array]) -> Vec<Array> {
        // The rule runs later than the function it belongs to, when references have other values.
        let run = || trace::without_outer_refs(|| (self.run)(inputs));
        with_missing_axes(&self.scope, run)
    }

    /// Traces the function for inputs of these types. Returns the program, and the concrete arrays
    /// that the function captures, which are its last inputs.
    pub(super) fn trace(&self, avals: &[Aval]) -> (Program, Vec<Array>) {
        let tracing = Tracing::begin(Mode::All, None);
        let inputs: Vec<Array> = avals.iter().map(|aval| tracing.input(aval.clone())).collect();
        let outputs = trace::with_numbers_as_operands(false, || self.run(&inputs));
        tracing.finish(&outputs)
    }

    /// Returns the batched function. `avals` are the types of one example's inputs, `axes` the
    /// batch axes of the inputs, `out_axes` those of the results.
    pub(super) fn batched(
        &self,
        avals: Vec<Aval>,
        axes: Vec<Option<usize>>,
        out_axes: Vec<OutAxis>,
        axis: &BatchAxis,
    ) -> HeldFunction {
        let identity = Identity::Batched(
            Box::new(self.identity.clone()),
            axes.clone(),
            out_axes.clone(),
            axis.clone(),
        );
        let others = self.axis_names.iter().filter(|name| !axis.is_named(name));
        let axis_names = others.cloned().collect();
        let (inner, axis) = (self.clone(), axis.clone());
        let run = Arc::new(move |inputs: &[Array]| {
            // The axis name is defined again, because the closure may run after the function that
            // defined it.
            let (program, captures) = axis.in_scope(|| inner.trace(&avals));
            let inputs = [inputs, &captures].concat();
            let in_axes: Vec<_> =
                axes.iter().copied().chain(captures.iter().map(|_| None)).collect();
            let (mut outputs, positions) = batch_program(&program, &inputs, &in_axes, &axis);
            for ((output, position), out_axis) in outputs.iter_mut().zip(positions).zip(&out_axes) {
                *output = match *out_axis {
                    OutAxis::At(to) => batch_at(output, position, to, &axis),
                    OutAxis::Sum => reduce_sum(&batch_at(output, position, 0, &axis), &[0]),
                };
            }
            outputs
        });
        HeldFunction { run, identity, axis_names, scope: self.scope.clone() }
    }
}

impl PartialEq for HeldFunction {
    fn eq(&self, other: &HeldFunction) -> bool {
        self.identity == other.identity
    }
}

impl Eq for HeldFunction {}

impl Hash for HeldFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for HeldFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Serialize for HeldFunction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<closure>")
    }
}

/// Returns the number of operands of the function itself among `n_operands` of the equation. They
/// come first.
pub(super) fn n_own(function: &Call, n_operands: usize) -> usize {
    function.program.inputs().len().min(n_operands)
}

/// Returns the operands of the function itself among those of the equation.
pub(super) fn own<'a, T>(function: &Call, operands: &'a [T]) -> &'a [T] {
    &operands[..n_own(function, operands.len())]
}

/// Returns the form of the function without its rules: a call on the first operands.
pub(super) fn function_text_form(function: &Call) -> TextForm {
    let n_operands = function.program.inputs().len();
    TextForm::Other { primitive: Arc::new(function.clone()), n_operands }
}

/// Returns the batched function, with the batch axis in front of every result.
pub(super) fn batched_function(
    function: &Call,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> Call {
    let inputs = own(function, operands).iter().map(|x| x.aval().clone());
    let program = trace_rules(inputs, |inputs| {
        let (outputs, axes) = batch_program(&function.program, inputs, own(function, axes), axis);
        batch_at_front(&outputs, &axes, axis)
    });
    Call { name: function.name.clone(), program: Arc::new(program) }
}

/// Returns the types of one example of batched operands.
pub(super) fn example_avals(operands: &[Array], axes: &[Option<usize>]) -> Vec<Aval> {
    operands.iter().zip(axes).map(|(x, &axis)| without_batch_axis(x, axis)).collect()
}

/// Throws `Tree` unless the tree returned by a user's function has the structure, shapes and dtypes
/// of `expected`.
pub(in crate::control_flow) fn expect_types<T: Tree>(
    role: &str,
    expected: &T,
    result: &T,
    loc: Loc,
) {
    expect_alike(expected, result, loc);
    let pairs = leaves_of(expected).into_iter().zip(leaves_of(result));
    for (path, (expected, result)) in paths(expected).iter().zip(pairs) {
        if !expected.aval().same_type(result.aval()) {
            trace::throw(Error::Tree(Box::new(TreeError {
                path: rooted(path),
                message: format!("{role}: expected {}, got {}", expected.aval(), result.aval()),
                loc,
                help: Some("convert or reshape it to the expected type".into()),
            })));
        }
    }
}

/// Evaluates a traced function in the current trace.
pub(super) fn eval_traced<O>(traced: &Traced<O>, arguments: &[Array]) -> Vec<Array> {
    passes::eval(&traced.program, &[arguments, &traced.captures].concat())
}
