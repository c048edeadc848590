//! Programs as values: every operation becomes the rule of a [`Value`].

use super::arithmetic;
use super::emitter::Emitter;
use super::text::{Element, Writer};
use super::value::{Function, Memory, Part, Rule, Start, Value};
use crate::control_flow::{Call, Cond, CustomJvp, CustomVjp, Remat};
use crate::core::{Aval, DType, Eqn, Primitive, Program, RuleResult, Scalar};
use crate::kernel::ref_ops::{AxisPart, AxisStart, RefGet, RefPart, RefSet};
use crate::kernel::triton::check_dtype;
use crate::primitives::{
    BroadcastInDim, Concatenate, DynamicSlice, DynamicUpdateSlice, Fill, Iota, Name,
    OptimizationBarrier, Pad, Reshape, Rev, Slice, SplitSizes, StopGradient, Transpose,
    Undifferentiable,
};
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

impl Emitter<'_> {
    /// Returns the values of a program's outputs. Reductions are written at once.
    pub(super) fn program(
        &mut self,
        program: &Program,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        program.try_interpret(inputs.iter().cloned(), |eqn, operands| {
            let operands: Vec<Value> = operands.iter().map(|&operand| operand.clone()).collect();
            let outer = self.loc;
            self.loc = eqn.loc.or(outer);
            let outer_text = self.text.set_loc(self.loc);
            let results = self.eqn(program, eqn, &operands);
            if results.is_err() {
                self.refused_at = self.refused_at.or(self.loc);
            }
            self.text.restore_loc(outer_text);
            self.loc = outer;
            results
        })
    }

    /// Returns a value of this type.
    pub(super) fn value(&mut self, dtype: DType, shape: &[usize], rule: Rule) -> Value {
        self.n_values += 1;
        Value { id: self.n_values, dtype, shape: shape.into(), rule: Rc::new(rule), loc: self.loc }
    }

    pub(super) fn fill(&mut self, number: Scalar, dtype: DType, shape: &[usize]) -> Value {
        self.value(dtype, shape, Rule::Fill(number))
    }

    pub(super) fn memory(&mut self, memory: Memory, dtype: DType, shape: &[usize]) -> Value {
        self.value(dtype, shape, Rule::Memory(memory))
    }

    /// Returns a function of operands of its shape, or scalars.
    pub(super) fn apply(
        &mut self,
        function: impl Fn(&mut Writer, &[Element]) -> Option<Element> + 'static,
        operands: &[&Value],
        (dtype, shape): (DType, &[usize]),
    ) -> Value {
        let function: Function = Rc::new(function);
        let operands = operands.iter().map(|&operand| operand.clone()).collect();
        self.value(dtype, shape, Rule::Function { function, operands })
    }

    pub(super) fn converted(&mut self, x: &Value, dtype: DType) -> Value {
        if x.dtype == dtype {
            return x.clone();
        }
        let function =
            move |of: &mut Writer, x: &[Element]| Some(arithmetic::convert(of, x.first()?, dtype));
        self.apply(function, &[x], (dtype, &x.shape.clone()))
    }

    /// Inserts axes of size 1, and repeats the elements along them.
    pub(super) fn broadcast(&mut self, x: &Value, axes: &[usize], shape: &[usize]) -> Value {
        self.value(x.dtype, shape, Rule::Broadcast { x: x.clone(), axes: axes.to_vec() })
    }

    fn eqn(&mut self, program: &Program, eqn: &Eqn, x: &[Value]) -> RuleResult<Vec<Value>> {
        let results: Vec<Aval> = eqn.results.iter().map(|&var| program.aval(var).clone()).collect();
        for result in &results {
            check_dtype(result.dtype)?;
        }
        let primitive = eqn.primitive.as_any();
        if let Some(get) = primitive.downcast_ref::<RefGet>() {
            return Ok(vec![self.ref_get(&get.part, x)]);
        }
        if let Some(set) = primitive.downcast_ref::<RefSet>() {
            return Ok(vec![self.ref_set(&set.part, x)]);
        }
        if let Some(results) = self.control(primitive, x)? {
            return Ok(results);
        }
        if let Some(results) = self.moved(primitive, x, &results) {
            return Ok(results);
        }
        if let Some(result) = self.reduction(primitive, x)? {
            return Ok(vec![result]);
        }
        match self.elementwise(&eqn.primitive, x, &results[0]) {
            Some(result) => Ok(vec![result]),
            None => {
                let avals: Vec<Aval> =
                    eqn.operands.iter().map(|&var| program.aval(var).clone()).collect();
                Err(super::unsupported(eqn.primitive.name(), &avals))
            }
        }
    }

    fn elementwise(
        &mut self,
        primitive: &Arc<dyn Primitive>,
        x: &[Value],
        result: &Aval,
    ) -> Option<Value> {
        let (owned, aval) = (primitive.clone(), result.clone());
        let function = move |of: &mut Writer, x: &[Element]| {
            arithmetic::function(of, owned.as_any(), x, &aval)
        };
        // The dtypes alone decide if there is such a function.
        let operand = |x: &Value| Element { name: "%x".to_string(), dtype: x.dtype };
        let trial: Vec<Element> = x.iter().map(operand).collect();
        let fits = |x: &Value| x.rank() == 0 || *x.shape == *result.shape;
        if !x.iter().all(fits) {
            return None;
        }
        function(&mut Writer::default(), &trial)?;
        let operands: Vec<&Value> = x.iter().collect();
        Some(self.apply(function, &operands, (result.dtype, &result.shape)))
    }

    /// Returns results of an operation that has programs, or `None` if it is another one.
    fn control(&mut self, primitive: &dyn Any, x: &[Value]) -> RuleResult<Option<Vec<Value>>> {
        let program = if let Some(of) = primitive.downcast_ref::<Call>() {
            Some(of.program.clone())
        } else if let Some(of) = primitive.downcast_ref::<CustomJvp>() {
            Some(of.function.program.clone())
        } else if let Some(of) = primitive.downcast_ref::<CustomVjp>() {
            Some(of.function.program.clone())
        } else {
            primitive.downcast_ref::<Remat>().map(|of| of.program.clone())
        };
        if let Some(program) = program {
            let n_inputs = program.inputs().len();
            return self.program(&program, &x[..n_inputs]).map(Some);
        }
        let Some(cond) = primitive.downcast_ref::<Cond>() else { return Ok(None) };
        let mut branches = Vec::new();
        for branch in &cond.branches {
            branches.push(self.program(branch, &x[1..])?);
        }
        let mut results = Vec::new();
        for output in 0..branches[0].len() {
            let values: Vec<Value> = branches.iter().map(|of| of[output].clone()).collect();
            results.push(self.branch(&x[0], values));
        }
        Ok(Some(results))
    }

    /// Returns one of several values, by the number of the branch or a mask.
    fn branch(&mut self, number: &Value, branches: Vec<Value>) -> Value {
        let first = branches[0].clone();
        if branches.iter().all(|branch| branch.id == first.id) {
            return first;
        }
        let rule = Rule::Branch { number: number.clone(), branches };
        self.value(first.dtype, &first.shape, rule)
    }

    /// Returns the part that an operation takes, from the operands that are starts.
    fn part(part: &RefPart, starts: &[Value]) -> Part {
        let mut starts = starts.iter();
        let start = |axis: &AxisPart| match axis.start() {
            AxisStart::Static(start) => Start::Number(start),
            AxisStart::Dynamic => {
                let start = starts.next().expect("there is an operand for a dynamic start");
                Start::Value(start.clone())
            }
        };
        Part { starts: part.axes.iter().map(start).collect(), axes: part.axes.clone() }
    }

    fn ref_get(&mut self, part: &RefPart, operands: &[Value]) -> Value {
        let (state, rest) = (&operands[0], &operands[1..]);
        let (starts, masked) = rest.split_at(part.n_starts());
        let is_whole = part.is_whole(&crate::core::Shape::from(state.shape.to_vec()));
        let value = match is_whole {
            true => state.clone(),
            false => {
                let rule = Rule::Part { x: state.clone(), part: Self::part(part, starts) };
                self.value(state.dtype, &part.shape(), rule)
            }
        };
        match masked {
            [mask, other] => self.branch(mask, vec![other.clone(), value]),
            _ => value,
        }
    }

    fn ref_set(&mut self, part: &RefPart, operands: &[Value]) -> Value {
        let [state, value, rest @ ..] = operands else {
            unreachable!("a write has a state and a value")
        };
        let (starts, mask) = rest.split_at(part.n_starts());
        let is_whole = part.is_whole(&crate::core::Shape::from(state.shape.to_vec()));
        match (is_whole, mask.first()) {
            (true, None) => value.clone(),
            (true, Some(mask)) => self.branch(mask, vec![state.clone(), value.clone()]),
            (false, mask) => {
                let rule = Rule::Update {
                    x: state.clone(),
                    part: Self::part(part, starts),
                    value: value.clone(),
                    mask: mask.cloned(),
                };
                self.value(state.dtype, &state.shape.clone(), rule)
            }
        }
    }

    /// Returns results of an operation that moves or creates elements, or `None`.
    fn moved(&mut self, primitive: &dyn Any, x: &[Value], results: &[Aval]) -> Option<Vec<Value>> {
        let (shape, dtype) = (results[0].shape.to_vec(), results[0].dtype);
        let is_identity = primitive.is::<OptimizationBarrier>()
            || primitive.is::<StopGradient>()
            || primitive.is::<Name>()
            || primitive.is::<Undifferentiable>();
        if is_identity {
            return Some(x.to_vec());
        }
        if let Some(split) = primitive.downcast_ref::<SplitSizes>() {
            let mut first = 0;
            let mut parts = Vec::new();
            for result in results {
                let mut starts = vec![0; shape.len()];
                starts[split.axis] = first;
                first += result.shape[split.axis];
                parts.push(self.slice(&x[0], &starts, None, &result.shape));
            }
            return Some(parts);
        }
        let value = if let Some(fill) = primitive.downcast_ref::<Fill>() {
            self.fill(fill.value, fill.dtype, &shape)
        } else if let Some(iota) = primitive.downcast_ref::<Iota>() {
            let index = self.value(DType::I32, &shape, Rule::Iota(iota.dimension));
            self.converted(&index, iota.dtype)
        } else if let Some(of) = primitive.downcast_ref::<BroadcastInDim>() {
            self.broadcast(&x[0], &of.broadcast_dimensions, &shape)
        } else if primitive.is::<Reshape>() {
            self.value(dtype, &shape, Rule::Reshape(x[0].clone()))
        } else if let Some(of) = primitive.downcast_ref::<Transpose>() {
            let axes = of.permutation.clone();
            self.value(dtype, &shape, Rule::Transpose { x: x[0].clone(), axes })
        } else if let Some(of) = primitive.downcast_ref::<Rev>() {
            let axes = of.dimensions.clone();
            self.value(dtype, &shape, Rule::Reverse { x: x[0].clone(), axes })
        } else if let Some(of) = primitive.downcast_ref::<Slice>() {
            self.slice(&x[0], &of.start_indices, Some(&of.strides), &shape)
        } else if primitive.is::<DynamicSlice>() {
            let part = whole_size(&shape, &x[1..]);
            self.value(dtype, &shape, Rule::Part { x: x[0].clone(), part })
        } else if primitive.is::<DynamicUpdateSlice>() {
            let part = whole_size(&x[1].shape, &x[2..]);
            let (value, mask) = (x[1].clone(), None);
            self.value(dtype, &shape, Rule::Update { x: x[0].clone(), part, value, mask })
        } else if let Some(of) = primitive.downcast_ref::<Concatenate>() {
            self.value(dtype, &shape, Rule::Join { parts: x.to_vec(), axis: of.dimension })
        } else if let Some(of) = primitive.downcast_ref::<Pad>() {
            if of.padding_config.iter().any(|axis| axis.interior > 0) {
                return None;
            }
            let lows = of.padding_config.iter().map(|axis| axis.low as i64).collect();
            self.value(dtype, &shape, Rule::Pad { x: x[0].clone(), value: x[1].clone(), lows })
        } else {
            return None;
        };
        Some(vec![value])
    }

    fn slice(
        &mut self,
        x: &Value,
        starts: &[usize],
        strides: Option<&[usize]>,
        shape: &[usize],
    ) -> Value {
        let axis = |axis: usize| AxisPart::Slice {
            start: AxisStart::Static(starts[axis]),
            size: shape[axis],
            stride: strides.map_or(1, |strides| strides[axis]),
        };
        let part = Part {
            axes: (0..shape.len()).map(axis).collect(),
            starts: starts.iter().map(|&start| Start::Number(start)).collect(),
        };
        self.value(x.dtype, shape, Rule::Part { x: x.clone(), part })
    }
}

/// Returns the part of these sizes, which starts at operands.
fn whole_size(sizes: &[usize], starts: &[Value]) -> Part {
    let axis = |&size: &usize| AxisPart::Slice { start: AxisStart::Dynamic, size, stride: 1 };
    Part {
        axes: sizes.iter().map(axis).collect(),
        starts: starts.iter().map(|start| Start::Value(start.clone())).collect(),
    }
}
