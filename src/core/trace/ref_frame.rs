//! Views of references in traces: [`RefFrame`] during a trace, [`RefUses`] after it.

use super::array_ref::{ArrayRef, at_line};
use super::tracing::{Builder, same_value};
use crate::core::array::array::Array;
use crate::core::error::OpErrorKind;
use crate::core::error::loc::Loc;
use crate::core::error::throw::{op_error, throw};
use crate::core::program::tangent::Tangent;
use crate::core::types::aval::Aval;

/// The access of a traced function to references from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefAccess {
    /// They are inputs of the program, for functions that run several times: bodies of loops, and
    /// programs that later calls use.
    Inputs,
    /// Their values are captured, for functions that run once, where they are traced.
    Captures,
    /// As `Captures`, and they cannot be written.
    ReadOnly,
    /// They cannot be used.
    Closed,
}

/// The reason why an access to a reference is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Escaped,
    Closed,
    ReadOnly,
}

/// The references that a trace uses.
pub(super) struct RefFrame {
    pub(super) access: RefAccess,
    views: Vec<View>,
    arguments: Vec<Argument>,
}

/// A reference from outside, as a trace sees it.
struct View {
    target: ArrayRef,
    value: Array,
    /// The position among the inputs of the program.
    input: Option<usize>,
    /// The line of the last write.
    written: Option<Loc>,
}

/// A reference that is an argument of the function under trace.
struct Argument {
    origin: ArrayRef,
    local: ArrayRef,
    initial: Array,
    input: usize,
}

impl RefFrame {
    pub(super) fn new(access: RefAccess) -> RefFrame {
        RefFrame { access, views: Vec::new(), arguments: Vec::new() }
    }

    pub(super) fn expect_writable(&self) -> Result<(), Refusal> {
        match self.access {
            RefAccess::Inputs | RefAccess::Captures => Ok(()),
            RefAccess::ReadOnly => Err(Refusal::ReadOnly),
            RefAccess::Closed => Err(Refusal::Closed),
        }
    }

    /// Returns the value of a reference from outside, if the trace has used it.
    pub(super) fn seen(&self, target: &ArrayRef) -> Option<Array> {
        let view = self.views.iter().find(|view| view.target.same_ref(target));
        view.map(|view| view.value.clone())
    }

    /// Replaces the value of a reference that the trace has used.
    pub(super) fn write(&mut self, target: &ArrayRef, value: Array, loc: Loc) {
        if let Some(view) = self.views.iter_mut().find(|view| view.target.same_ref(target)) {
            view.value = value;
            view.written = Some(loc);
        }
    }

    /// Returns true for a reference inside the function that stands for an argument.
    pub(super) fn is_argument(&self, local: &ArrayRef) -> bool {
        self.arguments.iter().any(|argument| argument.local.same_ref(local))
    }

    /// Returns the reference inside the function that stands for the argument `origin`, whose value
    /// is the input at this position.
    pub(super) fn argument(
        &mut self,
        origin: &ArrayRef,
        input: usize,
        local: impl FnOnce() -> ArrayRef,
    ) -> ArrayRef {
        let known = self.arguments.iter().find(|argument| argument.input == input);
        if let Some(argument) = known {
            return argument.local.clone();
        }
        let local = local();
        let initial = local.value_at_home();
        let origin = origin.clone();
        self.arguments.push(Argument { origin, local: local.clone(), initial, input });
        local
    }
}

impl Builder {
    /// Returns the value of a reference from outside, which is `outer` in the trace around this.
    pub(super) fn view_of(&mut self, target: &ArrayRef, outer: Array) -> Result<Array, Refusal> {
        if let Some(value) = self.refs.seen(target) {
            return Ok(value);
        }
        let (value, input) = match self.refs.access {
            RefAccess::Closed => return Err(Refusal::Closed),
            RefAccess::Captures | RefAccess::ReadOnly => (outer, None),
            RefAccess::Inputs => {
                let (value, position) = self.add_input(outer.aval().clone());
                (value, Some(position))
            }
        };
        let view = View { target: target.clone(), value: value.clone(), input, written: None };
        self.refs.views.push(view);
        Ok(value)
    }
}

/// The source of the initial value of a reference in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefSource {
    /// The value is captured.
    Captured,
    /// An input that the trace added, at this position among the declared inputs.
    Input(usize),
    /// The argument at this position among the declared inputs.
    Argument(usize),
}

