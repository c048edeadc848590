//! [`Value`]: an array of a kernel's body, as a rule that computes its elements.

use super::indices::Index;
use super::text::{Element, Writer};
use crate::core::{DType, Loc, Scalar};
use crate::kernel::ref_ops::AxisPart;
use std::rc::Rc;

/// A function of elements. `None` is never returned for operands that were tried before.
pub(super) type Function = Rc<dyn Fn(&mut Writer, &[Element]) -> Option<Element>>;

/// An array whose elements are computed where they are used.
#[derive(Clone)]
pub(super) struct Value {
    /// A number that no other value has.
    pub(super) id: usize,
    pub(super) dtype: DType,
    pub(super) shape: Rc<[usize]>,
    pub(super) rule: Rc<Rule>,
    pub(super) loc: Loc,
}

impl Value {
    pub(super) fn n_elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// Memory whose elements a value reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Memory {
    /// The block of a prefetched operand, an input or an output, by number.
    Window(usize),
    /// Shared memory that keeps its elements for the whole kernel: scratch memory, by number.
    Scratch(usize),
    /// Shared memory from this byte on, written once in a program of the grid.
    Shared(usize),
}

/// The rule that computes the elements of a value.
pub(super) enum Rule {
    Fill(Scalar),
    /// A scalar that is known in the whole program of the grid.
    Scalar(Index),
    /// The index along an axis.
    Iota(usize),
    /// The elements of memory.
    Memory(Memory),
    /// A function of the elements of operands at the same index, or of scalars.
    Function {
        function: Function,
        operands: Vec<Value>,
    },
    /// Axis `i` of the operand is axis `axes[i]`; an axis of size 1 has one element for all.
    Broadcast {
        x: Value,
        axes: Vec<usize>,
    },
    Reshape(Value),
    /// Axis `i` is axis `axes[i]` of the operand.
    Transpose {
        x: Value,
        axes: Vec<usize>,
    },
    /// Indices along axes that count from the end.
    Reverse {
        x: Value,
        axes: Vec<usize>,
    },
    /// A part of the operand.
    Part {
        x: Value,
        part: Part,
    },
    /// The operand with another part, where the mask holds.
    Update {
        x: Value,
        part: Part,
        value: Value,
        mask: Option<Value>,
    },
    /// The operand within bounds, and a number elsewhere. `lows` is the index of its first element.
    Pad {
        x: Value,
        value: Value,
        lows: Vec<i64>,
    },
    /// Operands one after the other along an axis.
    Join {
        parts: Vec<Value>,
        axis: usize,
    },
    /// One of several values, by a scalar or an element of the same index.
    Branch {
        number: Value,
        branches: Vec<Value>,
    },
}

/// A part of an array: where it begins along each axis, and how it continues.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) axes: Vec<AxisPart>,
    /// The start along each axis.
    pub(super) starts: Vec<Start>,
}

/// The first index along an axis.
#[derive(Clone)]
pub(super) enum Start {
    Number(usize),
    /// A scalar, which is limited so that the part is inside of the array.
    Value(Value),
}

impl Part {
    /// Returns true if the axis is in the shape of the part.
    pub(super) fn keeps(&self, axis: usize) -> bool {
        matches!(self.axes[axis], AxisPart::Slice { .. })
    }
}
