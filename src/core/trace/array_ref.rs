//! [`ArrayRef`]: a mutable reference to an array.
//!
//! Outside of every trace, and in the trace that created the reference, reads and writes act on the
//! value that it holds. A trace inside has its own view of the value ([`super::ref_frame`]), which
//! the function that traces turns into operands and results of its program.

use super::ref_frame::Refusal;
use super::tracing::{Builder, with_stack};
use crate::core::array::array::{Array, NO_TRACE};
use crate::core::error::loc::{Loc, path};
use crate::core::error::throw::{op_error, throw};
use crate::core::error::{Error, OpErrorKind, TracerError};
use crate::core::scoped::scoped;
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::shape::Shape;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The derivative of what is written to an [`ArrayRef`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefKind {
    /// Values that are read have the derivatives of those that were written.
    #[default]
    Differentiable,
    /// Written values are constant: their derivatives are dropped, as by
    /// [`stop_gradient`](crate::primitives::stop_gradient). For statistics and logs.
    #[doc(alias = "no_grad_no_remat")]
    NoGrad,
}

/// Mutable reference to an array: created by [`new_ref`](crate::ops::new_ref), read with
/// `get`, and written with `set`, `swap` and `addupdate`, also in functions under trace.
///
/// A clone refers to the same value. The dtype and the shape do not change. Reads and writes happen
/// in the order of the program. Functions under [`jit`](crate::jit::jit()) may capture a reference
/// or take one as an argument, and the bodies of loops and branches may capture one. What they
/// write is there afterwards. See [`new_ref`](crate::ops::new_ref) for the rules of each transform.
#[derive(Clone)]
#[doc(alias = "Ref")]
#[doc(alias = "AbstractRef")]
#[doc(alias = "MutableArray")]
pub struct ArrayRef {
    shared: Arc<Shared>,
}

struct Shared {
    /// Grows with each reference.
    id: u64,
    /// The trace that created the reference, or [`NO_TRACE`].
    home: u64,
    created: Loc,
    kind: RefKind,
    aval: Aval,
    state: Mutex<State>,
}

/// The state of a reference, with the line that ended it.
#[derive(Clone)]
enum State {
    Live(Array),
    Frozen(Loc),
    Freed(Loc),
}

/// An end of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefEnd {
    /// The value is returned.
    Freeze,
    /// The value is dropped.
    Free,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

scoped!(
    /// References with smaller ids cannot be used: they are outside of a rule that runs at another
    /// time than the function it belongs to.
    static OLDEST_USABLE: u64 = 0
);

scoped!(
    /// The references in the trees that are flattened; `None` if they are not collected.
    static COLLECTED: Option<Rc<RefCell<Vec<ArrayRef>>>> = None
);

/// Runs `f` and returns the references in the trees that it flattens, in order.
pub(crate) fn collect_refs<R>(f: impl FnOnce() -> R) -> (R, Vec<ArrayRef>) {
    let collected = Rc::new(RefCell::new(Vec::new()));
    let result = COLLECTED.scope(Some(collected.clone()), f);
    (result, collected.take())
}

/// Runs `f`, in which references that exist already cannot be used.
pub(crate) fn without_outer_refs<R>(f: impl FnOnce() -> R) -> R {
    OLDEST_USABLE.scope(NEXT_ID.load(Ordering::Relaxed), f)
}

/// Returns true if a reference was ever created in this process.
pub(crate) fn refs_exist() -> bool {
    NEXT_ID.load(Ordering::Relaxed) > 1
}

impl ArrayRef {
    /// Creates a reference, in the innermost trace, to a value that is not weakly typed.
    pub(crate) fn create(value: Array, kind: RefKind, created: Loc) -> ArrayRef {
        let home = with_stack(|stack| stack.last().map_or(NO_TRACE, Builder::id));
        ArrayRef::with_home(value, kind, created, home)
    }

    fn with_home(value: Array, kind: RefKind, created: Loc, home: u64) -> ArrayRef {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let aval = value.aval().clone();
        let state = Mutex::new(State::Live(value));
        ArrayRef { shared: Arc::new(Shared { id, home, created, kind, aval, state }) }
    }

    /// Returns the type of the value, as it was when the reference was created.
    pub fn aval(&self) -> &Aval {
        &self.shared.aval
    }

    /// Returns the dtype of the value.
    pub fn dtype(&self) -> DType {
        self.shared.aval.dtype
    }

    /// Returns the shape of the value.
    pub fn shape(&self) -> &Shape {
        &self.shared.aval.shape
    }

    /// Returns the kind that the reference was created with.
    pub fn kind(&self) -> RefKind {
        self.shared.kind
    }

    /// Returns true if both refer to one value.
    pub fn same_ref(&self, other: &ArrayRef) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the line that created the reference.
    pub(crate) fn created(&self) -> Loc {
        self.shared.created
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value in the innermost trace.
    pub(crate) fn read(&self, operation: &str, loc: Loc) -> Array {
        self.expect_usable(operation, loc);
        match with_stack(|stack| self.read_in(stack)) {
            Ok(value) => value,
            Err(refusal) => throw(self.refused(refusal, operation, loc)),
        }
    }

    /// Replaces the value in the innermost trace by one of the same dtype and shape.
    pub(crate) fn write(&self, value: Array, operation: &str, loc: Loc) {
        self.expect_usable(operation, loc);
        debug_assert!(!value.aval().weak && value.shape() == self.shape());
        if let Err(refusal) = with_stack(|stack| self.write_in(stack, value, loc)) {
            throw(self.refused(refusal, operation, loc));
        }
    }

    /// Ends the reference and returns its value.
    ///
    /// Throws `Op` (value) outside of the trace that created it.
    pub(crate) fn end(&self, how: RefEnd, loc: Loc) -> Array {
        let operation = if how == RefEnd::Freeze { "freeze" } else { "free_ref" };
        self.expect_usable(operation, loc);
        let is_home = with_stack(|stack| {
            self.first_view(stack).is_ok_and(|first| first == stack.len())
                && !stack.last().is_some_and(|top| top.refs.is_argument(self))
        });
        if !is_home {
            let message = "a reference from outside cannot end inside of a function under trace";
            let error = op_error(OpErrorKind::Value, operation, message, loc);
            throw(error.with_help(&format!(
                "end it in the function that creates it{}, after the call",
                at_line(self.created())
            )));
        }
        let value = self.read(operation, loc);
        let ended = match how {
            RefEnd::Freeze => State::Frozen(loc),
            RefEnd::Free => State::Freed(loc),
        };
        let replaced = std::mem::replace(&mut *self.state(), ended);
        drop(replaced);
        value
    }

    /// Returns the error of using the reference if it has ended.
    pub(crate) fn ended(&self, operation: &str, loc: Loc) -> Option<Error> {
        let (verb, at) = match *self.state() {
            State::Live(_) => return None,
            State::Frozen(at) => ("frozen", at),
            State::Freed(at) => ("freed", at),
        };
        let message = format!("the reference to {} was {verb}{}", self.aval(), at_line(at));
        let error = op_error(OpErrorKind::Value, operation, message, loc);
        Some(error.with_help("use it before it ends, or create another one with `new_ref`"))
    }

    fn expect_usable(&self, operation: &str, loc: Loc) {
        if let Some(error) = self.ended(operation, loc) {
            throw(error);
        }
        if self.shared.id < OLDEST_USABLE.get() {
            throw(self.refused(Refusal::Closed, operation, loc));
        }
    }

    /// Returns the position in the stack of the first trace inside the one that created the
    /// reference.
    fn first_view(&self, stack: &[Builder]) -> Result<usize, Refusal> {
        if self.shared.home == NO_TRACE {
            return Ok(0);
        }
        let home = stack.iter().rposition(|builder| builder.id() == self.shared.home);
        home.map(|home| home + 1).ok_or(Refusal::Escaped)
    }

    fn held(&self) -> Result<Array, Refusal> {
        match &*self.state() {
            State::Live(value) => Ok(value.clone()),
            _ => Err(Refusal::Escaped),
        }
    }

    fn read_in(&self, stack: &mut [Builder]) -> Result<Array, Refusal> {
        let first = self.first_view(stack)?;
        let mut value = self.held()?;
        for builder in &mut stack[first..] {
            value = builder.view_of(self, value)?;
        }
        Ok(value)
    }

    fn write_in(&self, stack: &mut [Builder], value: Array, loc: Loc) -> Result<(), Refusal> {
        self.read_in(stack)?;
        let first = self.first_view(stack)?;
        for builder in &stack[first..] {
            builder.refs.expect_writable()?;
        }
        match stack[first..].last_mut() {
            Some(top) => top.refs.write(self, value, loc),
            None => *self.state() = State::Live(value),
        }
        Ok(())
    }

    /// Returns the value in the trace that created the reference.
    pub(super) fn value_at_home(&self) -> Array {
        self.held().expect("a reference that is an argument does not end inside the function")
    }

    /// Returns the value in the innermost trace, without making it an operand of any trace.
    fn peek(&self) -> Option<Array> {
        with_stack(|stack| {
            let first = self.first_view(stack).ok()?;
            let seen = stack[first..].iter().rev().find_map(|builder| builder.refs.seen(self));
            seen.or_else(|| self.held().ok())
        })
    }

    /// Returns the value as a leaf of a tree, and notes the reference if references are collected.
    pub(crate) fn flattened(&self) -> Array {
        COLLECTED.with(|collected| {
            if let Some(collected) = collected {
                collected.borrow_mut().push(self.clone());
            }
        });
        self.read("flatten", Loc::scoped())
    }

    /// Returns the reference of a rebuilt tree, whose leaf is `leaf`.
    ///
    /// If the leaf is an input of the innermost trace, the tree is an argument of the traced
    /// function, and the result is a reference inside that function, whose final value is that of
    /// this one after the call. If the leaf is the present value, the result is this reference.
    /// Otherwise it is a new one.
    pub(crate) fn rebuilt(&self, leaf: Array) -> ArrayRef {
        let created = self.created();
        let argument = with_stack(|stack| {
            let top = stack.last_mut()?;
            let home = top.id();
            if self.shared.home == home {
                return None;
            }
            let input = top.position_of_input(&leaf)?;
            let local = || ArrayRef::with_home(leaf.clone(), self.kind(), created, home);
            Some(top.refs.argument(self, input, local))
        });
        if let Some(local) = argument {
            return local;
        }
        let is_present = |value: Array| super::tracing::same_value(&value, &leaf);
        if self.peek().is_some_and(is_present) {
            return self.clone();
        }
        ArrayRef::create(leaf, self.kind(), created)
    }

    /// Builds the error of an access that a trace refuses.
    fn refused(&self, refusal: Refusal, operation: &str, loc: Loc) -> Error {
        let created = at_line(self.created());
        let (message, help) = match refusal {
            Refusal::Escaped => {
                return Error::Tracer(Box::new(TracerError {
                    message: format!(
                        "a reference was used outside of the trace that created it{created}"
                    ),
                    aval: self.aval().clone(),
                    loc: Loc::scoped().or(loc),
                    path: path(),
                    help: "return its value, `freeze(&r)`, from the traced function".into(),
                }));
            }
            Refusal::Closed => (
                format!(
                    "the reference to {}, created{created}, is outside of a function that runs at \
                     another time, such as a rule of `custom_vjp`",
                    self.aval()
                ),
                "pass the value as an argument, or create the reference inside the function",
            ),
            Refusal::ReadOnly => (
                format!(
                    "the reference to {}, created{created}, is written in a function that cannot \
                     write references from outside, because it may run another number of times",
                    self.aval()
                ),
                "return the value and write it outside, or create the reference in the function",
            ),
        };
        op_error(OpErrorKind::Unsupported, operation, message, loc).with_help(help)
    }
}

/// Returns ` at file:line:column`, or nothing for an unknown line.
pub(super) fn at_line(loc: Loc) -> String {
    if loc.get().is_some() { format!(" at {loc}") } else { String::new() }
}

impl fmt::Debug for ArrayRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ArrayRef {
    /// Writes the type: `Ref(f32[3])`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({})", self.aval())
    }
}
