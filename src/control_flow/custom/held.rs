//! Rules of the user's as primitives hold them: flat functions of arrays that can be compared, batched
//! and run long after the traces of what they captured have ended.

use crate::control_flow::Call;
use crate::core::rebinding::{rebound_pairs, with_rebound};
use crate::core::trace::same_variable;
use crate::core::{Array, Aval, BatchAxis, Error, RuleError, TreeError, trace};
use crate::passes;
use crate::primitives::reduce_sum;
use crate::primitives::rules::{batch_at, batch_at_front};
use crate::transforms::batch::batch_program;
use crate::transforms::staging::{Traced, trace_rules};
use crate::tree::{Tree, TreeDef, expect_alike, leaves_of, paths, rooted};
use serde::{Serialize, Serializer};
use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

type Flat = dyn Fn(&[Array]) -> Vec<Array> + Send + Sync;

/// A function that a primitive holds. Two are equal if they surely do the same: functions that capture
/// nothing by their type, others by where they lie.
#[derive(Clone)]
pub(super) struct Held {
    run: Arc<Flat>,
    identity: Identity,
    /// The names of the axes that it speaks of.
    axis_names: Vec<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Identity {
    /// The type of a function without captures, and the structures of its trees.
    Type(TypeId, Arc<[TreeDef]>),
    Address(usize),
    Batched(Box<Identity>, Vec<Option<usize>>, Vec<OutAxis>, BatchAxis),
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

/// What becomes of the batch axis of a batched function's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutAxis {
    /// It lies there.
    At(usize),
    /// The result is summed along it: a cotangent of something that is the same for all.
    Sum,
}

impl Held {
    /// Holds `run`, which calls the user's function `R` on trees of the given structures.
    pub(super) fn new<R: 'static>(
        structures: impl Into<Arc<[TreeDef]>>,
        run: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> Held {
        let run: Arc<Flat> = Arc::new(run);
        let identity = match size_of::<R>() {
            0 => Identity::Type(TypeId::of::<R>(), structures.into()),
            _ => Identity::Address(Arc::as_ptr(&run).cast::<()>() as usize),
        };
        Held { run, identity, axis_names: Vec::new() }
    }

    /// The same, known to speak of the axes of these names.
    pub(super) fn speaking_of(self, axis_names: &[String]) -> Held {
        Held { axis_names: axis_names.to_vec(), ..self }
    }

    /// The names of the axes that it speaks of.
    pub(super) fn axis_names(&self) -> &[String] {
        &self.axis_names
    }

    pub(super) fn run(&self, inputs: &[Array]) -> Vec<Array> {
        (self.run)(inputs)
    }

    /// The function on a batch. `logical` are the types that one example has, `axes` says where each
    /// input has the batch axis, `out_axes` where the results are to have it.
    pub(super) fn batched(
        &self,
        logical: Vec<Aval>,
        axes: Vec<Option<usize>>,
        out_axes: Vec<OutAxis>,
        axis: &BatchAxis,
    ) -> Held {
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
            // The closure is traced anew, perhaps after the function in which the axis had its name.
            let program =
                axis.in_scope(|| trace_rules(logical.iter().cloned(), |inputs| inner.run(inputs)));
            let (outputs, at) = batch_program(&program, inputs, &axes, &axis);
            let placed = outputs.iter().zip(at).zip(&out_axes);
            placed
                .map(|((output, at), wanted)| match *wanted {
                    OutAxis::At(to) => batch_at(output, at, to, &axis),
                    OutAxis::Sum => reduce_sum(&batch_at(output, at, 0, &axis), &[0]),
                })
                .collect()
        });
        Held { run, identity, axis_names }
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.identity == other.identity
    }
}

impl Eq for Held {}

impl Hash for Held {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

impl Serialize for Held {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("<closure>")
    }
}

/// The operands of the function itself among those of the equation: the first.
pub(super) fn own<'a, T>(function: &Call, operands: &'a [T]) -> &'a [T] {
    &operands[..function.program.inputs().len().min(operands.len())]
}

