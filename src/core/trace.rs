//! Tracing: the stack of programs under construction, and [`bind`], through which every operation
//! goes.
//!
//! Only programs are traced. A transform records the user's function into a program and then
//! interprets that program with each primitive's rules, under whatever trace is current. A traced
//! array is plain data: a variable number and the identity of its trace.

use super::array::{Array, Kind};
use super::aval::Aval;
use super::backend::backend;
use super::error::{Error, Loc, OpError, OpErrorKind, RuleError, TracerError};
use super::primitive::{Half, Primitive, Split, SplitOperand};
use super::program::{Eqn, Program, Var};
use super::stand_ins;
use super::varying::{levelled, results_of};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a trace records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Whatever is bound while it is on top.
    All,
    /// Only equations that touch one of its own variables; the others go to the trace below.
    Lazy,
}

#[derive(PartialEq, Eq, Hash)]
enum CaptureKey {
    Buffer { address: usize, weak: bool },
    Var { trace: u64, var: Var },
}

/// The trace that arrays without elements claim to belong to; no trace has this identity.
pub(crate) const NO_TRACE: u64 = 0;

struct Builder {
    id: u64,
    mode: Mode,
    scope: Option<String>,
    avals: Vec<Aval>,
    inputs: Vec<Var>,
    eqns: Vec<Eqn>,
    captures: Vec<(Var, Array)>,
    capture_index: FxHashMap<CaptureKey, Var>,
    outer_location: Loc,
}

thread_local! {
    static STACK: RefCell<Vec<Builder>> = const { RefCell::new(Vec::new()) };
    /// Overrides the caller's location while a transform interprets an equation.
    static LOCATION: Cell<Loc> = const { Cell::new(None) };
    /// How many boundaries that turn thrown errors into `Err` enclose the current code.
    static BOUNDARIES: Cell<u32> = const { Cell::new(0) };
    /// Whether programs are to be evaluated equation by equation.
    static JIT_DISABLED: Cell<bool> = const { Cell::new(false) };
}

impl Builder {
    fn define(&mut self, aval: Aval) -> Var {
        self.avals.push(aval);
        (self.avals.len() - 1) as Var
    }

    fn own(&self, array: &Array) -> Option<Var> {
        match array.kind {
            Kind::Traced { trace, var } if trace == self.id => Some(var),
            _ => None,
        }
    }

    /// The variable for an array: its own, or an extra input that stands for an outer value.
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

    fn record(
        &mut self,
        primitive: &Arc<dyn Primitive>,
        operands: &[&Array],
        results: Vec<Aval>,
        location: Loc,
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
        self.eqns.push(Eqn { primitive: primitive.clone(), operands, results, location });
        outputs
    }
}

/// A trace under construction. Dropping it, in an unwinding say, restores what was before.
pub(crate) struct Tracing {
    depth: usize,
}

impl Tracing {
    /// Begins a trace of user code (`scope` names the transform in errors) or of rules (`None`).
    pub(crate) fn begin(mode: Mode, scope: Option<String>) -> Tracing {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let outer_location = match scope {
            Some(_) => LOCATION.replace(None),
            None => LOCATION.get(),
        };
        STACK.with_borrow_mut(|stack| {
            stack.push(Builder {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                mode,
                scope,
                avals: Vec::new(),
                inputs: Vec::new(),
                eqns: Vec::new(),
                captures: Vec::new(),
                capture_index: FxHashMap::default(),
                outer_location,
            });
            Tracing { depth: stack.len() - 1 }
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Builder) -> R) -> R {
        STACK.with_borrow_mut(|stack| f(&mut stack[self.depth]))
    }

    /// A new declared input.
    pub(crate) fn input(&self, aval: Aval) -> Array {
        self.with(|builder| {
            let var = builder.define(aval.clone());
            builder.inputs.push(var);
            Array::traced(aval, builder.id, var)
        })
    }

    /// Whether the array is a variable of this trace.
    pub(crate) fn owns(&self, array: &Array) -> bool {
        self.with(|builder| builder.own(array).is_some())
    }

    /// Ends the trace: the program, whose inputs are the declared ones and then the captures, and
    /// the captured arrays. Throws if an output belongs to a trace that has ended.
    pub(crate) fn finish(self, outputs: &[Array]) -> (Program, Vec<Array>) {
        let resolved = stand_ins::resolve_all(&outputs.iter().collect::<Vec<_>>());
        let outputs = resolved.as_deref().unwrap_or(outputs);
        for output in outputs {
            if STACK.with_borrow(|stack| escaped(&stack[..=self.depth], output)) {
                throw_escaped(output, None);
            }
        }
        let outputs: Vec<Var> =
            self.with(|builder| outputs.iter().map(|array| builder.var(array)).collect());
        let mut builder = STACK.with_borrow_mut(|stack| {
            stack.truncate(self.depth + 1);
            stack.pop().expect("a live guard has its builder on the stack")
        });
        LOCATION.set(builder.outer_location);
        std::mem::forget(self);
        let (vars, captures): (Vec<Var>, Vec<Array>) = builder.captures.into_iter().unzip();
        builder.inputs.extend(vars);
        (Program::new(&builder.avals, &builder.inputs, builder.eqns, &outputs), captures)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let removed = STACK.with_borrow_mut(|stack| stack.split_off(self.depth));
        if let Some(builder) = removed.first() {
            LOCATION.set(builder.outer_location);
        }
    }
}

/// Whether programs are to be evaluated equation by equation on this thread.
pub(crate) fn jit_disabled() -> bool {
    JIT_DISABLED.get()
}

/// Runs `f` with every program evaluated equation by equation.
pub(crate) fn with_jit_disabled<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            JIT_DISABLED.set(self.0);
        }
    }
    let _restore = Restore(JIT_DISABLED.replace(true));
    f()
}

