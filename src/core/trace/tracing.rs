//! The stack of programs under construction.
//!
//! Only programs are traced. A transform records the user's function into a program and then
//! interprets that program with each primitive's rules, under the current trace. A traced
//! array is plain data: a variable number and the id of its trace.

use super::array_ref::without_outer_refs;
use super::named_axes::without_axes;
use super::rebinding;
use super::ref_frame::{RefAccess, RefFrame, RefUses};
use crate::core::array::array::{Array, Kind, NO_TRACE};
use crate::core::error::loc::{self, Loc, path};
use crate::core::error::throw::{throw, throw_rule};
use crate::core::error::{Error, OpError, OpErrorKind, TracerError};
use crate::core::options::DISABLE_JIT;
use crate::core::program::primitive::Primitive;
use crate::core::program::program::{Eqn, Program, Var};
use crate::core::scoped::scoped;
use crate::core::types::aval::Aval;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The equations that a trace records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All equations bound while the trace is on top.
    All,
    /// Equations with an operand of this trace. The others go to the trace below.
    Lazy,
}

#[derive(PartialEq, Eq, Hash)]
enum CaptureKey {
    Buffer { address: usize, weak: bool },
    Var { trace: u64, var: Var },
}

/// A program under construction.
pub(super) struct Builder {
    id: u64,
    pub(super) mode: Mode,
    avals: Vec<Aval>,
    inputs: Vec<Var>,
    eqns: Vec<Eqn>,
    captures: Vec<(Var, Array)>,
    capture_index: FxHashMap<CaptureKey, Var>,
    outer_loc: Loc,
    /// The number of entries of the scope path outside of this trace.
    outer_path: usize,
    /// An address near the end of the stack when the trace began.
    address: usize,
    /// The references that the trace uses.
    pub(super) refs: RefFrame,
}

thread_local! {
    static STACK: RefCell<Vec<Builder>> = const { RefCell::new(Vec::new()) };
}

scoped!(
    /// Evaluates programs equation by equation instead of compiling them.
    static JIT_DISABLED: bool = false
);

scoped!(
    /// Numbers in traced functions are operands of the program instead of constants.
    static NUMBERS_ARE_OPERANDS: bool = false
);

