//! The function of a kernel: its grid, the loops over sequential axes, and the blocks of outputs.

use super::emitter::{Emitter, Value, n_parallel, workspaces};
use super::ir::{Tensor, stored_element};
use super::{Emitted, check};
use crate::core::{DType, Program, RuleResult, Scalar};
use crate::kernel::kernel_call::BlockMapping;
use crate::kernel::ref_ops::RefPart;
use crate::kernel::spec::{BlockDim, DimensionSemantics};
use std::fmt::Write as _;

/// An axis of the grid along which the programs of a GPU's grid run one after the other.
struct Loops {
    /// The axes, outermost first.
    axes: Vec<usize>,
    /// For each output, the number of loops around the life of one block.
    depths: Vec<usize>,
    /// Marks the outputs whose blocks may be visited again after others.
    revisited: Vec<bool>,
}

impl Emitter<'_> {
    /// Writes the kernel.
    pub(super) fn run(&mut self) -> RuleResult<Emitted> {
        let kernel = self.kernel;
        let mut windows = kernel.inputs.iter().chain(&kernel.outputs);
        windows.try_for_each(check::window)?;
        check::kernel(kernel)?;
        let is_parallel = |axis: &usize| kernel.semantics[*axis] == DimensionSemantics::Parallel;
        let parallel: Vec<usize> = (0..kernel.rank()).filter(is_parallel).collect();
        let axes: Vec<usize> = (0..kernel.rank())
            .filter(|axis| !is_parallel(axis) && kernel.grid[*axis] > 1)
            .collect();
        let loops = self.loops(axes);
        let mut ids = vec![self.ir.int(0, DType::I32, &[]); kernel.rank()];
        self.parallel_ids(&parallel, &mut ids);
        let outputs = vec![None; kernel.outputs.len()];
        let mut states: Vec<Option<Value>> = outputs;
        let mut number = kernel.n_prefetch + kernel.inputs.len() + kernel.outputs.len();
        for (index, scratch) in kernel.scratch.iter().enumerate() {
            let place = kernel.outputs.len() + index;
            if self.in_memory[place] {
                let program = self.ir.op("tt.get_program_id x : i32", DType::I32, &[]);
                self.windows[number].starts[0] = Some(program);
                states.push(Some(Value::Memory(number)));
                number += 1;
                continue;
            }
            let aval = scratch.aval();
            let zero = self.ir.int(0, aval.dtype, &aval.shape);
            let output = Some(place);
            states.push(Some(Value::Tensor(Tensor { zero_padding: false, output, ..zero })));
        }
        self.level(0, &loops, &mut ids, &mut states)?;
        self.check_size()?;
        let name = function_name(&kernel.name);
        let arguments: Vec<String> = self
            .windows
            .iter()
            .map(|window| {
                let element = stored_element(window.array.dtype);
                format!("{}: !tt.ptr<{element}> {{tt.divisibility = 16 : i32}}", window.pointer)
            })
            .collect();
        let text = format!(
            "module {{\ntt.func public @{name}({}) {{\n{}tt.return\n}}\n}}\n",
            arguments.join(", "),
            self.ir.text
        );
        let chosen = match self.ir.largest.0 {
            0..1024 => 1,
            1024..2048 => 2,
            2048..16384 => 4,
            _ => 8,
        };
        Ok(Emitted {
            name,
            text,
            num_warps: kernel.options.num_warps.unwrap_or(chosen),
            n_programs: n_parallel(kernel),
            workspaces: workspaces(kernel, &self.in_memory),
        })
    }

    fn loops(&self, axes: Vec<usize>) -> Loops {
        let rank = self.kernel.rank();
        let (mut depths, mut revisited) = (Vec::new(), Vec::new());
        for window in &self.kernel.outputs {
            let used = window.used_axes(rank);
            let depth = axes.iter().rposition(|&axis| used[axis]).map_or(0, |last| last + 1);
            // A block has one life if each axis around it is the index of the block along an axis.
            let is_index = |axis: &usize| {
                let map = &window.index_map;
                map.outputs().contains(&map.inputs()[*axis])
            };
            revisited.push(!axes[..depth].iter().all(is_index));
            depths.push(depth);
        }
        Loops { axes, depths, revisited }
    }

    /// Computes the indices along parallel axes from the number of the program, the last axis
    /// fastest.
    fn parallel_ids(&mut self, parallel: &[usize], ids: &mut [Tensor]) {
        let sizes = &self.kernel.grid;
        let used: Vec<usize> = parallel.iter().copied().filter(|&axis| sizes[axis] > 1).collect();
        if used.is_empty() {
            return;
        }
        let mut rest = self.ir.op("tt.get_program_id x : i32", DType::I32, &[]);
        for (place, &axis) in used.iter().enumerate().rev() {
            if place == 0 {
                ids[axis] = rest;
                return;
            }
            let size = self.ir.int(sizes[axis] as i128, DType::I32, &[]);
            ids[axis] = self.ir.binary("arith.remsi", &rest, &size);
            rest = self.ir.binary("arith.divsi", &rest, &size);
        }
    }

    /// Writes the programs inside of `depth` loops. `states` are those of outputs and scratch.
    fn level(
        &mut self,
        depth: usize,
        loops: &Loops,
        ids: &mut [Tensor],
        states: &mut [Option<Value>],
    ) -> RuleResult<()> {
        let kernel = self.kernel;
        let first_output = kernel.n_prefetch + kernel.inputs.len();
        let here: Vec<usize> =
            (0..kernel.outputs.len()).filter(|&output| loops.depths[output] == depth).collect();
        for &output in &here {
            let window = &kernel.outputs[output];
            let number = first_output + output;
            self.windows[number].starts = self.block_starts(window, ids)?;
            states[output] = Some(self.initial_state(output, number, loops.revisited[output]));
        }
        if depth == loops.axes.len() {
            self.body(ids, states)?;
        } else {
            self.sequential(depth, loops, ids, states)?;
        }
        for &output in &here {
            if let Some(Value::Tensor(state)) = states[output].take() {
                let window = self.windows[first_output + output].clone();
                let part = RefPart::whole(&kernel.outputs[output].ref_aval().shape);
                self.store(&window, &part, &[], &state, None);
            }
        }
        Ok(())
    }

    /// Returns the state of an output before the first program that sees its block.
    fn initial_state(&mut self, output: usize, number: usize, is_revisited: bool) -> Value {
        if self.in_memory[output] {
            return Value::Memory(number);
        }
        let aval = self.kernel.outputs[output].ref_aval();
        let state = if is_revisited || self.kernel.alias_of_output(output).is_some() {
            if is_revisited {
                self.ir.effect("gpu.barrier");
            }
            let window = self.windows[number].clone();
            self.load(&window, &RefPart::whole(&aval.shape), &[], None)
        } else {
            self.ir.int(0, aval.dtype, &aval.shape)
        };
        Value::Tensor(Tensor { output: Some(output), zero_padding: false, ..state })
    }

    /// Writes the loop over a sequential axis.
    fn sequential(
        &mut self,
        depth: usize,
        loops: &Loops,
        ids: &mut [Tensor],
        states: &mut [Option<Value>],
    ) -> RuleResult<()> {
        let axis = loops.axes[depth];
        let size = self.kernel.grid[axis];
        let carried: Vec<usize> = (0..states.len())
            .filter(|&state| matches!(states[state], Some(Value::Tensor(_))))
            .collect();
        let inits: Vec<Tensor> = carried
            .iter()
            .filter_map(|&state| match &states[state] {
                Some(Value::Tensor(tensor)) => Some(tensor.clone()),
                _ => None,
            })
            .collect();
        let (index, inner, header) = self.open_for(size, &inits);
        self.ir.line(&header);
        for (&state, tensor) in carried.iter().zip(&inner) {
            states[state] = Some(Value::Tensor(tensor.clone()));
        }
        let outer = std::mem::replace(&mut ids[axis], index);
        self.level(depth + 1, loops, ids, states)?;
        ids[axis] = outer;
        let last: Vec<Tensor> = carried
            .iter()
            .filter_map(|&state| match &states[state] {
                Some(Value::Tensor(tensor)) => Some(tensor.clone()),
                _ => None,
            })
            .collect();
        let results = self.close_for(&header, &last);
        for (&state, tensor) in carried.iter().zip(results) {
            states[state] = Some(Value::Tensor(tensor));
        }
        Ok(())
    }

    /// Writes one program of the grid.
    fn body(&mut self, ids: &[Tensor], states: &mut [Option<Value>]) -> RuleResult<()> {
        let kernel = self.kernel;
        for (index, window) in kernel.inputs.iter().enumerate() {
            let starts = self.block_starts(window, ids)?;
            self.windows[kernel.n_prefetch + index].starts = starts;
        }
        let mut inputs: Vec<Value> = ids.iter().cloned().map(Value::Tensor).collect();
        inputs.extend((0..kernel.n_prefetch + kernel.inputs.len()).map(Value::Memory));
        for state in states.iter() {
            inputs.push(state.clone().expect("all blocks are open in a program"));
        }
        let results = self.program(&kernel.body, &inputs)?;
        for (state, result) in states.iter_mut().zip(results) {
            *state = Some(result);
        }
        Ok(())
    }

    /// Returns the index of the first element of a block along each axis.
    fn block_starts(
        &mut self,
        window: &BlockMapping,
        ids: &[Tensor],
    ) -> RuleResult<Vec<Option<Tensor>>> {
        let map: &Program = &window.index_map;
        let mut inputs: Vec<Value> = ids.iter().cloned().map(Value::Tensor).collect();
        inputs.extend((0..self.kernel.n_prefetch).map(Value::Memory));
        let indices = self.program(map, &inputs)?;
        let n_blocks = window.n_blocks();
        let mut starts = Vec::with_capacity(indices.len());
        for (axis, index) in Self::tensors(&indices).into_iter().enumerate() {
            if n_blocks[axis] <= 1 {
                starts.push(None);
                continue;
            }
            let input = map.inputs().iter().position(|&input| input == map.outputs()[axis]);
            let is_inside = input.is_some_and(|of| {
                of < self.kernel.rank() && self.kernel.grid[of] <= n_blocks[axis]
            });
            let index = if is_inside { index } else { self.limited(&index, n_blocks[axis] - 1) };
            let size = BlockDim::size(window.block[axis]);
            let size = self.ir.fill(Scalar::Int(size as i128), DType::I32, &[]);
            starts.push(Some(self.ir.binary("arith.muli", &index, &size)));
        }
        Ok(starts)
    }
}

/// Returns a name that Triton IR accepts.
fn function_name(name: &str) -> String {
    let mut valid = String::from("kernel_");
    for character in name.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => valid.push(character),
            other => write!(valid, "_{:x}", u32::from(other)).expect("strings take any text"),
        }
    }
    valid
}