/// Whether this thread is tracing anything.
pub(crate) fn is_tracing() -> bool {
    STACK.with_borrow(|stack| !stack.is_empty())
}

/// Runs `f` with every operation it binds attributed to `location`, if there is one.
pub(crate) fn at_location<R>(location: Loc, f: impl FnOnce() -> R) -> R {
    struct Restore(Loc);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOCATION.set(self.0);
        }
    }
    if location.is_none() {
        return f();
    }
    let _restore = Restore(LOCATION.replace(location));
    f()
}

/// Runs `f` with every operation it binds attributed to the caller of the function that calls this,
/// which must be `#[track_caller]`: closures do not pass the caller on.
///
/// ```
/// use oxidax::core::from_caller;
/// use oxidax::prelude::*;
///
/// #[track_caller]
/// fn squares<T: Tree>(tree: &T) -> T {
///     from_caller(|| tree::map(tree, |leaf| leaf * leaf))
/// }
/// let program = make_program(|x: Array| squares(&x), Aval::new(DType::F32, [])).unwrap();
/// assert!(program.eqns()[0].location.is_some_and(|place| place.line() > 5));
/// ```
#[track_caller]
pub fn from_caller<R>(f: impl FnOnce() -> R) -> R {
    at_location(caller_place(), f)
}

/// Where operations bound here are attributed to: the caller, or what an outer composite named. For bodies of loops, in
/// which that is forgotten, as they are the user's as a rule.
#[track_caller]
pub(crate) fn caller_place() -> Loc {
    LOCATION.get().or(Some(Location::caller()))
}

/// Where operations bound here are attributed to, if a transform or a composite says so.
pub(super) fn place() -> Loc {
    LOCATION.get()
}

/// Whether two traced arrays are one variable of one trace.
pub(crate) fn same_variable(a: &Array, b: &Array) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Traced { trace: t, var: v }, Kind::Traced { trace, var }) => t == trace && v == var,
        _ => false,
    }
}

/// Whether two arrays are one value: one variable of one trace, or one buffer of one type.
pub(crate) fn same_value(a: &Array, b: &Array) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Concrete(x), Kind::Concrete(y)) => Arc::ptr_eq(x, y) && a.aval() == b.aval(),
        _ => same_variable(a, b),
    }
}

fn escaped(live: &[Builder], array: &Array) -> bool {
    match array.kind {
        Kind::Concrete(_) => false,
        Kind::Traced { trace, .. } => live.iter().all(|builder| builder.id != trace),
    }
}

enum Action {
    Record(Vec<Array>),
    Apply,
    Split(usize, Vec<bool>),
    Escaped(usize),
}

/// Decides under the borrow what is to be done; `whole` keeps a primitive that holds programs in one
/// piece. Acts under the borrow only where no rule runs.
fn decide(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    results: &[Aval],
    location: Loc,
    whole: bool,
) -> Action {
    STACK.with_borrow_mut(|stack| {
        let chosen = stack.iter().rposition(|builder| {
            builder.mode == Mode::All || operands.iter().any(|array| builder.own(array).is_some())
        });
        let live = chosen.map_or(0, |depth| depth + 1);
        if let Some(position) = operands.iter().position(|array| escaped(&stack[..live], array)) {
            return Action::Escaped(position);
        }
        let Some(depth) = chosen else { return Action::Apply };
        let builder = &mut stack[depth];
        if builder.mode == Mode::Lazy && !whole && primitive.as_higher_order().is_some() {
            let known = operands.iter().map(|array| builder.own(array).is_none()).collect();
            return Action::Split(depth, known);
        }
        Action::Record(builder.record(primitive, operands, results.to_vec(), location))
    })
}

