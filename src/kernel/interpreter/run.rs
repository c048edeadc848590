//! One run of all programs of a kernel.

use super::evaluator::{Evaluator, Value};
use super::memory::{Block, Memory};
use super::report::Report;
use super::schedule::{Step, indices_of, schedule};
use super::stores::stores;
use crate::core::{Array, Aval, DType, Error, HostArray, Loc, OpErrorKind, Scalar};
use crate::kernel::grid_loop::undefined;
use crate::kernel::kernel_call::padded_shape;
use crate::kernel::refs::RefRole;
use crate::kernel::{BlockDim, BlockMapping, KernelCall, KernelTarget};
use crate::primitives::fill_of;
use rustc_hash::FxHashMap;

/// The value of elements beyond the end of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// NaN, the least integer, or false.
    Undefined,
    /// One.
    One,
}

/// The memories after all programs have run.
pub(super) struct Run {
    grid: Vec<usize>,
    memories: Vec<Memory>,
    n_prefetch: usize,
    n_inputs: usize,
    n_outputs: usize,
    is_read_beyond: Vec<bool>,
}

/// The blocks of an output that programs have seen.
#[derive(Default)]
struct Visits {
    /// The current block, and the stretch of its program.
    current: Option<(Vec<usize>, u32)>,
    /// The last program that saw a block.
    last: FxHashMap<Vec<usize>, Step>,
}

/// Two parallel programs that share the block of an output.
struct SharedBlock {
    output: usize,
    block: Vec<usize>,
    programs: [u32; 2],
}

impl Run {
    /// Runs the programs. `locs` has the lines of the specifications of inputs, then of outputs,
    /// and `fills` the value beyond the end of each input.
    pub(super) fn new(
        kernel: &KernelCall,
        locs: &[Loc],
        operands: &[HostArray],
        fills: &[Fill],
    ) -> Result<Run, Error> {
        let memories = memories(kernel, operands, fills)?;
        let mut evaluator = Evaluator {
            kernel,
            report: Report { name: kernel.name.clone() },
            is_read_beyond: vec![false; memories.len()],
            memories,
            step: Step { program: 0, run: 0, stretch: 0 },
            stores: Vec::new(),
        };
        let mut visits: Vec<Visits> = kernel.outputs.iter().map(|_| Visits::default()).collect();
        let mut shared = None;
        let mut stretch = None;
        for step in schedule(kernel) {
            if stretch.replace(step.stretch) != Some(step.stretch) {
                evaluator.lose_scratch()?;
            }
            evaluator.step = step;
            evaluator.enter_blocks(locs, &mut visits, &mut shared)?;
            evaluator.run_program()?;
        }
        evaluator.check_shared(shared, locs)?;
        evaluator.check_written(locs)?;
        Ok(Run {
            grid: kernel.grid.clone(),
            n_prefetch: kernel.n_prefetch,
            n_inputs: kernel.inputs.len(),
            n_outputs: kernel.outputs.len(),
            is_read_beyond: evaluator.is_read_beyond,
            memories: evaluator.memories,
        })
    }

    /// Returns the inputs of which elements beyond the end were loaded, also through an output that
    /// starts with their elements.
    pub(super) fn inputs_read_beyond(&self) -> Vec<usize> {
        let is_read = &self.is_read_beyond[self.n_prefetch..];
        (0..self.n_inputs).filter(|&input| is_read[input]).collect()
    }

    /// Returns the memory of an output.
    pub(super) fn output(&self, output: usize) -> &Memory {
        &self.memories[self.n_prefetch + self.n_inputs + output]
    }

    /// Returns the indices of a program from its number.
    pub(super) fn ids(&self, program: u32) -> Vec<usize> {
        indices_of(&self.grid, program)
    }

    /// Returns the outputs as host arrays.
    pub(super) fn host_outputs(&self) -> Result<Vec<HostArray>, Error> {
        (0..self.n_outputs).map(|output| self.output(output).array()).collect()
    }

    /// Returns the outputs.
    pub(super) fn outputs(&self) -> Result<Vec<Array>, Error> {
        Ok(self.host_outputs()?.into_iter().map(Array::from).collect())
    }

