//! [`Ref`]: a block of memory that a kernel reads and writes.

use super::ref_index::{RefIndex, RefIndices, RefStart, Start};
use super::ref_ops::{AxisPart, AxisStart, RefGet, RefPart, RefSet};
use crate::core::{Array, Aval, DType, Kind, Loc, OpErrorKind, Shape, bind, trace};
use crate::primitives::{ArrayLike, Like, broadcast_to, convert_element_type, fill_of};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The purpose of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefRole {
    Prefetch(usize),
    Input(usize),
    Output(usize),
    Scratch(usize),
}

impl fmt::Display for RefRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefRole::Prefetch(index) => write!(f, "prefetched operand {index}"),
            RefRole::Input(index) => write!(f, "input {index}"),
            RefRole::Output(index) => write!(f, "output {index}"),
            RefRole::Scratch(index) => write!(f, "scratch {index}"),
        }
    }
}

/// A block of memory that a kernel reads and writes. Clones refer to the same memory.
///
/// A reference exists while its kernel is traced. The function that a reference is passed to may
/// keep it in closures given to [`when`](super::when), [`fori_loop`](super::fori_loop) and
/// [`while_loop`](super::while_loop), which may write to it.
#[derive(Clone)]
pub struct Ref {
    role: RefRole,
    aval: Aval,
    state: Rc<RefCell<Array>>,
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ref({}: {})", self.role, self.aval)
    }
}

impl Ref {
    pub(super) fn new(role: RefRole, state: Array) -> Ref {
        Ref { role, aval: state.aval().clone(), state: Rc::new(RefCell::new(state)) }
    }

    /// Returns true if the kernel may write to the reference.
    pub(super) fn is_writable(&self) -> bool {
        matches!(self.role, RefRole::Output(_) | RefRole::Scratch(_))
    }

    /// Returns the current state.
    pub(super) fn state(&self) -> Array {
        self.state.borrow().clone()
    }

    /// Replaces the state by the one that a loop or a condition returned.
    pub(super) fn replace_state(&self, state: Array) {
        self.state.replace(state);
    }

    /// Returns the shape of the block, without squeezed axes.
    pub fn shape(&self) -> &Shape {
        &self.aval.shape
    }

    /// Returns the sizes of the block's `N` axes.
    ///
    /// Throws `Op` (shape) if it has another number of axes.
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [usize; N] {
        match self.aval.shape.dims().try_into() {
            Ok(dims) => dims,
            Err(_) => {
                let message = format!("{N} axes expected, the block is {}", self.aval);
                trace::throw_op(OpErrorKind::Shape, "Ref::dims", message, Loc::caller())
            }
        }
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.aval.dtype
    }

    /// Reads all elements.
    #[track_caller]
    pub fn load(&self) -> Array {
        self.whole().load()
    }

    /// Writes all elements. The value broadcasts to the shape of the block.
    ///
    /// Throws `Op` (dtype) if the value has another dtype, `Op` (shape) if it does not broadcast,
    /// and `Op` (value) for an input.
    #[track_caller]
    pub fn store(&self, value: impl ArrayLike) {
        self.whole().store(value);
    }

    /// Adds to all elements.
    ///
    /// Throws as [`Ref::store`] does.
    #[doc(alias = "+=")]
    #[track_caller]
    pub fn add_assign(&self, value: impl ArrayLike) {
        self.whole().add_assign(value);
    }

    /// Writes all elements, and returns the previous ones.
    ///
    /// Throws as [`Ref::store`] does.
    #[track_caller]
    pub fn swap(&self, value: impl ArrayLike) -> Array {
        self.whole().swap(value)
    }

    #[track_caller]
    fn whole(&self) -> RefView<'_> {
        self.at([])
    }

    /// Selects a part: one entry for each axis, as a tuple. See [`RefIndices`].
    ///
    /// Throws `Op` (shape) for more entries than axes and for numbers beyond the block, and `Op`
    /// (value) for indices that are not integers.
    #[track_caller]
    pub fn at(&self, indices: impl RefIndices) -> RefView<'_> {
        let entries = indices.into_entries();
        if entries.len() > self.aval.rank() {
            let message = format!("{} indices for a block of {}", entries.len(), self.aval);
            trace::throw_op(OpErrorKind::Shape, "Ref::at", message, Loc::caller());
        }
        let mut starts = Vec::new();
        let mut axes = Vec::with_capacity(self.aval.rank());
        for (axis, &size) in self.aval.shape.iter().enumerate() {
            let part = match entries.get(axis) {
                None | Some(RefIndex::Full) => whole_axis(size),
                Some(RefIndex::At(start)) => AxisPart::At(axis_start(start, &mut starts)),
                Some(RefIndex::Slice { start, size, stride }) => AxisPart::Slice {
                    start: axis_start(start, &mut starts),
                    size: *size,
                    stride: *stride,
                },
                Some(&RefIndex::Range(start, end)) => range_of(start, end, size),
            };
            axes.push(part);
        }
        RefView { target: self, part: RefPart { axes, masked: false }, starts }
    }

    /// Throws if the kernel must not write here and now.
    fn check_write(&self, next: &Array, name: &str, loc: Loc) {
        let trace_of = |array: &Array| match array.kind {
            Kind::Traced { trace, .. } => Some(trace),
            Kind::Concrete(_) => None,
        };
        if trace_of(next) != trace_of(&self.state.borrow()) {
            let message = format!(
                "{} is written inside of a function that another operation traces",
                self.role
            );
            let help = "write inside of `kernel::when`, `kernel::fori_loop` or \
                        `kernel::while_loop`, or return the value from the function and write it \
                        outside";
            let error = trace::op_error(OpErrorKind::Value, name, message, loc);
            trace::throw(error.with_help(help));
        }
    }
}