/// The function on a batch, with the batch axis in front of every result.
pub(super) fn batched_function(
    function: &Call,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> Call {
    let inputs = own(function, operands).iter().map(|x| x.aval().clone());
    let program = trace_rules(inputs, |inputs| {
        let (outputs, at) = batch_program(&function.program, inputs, own(function, axes), axis);
        batch_at_front(&outputs, &at, axis)
    });
    Call { name: function.name.clone(), program: Arc::new(program) }
}

/// Every operand's batch axis taken out of its type.
pub(super) fn logical(operands: &[Array], axes: &[Option<usize>]) -> Vec<Aval> {
    let each = operands.iter().zip(axes).map(|(x, at)| match at {
        Some(at) => x.aval().with_shape(x.shape().remove(*at)),
        None => x.aval().clone(),
    });
    each.collect()
}

/// The traced arrays that a user's rule captures, as operands of the equation that holds it.
pub(super) struct Captured {
    /// The operands.
    pub(super) operands: Vec<Array>,
    /// For each array that the closure may mention, what it is now.
    aliases: Vec<(Array, Present)>,
}

#[derive(Clone)]
pub(super) enum Present {
    Operand(usize),
    Value(Array),
}

/// The stand-ins for what a rule captured.
#[derive(Clone)]
pub(super) struct Aliases(Arc<[(Array, Present)]>);

impl Captured {
    /// Those among `captures`, of one or several rules, that are traced; concrete ones stay where they
    /// are, in the closure.
    pub(super) fn of(captures: impl IntoIterator<Item = Array>) -> Captured {
        let mut operands: Vec<Array> = Vec::new();
        for capture in captures.into_iter().filter(Array::is_traced) {
            if !operands.iter().any(|known| same_variable(known, &capture)) {
                operands.push(capture);
            }
        }
        let position =
            |array: &Array| operands.iter().position(|operand| same_variable(operand, array));
        let themselves =
            operands.iter().enumerate().map(|(at, x)| (x.clone(), Present::Operand(at)));
        // The closure may have been made in a trace that has ended, inside a rule that is running.
        let inherited = rebound_pairs().into_iter().filter_map(|(original, now)| {
            let present = match now.is_traced() {
                true => Present::Operand(position(&now)?),
                false => Present::Value(now),
            };
            Some((original, present))
        });
        let aliases = themselves.chain(inherited).collect();
        Captured { operands, aliases }
    }

    pub(super) fn aliases(&self) -> Aliases {
        Aliases(self.aliases.clone().into())
    }
}

impl Aliases {
    /// Runs `f` with the captured arrays standing for `operands`.
    pub(super) fn with<R>(&self, operands: &[Array], f: impl FnOnce() -> R) -> R {
        let pairs = self.0.iter().map(|(original, present)| {
            let now = match present {
                Present::Operand(at) => operands[*at].clone(),
                Present::Value(value) => value.clone(),
            };
            (original.clone(), now)
        });
        with_rebound(pairs, f)
    }
}

thread_local! {
    /// The types of the rules whose captures are being looked for.
    static LOOKING: RefCell<Vec<TypeId>> = const { RefCell::new(Vec::new()) };
}

/// Whether the captures of a rule of this type are being looked for. A rule may call the function that
/// it belongs to; that call is then the plain function, or looking would never end.
pub(super) fn is_looking<R: 'static>() -> bool {
    LOOKING.with_borrow(|stack| stack.contains(&TypeId::of::<R>()))
}

/// Runs `f`, which traces a rule of type `R` to see what it captures.
pub(super) fn looking<R: 'static, T>(f: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            LOOKING.with_borrow_mut(|stack| stack.pop());
        }
    }
    LOOKING.with_borrow_mut(|stack| stack.push(TypeId::of::<R>()));
    let _restore = Restore;
    f()
}

/// Throws unless the tree that a rule gave has the structure, shapes and dtypes of `expected`.
pub(in crate::control_flow) fn expect_types<T: Tree>(
    what: &str,
    expected: &T,
    found: &T,
    location: &'static Location<'static>,
) {
    expect_alike(expected, found, location);
    let pairs = leaves_of(expected).into_iter().zip(leaves_of(found));
    for (path, (expected, found)) in paths(expected).iter().zip(pairs) {
        if !expected.aval().same_type(found.aval()) {
            trace::throw(Error::Tree(Box::new(TreeError {
                path: rooted(path),
                message: format!("{what}: expected {}, got {}", expected.aval(), found.aval()),
                location: Some(location),
                help: Some(
                    "it must have the types of what it stands for: convert or reshape it".into(),
                ),
            })));
        }
    }
}

/// The error of differentiating a function with rules of its own with respect to what it captured.
pub(super) fn captured_varies(function: &str, name: &str) -> RuleError {
    RuleError::unsupported(format!(
        "`{name}` captures an array that is being differentiated, and the rules given to \
         `{function}` say nothing about that one"
    ))
    .help("make the array one of the function's arguments, or `stop_gradient` it")
}

/// Evaluates a traced function in the current trace.
pub(super) fn eval_traced<O>(traced: &Traced<O>, arguments: &[Array]) -> Vec<Array> {
    let arguments: Vec<Array> = arguments.iter().chain(&traced.captures).cloned().collect();
    passes::eval(&traced.program, &arguments)
}