    /// Returns the first element of an array that differs between two runs, as the output and the
    /// offset. NaN equals NaN.
    pub(super) fn first_difference(&self, other: &Run) -> Result<Option<(usize, usize)>, Error> {
        for output in 0..self.n_outputs {
            let memory = self.output(output);
            let (ours, theirs) = (memory.array()?, other.output(output).array()?);
            let pairs = ours.iter_numbers().zip(theirs.iter_numbers());
            let differs = |(a, b): (num_complex::Complex64, num_complex::Complex64)| {
                a != b && !(a.is_nan() && b.is_nan())
            };
            let elements = pairs.zip(memory.array_elements());
            for (pair, offset) in elements {
                if differs(pair) {
                    return Ok(Some((output, offset)));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the bytes of a number of a dtype.
fn bytes_of(value: Scalar, dtype: DType) -> Result<Vec<u8>, Error> {
    Ok(fill_of(value, &Aval::new(dtype, [])).to_host()?.as_bytes().to_vec())
}

fn fill_bytes(fill: Fill, dtype: DType) -> Result<Vec<u8>, Error> {
    let value = match fill {
        Fill::Undefined => undefined(dtype),
        Fill::One if dtype.is_bool() => Scalar::Bool(true),
        Fill::One if dtype.is_integer() => Scalar::Int(1),
        Fill::One => Scalar::Float(1.0),
    };
    bytes_of(value, dtype)
}

/// Creates the memories of a kernel.
fn memories(
    kernel: &KernelCall,
    operands: &[HostArray],
    fills: &[Fill],
) -> Result<Vec<Memory>, Error> {
    let (prefetched, inputs) = operands.split_at(kernel.n_prefetch);
    let mut memories = Vec::new();
    for (index, array) in prefetched.iter().enumerate() {
        let role = RefRole::Prefetch(index);
        let zero = vec![0; array.dtype().host_bytes()];
        memories.push(Memory::padded(role, array, array.shape().dims(), &zero));
    }
    let padded = |role, input: usize, window: &BlockMapping| {
        let fill = fill_bytes(fills[input], window.array.dtype)?;
        let shape = padded_shape(window);
        Ok::<_, Error>(Memory::padded(role, &inputs[input], shape.dims(), &fill))
    };
    for (index, window) in kernel.inputs.iter().enumerate() {
        memories.push(padded(RefRole::Input(index), index, window)?);
    }
    for (index, window) in kernel.outputs.iter().enumerate() {
        let role = RefRole::Output(index);
        let memory = match kernel.alias_of_output(index) {
            Some(input) => padded(role, input, window)?,
            None => {
                let fill = fill_bytes(Fill::Undefined, window.array.dtype)?;
                Memory::filled(role, &window.array, padded_shape(window).dims(), &fill)
            }
        };
        memories.push(memory.with_cells());
    }
    for (index, scratch) in kernel.scratch.iter().enumerate() {
        let aval = scratch.aval();
        let fill = fill_bytes(Fill::Undefined, aval.dtype)?;
        let role = RefRole::Scratch(index);
        memories.push(Memory::filled(role, aval, aval.shape.dims(), &fill).with_cells());
    }
    Ok(memories)
}

impl Evaluator<'_> {
    fn first_output(&self) -> usize {
        self.kernel.n_prefetch + self.kernel.inputs.len()
    }

    /// Loses the elements of scratch memory.
    fn lose_scratch(&mut self) -> Result<(), Error> {
        let first = self.first_output() + self.kernel.outputs.len();
        for (memory, scratch) in self.memories[first..].iter_mut().zip(&self.kernel.scratch) {
            memory.lose(&fill_bytes(Fill::Undefined, scratch.aval().dtype)?);
        }
        Ok(())
    }

    /// Returns the indices of the program as arrays.
    fn id_arrays(&self) -> Vec<Value> {
        let index = Aval::new(DType::I32, []);
        let array = |index_of: usize| fill_of(Scalar::Int(index_of as i128), &index);
        self.ids().into_iter().map(|id| Value::Array(array(id))).collect()
    }

    /// Runs the body for the current program.
    fn run_program(&mut self) -> Result<(), Error> {
        let mut inputs = self.id_arrays();
        inputs.extend((0..self.memories.len()).map(Value::Memory));
        self.run(&self.kernel.body, inputs)?;
        Ok(())
    }

    /// Selects the blocks of the current program.
    fn enter_blocks(
        &mut self,
        locs: &[Loc],
        visits: &mut [Visits],
        shared: &mut Option<SharedBlock>,
    ) -> Result<(), Error> {
        let kernel = self.kernel;
        let n_prefetch = kernel.n_prefetch;
        let windows = kernel.inputs.iter().chain(&kernel.outputs).zip(locs).enumerate();
        for (index, (window, &loc)) in windows {
            let memory = n_prefetch + index;
            let block = self.block_index(memory, window, loc)?;
            if let Some(output) = index.checked_sub(kernel.inputs.len()) {
                self.visit(output, &block, &mut visits[output], shared, loc)?;
            }
            let starts = block.iter().zip(&window.block).map(|(index, dim)| index * dim.size());
            let sizes = window.block.iter().map(|&dim| (dim.size(), dim == BlockDim::Squeezed));
            self.memories[memory].block =
                Block { starts: starts.collect(), sizes: sizes.collect() };
        }
        Ok(())
    }

    /// Returns the index of the current program's block.
    fn block_index(
        &mut self,
        memory: usize,
        window: &BlockMapping,
        loc: Loc,
    ) -> Result<Vec<usize>, Error> {
        let mut inputs = self.id_arrays();
        inputs.extend((0..self.kernel.n_prefetch).map(Value::Memory));
        let outputs = self.run(&window.index_map, inputs)?;
        let mut block = Vec::with_capacity(outputs.len());
        for output in outputs {
            let Value::Array(index) = output else {
                let message = "an index map returns a reference";
                return Err(self.report.error(OpErrorKind::Bug, message, "report this", loc));
            };
            block.push(index.to_host()?.integers()[0]);
        }
        let n_blocks = window.n_blocks();
        let is_inside = |(&index, &count): (&i128, &usize)| index >= 0 && index < count as i128;
        if !block.iter().zip(&n_blocks).all(is_inside) {
            let message = format!(
                "program {:?} has block {block:?} of {}, which does not exist: {} has {n_blocks:?} \
                 blocks of {:?}",
                self.ids(),
                self.memories[memory].role,
                window.array,
                window.block_sizes()
            );
            let help = "an index map returns the index of a block, not of an element; compare it \
                        and the grid with the number of blocks";
            return Err(self.report.value(message, help, loc));
        }
        Ok(block.into_iter().map(|index| index as usize).collect())
    }

    /// Notes the block of an output that the current program sees.
    fn visit(
        &self,
        output: usize,
        block: &[usize],
        visits: &mut Visits,
        shared: &mut Option<SharedBlock>,
        loc: Loc,
    ) -> Result<(), Error> {
        let current = (block.to_vec(), self.step.stretch);
        let stays = visits.current.as_ref() == Some(&current);
        visits.current = Some(current);
        let previous = visits.last.insert(block.to_vec(), self.step.clone());
        let Some(previous) = previous.filter(|_| !stays) else { return Ok(()) };
        if previous.run == self.step.run {
            let message = format!(
                "program {:?} comes back to block {block:?} of output {output}, which the grid \
                 left after program {:?}",
                self.ids(),
                self.ids_of(previous.program)
            );
            let help = "a TPU does not load the block again: let programs that share a block \
                        follow each other, with the axes on which it does not depend last in the \
                        grid";
            return Err(self.report.value(message, help, loc));
        }
        if shared.is_none() {
            let programs = [previous.program, self.step.program];
            *shared = Some(SharedBlock { output, block: block.to_vec(), programs });
        }
        Ok(())
    }

    /// Fails if parallel programs share the block of an output, which a TPU stores as a whole.
    fn check_shared(&self, shared: Option<SharedBlock>, locs: &[Loc]) -> Result<(), Error> {
        let is_for_tpus = self.kernel.options.targets.contains(&KernelTarget::Tpu);
        let Some(shared) = shared.filter(|_| is_for_tpus) else { return Ok(()) };
        let SharedBlock { output, block, programs: [first, second] } = shared;
        let message = format!(
            "programs {:?} and {:?} share block {block:?} of output {output}, and run in parallel",
            self.ids_of(first),
            self.ids_of(second)
        );
        let help = "each core of a TPU stores the whole block: make the grid axis sequential, or \
                    let the index map depend on it; for other platforms alone, set \
                    `Kernel::targets`";
        Err(self.report.value(message, help, locs[self.kernel.inputs.len() + output]))
    }

    /// Fails if no program wrote an element of an output.
    fn check_written(&self, locs: &[Loc]) -> Result<(), Error> {
        for (output, window) in self.kernel.outputs.iter().enumerate() {
            let is_aliased = self.kernel.alias_of_output(output).is_some();
            if is_aliased || self.kernel.options.unwritten.contains(&output) {
                continue;
            }
            let number = self.first_output() + output;
            let memory = &self.memories[number];
            let elements = memory.array_elements();
            let is_written = |&&offset: &&usize| memory.last_store(offset).is_some();
            let n_written = elements.iter().filter(is_written).count();
            let Some(&first) = elements.iter().find(|offset| !is_written(offset)) else {
                continue;
            };
            let mut message = format!(
                "no program writes output {output} at {:?}: {} of {} elements are not written",
                memory.indices(first),
                elements.len() - n_written,
                window.array.size()
            );
            let mut loc = locs[self.kernel.inputs.len() + output];
            let unused = |store: &(usize, Loc)| store.0 == number && !self.stores.contains(store);
            if let Some((_, store)) = stores(self.kernel).into_iter().find(unused) {
                message += "; this store never runs";
                loc = store;
            }
            let help = "let the grid and the index map reach every block, and every program store \
                        its whole block, also under `kernel::when`";
            return Err(self.report.value(message, help, loc));
        }
        Ok(())
    }
}