/// Applies a primitive: records it in the trace it belongs to, or evaluates it at once.
///
/// Throws if the operands do not fit.
pub(crate) fn bind_at(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    caller: Loc,
) -> Vec<Array> {
    match stand_ins::resolve_all(operands) {
        Some(resolved) => bind_level(primitive, &resolved.iter().collect::<Vec<_>>(), caller),
        None => bind_level(primitive, operands, caller),
    }
}

fn bind_level(primitive: &Arc<dyn Primitive>, operands: &[&Array], caller: Loc) -> Vec<Array> {
    match levelled(&**primitive, operands, caller) {
        Some(level) => bind_in(primitive, &level.iter().collect::<Vec<_>>(), caller, false),
        None => bind_in(primitive, operands, caller, false),
    }
}

fn bind_in(
    primitive: &Arc<dyn Primitive>,
    operands: &[&Array],
    caller: Loc,
    whole: bool,
) -> Vec<Array> {
    let location = LOCATION.get().or(caller);
    let avals: SmallVec<[Aval; 4]> = operands.iter().map(|array| array.aval().clone()).collect();
    let results = match results_of(&**primitive, &avals) {
        Ok(results) => results,
        Err(error) => throw_rule(primitive.name(), error, &avals, location),
    };
    match decide(primitive, operands, &results, location, whole) {
        Action::Record(outputs) => outputs,
        Action::Apply => {
            let outputs = match primitive.as_higher_order() {
                Some(holder) if jit_disabled() => {
                    let operands: Vec<Array> = operands.iter().copied().cloned().collect();
                    at_location(location, || holder.interpret(&operands))
                }
                _ => backend().apply(primitive, operands, results, location),
            };
            outputs.unwrap_or_else(|error| throw(error))
        }
        Action::Escaped(position) => throw_escaped(operands[position], location),
        Action::Split(depth, known) => {
            let split = primitive.as_higher_order().and_then(|holder| holder.split(&known));
            match split {
                Some(split) => bind_split(depth, split, operands, location),
                None => bind_in(primitive, operands, location, true),
            }
        }
    }
}

fn bind_split(depth: usize, split: Split, operands: &[&Array], location: Loc) -> Vec<Array> {
    let ahead: Vec<&Array> = split.known_operands.iter().map(|&at| operands[at]).collect();
    let known = bind_at(&split.known, &ahead, location);
    let rest: Vec<&Array> = split
        .unknown_operands
        .iter()
        .map(|source| match *source {
            SplitOperand::Operand(position) => operands[position],
            SplitOperand::Known(position) => &known[position],
        })
        .collect();
    let avals: Vec<Aval> = rest.iter().map(|array| array.aval().clone()).collect();
    let results = match results_of(&*split.unknown, &avals) {
        Ok(results) => results,
        Err(error) => throw_rule(split.unknown.name(), error, &avals, location),
    };
    // Recorded, not bound: binding would split it again.
    let unknown = STACK
        .with_borrow_mut(|stack| stack[depth].record(&split.unknown, &rest, results, location));
    let output = |half: &Half| match *half {
        Half::Known(position) => known[position].clone(),
        Half::Unknown(position) => unknown[position].clone(),
    };
    split.outputs.iter().map(output).collect()
}

/// Applies a primitive to its operands on behalf of the caller.
#[track_caller]
pub fn bind(primitive: impl Primitive, operands: &[&Array]) -> Vec<Array> {
    let primitive: Arc<dyn Primitive> = Arc::new(primitive);
    bind_at(&primitive, operands, Some(Location::caller()))
}

/// Applies a shared primitive to its operands on behalf of the caller.
#[track_caller]
pub(crate) fn bind_shared(primitive: &Arc<dyn Primitive>, operands: &[&Array]) -> Vec<Array> {
    bind_at(primitive, operands, Some(Location::caller()))
}

/// Applies a primitive with one result.
#[track_caller]
pub fn bind1<const N: usize>(primitive: impl Primitive, operands: [&Array; N]) -> Array {
    let mut results = bind(primitive, &operands);
    debug_assert_eq!(results.len(), 1, "bind1 is for primitives with one result");
    results.swap_remove(0)
}

// Throwing and catching.

struct Thrown(Error);

/// Unwinds with an error to the nearest boundary; a plain panic with its text if there is none.
///
/// For functions built from operations, which report what is wrong as operations do.
#[track_caller]
pub fn throw(error: Error) -> ! {
    if BOUNDARIES.get() > 0 && cfg!(panic = "unwind") {
        resume_unwind(Box::new(Thrown(error)));
    }
    panic!("{error}")
}

