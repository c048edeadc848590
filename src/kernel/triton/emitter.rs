//! The state of the emitter, and the evaluation of programs.

use super::ir::{Tensor, Writer, check_dtype};
use super::{MAX_ELEMENTS, unsupported};
use crate::core::{Aval, DType, Eqn, Loc, Program, RuleError, RuleResult};
use crate::kernel::kernel_call::{BlockMapping, KernelCall};
use crate::kernel::ref_ops::{AxisPart, RefGet, RefPart, RefSet};
use crate::kernel::spec::{BlockDim, DimensionSemantics, Scratch};

/// A window in memory, at the block of the current program.
#[derive(Clone, Debug)]
pub(super) struct MemoryWindow {
    /// The argument of the function.
    pub(super) pointer: String,
    pub(super) array: Aval,
    pub(super) block: Vec<BlockDim>,
    /// The index of the first element of the block along each axis; `None` is 0.
    pub(super) starts: Vec<Option<Tensor>>,
}

/// A value of a program of a kernel.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Tensor(Tensor),
    /// The state of a reference whose elements are in memory: its number among prefetched operands,
    /// inputs, outputs and scratch memories.
    Memory(usize),
}

/// The state of the emitter.
pub(super) struct Emitter<'a> {
    pub(super) kernel: &'a KernelCall,
    pub(super) ir: Writer,
    /// The windows of prefetched operands, inputs, outputs and scratch memory that is in memory.
    pub(super) windows: Vec<MemoryWindow>,
    /// Marks the outputs, then the scratch memories, whose state is in memory.
    pub(super) in_memory: Vec<bool>,
    /// The output or scratch memory of which the kernel writes parts, if the writer must start
    /// again with its state in memory.
    pub(super) move_to_memory: Option<usize>,
    /// The location of the operation that was refused.
    pub(super) refused_at: Loc,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(kernel: &'a KernelCall, in_memory: &[bool]) -> Emitter<'a> {
        let prefetched = kernel.body.avals_in();
        let prefetched = &prefetched[kernel.rank()..kernel.first_input()];
        let whole = |array: &Aval| (array.clone(), array.shape.iter().map(|&n| n.into()).collect());
        let of = |window: &BlockMapping| (window.array.clone(), window.block.clone());
        let all = prefetched.iter().map(whole);
        let all = all.chain(kernel.inputs.iter().chain(&kernel.outputs).map(of));
        let workspaces = workspaces(kernel, in_memory).into_iter().map(|array| {
            let sizes = array.shape.iter().skip(1).map(|&n| n.into());
            let block = std::iter::once(BlockDim::Squeezed).chain(sizes).collect();
            (array, block)
        });
        let all = all.chain(workspaces);
        let window = |(index, (array, block)): (usize, (Aval, Vec<BlockDim>))| MemoryWindow {
            pointer: format!("%arg{index}"),
            starts: vec![None; array.rank()],
            array,
            block,
        };
        Emitter {
            kernel,
            ir: Writer::default(),
            windows: all.enumerate().map(window).collect(),
            in_memory: in_memory.to_vec(),
            move_to_memory: None,
            refused_at: Loc::UNKNOWN,
        }
    }

    /// Writes a program. Returns the values of its outputs.
    pub(super) fn program(
        &mut self,
        program: &Program,
        inputs: &[Value],
    ) -> RuleResult<Vec<Value>> {
        program.try_interpret(inputs.iter().cloned(), |eqn, operands| {
            let operands: Vec<Value> = operands.iter().map(|&operand| operand.clone()).collect();
            let outer = self.ir.loc;
            self.ir.loc = eqn.loc.or(outer);
            let results = self.eqn(program, eqn, &operands);
            let result = results.and_then(|results| self.check_size().map(|()| results));
            if result.is_err() {
                self.refused_at = self.refused_at.or(self.ir.loc);
            }
            self.ir.loc = outer;
            result
        })
    }

    /// Refuses tensors that Triton does not have.
    pub(super) fn check_size(&self) -> RuleResult<()> {
        let (n_elements, shape, _) = &self.ir.largest;
        if *n_elements <= MAX_ELEMENTS {
            return Ok(());
        }
        Err(RuleError::shape(format!(
            "a value of shape {shape:?} takes {n_elements} elements on a GPU, where sizes are \
             powers of two, and the most is {MAX_ELEMENTS}"
        ))
        .help("choose smaller blocks"))
    }

    fn eqn(&mut self, program: &Program, eqn: &Eqn, operands: &[Value]) -> RuleResult<Vec<Value>> {
        let results: Vec<Aval> = eqn.results.iter().map(|&var| program.aval(var).clone()).collect();
        for result in &results {
            check_dtype(result.dtype)?;
        }
        let primitive = eqn.primitive.as_any();
        if let Some(get) = primitive.downcast_ref::<RefGet>() {
            return Ok(vec![Value::Tensor(self.ref_get(&get.part, operands)?)]);
        }
        if let Some(set) = primitive.downcast_ref::<RefSet>() {
            return Ok(vec![self.ref_set(&set.part, operands)?]);
        }
        if let Some(results) = self.control(primitive, operands)? {
            return Ok(results);
        }
        let avals: Vec<Aval> = eqn.operands.iter().map(|&var| program.aval(var).clone()).collect();
        let refuse = || unsupported(eqn.primitive.name(), &avals);
        let tensors: Option<Vec<Tensor>> = operands
            .iter()
            .map(|operand| match operand {
                Value::Tensor(tensor) => Some(tensor.clone()),
                Value::Memory(_) => None,
            })
            .collect();
        let tensors = tensors.ok_or_else(refuse)?;
        let result = match self.arrays(primitive, &tensors, &results)? {
            Some(results) => return Ok(results.into_iter().map(Value::Tensor).collect()),
            None => match self.products(primitive, &tensors, &results[0])? {
                Some(result) => Some(result),
                None => match self.reductions(primitive, &tensors)? {
                    Some(result) => Some(result),
                    None => self.elementwise(primitive, &tensors, &results[0])?,
                },
            },
        };
        let mut result = result.ok_or_else(refuse)?;
        result.output = None;
        Ok(vec![Value::Tensor(result)])
    }

    /// Returns operands that are tensors.
    pub(super) fn tensors(operands: &[Value]) -> Vec<Tensor> {
        let tensor = |operand: &Value| match operand {
            Value::Tensor(tensor) => Some(tensor.clone()),
            Value::Memory(_) => None,
        };
        operands.iter().filter_map(tensor).collect()
    }

    fn ref_get(&mut self, part: &RefPart, operands: &[Value]) -> RuleResult<Tensor> {
        let rest = Self::tensors(&operands[1..]);
        let (starts, masked) = rest.split_at(part.n_starts());
        let masked = match masked {
            [mask, other] => Some((mask, other)),
            _ => None,
        };
        match &operands[0] {
            Value::Memory(number) => {
                let window = self.windows[*number].clone();
                Ok(self.load(&window, part, starts, masked))
            }
            Value::Tensor(state) => {
                let mut value = self.part_of_tensor(state, part, starts)?;
                if let Some((mask, other)) = masked {
                    value = self.ir.select(mask, &value, other);
                }
                value.output = None;
                Ok(value)
            }
        }
    }

    fn ref_set(&mut self, part: &RefPart, operands: &[Value]) -> RuleResult<Value> {
        let rest = Self::tensors(&operands[2..]);
        let (starts, mask) = rest.split_at(part.n_starts());
        let Value::Tensor(value) = &operands[1] else {
            return Err(RuleError::value("the value is the state of a reference"));
        };
        match &operands[0] {
            Value::Memory(number) => {
                let window = self.windows[*number].clone();
                self.store(&window, part, starts, value, mask.first());
                // A later read or write may be of the same elements by other threads.
                self.ir.effect("gpu.barrier");
                Ok(Value::Memory(*number))
            }
            Value::Tensor(state) => {
                let is_whole = part.is_whole(&crate::core::Shape::from(state.shape.clone()));
                if let (false, Some(output)) = (is_whole, state.output) {
                    self.move_to_memory = Some(output);
                    return Err(RuleError::value(
                        "a part of an output or scratch memory is written",
                    ));
                }
                let mut next = match is_whole {
                    true => value.clone(),
                    false => self.with_part(state, part, starts, value)?,
                };
                if let Some(mask) = mask.first() {
                    let mask = match is_whole {
                        true => mask.clone(),
                        false => {
                            let none = self.ir.int(0, DType::Bool, &state.shape);
                            self.with_part(&none, part, starts, mask)?
                        }
                    };
                    next = self.ir.select(&mask, &next, state);
                }
                next.output = state.output;
                Ok(Value::Tensor(next))
            }
        }
    }

    /// Returns the start of each axis of a part.
    pub(super) fn starts_of_part(&mut self, part: &RefPart, starts: &[Tensor]) -> Vec<Tensor> {
        let mut starts = starts.iter();
        let mut all = Vec::with_capacity(part.axes.len());
        for axis in &part.axes {
            use crate::kernel::ref_ops::AxisStart;
            all.push(match axis.start() {
                AxisStart::Static(start) => self.ir.int(start as i128, DType::I32, &[]),
                AxisStart::Dynamic => {
                    let start = starts.next().expect("there is an operand for a dynamic start");
                    match start.dtype.bits() {
                        64 => self.ir.cast("arith.trunci", start, DType::I32),
                        32 => start.clone(),
                        _ => self.ir.cast("arith.extsi", start, DType::I32),
                    }
                }
            });
        }
        all
    }

    /// Reads a part of a tensor.
    fn part_of_tensor(
        &mut self,
        state: &Tensor,
        part: &RefPart,
        starts: &[Tensor],
    ) -> RuleResult<Tensor> {
        let firsts = self.starts_of_part(part, starts);
        let mut value = state.clone();
        for (axis, (along, first)) in part.axes.iter().zip(&firsts).enumerate() {
            let size = value.shape[axis];
            if *along != whole_axis(size) {
                let first = self.limited(first, size - along.extent());
                value = self.along_axis(&value, axis, &first, along.size(), along.stride());
            }
        }
        let shape = part.shape().to_vec();
        self.reshape(&value, &shape)
    }

    /// Returns a tensor with another part.
    fn with_part(
        &mut self,
        state: &Tensor,
        part: &RefPart,
        starts: &[Tensor],
        value: &Tensor,
    ) -> RuleResult<Tensor> {
        let firsts = self.starts_of_part(part, starts);
        let sizes: Vec<usize> = part.axes.iter().map(AxisPart::size).collect();
        let mut value = self.reshape(value, &sizes)?;
        let mut mask: Option<Tensor> = None;
        for (axis, (along, first)) in part.axes.iter().zip(&firsts).enumerate() {
            let size = state.shape[axis];
            if *along == whole_axis(size) {
                continue;
            }
            let first = self.limited(first, size - along.extent());
            let first = self.ir.splat(&first, &state.shape);
            let index = self.ir.iota(axis, &state.shape);
            let offset = self.ir.binary("arith.subi", &index, &first);
            let zero = self.ir.int(0, DType::I32, &state.shape);
            let last = self.ir.int(along.extent() as i128, DType::I32, &state.shape);
            let mut inside = self.ir.compare("cmpi sge", &offset, &zero);
            let below = self.ir.compare("cmpi slt", &offset, &last);
            inside = self.ir.binary("arith.andi", &inside, &below);
            if along.stride() > 1 {
                let stride = self.ir.int(along.stride() as i128, DType::I32, &state.shape);
                let rest = self.ir.binary("arith.remsi", &offset, &stride);
                let hit = self.ir.compare("cmpi eq", &rest, &zero);
                inside = self.ir.binary("arith.andi", &inside, &hit);
            }
            mask = Some(match mask {
                Some(mask) => self.ir.binary("arith.andi", &mask, &inside),
                None => inside,
            });
            if along.size() > 1 {
                // The element at `index` is that at `(index - first) / stride` of the value.
                let mut shape = value.shape.clone();
                shape[axis] = size;
                let index = self.ir.iota(axis, &shape);
                let scalar = self.limited(&firsts[axis], size - along.extent());
                let first = self.ir.splat(&scalar, &shape);
                let mut from = self.ir.binary("arith.subi", &index, &first);
                if along.stride() > 1 {
                    let stride = self.ir.int(along.stride() as i128, DType::I32, &shape);
                    from = self.ir.binary("arith.divsi", &from, &stride);
                }
                value = self.gather_within(&value, axis, &from, along.size());
            }
        }
        let value = self.ir.broadcast(&value, &state.shape);
        Ok(match mask {
            Some(mask) => self.ir.select(&mask, &value, state),
            None => value,
        })
    }
}

/// Returns the number of programs that run in parallel.
pub(super) fn n_parallel(kernel: &KernelCall) -> usize {
    let axes = kernel.grid.iter().zip(&kernel.semantics);
    axes.filter(|(_, of)| **of == DimensionSemantics::Parallel).map(|(&size, _)| size).product()
}

/// Returns the types of scratch memories in memory: their shape for each parallel program.
pub(super) fn workspaces(kernel: &KernelCall, in_memory: &[bool]) -> Vec<Aval> {
    let of_scratch = &in_memory[kernel.outputs.len()..];
    let marked = kernel.scratch.iter().zip(of_scratch).filter(|(_, in_memory)| **in_memory);
    let count = n_parallel(kernel);
    let of_programs = |(scratch, _): (&Scratch, _)| {
        let shape = std::iter::once(count).chain(scratch.aval().shape.iter().copied());
        Aval::new(scratch.aval().dtype, shape.collect::<Vec<_>>())
    };
    marked.map(of_programs).collect()
}

/// Returns the part with all indices along an axis.
fn whole_axis(size: usize) -> AxisPart {
    AxisPart::Slice { start: crate::kernel::ref_ops::AxisStart::Static(0), size, stride: 1 }
}
