//! The module of a kernel: its grid, the loops over sequential axes, and one program of the grid.

use super::check;
use super::emitter::{Emitter, MemoryWindow, SHARED_POINTER, THREAD, WARP};
use super::indices::Index;
use super::text::Writer;
use super::types::GLOBAL;
use super::value::{Memory, Rule, Value};
use crate::core::{Aval, DType, Loc, RuleError, RuleResult, Scalar};
use crate::kernel::kernel_call::{BlockMapping, KernelCall};
use crate::kernel::spec::{BlockDim, DimensionSemantics};

/// The arguments of the body of a launch: the indices and sizes of blocks and threads.
const LAUNCH_ARGUMENTS: [&str; 12] =
    ["%block", "%by", "%bz", "%tx", "%ty", "%tz", "%gx", "%gy", "%gz", "%dx", "%dy", "%dz"];
/// The numbers of the launch's operands: a token, sizes of the grid and of blocks, no sizes of
/// clusters, and the bytes of shared memory.
const LAUNCH_SEGMENTS: &str = "1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0";

impl<'a> Emitter<'a> {
    pub(super) fn new(kernel: &'a KernelCall) -> Emitter<'a> {
        let prefetched = kernel.body.avals_in();
        let prefetched = &prefetched[kernel.rank()..kernel.first_input()];
        let whole = |array: &Aval| (array.clone(), array.shape.iter().map(|&n| n.into()).collect());
        let of = |window: &BlockMapping| (window.array.clone(), window.block.clone());
        let all = prefetched.iter().map(whole);
        let all = all.chain(kernel.inputs.iter().chain(&kernel.outputs).map(of));
        let window = |(index, (array, block)): (usize, (Aval, Vec<BlockDim>))| MemoryWindow {
            pointer: format!("%array{index}"),
            starts: vec![Index::Number(0); array.rank()],
            array,
            block,
        };
        Emitter {
            kernel,
            text: Writer::default(),
            windows: all.enumerate().map(window).collect(),
            scratch: Vec::new(),
            shared: (0, 0),
            n_threads: n_threads(kernel),
            n_values: 0,
            loc: Loc::UNKNOWN,
            refused_at: Loc::UNKNOWN,
            computed: Vec::new(),
        }
    }

    /// Writes the kernel.
    pub(super) fn run(mut self) -> Result<String, (RuleError, Loc)> {
        let launch = self.launch();
        launch.map_err(|error| (error, self.refused_at))?;
        Ok(self.text.finish())
    }

    fn launch(&mut self) -> RuleResult<()> {
        let kernel = self.kernel;
        let mut windows = kernel.inputs.iter().chain(&kernel.outputs);
        windows.try_for_each(check::window)?;
        check::kernel(kernel)?;
        let function = self.open(&[("%spec", GLOBAL), ("%arrays", GLOBAL)]);
        self.pointers();
        let n_programs: usize = kernel
            .grid
            .iter()
            .zip(&kernel.semantics)
            .filter(|(_, of)| **of == DimensionSemantics::Parallel)
            .map(|(&size, _)| size)
            .product();
        let token = "!gpu.async.token";
        let token_name =
            self.text.cast("builtin.unrealized_conversion_cast", "%spec", (GLOBAL, token));
        let sizes = [n_programs, self.n_threads, 1].map(|size| self.text.size(size));
        let [programs, threads, one] = &sizes;
        let arguments = LAUNCH_ARGUMENTS.map(|name| (name, "index"));
        let region = self.open(&arguments);
        self.programs()?;
        self.text.op("gpu.terminator", &[], "", &[], (&[], "()"));
        let region = self.close(region);
        let bytes = self.text.int(self.shared.1 as i128, DType::I32).name;
        let operands = [token_name.as_str(), programs, one, one, threads, one, one, bytes.as_str()];
        let index = "index";
        let types = [token, index, index, index, index, index, index, "i32"];
        let attributes = format!(
            "operandSegmentSizes = array<i32: {LAUNCH_SEGMENTS}>, workgroup_attributions = 0 : i64"
        );
        self.text.op("gpu.launch", &operands, &attributes, &[region], (&types, token));
        self.text.op("func.return", &[], "", &[], (&[], "()"));
        let function = self.close(function);
        let attributes = format!(
            "function_type = ({GLOBAL}, {GLOBAL}) -> (), llvm.emit_c_interface, sym_name = \"{}\"",
            super::function_name(&kernel.name)
        );
        self.text.op("func.func", &[], &attributes, &[function], (&[], "()"));
        Ok(())
    }

    /// Loads the pointers of operands and results, which are in one array.
    fn pointers(&mut self) {
        for number in 0..self.windows.len() {
            let offset = self.text.name_of(&Index::Number(number as i64));
            let place = self.text.pointer("%arrays", GLOBAL, (&offset, "i32"), GLOBAL);
            let name = self.text.op(
                "llvm.load",
                &[&place],
                "ordering = 0 : i64",
                &[],
                (&[GLOBAL], GLOBAL),
            );
            self.windows[number].pointer = name;
        }
    }

    /// Writes the programs of the grid that one block of threads runs.
    fn programs(&mut self) -> RuleResult<()> {
        let kernel = self.kernel;
        self.text.thread_and_shared(THREAD, SHARED_POINTER);
        let is_parallel = |axis: &usize| kernel.semantics[*axis] == DimensionSemantics::Parallel;
        let parallel: Vec<usize> = (0..kernel.rank()).filter(is_parallel).collect();
        let axes: Vec<usize> = (0..kernel.rank())
            .filter(|axis| !is_parallel(axis) && kernel.grid[*axis] > 1)
            .collect();
        let mut ids = vec![Index::Number(0); kernel.rank()];
        let sizes: Vec<usize> = parallel.iter().map(|&axis| kernel.grid[axis]).collect();
        let block = self.text.index_from("%block");
        for (&axis, id) in parallel.iter().zip(self.text.unravel(&block, &sizes)) {
            ids[axis] = id;
        }
        if !axes.is_empty() {
            for scratch in &kernel.scratch {
                let aval = scratch.aval();
                let start = self.allocate(aval.size(), aval.dtype)?;
                self.scratch.push(start);
            }
        }
        self.sequential(&axes, &mut ids)
    }

    /// Writes the loops over sequential axes.
    fn sequential(&mut self, axes: &[usize], ids: &mut Vec<Index>) -> RuleResult<()> {
        let Some((&axis, inner)) = axes.split_first() else { return self.step(ids) };
        let (zero, end) = (Index::Number(0), Index::Number(self.kernel.grid[axis] as i64));
        self.for_loop((&zero, &end, 1), None, |of, index, _| {
            ids[axis] = index;
            of.sequential(inner, ids)?;
            Ok(None)
        })?;
        Ok(())
    }

    /// Writes one program of the grid.
    fn step(&mut self, ids: &[Index]) -> RuleResult<()> {
        let kernel = self.kernel;
        let n_prefetch = kernel.n_prefetch;
        let ids: Vec<Value> =
            ids.iter().map(|id| self.value(DType::I32, &[], Rule::Scalar(id.clone()))).collect();
        let mut states = Vec::new();
        for number in 0..n_prefetch {
            let array = self.windows[number].array.clone();
            states.push(self.memory(Memory::Window(number), array.dtype, &array.shape));
        }
        let prefetched = states.clone();
        for (index, window) in kernel.inputs.iter().chain(&kernel.outputs).enumerate() {
            let starts = self.block_starts(window, &ids, &prefetched)?;
            self.windows[n_prefetch + index].starts = starts;
        }
        for (index, window) in kernel.inputs.iter().enumerate() {
            let aval = window.ref_aval();
            states.push(self.memory(Memory::Window(n_prefetch + index), aval.dtype, &aval.shape));
        }
        let first_output = states.len();
        let keeps_states = kernel
            .semantics
            .iter()
            .zip(&kernel.grid)
            .any(|(of, &size)| *of != DimensionSemantics::Parallel && size > 1);
        let mut memories = Vec::new();
        for (index, window) in kernel.outputs.iter().enumerate() {
            let (aval, memory) = (window.ref_aval(), Memory::Window(first_output + index));
            memories.push(memory);
            states.push(match keeps_states || kernel.alias_of_output(index).is_some() {
                true => self.memory(memory, aval.dtype, &aval.shape),
                // Nothing has written it.
                false => self.fill(Scalar::Int(0), aval.dtype, &aval.shape),
            });
        }
        for (index, scratch) in kernel.scratch.iter().enumerate() {
            let (aval, memory) = (scratch.aval().clone(), Memory::Scratch(index));
            states.push(match keeps_states {
                true => self.memory(memory, aval.dtype, &aval.shape),
                false => self.fill(Scalar::Int(0), aval.dtype, &aval.shape),
            });
            if keeps_states {
                memories.push(memory);
            }
        }
        let in_use = self.shared.0;
        let inputs: Vec<Value> = ids.into_iter().chain(states.iter().cloned()).collect();
        let results = self.program(&kernel.body, &inputs)?;
        let before = &states[first_output..];
        let changed = memories.iter().zip(before).zip(results);
        let changed = changed.filter(|((_, before), after)| before.id != after.id);
        let writes: Vec<(Memory, Value, Value)> =
            changed.map(|((&memory, before), after)| (memory, before.clone(), after)).collect();
        self.write(writes)?;
        if keeps_states {
            // The next program reads what this one wrote, and reuses shared memory.
            self.barrier();
        }
        self.shared.0 = in_use;
        Ok(())
    }

    /// Returns the index of the first element of a block along each axis.
    fn block_starts(
        &mut self,
        window: &BlockMapping,
        ids: &[Value],
        prefetched: &[Value],
    ) -> RuleResult<Vec<Index>> {
        let inputs: Vec<Value> = ids.iter().chain(prefetched).cloned().collect();
        let indices = self.program(&window.index_map, &inputs)?;
        let n_blocks = window.n_blocks();
        let mut starts = Vec::with_capacity(indices.len());
        for (axis, index) in indices.iter().enumerate() {
            if n_blocks[axis] <= 1 {
                starts.push(Index::Number(0));
                continue;
            }
            let index = self.scalar(index)?;
            let index = self.text.limited(&index, n_blocks[axis] - 1);
            starts.push(self.text.times(&index, window.block[axis].size()));
        }
        Ok(starts)
    }
}

/// Returns the number of threads of a program: the chosen one, or one for four elements of the
/// largest block, from 128 to 256.
fn n_threads(kernel: &KernelCall) -> usize {
    let windows = kernel.inputs.iter().chain(&kernel.outputs);
    let largest = windows.map(|window| window.ref_aval().size()).max().unwrap_or(1);
    let chosen = (largest / 4).next_power_of_two().clamp(4 * WARP, 8 * WARP);
    kernel.options.num_warps.map_or(chosen, |count| count as usize * WARP)
}