impl Builder {
    fn define(&mut self, aval: Aval) -> Var {
        self.avals.push(aval);
        (self.avals.len() - 1) as Var
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Adds a declared input. Returns it with its position.
    pub(super) fn add_input(&mut self, aval: Aval) -> (Array, usize) {
        let var = self.define(aval.clone());
        self.inputs.push(var);
        (Array::traced(aval, self.id, var), self.inputs.len() - 1)
    }

    /// Returns the position of an array among the declared inputs.
    pub(super) fn position_of_input(&self, array: &Array) -> Option<usize> {
        let var = self.own(array)?;
        self.inputs.iter().position(|&input| input == var)
    }

    /// Returns the variable of an array that belongs to this trace.
    pub(super) fn own(&self, array: &Array) -> Option<Var> {
        match array.kind {
            Kind::Traced { trace, var } if trace == self.id => Some(var),
            _ => None,
        }
    }

    /// Returns the variable for an array: its own, or an extra input for a captured outer value.
    fn var(&mut self, array: &Array) -> Var {
        let key = match &array.kind {
            Kind::Traced { trace, var } if *trace == self.id => return *var,
            Kind::Traced { trace, var } => CaptureKey::Var { trace: *trace, var: *var },
            Kind::Concrete(buffer) => CaptureKey::Buffer {
                address: Arc::as_ptr(buffer).cast::<()>() as usize,
                weak: array.aval().weak,
            },
        };
        if let Some(&var) = self.capture_index.get(&key) {
            return var;
        }
        let var = self.define(array.aval().clone());
        self.capture_index.insert(key, var);
        self.captures.push((var, array.clone()));
        var
    }

    /// Appends an equation and returns its results as arrays of this trace.
    pub(super) fn record(
        &mut self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        loc: Loc,
    ) -> Vec<Array> {
        let operands = operands.iter().map(|array| self.var(array)).collect();
        let outputs: Vec<Array> = results
            .into_iter()
            .map(|aval| {
                let var = self.define(aval.clone());
                Array::traced(aval, self.id, var)
            })
            .collect();
        let results = outputs.iter().filter_map(|array| self.own(array)).collect();
        self.eqns.push(Eqn { primitive: primitive.clone(), operands, results, loc });
        outputs
    }
}

/// Calls `f` with the programs under construction, outermost first.
pub(super) fn with_stack<R>(f: impl FnOnce(&mut Vec<Builder>) -> R) -> R {
    STACK.with_borrow_mut(f)
}

/// The number of functions being traced, one inside another, at which an error is raised.
const MAX_DEPTH: usize = 64;
/// The bytes of the stack that nested functions may take, of the 2 MiB that a thread of Rust has.
const MAX_STACK: usize = 1 << 20;

scoped!(
    /// The number of enclosing functions of [`interpreted`], and the stack's address at the first.
    static INTERPRETED: (usize, usize) = (0, 0)
);

/// Returns an address near the end of the stack of this thread.
#[inline(never)]
fn stack_address() -> usize {
    let marker = 0u8;
    std::ptr::from_ref(std::hint::black_box(&marker)).addr()
}

/// Returns true if functions are nested too deep for the stack.
fn is_too_deep(depth: usize, outermost: usize) -> bool {
    depth >= MAX_DEPTH || depth > 0 && outermost.abs_diff(stack_address()) > MAX_STACK
}

/// Runs the body of a transformed function operation by operation. Throws `Op` (value) if such
/// functions are nested too deep.
pub(crate) fn interpreted<R>(scope: String, caller: Loc, f: impl FnOnce() -> R) -> R {
    let (depth, outermost) = match INTERPRETED.get() {
        (0, _) => (0, stack_address()),
        nested => nested,
    };
    if is_too_deep(depth, outermost) {
        throw(depth_error(scope, depth, caller));
    }
    INTERPRETED.scope((depth + 1, outermost), f)
}

/// Builds the error of a function that is traced inside itself without end.
fn depth_error(scope: String, depth: usize, caller: Loc) -> Error {
    let path = path();
    let same = path.iter().filter(|outer| **outer == scope).count();
    let reason = match same {
        0 => String::new(),
        _ => format!(", {same} of them this function: it calls itself without end"),
    };
    let message = format!("{depth} functions are running, each inside another{reason}");
    let mut abridged = path;
    if abridged.len() > 4 {
        let omitted = abridged.len() - 4;
        abridged.splice(2..2 + omitted, [format!("… {omitted} more …")]);
    }
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: scope,
        message,
        operands: Vec::new(),
        note: None,
        loc: caller,
        path: abridged,
        help: Some(
            "a condition on values of an array cannot end a recursion while tracing: use \
             `while_loop`, `scan` or `fori_loop`, or end it by a Rust number or a shape"
                .into(),
        ),
    }))
}

/// A trace under construction. Dropping it, for example while unwinding, removes the trace and
/// every trace above it.
pub(crate) struct Tracing {
    depth: usize,
}