fn whole_axis(size: usize) -> AxisPart {
    AxisPart::Slice { start: AxisStart::Static(0), size, stride: 1 }
}

/// Returns the start, and adds one that the kernel computes to the operands.
fn axis_start(start: &Start, starts: &mut Vec<Array>) -> AxisStart {
    match &start.0 {
        RefStart::Static(start) => AxisStart::Static(*start),
        RefStart::Dynamic(start) => {
            starts.push(start.clone());
            AxisStart::Dynamic
        }
    }
}

/// Returns the indices of a range along an axis of `size`. An end beyond the axis is an error of
/// the operation.
fn range_of(start: usize, end: Option<usize>, size: usize) -> AxisPart {
    let size = end.unwrap_or(size).saturating_sub(start);
    AxisPart::Slice { start: AxisStart::Static(start), size, stride: 1 }
}

/// A part of a [`Ref`], returned by [`Ref::at`].
#[derive(Debug)]
pub struct RefView<'a> {
    target: &'a Ref,
    part: RefPart,
    starts: Vec<Array>,
}

impl RefView<'_> {
    /// Reads the part.
    #[track_caller]
    pub fn load(&self) -> Array {
        let state = self.target.state();
        let operands: Vec<&Array> = std::iter::once(&state).chain(&self.starts).collect();
        bind(RefGet { part: self.part.clone() }, &operands).swap_remove(0)
    }

    /// Reads the elements that `mask` marks. The others are `other`, and their memory is not read.
    ///
    /// Throws `Op` if `mask` or `other` do not broadcast to the part, or have another dtype.
    #[track_caller]
    pub fn load_masked(&self, mask: &Array, other: impl ArrayLike) -> Array {
        let state = self.target.state();
        let mask = broadcast_to(mask, self.part.shape());
        let other = self.value(other.like(), "load_masked");
        let mut operands: Vec<&Array> = std::iter::once(&state).chain(&self.starts).collect();
        operands.extend([&mask, &other]);
        let part = RefPart { masked: true, ..self.part.clone() };
        bind(RefGet { part }, &operands).swap_remove(0)
    }

    /// Writes the part. The value broadcasts to its shape.
    ///
    /// Throws as [`Ref::store`] does.
    #[track_caller]
    pub fn store(&self, value: impl ArrayLike) {
        self.write(value.like(), None, "store");
    }

    /// Writes the elements that `mask` marks.
    ///
    /// Throws as [`Ref::store`] does.
    #[track_caller]
    pub fn store_masked(&self, value: impl ArrayLike, mask: &Array) {
        let mask = broadcast_to(mask, self.part.shape());
        self.write(value.like(), Some(mask), "store_masked");
    }

    /// Adds to the part.
    ///
    /// Throws as [`Ref::store`] does.
    #[track_caller]
    pub fn add_assign(&self, value: impl ArrayLike) {
        let sum = self.load() + self.value(value.like(), "add_assign");
        self.store(&sum);
    }

    /// Writes the part, and returns its previous elements.
    ///
    /// Throws as [`Ref::store`] does.
    #[track_caller]
    pub fn swap(&self, value: impl ArrayLike) -> Array {
        let previous = self.load();
        self.store(value);
        previous
    }

    /// Converts a value to the shape of the part. Numbers take its dtype.
    #[track_caller]
    fn value(&self, value: Like<'_>, name: &str) -> Array {
        let (shape, dtype) = (self.part.shape(), self.target.dtype());
        let value = match value {
            Like::Scalar(number) => fill_of(number, &Aval::new(dtype, shape.clone())),
            Like::Array(x) if x.aval().weak => convert_element_type(x, dtype),
            Like::Array(x) => x.clone(),
        };
        if value.dtype() != dtype {
            let message = format!("{} is {}, the value {}", self.target.role, dtype, value.aval());
            let error = trace::op_error(OpErrorKind::DType, name, message, Loc::caller());
            let help = format!("convert the value: `astype(DType::{dtype:?})`");
            trace::throw(error.with_help(&help));
        }
        if value.shape() == &shape { value } else { broadcast_to(&value, shape) }
    }

    #[track_caller]
    fn write(&self, value: Like<'_>, mask: Option<Array>, name: &str) {
        let loc = Loc::caller();
        if !self.target.is_writable() {
            let message = format!("{} cannot be written", self.target.role);
            let error = trace::op_error(OpErrorKind::Value, name, message, loc);
            trace::throw(error.with_help(
                "write to an output; `Kernel::alias` lets it share the memory of an input",
            ));
        }
        let value = self.value(value, name);
        let state = self.target.state();
        let mut operands: Vec<&Array> = [&state, &value].into_iter().chain(&self.starts).collect();
        operands.extend(&mask);
        let part = RefPart { masked: mask.is_some(), ..self.part.clone() };
        let next = bind(RefSet { part }, &operands).swap_remove(0);
        self.target.check_write(&next, name, loc);
        self.target.replace_state(next);
    }
}