/// A reference from outside that a traced function uses.
#[derive(Clone)]
pub(crate) struct RefUse {
    pub(crate) target: ArrayRef,
    pub(crate) source: RefSource,
    /// The type of the final value.
    pub(crate) aval: Aval,
    /// The line of the last write, if it is written.
    pub(crate) written: Option<Loc>,
}

/// The references from outside that a traced function uses. The last outputs of the program are the
/// final values of those that are written, in order.
#[derive(Clone, Default)]
pub(crate) struct RefUses(Vec<RefUse>);

impl RefFrame {
    /// Returns the uses, and the final values of the references that are written.
    ///
    /// Throws `Op` (value) if two of them are one reference.
    pub(super) fn finish(self) -> (RefUses, Vec<Array>) {
        let (mut uses, mut finals) = (Vec::new(), Vec::new());
        for view in self.views {
            let source = view.input.map_or(RefSource::Captured, RefSource::Input);
            let aval = view.value.aval().clone();
            uses.push(RefUse { target: view.target, source, aval, written: view.written });
            finals.extend(view.written.map(|_| view.value));
        }
        for Argument { origin, local, initial, input } in self.arguments {
            if uses.iter().any(|other| other.target.same_ref(&origin)) {
                throw(aliased(&origin));
            }
            let value = local.value_at_home();
            let is_written = !same_value(&value, &initial);
            let written = is_written.then(|| local.created());
            let (source, aval) = (RefSource::Argument(input), value.aval().clone());
            uses.push(RefUse { target: origin, source, aval, written });
            finals.extend(is_written.then_some(value));
        }
        (RefUses(uses), finals)
    }
}

/// Builds the error of a call that gets one reference twice.
pub(crate) fn aliased(target: &ArrayRef) -> crate::core::Error {
    let message = format!(
        "the reference to {}, created{}, is passed twice, or passed and captured",
        target.aval(),
        at_line(target.created())
    );
    let error = op_error(OpErrorKind::Value, "ref", message, Loc::scoped());
    error
        .with_help("pass it once: two names of one value in a function would contradict each other")
}

impl RefUses {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RefUse> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the uses that are written, in the order of the outputs.
    pub(crate) fn written(&self) -> impl Iterator<Item = &RefUse> {
        self.0.iter().filter(|used| used.written.is_some())
    }

    pub(crate) fn n_written(&self) -> usize {
        self.written().count()
    }

    /// Returns the number of inputs that the trace added.
    pub(crate) fn n_inputs(&self) -> usize {
        self.0.iter().filter(|used| matches!(used.source, RefSource::Input(_))).count()
    }

    /// Removes the final values from the outputs of the program and writes them to the references.
    pub(crate) fn write_back(&self, outputs: &mut Vec<Array>) {
        let values = outputs.split_off(outputs.len() - self.n_written());
        self.write_values(values);
    }

    /// Writes the final values to the references.
    pub(crate) fn write_values(&self, values: Vec<Array>) {
        for (used, value) in self.written().zip(values) {
            used.target.write(value, "set", used.written.unwrap_or_default());
        }
    }

    /// Throws `Op` (unsupported) if a final value has a derivative, which a reference from outside
    /// of the differentiated function does not have.
    pub(crate) fn expect_constant(&self, tangents: &[Tangent]) {
        for (used, tangent) in self.written().zip(tangents) {
            if tangent.is_zero() {
                continue;
            }
            let message = format!(
                "a value with a derivative is written to the reference to {}, created{} outside of \
                 the differentiated function",
                used.target.aval(),
                at_line(used.target.created())
            );
            let loc = used.written.unwrap_or_default();
            let error = op_error(OpErrorKind::Unsupported, "set", message, loc);
            throw(error.with_help(
                "write `stop_gradient(&value)`, create the reference with `RefKind::NoGrad`, or \
                 create it inside the function",
            ));
        }
    }

    /// Throws `Op` (unsupported) if an argument of `function` is a reference.
    pub(crate) fn expect_no_arguments(&self, function: &str) {
        let is_argument = |used: &&RefUse| matches!(used.source, RefSource::Argument(_));
        if let Some(used) = self.0.iter().find(is_argument) {
            let message = format!(
                "an argument is a reference to {}, created{}",
                used.target.aval(),
                at_line(used.target.created())
            );
            let error = op_error(OpErrorKind::Unsupported, function, message, Loc::scoped());
            throw(error.with_help("capture the reference in the closure, or pass its value"));
        }
    }
}