impl Tracing {
    /// Begins a trace of user code (`scope` names the transform in errors) or of rules (`None`).
    ///
    /// Throws `Op` (value) if user code is nested too deep.
    #[track_caller]
    pub(crate) fn begin(mode: Mode, scope: Option<String>) -> Tracing {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let outer_path = loc::path_len();
        let outer_loc = Loc::scoped();
        if let Some(scope) = scope {
            let outermost = STACK.with_borrow(|stack| stack.first().map(|first| first.address));
            let depth = loc::transforms_len();
            if outermost.is_some_and(|outermost| is_too_deep(depth, outermost)) {
                throw(depth_error(scope, depth, Loc::caller()));
            }
            // The program of an outermost function is used by later calls, in other scopes.
            let inner = if outermost.is_some() { outer_loc } else { Loc::UNKNOWN };
            inner.without_position().replace_scoped();
            loc::push_path(scope);
        }
        STACK.with_borrow_mut(|stack| {
            stack.push(Builder {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                mode,
                avals: Vec::new(),
                inputs: Vec::new(),
                eqns: Vec::new(),
                captures: Vec::new(),
                capture_index: FxHashMap::default(),
                outer_loc,
                outer_path,
                address: stack_address(),
                refs: RefFrame::new(RefAccess::Closed),
            });
            Tracing { depth: stack.len() - 1 }
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Builder) -> R) -> R {
        STACK.with_borrow_mut(|stack| f(&mut stack[self.depth]))
    }

    /// Adds a declared input.
    ///
    /// Throws `Op` (shape) for an array that no compiler can address.
    pub(crate) fn input(&self, aval: Aval) -> Array {
        if let Err(error) = aval.check_size("the argument") {
            throw_rule("trace", error, &[], Loc::UNKNOWN);
        }
        self.with(|builder| builder.add_input(aval).0)
    }

    /// Sets the access to references from outside; without it they cannot be used.
    pub(crate) fn with_refs(self, access: RefAccess) -> Tracing {
        self.with(|builder| builder.refs.access = access);
        self
    }

    /// Returns the references from outside that were used, and the final values of those that are
    /// written, which become the last outputs. They cannot be used in this trace after that.
    ///
    /// Throws `Op` (value) if two of them are one reference.
    pub(crate) fn finish_refs(&self) -> (RefUses, Vec<Array>) {
        let closed = RefFrame::new(RefAccess::Closed);
        self.with(|builder| std::mem::replace(&mut builder.refs, closed)).finish()
    }

    /// Returns true if the array is a variable of this trace.
    pub(crate) fn owns(&self, array: &Array) -> bool {
        self.with(|builder| builder.own(array).is_some())
    }

    /// Ends the trace. Returns the program, whose inputs are the declared ones followed by the
    /// captures, and the captured arrays. Throws if an output belongs to a trace that has ended.
    pub(crate) fn finish(self, outputs: &[Array]) -> (Program, Vec<Array>) {
        let rebound = rebinding::rebind(&outputs.iter().collect::<Vec<_>>());
        let outputs = rebound.as_deref().unwrap_or(outputs);
        for output in outputs {
            if STACK.with_borrow(|stack| is_escaped(&stack[..=self.depth], output)) {
                throw(escaped_error_at(output, Loc::UNKNOWN));
            }
        }
        let outputs: Vec<Var> =
            self.with(|builder| outputs.iter().map(|array| builder.var(array)).collect());
        let mut builder = STACK.with_borrow_mut(|stack| {
            stack.truncate(self.depth + 1);
            stack.pop().expect("a live guard has its builder on the stack")
        });
        builder.restore_outer();
        std::mem::forget(self);
        let (vars, captures): (Vec<Var>, Vec<Array>) = builder.captures.into_iter().unzip();
        builder.inputs.extend(vars);
        (Program::new(&builder.avals, &builder.inputs, builder.eqns, &outputs), captures)
    }
}

impl Builder {
    /// Restores the location and the scope path that were in force when the trace began.
    fn restore_outer(&self) {
        self.outer_loc.replace_scoped();
        loc::truncate_path(self.outer_path);
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let removed = STACK.with_borrow_mut(|stack| stack.split_off(self.depth));
        if let Some(builder) = removed.first() {
            builder.restore_outer();
        }
    }
}

/// Returns true if programs are evaluated equation by equation on this thread.
pub(crate) fn jit_disabled() -> bool {
    JIT_DISABLED.get() || DISABLE_JIT.get()
}

/// Runs `f` with every program evaluated equation by equation.
pub(crate) fn with_jit_disabled<R>(f: impl FnOnce() -> R) -> R {
    JIT_DISABLED.scope(true, f)
}

/// Runs `f` with numbers and indices as operands of the traced program, if `operands`, or as
/// constants.
///
/// They are operands in programs that run once per trace, outside of `jit`: one executable then
/// serves every number.
pub(crate) fn with_numbers_as_operands<R>(operands: bool, f: impl FnOnce() -> R) -> R {
    NUMBERS_ARE_OPERANDS.scope(operands, f)
}

/// Returns true if numbers and indices are operands: inside [`with_numbers_as_operands`], and
/// outside of every trace.
pub(crate) fn are_operands() -> bool {
    NUMBERS_ARE_OPERANDS.get() || !is_tracing()
}

/// Returns true if this thread is tracing.
pub(crate) fn is_tracing() -> bool {
    STACK.with_borrow(|stack| !stack.is_empty())
}

/// Runs `f` outside of every trace. The traces under construction go on afterwards.
pub(crate) fn with_tracing_suspended<R>(f: impl FnOnce() -> R) -> R {
    /// The stack of suspended traces, put back when dropped.
    struct Suspended(Vec<Builder>);

    impl Drop for Suspended {
        fn drop(&mut self) {
            let suspended = std::mem::take(&mut self.0);
            STACK.with_borrow_mut(|stack| *stack = suspended);
        }
    }

    let _suspended = Suspended(STACK.with_borrow_mut(std::mem::take));
    // What a suspended trace has written to a reference is not a value yet.
    without_outer_refs(|| without_axes(|| NUMBERS_ARE_OPERANDS.scope(false, f)))
}

/// Returns true if two traced arrays are the same variable of one trace.
pub(crate) fn same_variable(a: &Array, b: &Array) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Traced { trace: t, var: v }, Kind::Traced { trace, var }) => t == trace && v == var,
        _ => false,
    }
}

