//! The primitives `ref_get` and `ref_set`, which read and write the state of a reference.
//!
//! A reference is a value in a program: `ref_get` takes its state, and `ref_set` returns the next
//! one. So programs of kernels have no side effects, and every pass works on them. A kernel uses
//! only the last state, therefore all states of a reference share one memory.

use crate::control_flow::{Call, batch_call, jvp_call, transpose_call};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, JvpResult, LowerCtx, Operand, Primitive, Program,
    RuleError, RuleResult, Scalar, Shape, Tangent, bind,
};
use crate::ensure_shape;
use crate::ops::{Index, strided};
use crate::primitives::{
    DynamicSlice, DynamicUpdateSlice, convert_element_type, fill_of, reshape, slice, where_,
};
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// The first index along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AxisStart {
    /// This number.
    Static(usize),
    /// An operand of the operation: the next one, in the order of the axes.
    Dynamic,
}

/// The indices along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AxisPart {
    /// One index. The result lacks the axis.
    At(AxisStart),
    /// Several indices.
    Slice {
        /// The first index.
        start: AxisStart,
        /// The number of indices.
        size: usize,
        /// The distance between two indices.
        stride: usize,
    },
}

impl AxisPart {
    /// Returns the first index.
    pub fn start(&self) -> AxisStart {
        match *self {
            AxisPart::At(start) | AxisPart::Slice { start, .. } => start,
        }
    }

    /// Returns the number of indices.
    pub fn size(&self) -> usize {
        match *self {
            AxisPart::At(_) => 1,
            AxisPart::Slice { size, .. } => size,
        }
    }

    /// Returns the distance between two indices.
    pub fn stride(&self) -> usize {
        match *self {
            AxisPart::At(_) => 1,
            AxisPart::Slice { stride, .. } => stride,
        }
    }

    /// Returns the number of indices from the first to the last.
    pub fn extent(&self) -> usize {
        match self.size() {
            0 => 0,
            size => (size - 1) * self.stride() + 1,
        }
    }
}

/// The part of a reference that an operation reads or writes.
///
/// Prints as its indices, `?` for a start that is an operand: `[0..8, ?, ?+2:2]` are 8 indices from
/// 0 on, one index, and two indices that are 2 apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefPart {
    /// The indices along each axis.
    pub axes: Vec<AxisPart>,
    /// The operation takes a mask: elements that it does not mark are not read or written.
    pub masked: bool,
}

impl fmt::Display for AxisPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.start(), self) {
            (AxisStart::Static(start), AxisPart::At(_)) => write!(f, "{start}")?,
            (AxisStart::Dynamic, AxisPart::At(_)) => write!(f, "?")?,
            (AxisStart::Static(start), _) => write!(f, "{start}..{}", start + self.extent())?,
            (AxisStart::Dynamic, _) => write!(f, "?+{}", self.size())?,
        }
        match self.stride() {
            1 => Ok(()),
            stride => write!(f, ":{stride}"),
        }
    }
}

impl fmt::Display for RefPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(AxisPart::to_string).collect();
        let masked = if self.masked { " masked" } else { "" };
        write!(f, "[{}]{masked}", axes.join(", "))
    }
}

impl Serialize for RefPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl RefPart {
    /// Returns the part with all elements of `shape`.
    pub fn whole(shape: &Shape) -> RefPart {
        let all = |&size: &usize| AxisPart::Slice { start: AxisStart::Static(0), size, stride: 1 };
        RefPart { axes: shape.iter().map(all).collect(), masked: false }
    }

    /// Returns true if the part has all elements of `shape`.
    pub fn is_whole(&self, shape: &Shape) -> bool {
        *self == RefPart { masked: self.masked, ..RefPart::whole(shape) }
    }

    /// Returns the number of operands that are starts.
    pub fn n_starts(&self) -> usize {
        self.axes.iter().filter(|axis| axis.start() == AxisStart::Dynamic).count()
    }

    /// Returns the shape of the part.
    pub fn shape(&self) -> Shape {
        let kept = self.axes.iter().filter(|axis| matches!(axis, AxisPart::Slice { .. }));
        Shape::from(kept.map(AxisPart::size).collect::<Vec<_>>())
    }

    /// Returns the extents of the part along all axes.
    fn extents(&self) -> Vec<usize> {
        self.axes.iter().map(AxisPart::extent).collect()
    }

    fn is_strided(&self) -> bool {
        self.axes.iter().any(|axis| axis.stride() > 1)
    }

