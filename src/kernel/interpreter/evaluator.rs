//! Evaluation of a kernel's programs, equation by equation.

use super::memory::{Access, Memory, OutOfBlock};
use super::report::Report;
use super::schedule::{Step, indices_of};
use crate::control_flow::{Cond, Scan, WhileLoop};
use crate::core::{Array, Eqn, Error, HostArray, Loc, OpErrorKind, Program};
use crate::kernel::refs::RefRole;
use crate::kernel::{KernelCall, RefGet, RefPart, RefSet};
use crate::passes;

/// The value of a variable: an array, or the number of a memory, whose state is the current one.
#[derive(Clone)]
pub(super) enum Value {
    Array(Array),
    Memory(usize),
}

/// The memories of a kernel, and the program that runs.
pub(super) struct Evaluator<'k> {
    pub(super) kernel: &'k KernelCall,
    pub(super) report: Report,
    /// Prefetched operands, inputs, outputs and scratch memory.
    pub(super) memories: Vec<Memory>,
    pub(super) step: Step,
    /// Marks memories of which elements beyond the end of the array were loaded.
    pub(super) is_read_beyond: Vec<bool>,
    /// The memory and line of each store that ran.
    pub(super) stores: Vec<(usize, Loc)>,
}

impl Evaluator<'_> {
    /// Evaluates a program.
    pub(super) fn run(
        &mut self,
        program: &Program,
        inputs: Vec<Value>,
    ) -> Result<Vec<Value>, Error> {
        program.try_interpret(inputs, |eqn, operands| self.apply(eqn, operands))
    }

    fn apply(&mut self, eqn: &Eqn, operands: &[&Value]) -> Result<Vec<Value>, Error> {
        let arrays: Option<Vec<&Array>> = operands.iter().map(|value| value.array()).collect();
        if let Some(arrays) = arrays {
            return Ok(passes::bind(eqn, &arrays).into_iter().map(Value::Array).collect());
        }
        let primitive = (*eqn.primitive).as_any();
        if let Some(get) = primitive.downcast_ref::<RefGet>() {
            return Ok(vec![self.load(&get.part, operands, eqn.loc)?]);
        }
        if let Some(set) = primitive.downcast_ref::<RefSet>() {
            return Ok(vec![self.store(&set.part, operands, eqn.loc)?]);
        }
        let operands: Vec<Value> = operands.iter().map(|&value| value.clone()).collect();
        if let Some(cond) = primitive.downcast_ref::<Cond>() {
            let last = cond.branches.len() - 1;
            let index = self.array(&operands[0], eqn)?.item::<i32>()?;
            let number = usize::try_from(index).map_or(last, |number| number.min(last));
            return self.run(&cond.branches[number], operands[1..].to_vec());
        }
        if let Some(scan) = primitive.downcast_ref::<Scan>() {
            return self.scan(scan, operands, eqn);
        }
        if let Some(looped) = primitive.downcast_ref::<WhileLoop>() {
            return self.while_loop(looped, &operands, eqn);
        }
        if let Some(program) = passes::inlined(eqn) {
            return self.run(program, operands);
        }
        Err(self.unsupported(eqn))
    }

    fn scan(&mut self, scan: &Scan, operands: Vec<Value>, eqn: &Eqn) -> Result<Vec<Value>, Error> {
        let (consts, rest) = operands.split_at(scan.n_consts);
        let (carry, xs) = rest.split_at(scan.n_carry);
        let xs: Vec<HostArray> =
            xs.iter().map(|x| self.array(x, eqn)?.to_host()).collect::<Result<_, _>>()?;
        let mut carry = carry.to_vec();
        let mut ys: Vec<Vec<HostArray>> = Vec::with_capacity(scan.length);
        for step in 0..scan.length {
            let index = if scan.reverse { scan.length - 1 - step } else { step };
            let mut inputs = [consts, &carry].concat();
            inputs.extend(xs.iter().map(|x| Value::Array(x.row(index).into())));
            carry = self.run(&scan.body, inputs)?;
            let elements = carry.split_off(scan.n_carry);
            let elements = elements.iter().map(|y| self.array(y, eqn)?.to_host());
            ys.push(elements.collect::<Result<_, _>>()?);
        }
        if scan.reverse {
            ys.reverse();
        }
        let types = scan.body.avals_out();
        for (index, aval) in types[scan.n_carry..].iter().enumerate() {
            let column: Vec<HostArray> = ys.iter().map(|step| step[index].clone()).collect();
            let empty =
                || HostArray::from_bytes(Vec::new(), aval.with_shape(aval.shape.insert(0, 0)));
            let stacked = HostArray::stack(&column).map_or_else(empty, Ok)?;
            carry.push(Value::Array(stacked.into()));
        }
        Ok(carry)
    }

    fn while_loop(
        &mut self,
        looped: &WhileLoop,
        operands: &[Value],
        eqn: &Eqn,
    ) -> Result<Vec<Value>, Error> {
        let (cond_consts, rest) = operands.split_at(looped.n_cond_consts);
        let (body_consts, carry) = rest.split_at(looped.n_body_consts);
        let mut carry = carry.to_vec();
        loop {
            let outputs = self.run(&looped.cond, [cond_consts, &carry].concat())?;
            if !self.array(&outputs[0], eqn)?.item::<bool>()? {
                return Ok(carry);
            }
            carry = self.run(&looped.body, [body_consts, &carry].concat())?;
        }
    }

    /// Returns the array, which an operation needs.
    fn array<'v>(&self, value: &'v Value, eqn: &Eqn) -> Result<&'v Array, Error> {
        value.array().ok_or_else(|| self.unsupported(eqn))
    }

    fn unsupported(&self, eqn: &Eqn) -> Error {
        let message =
            format!("the interpreter cannot pass references to `{}`", eqn.primitive.name());
        let help = "load before the operation, and pass the array to it";
        self.report.error(OpErrorKind::Unsupported, message, help, eqn.loc)
    }

    fn load(&mut self, part: &RefPart, operands: &[&Value], loc: Loc) -> Result<Value, Error> {
        let (memory, offsets, rest) = self.select(part, operands, 1, loc)?;
        let [mask, other] = match rest[..] {
            [ref mask, ref other] => [Some(mask), Some(other)],
            _ => [None, None],
        };
        let is_marked = |element: usize| mask.is_none_or(|mask| mask.as_bytes()[element] != 0);
        for (_, &offset) in offsets.iter().enumerate().filter(|&(index, _)| is_marked(index)) {
            self.note_load(memory, offset, loc)?;
        }
        let mut value = self.memories[memory].gather(&offsets, part.shape())?;
        if let Some(other) = other {
            let width = value.dtype().host_bytes();
            let elements = value.as_bytes().chunks_exact(width);
            let others = other.as_bytes().chunks_exact(width);
            let chosen = elements.zip(others).enumerate().flat_map(|(index, (element, other))| {
                if is_marked(index) { element } else { other }
            });
            value = HostArray::from_bytes(chosen.copied().collect(), value.aval().clone())?;
        }
        Ok(Value::Array(value.into()))
    }

    fn store(&mut self, part: &RefPart, operands: &[&Value], loc: Loc) -> Result<Value, Error> {
        let (memory, offsets, rest) = self.select(part, operands, 2, loc)?;
        let value = operands[1].array().expect("a value is an array").to_host()?;
        if !self.stores.contains(&(memory, loc)) {
            self.stores.push((memory, loc));
        }
        let width = value.dtype().host_bytes();
        let mask = rest.first().map(HostArray::as_bytes);
        let elements = offsets.iter().zip(value.as_bytes().chunks_exact(width));
        for (index, (&offset, bytes)) in elements.enumerate() {
            if mask.is_none_or(|mask| mask[index] != 0) {
                self.note_store(memory, offset, loc)?;
                self.memories[memory].set(offset, bytes);
            }
        }
        Ok(operands[0].clone())
    }

    /// Returns the memory and the offsets of a part, and the operands after its starts.
    fn select(
        &self,
        part: &RefPart,
        operands: &[&Value],
        first_start: usize,
        loc: Loc,
    ) -> Result<(usize, Vec<usize>, Vec<HostArray>), Error> {
        let &Value::Memory(memory) = operands[0] else {
            let message = "the state of a reference is an array";
            return Err(self.report.error(OpErrorKind::Bug, message, "report this", loc));
        };
        let rest = operands[first_start..].iter();
        let mut rest: Vec<HostArray> = rest
            .map(|value| value.array().expect("an operand is an array").to_host())
            .collect::<Result<_, _>>()?;
        let starts: Vec<i128> =
            rest.drain(..part.n_starts()).map(|start| start.integers()[0]).collect();
        let role = self.memories[memory].role;
        let offsets = self.memories[memory].part(part, &starts).map_err(|found| {
            let OutOfBlock { axis, start, extent, size } = found;
            let message = format!(
                "program {:?} uses indices {start}..{} along axis {axis} of {role}, whose block \
                 has {size}",
                self.ids(),
                start + extent as i128
            );
            let help = "compilers clamp such an index, or access other memory: correct the start, \
                        or the bounds of the loop";
            self.report.value(message, help, loc)
        })?;
        Ok((memory, offsets, rest))
    }

    /// Returns the indices of the current program.
    pub(super) fn ids(&self) -> Vec<usize> {
        self.ids_of(self.step.program)
    }

    pub(super) fn ids_of(&self, program: u32) -> Vec<usize> {
        indices_of(&self.kernel.grid, program)
    }

    /// Returns the memory that has the accesses to a memory's elements.
    fn shared(&self, memory: usize) -> usize {
        match self.memories[memory].role {
            RefRole::Input(input) => self.alias_of_input(input).map_or(memory, |output| {
                self.kernel.n_prefetch + self.kernel.inputs.len() + output
            }),
            _ => memory,
        }
    }

    fn alias_of_input(&self, input: usize) -> Option<usize> {
        let pair = self.kernel.aliases.iter().find(|&&(of, _)| of == input);
        pair.map(|&(_, output)| output)
    }

    fn access(&self, loc: Loc) -> Access {
        Access { program: self.step.program, run: self.step.run, loc }
    }

    /// Checks the load of an element.
    fn note_load(&mut self, memory: usize, offset: usize, loc: Loc) -> Result<(), Error> {
        let of = &self.memories[memory];
        let is_written = of.cells.get(offset).is_some_and(|cell| cell.writer.is_some());
        if of.is_beyond(offset) && !is_written {
            // An output that shares the memory of an input starts with its elements.
            let input = match of.role {
                RefRole::Output(output) => self.kernel.alias_of_output(output),
                _ => None,
            };
            let source = input.map_or(memory, |input| self.kernel.n_prefetch + input);
            self.is_read_beyond[source] = true;
        }
        let shared = self.shared(memory);
        let access = self.access(loc);
        let role = of.role;
        let Some(cell) = self.memories[shared].cells.get_mut(offset) else { return Ok(()) };
        let is_input = matches!(role, RefRole::Input(_));
        let initialized = match role {
            RefRole::Output(output) => self.kernel.alias_of_output(output).is_some(),
            _ => is_input,
        };
        if initialized {
            cell.read(access);
        }
        let cell = *cell;
        let (ids, indices) = (self.ids(), self.memories[memory].indices(offset));
        match cell.writer {
            Some(writer) if cell.is_lost => {
                let message = format!(
                    "program {ids:?} reads {role} at {indices:?}, which is not initialized: \
                     program {:?} wrote it",
                    self.ids_of(writer.program)
                );
                let help = "scratch memory is lost when the index along a parallel axis changes: \
                            write it in the first program along the sequential axes, or make the \
                            axis sequential";
                Err(self.report.value(message, help, loc))
            }
            Some(writer) if writer.run != self.step.run => {
                let message = format!(
                    "program {ids:?} reads {role} at {indices:?}, which program {:?} writes, and \
                     they run in parallel",
                    self.ids_of(writer.program)
                );
                let help = "make the grid axis sequential, or give each program its part";
                Err(self.report.value(message, help, loc))
            }
            Some(writer) if is_input => {
                let message = format!(
                    "program {ids:?} reads {role} at {indices:?} after program {:?} wrote it \
                     through {}, which shares its memory",
                    self.ids_of(writer.program),
                    self.memories[shared].role
                );
                let help = "load from the input before the store, or read the output";
                Err(self.report.value(message, help, loc))
            }
            None if !initialized => {
                let message = format!(
                    "program {ids:?} reads {role} at {indices:?}, which is not initialized"
                );
                let help = "store to it before the first load, for example with `kernel::when` in \
                            the first program along a sequential axis";
                Err(self.report.value(message, help, loc))
            }
            _ => Ok(()),
        }
    }

    /// Checks the store to an element.
    fn note_store(&mut self, memory: usize, offset: usize, loc: Loc) -> Result<(), Error> {
        let of = &self.memories[memory];
        let cell = of.cells[offset];
        let run = self.step.run;
        if matches!(of.role, RefRole::Output(_)) && !of.is_beyond(offset) {
            let other = |access: &&Access| access.run != run;
            let (role, indices) = (of.role, of.indices(offset));
            if let Some(writer) = cell.writer.as_ref().filter(other) {
                let message = format!(
                    "programs {:?} and {:?} write {role} at {indices:?}, and run in parallel",
                    self.ids_of(writer.program),
                    self.ids()
                );
                let help = "make the grid axis sequential (`Grid::sequential`), or let the index \
                            map of the output depend on it";
                return Err(self.report.value(message, help, loc));
            }
            if let Some(reader) = cell.readers.iter().flatten().find(other) {
                let message = format!(
                    "program {:?} writes {role} at {indices:?}, which program {:?} reads through \
                     an alias, and they run in parallel",
                    self.ids(),
                    self.ids_of(reader.program)
                );
                let help = "let each program read only the block that it writes, or remove the \
                            alias";
                return Err(self.report.value(message, help, loc));
            }
        }
        let access = self.access(loc);
        let cell = &mut self.memories[memory].cells[offset];
        cell.writer = Some(access);
        cell.is_lost = false;
        Ok(())
    }
}

impl Value {
    fn array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            Value::Memory(_) => None,
        }
    }
}