/// Returns true if two arrays are the same variable of one trace, or share a buffer and an aval.
pub(crate) fn same_value(a: &Array, b: &Array) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Concrete(x), Kind::Concrete(y)) => Arc::ptr_eq(x, y) && a.aval() == b.aval(),
        _ => same_variable(a, b),
    }
}

/// Returns true if the array is traced and its trace is not among `live`.
pub(super) fn is_escaped(live: &[Builder], array: &Array) -> bool {
    match array.kind {
        Kind::Concrete(_) => false,
        Kind::Traced { trace, .. } => live.iter().all(|builder| builder.id != trace),
    }
}

/// Builds the error raised when a traced array is used outside of its trace, at the caller's line.
#[track_caller]
pub(crate) fn escaped_error(array: &Array) -> Error {
    escaped_error_at(array, Loc::caller())
}

/// Builds the error raised when a traced array is used outside of its trace.
pub(super) fn escaped_error_at(array: &Array, caller: Loc) -> Error {
    let (message, help) = match array.kind {
        Kind::Traced { trace: NO_TRACE, .. } => (
            "an array without elements, which stands for a type, was used as an operand",
            "use it as an example argument of `eval_shape`, `make_program` or `lower` only",
        ),
        _ => (
            "a traced array was used outside the trace that made it",
            "return the array from the traced function instead of keeping it in a cell, a static \
             or another thread",
        ),
    };
    Error::Tracer(Box::new(TracerError {
        message: message.into(),
        aval: array.aval().clone(),
        loc: Loc::scoped().or(caller),
        path: path(),
        help: help.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error::throw::{BOUNDARIES, catch};
    use std::panic::catch_unwind;

    #[test]
    fn foreign_panic_leaves_the_stack_empty_and_passes_through() {
        let outcome = catch_unwind(|| {
            let _ = catch(|| {
                let _tracing = Tracing::begin(Mode::All, Some("jit(f)".into()));
                panic!("mine")
            });
        });
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
        assert!(!is_tracing());
        assert!(path().is_empty());
        assert_eq!(BOUNDARIES.get(), 0);
    }
}