/// Runs `f` and returns as `Err` what an operation in it throws.
///
/// Foreign panics pass through. With `panic = "abort"` a thrown error aborts with its text.
///
/// # Errors
/// Whatever was thrown.
///
/// ```
/// use oxidax::prelude::*;
/// let outcome = oxidax::catch(|| eval_shape(|x: Array| x.reshape([5]), Aval::new(DType::F32, [2])));
/// assert!(outcome.and_then(|inner| inner).is_err());
/// ```
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Error> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            BOUNDARIES.set(BOUNDARIES.get() - 1);
        }
    }
    BOUNDARIES.set(BOUNDARIES.get() + 1);
    let outcome = {
        let _leave = Leave;
        catch_unwind(AssertUnwindSafe(f))
    };
    outcome.map_err(|payload| match payload.downcast::<Thrown>() {
        Ok(thrown) => thrown.0,
        Err(foreign) => resume_unwind(foreign),
    })
}

/// The transforms under way, outermost first.
pub(crate) fn path() -> Vec<String> {
    STACK.with_borrow(|stack| stack.iter().filter_map(|builder| builder.scope.clone()).collect())
}

fn operand_names(count: usize) -> Vec<String> {
    match count {
        1 => vec!["operand".into()],
        2 => vec!["lhs".into(), "rhs".into()],
        _ => (0..count).map(|position| format!("operand {position}")).collect(),
    }
}

/// Throws a rule's error with name, operands, location and path added.
pub(crate) fn throw_rule(name: &str, error: RuleError, operands: &[Aval], caller: Loc) -> ! {
    let names = operand_names(operands.len());
    throw(Error::Op(Box::new(OpError {
        kind: error.kind,
        primitive: name.to_string(),
        message: error.message,
        operands: names.into_iter().zip(operands.iter().cloned()).collect(),
        note: error.note,
        location: LOCATION.get().or(caller),
        path: path(),
        help: error.help,
    })))
}

/// An operation error without operands.
pub(crate) fn op_error(
    kind: OpErrorKind,
    name: &str,
    message: impl Into<String>,
    caller: Loc,
) -> Error {
    Error::Op(Box::new(OpError {
        kind,
        primitive: name.to_string(),
        message: message.into(),
        operands: Vec::new(),
        note: None,
        location: LOCATION.get().or(caller),
        path: path(),
        help: None,
    }))
}

/// What a rule finds wrong, as an error of `name`, without operands.
pub(crate) fn rule_error(name: &str, error: RuleError, caller: Loc) -> Error {
    let found = op_error(error.kind, name, error.message, caller);
    match &error.help {
        Some(help) => found.with_help(help),
        None => found,
    }
}

/// Throws an operation error without operands.
pub(crate) fn throw_op(kind: OpErrorKind, name: &str, message: String, caller: Loc) -> ! {
    throw(op_error(kind, name, message, caller))
}

/// Throws what a function built from operations finds wrong with its operands, with the caller's
/// location and the transforms that are being traced added. `name` is the function's.
///
/// ```
/// use oxidax::core::{Array, RuleError, throw_operands};
///
/// #[track_caller]
/// fn norm_squared(x: &Array) -> Array {
///     if x.rank() != 1 {
///         let error = RuleError::shape(format!("needs a vector, got {} axes", x.rank()));
///         throw_operands("norm_squared", error, &[x]);
///     }
///     oxidax::primitives::reduce_sum(&(x * x), &[0])
/// }
/// ```
#[track_caller]
pub fn throw_operands(name: &str, error: RuleError, operands: &[&Array]) -> ! {
    let avals: Vec<Aval> = operands.iter().map(|array| array.aval().clone()).collect();
    throw_rule(name, error, &avals, Some(Location::caller()))
}

fn throw_escaped(array: &Array, caller: Loc) -> ! {
    throw(escaped_error_at(array, caller))
}

/// The error of using a traced array where its trace is not.
#[track_caller]
pub(crate) fn escaped_error(array: &Array) -> Error {
    escaped_error_at(array, Some(Location::caller()))
}

fn escaped_error_at(array: &Array, caller: Loc) -> Error {
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
        location: LOCATION.get().or(caller),
        path: path(),
        help: help.into(),
    }))
}

/// Throws: a traced array was asked for elements.
pub(crate) fn throw_needs_value(
    aval: &Aval,
    wanted: &str,
    caller: &'static Location<'static>,
) -> ! {
    throw(Error::Tracer(Box::new(TracerError {
        message: format!("asked for {wanted} of a traced array, which has none while tracing"),
        aval: aval.clone(),
        location: Some(caller),
        path: path(),
        help: "choose with `where_` or `cond`, pass the value as a static argument, or return the \
               array and read it outside"
            .into(),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_panic_leaves_the_stack_empty_and_passes_through() {
        let outcome = catch_unwind(|| {
            let _ = catch(|| {
                let _tracing = Tracing::begin(Mode::All, Some("jit(f)".into()));
                panic!("mine")
            });
        });
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"mine"));
        assert!(!is_tracing());
        assert_eq!(BOUNDARIES.get(), 0);
    }
}