    /// Checks the state and the starts.
    fn check(&self, state: &Aval, starts: &[Aval]) -> RuleResult<()> {
        ensure_shape!(
            self.axes.len() == state.rank(),
            "takes one index per axis of {state}, got {}",
            self.axes.len()
        );
        for (number, (axis, &size)) in self.axes.iter().zip(state.shape.iter()).enumerate() {
            let extent = axis.extent();
            let last = match axis.start() {
                AxisStart::Static(start) => start + extent,
                AxisStart::Dynamic => extent,
            };
            ensure_shape!(
                last <= size,
                "indices up to {last} along axis {number}, which has {size} in {state}"
            );
        }
        for start in starts {
            if !start.shape.is_empty() || !start.dtype.is_integer() {
                return Err(RuleError::dtype(format!(
                    "a start index must be an integer scalar, got {start}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the starts of all axes, if none is an operand.
    fn static_starts(&self) -> Option<Vec<usize>> {
        let start = |axis: &AxisPart| match axis.start() {
            AxisStart::Static(start) => Some(start),
            AxisStart::Dynamic => None,
        };
        self.axes.iter().map(start).collect()
    }

    /// Returns the starts of all axes as arrays of `i32`.
    fn all_starts(&self, dynamic: &[Array]) -> Vec<Array> {
        let mut dynamic = dynamic.iter();
        let scalar = Aval::new(DType::I32, []);
        let start = |axis: &AxisPart| match axis.start() {
            AxisStart::Static(start) => fill_of(Scalar::Int(start as i128), &scalar),
            AxisStart::Dynamic => {
                let start = dynamic.next().expect("there is an operand for each dynamic start");
                convert_element_type(start, DType::I32)
            }
        };
        self.axes.iter().map(start).collect()
    }

    /// Returns the index of the elements within the part's extents.
    fn strides(&self) -> Vec<Index> {
        self.axes.iter().map(|axis| strided(.., axis.stride() as isize)).collect()
    }

    /// Reads the part of `state`, without its mask.
    fn read(&self, state: &Array, starts: &[Array]) -> Array {
        if self.is_whole(state.shape()) {
            return state.clone();
        }
        if let Some(first) = self.static_starts() {
            let ends: Vec<usize> =
                first.iter().zip(self.extents()).map(|(start, extent)| start + extent).collect();
            let strides: Vec<usize> = self.axes.iter().map(AxisPart::stride).collect();
            return reshape(&slice(state, &first, &ends, &strides), self.shape());
        }
        let starts = self.all_starts(starts);
        let slice = DynamicSlice { slice_sizes: self.extents() };
        let operands: Vec<&Array> = std::iter::once(state).chain(&starts).collect();
        let mut part = bind(slice, &operands).swap_remove(0);
        if self.is_strided() {
            part = part.index(self.strides());
        }
        reshape(&part, self.shape())
    }

    /// Writes `value` to the part of `state`.
    fn write(&self, state: &Array, value: &Array, starts: &[Array]) -> Array {
        if self.is_whole(state.shape()) {
            return value.clone();
        }
        let starts = self.all_starts(starts);
        let sizes: Vec<usize> = self.axes.iter().map(AxisPart::size).collect();
        let mut update = reshape(value, sizes);
        if self.is_strided() {
            let slice = DynamicSlice { slice_sizes: self.extents() };
            let operands: Vec<&Array> = std::iter::once(state).chain(&starts).collect();
            let old = bind(slice, &operands).swap_remove(0);
            update = old.at(self.strides()).set(&update);
        }
        let operands: Vec<&Array> = [state, &update].into_iter().chain(&starts).collect();
        bind(DynamicUpdateSlice, &operands).swap_remove(0)
    }
}

/// An operation on a reference, defined by ordinary operations.
trait RefOperation: Primitive + Clone {
    /// Computes the result from operands.
    fn compute(&self, operands: &[Array]) -> Array;

    fn program(&self, operands: &[Aval]) -> Arc<Program> {
        Arc::new(trace_rules(operands.iter().cloned(), |inputs| vec![self.compute(inputs)]))
    }

    fn call(&self, program: Arc<Program>) -> Call {
        Call { name: self.name().to_string(), program }
    }
}

fn avals_of(arrays: &[Array]) -> Vec<Aval> {
    arrays.iter().map(|array| array.aval().clone()).collect()
}

/// Reads a part of a reference.
///
/// | | |
/// |-|-|
/// | operands   | the state, one scalar `i32[]` per dynamic start, with a mask `bool[…]` and the value of elements that it does not mark |
/// | result     | the part, without the axes of single indices |
/// | lowering   | a load in a kernel; [`stablehlo.dynamic_slice`](https://openxla.org/stablehlo/spec#dynamic_slice) elsewhere |
/// | derivative | linear in the state |
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RefGet {
    /// The part.
    pub part: RefPart,
}

/// Writes a part of a reference, and returns the next state.
///
/// | | |
/// |-|-|
/// | operands   | the state, the value, one scalar `i32[]` per dynamic start, with a mask `bool[…]` |
/// | result     | the next state |
/// | lowering   | a store in a kernel; [`stablehlo.dynamic_update_slice`](https://openxla.org/stablehlo/spec#dynamic_update_slice) elsewhere |
/// | derivative | linear in the state and the value |
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RefSet {
    /// The part.
    pub part: RefPart,
}

impl RefOperation for RefGet {
    fn compute(&self, operands: &[Array]) -> Array {
        let starts = &operands[1..=self.part.n_starts()];
        let value = self.part.read(&operands[0], starts);
        match &operands[starts.len() + 1..] {
            [mask, other] => where_(mask, &value, other),
            _ => value,
        }
    }
}

impl RefOperation for RefSet {
    fn compute(&self, operands: &[Array]) -> Array {
        let starts = &operands[2..2 + self.part.n_starts()];
        let (state, value) = (&operands[0], &operands[1]);
        match &operands[starts.len() + 2..] {
            [mask] => {
                let value = where_(mask, value, self.part.read(state, starts));
                self.part.write(state, &value, starts)
            }
            _ => self.part.write(state, value, starts),
        }
    }
}

/// Checks a mask and a value against the shape of a part.
fn check_value(part: &RefPart, role: &str, value: &Aval, dtype: DType) -> RuleResult<()> {
    let expected = Aval::new(dtype, part.shape());
    ensure_shape!(
        value.shape == expected.shape && value.dtype == dtype,
        "the {role} must be {expected}, got {value}"
    );
    Ok(())
}

impl RefGet {
    fn result(&self, operands: &[Aval]) -> RuleResult<Aval> {
        let n_starts = self.part.n_starts();
        let expected = 1 + n_starts + if self.part.masked { 2 } else { 0 };
        ensure_shape!(
            operands.len() == expected,
            "takes {expected} operands, got {}",
            operands.len()
        );
        let state = &operands[0];
        self.part.check(state, &operands[1..=n_starts])?;
        if let [mask, other] = &operands[1 + n_starts..] {
            check_value(&self.part, "mask", mask, DType::Bool)?;
            check_value(&self.part, "value of elements that are not read", other, state.dtype)?;
        }
        Ok(state.with_shape(self.part.shape()))
    }
}

impl RefSet {
    fn result(&self, operands: &[Aval]) -> RuleResult<Aval> {
        let n_starts = self.part.n_starts();
        let expected = 2 + n_starts + usize::from(self.part.masked);
        ensure_shape!(
            operands.len() == expected,
            "takes {expected} operands, got {}",
            operands.len()
        );
        let state = &operands[0];
        self.part.check(state, &operands[2..2 + n_starts])?;
        check_value(&self.part, "value", &operands[1], state.dtype)?;
        if let [mask] = &operands[2 + n_starts..] {
            check_value(&self.part, "mask", mask, DType::Bool)?;
        }
        Ok(state.clone())
    }
}

macro_rules! ref_primitive {
    ($type:ty, $name:literal, $cost:expr) => {
        impl Primitive for $type {
            fn name(&self) -> &'static str {
                $name
            }
            fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
                Ok(vec![self.result(operands)?])
            }
            fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
                let program = self.program(&avals_of(primals));
                Ok(jvp_call(&program, primals, tangents, |program| self.call(program)))
            }
            fn batch(
                &self,
                operands: &[Array],
                axes: &[Option<usize>],
                axis: &BatchAxis,
            ) -> RuleResult<Batched> {
                let example = |(x, axis): (&Array, &Option<usize>)| match *axis {
                    Some(axis) => x.aval().without_axis(axis),
                    None => x.aval().clone(),
                };
                let avals: Vec<Aval> = operands.iter().zip(axes).map(example).collect();
                let program = self.program(&avals);
                Ok(batch_call(&program, operands, axes, axis, |program| self.call(program)))
            }
            fn lower(
                &self,
                ctx: &mut LowerCtx<'_>,
                operands: &[Value],
                _: &[Aval],
            ) -> RuleResult<Vec<Value>> {
                let avals: Vec<Aval> = operands.iter().map(aval_of).collect();
                ctx.inline(&self.program(&avals), operands)
            }
            fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
                let cost: fn(&$type, &[Aval], &[Aval]) -> Cost = $cost;
                cost(self, operands, results)
            }
            fn transpose(
                &self,
                cts: &[Tangent],
                operands: &[Operand],
            ) -> RuleResult<Vec<Option<Tangent>>> {
                let avals: Vec<Aval> =
                    operands.iter().map(|operand| operand.aval().clone()).collect();
                let program = self.program(&avals);
                Ok(transpose_call(&program, cts, operands, |program| self.call(program)))
            }
            fn is_opaque(&self) -> bool {
                true
            }
        }
    };
}

ref_primitive!(RefGet, "ref_get", |_, operands, results| Cost::part(operands, &results[0]));
ref_primitive!(RefSet, "ref_set", |_, operands, _| Cost::part(operands, &operands[1]));

/// Returns the type of a value in a module.
fn aval_of(value: &Value) -> Aval {
    let dtype = crate::primitives::rules::element_dtype(value);
    Aval::new(dtype, Shape::new(value.ty().dims()))
}
