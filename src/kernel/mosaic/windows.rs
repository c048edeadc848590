//! The module of a kernel: its function, the windows and the functions of block indices.

use super::elementwise::binary;
use super::emitter::{Emitter, Item, MemRef};
use super::text::{Val, check_dtype, list};
use crate::core::{Aval, DType, Loc, RuleError, RuleResult, Scalar};
use crate::kernel::kernel_call::{BlockMapping, KernelCall};
use crate::kernel::ref_ops::RefSet;
use crate::kernel::spec::{BlockDim, DimensionSemantics, KernelMemory};
use crate::primitives::ComparisonDirection;

/// Checks that the kernel has a form on TPUs. Returns true for each output that it writes.
///
/// # Errors
/// The operation that has none, and its location.
pub(in crate::kernel) fn check(kernel: &KernelCall) -> Result<Vec<bool>, (RuleError, Loc)> {
    let mut emitter = Emitter::default();
    if let Err(error) = write(&mut emitter, kernel) {
        return Err((error, emitter.failed_at));
    }
    let first = kernel.n_prefetch + kernel.inputs.len();
    let is_written = |output: usize| emitter.written.contains(&(first + output));
    Ok((0..kernel.outputs.len()).map(is_written).collect())
}

/// The memory that blocks or scratch take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kernel) struct VmemUse {
    /// The window, by its position among inputs and outputs; `None` for scratch memory.
    pub(in crate::kernel) window: Option<usize>,
    pub(in crate::kernel) role: String,
    /// The bytes of one buffer, in whole tiles.
    pub(in crate::kernel) bytes: usize,
    /// The number of buffers: 2 if the next block is read during the computation.
    pub(in crate::kernel) buffers: usize,
}

/// Returns the memory for vectors that a kernel takes.
pub(in crate::kernel) fn vmem(kernel: &KernelCall) -> Vec<VmemUse> {
    let mut uses = Vec::new();
    for (index, window) in kernel.inputs.iter().chain(&kernel.outputs).enumerate() {
        let memref = window_memref(window, String::new());
        let role = match index.checked_sub(kernel.inputs.len()) {
            None => format!("input {index}"),
            Some(output) => format!("output {output}"),
        };
        let is_input = index < kernel.inputs.len();
        let buffers = if is_single_buffered(kernel, window, is_input) { 1 } else { 2 };
        if memref.memory == KernelMemory::Vmem {
            let (window, bytes) = (Some(index), memref.tiled_bytes());
            uses.push(VmemUse { window, role, bytes, buffers });
        }
    }
    for (index, scratch) in kernel.scratch.iter().enumerate() {
        let memref = scratch_memref(scratch.aval(), scratch.memory(), String::new());
        if memref.memory == KernelMemory::Vmem {
            let role = format!("scratch {index}");
            let (window, bytes) = (None, memref.tiled_bytes());
            uses.push(VmemUse { window, role, bytes, buffers: 1 });
        }
    }
    uses
}

/// Returns true if all programs see one block, which need not be read ahead.
fn is_single_buffered(kernel: &KernelCall, window: &BlockMapping, is_input: bool) -> bool {
    let is_constant = window.innermost_axis(kernel.rank()).is_none();
    kernel.n_programs() == 1 || (is_input && is_constant)
}

/// Returns the memory of a window. A scalar is a matrix of one element in the memory of scalars.
fn window_memref(window: &BlockMapping, name: String) -> MemRef {
    let shape = window.block_sizes();
    let is_squeezed = window.block.iter().map(|&dim| dim == BlockDim::Squeezed).collect();
    let (dtype, memory, is_scratch) = (window.array.dtype, window.memory, false);
    match shape.is_empty() {
        true => scalar_memref(dtype, name),
        false => MemRef { name, dtype, shape, is_squeezed, memory, is_scratch },
    }
}

fn scratch_memref(aval: &Aval, memory: KernelMemory, name: String) -> MemRef {
    let shape = aval.shape.to_vec();
    if shape.is_empty() {
        return MemRef { is_scratch: true, ..scalar_memref(aval.dtype, name) };
    }
    let is_squeezed = vec![false; shape.len()];
    MemRef { name, dtype: aval.dtype, shape, is_squeezed, memory, is_scratch: true }
}

fn scalar_memref(dtype: DType, name: String) -> MemRef {
    MemRef {
        name,
        dtype,
        shape: vec![1, 1],
        is_squeezed: vec![true, true],
        memory: KernelMemory::Smem,
        is_scratch: false,
    }
}

fn prefetch_memref(aval: &Aval, name: String) -> MemRef {
    let is_scalar = aval.shape.is_empty();
    let shape = if is_scalar { vec![1] } else { aval.shape.to_vec() };
    MemRef {
        name,
        dtype: aval.dtype,
        is_squeezed: vec![is_scalar; shape.len()],
        shape,
        memory: KernelMemory::Smem,
        is_scratch: false,
    }
}

/// The arguments of a function: their names and types, and the items that the body takes.
#[derive(Default)]
struct Arguments {
    declared: Vec<(String, String)>,
    items: Vec<Item>,
}

impl Arguments {
    fn types(&self) -> String {
        list(self.declared.iter().map(|(_, ty)| ty))
    }

    fn add_memory(&mut self, emitter: &mut Emitter, memref: MemRef) {
        self.declared.push((memref.name.clone(), memref.ty()));
        self.items.push(Item::Memory(emitter.memories.len()));
        emitter.memories.push(memref);
    }
}

/// Returns the arguments that all functions take: grid indices and prefetched operands.
fn common_arguments(emitter: &mut Emitter, kernel: &KernelCall) -> Arguments {
    let mut arguments = Arguments::default();
    for _ in 0..kernel.rank().max(1) {
        let name = emitter.text.fresh();
        arguments.declared.push((name.clone(), "i32".to_string()));
        let (dtype, shape) = (DType::I32, Vec::new());
        // A grid without axes has one here, whose index the body does not take.
        if kernel.rank() > 0 {
            arguments.items.push(Item::Value(Val { name, dtype, shape, multiple: 1 }));
        }
    }
    for aval in &kernel.body.avals_in()[kernel.first_prefetch()..kernel.first_input()] {
        let name = emitter.text.fresh();
        arguments.add_memory(emitter, prefetch_memref(aval, name));
    }
    arguments
}

/// Returns the name with letters, digits and underscores only.
pub(super) fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Returns the text of a kernel's module.
///
/// # Errors
/// The operation that has no form on TPUs, and its location.
pub(super) fn module(kernel: &KernelCall) -> Result<String, (RuleError, Loc)> {
    let mut emitter = Emitter::default();
    match write(&mut emitter, kernel) {
        Ok(()) => Ok(emitter.text.finish(&identifier(&kernel.name))),
        Err(error) => Err((error, emitter.failed_at)),
    }
}

fn write(emitter: &mut Emitter, kernel: &KernelCall) -> RuleResult<()> {
    let mut arguments = common_arguments(emitter, kernel);
    let windows: Vec<&BlockMapping> = kernel.inputs.iter().chain(&kernel.outputs).collect();
    for (index, window) in windows.iter().enumerate() {
        check_memory_dtype(window.array.dtype).map_err(|error| {
            let message = format!("window {index}, {}: {}", window.array, error.message);
            RuleError { message, ..error }
        })?;
        let name = emitter.text.fresh();
        arguments.add_memory(emitter, window_memref(window, name));
    }
    for (index, scratch) in kernel.scratch.iter().enumerate() {
        check_memory_dtype(scratch.aval().dtype).map_err(|error| {
            let message = format!("scratch {index}: {}", error.message);
            RuleError { message, ..error }
        })?;
        let name = emitter.text.fresh();
        arguments.add_memory(emitter, scratch_memref(scratch.aval(), scratch.memory(), name));
    }
    let outside = emitter.text.open(&arguments.declared);
    for &(input, output) in &kernel.aliases {
        copy_alias(emitter, kernel, &arguments.items, (input, output))?;
    }
    emitter.program(&kernel.body, arguments.items.iter().cloned())?;
    emitter.text.op("func.return", &[], "", &[], &[]);
    let region = emitter.text.close(outside);
    let attributes = attributes(kernel, &windows, &arguments.types());
    emitter.text.op("func.func", &[], &attributes, &[region], &[]);
    for (index, window) in windows.iter().enumerate() {
        index_function(emitter, kernel, window, index)?;
    }
    Ok(())
}

fn check_memory_dtype(dtype: DType) -> RuleResult<()> {
    if dtype == DType::Bool {
        return Err(RuleError::dtype("a TPU's memories hold no booleans")
            .help("convert to i8 or i32 outside of the kernel, and compare with 0 inside"));
    }
    check_dtype(dtype)
}

/// Returns the attributes of the kernel's function.
fn attributes(kernel: &KernelCall, windows: &[&BlockMapping], types: &str) -> String {
    let sizes = if kernel.rank() == 0 { vec![1] } else { kernel.grid.clone() };
    let semantics = |axis: usize| match kernel.semantics.get(axis) {
        Some(DimensionSemantics::Parallel) => "#tpu.dimension_semantics<parallel>",
        _ => "#tpu.dimension_semantics<arbitrary>",
    };
    let semantics = list((0..sizes.len()).map(semantics));
    let window = |(index, window): (usize, &&BlockMapping)| {
        let bounds = match window.block_sizes() {
            sizes if sizes.is_empty() => "1, 1".to_string(),
            sizes => list(sizes),
        };
        let is_input = index < kernel.inputs.len();
        let is_single = kernel.n_programs() > 1 && is_single_buffered(kernel, window, is_input);
        let mode = match is_single && window.memory == KernelMemory::Vmem {
            true => ", pipeline_mode = #tpu.pipeline_mode<synchronous>",
            false => "",
        };
        format!("{{transform_indices = @map_{index}, window_bounds = array<i64: {bounds}>{mode}}}")
    };
    let windows = list(windows.iter().enumerate().map(window));
    format!(
        "function_type = ({types}) -> (), sym_name = \"main\", \
         dimension_semantics = [{semantics}], iteration_bounds = array<i64: {}>, \
         scalar_prefetch = {} : i64, scratch_operands = {} : i64, \
         tpu.core_type = #tpu.core_type<tc>, window_params = [{windows}]",
        list(sizes),
        kernel.n_prefetch,
        kernel.scratch.len()
    )
}

/// Writes the function from grid indices to the index of a window's block.
fn index_function(
    emitter: &mut Emitter,
    kernel: &KernelCall,
    window: &BlockMapping,
    index: usize,
) -> RuleResult<()> {
    let arguments = common_arguments(emitter, kernel);
    let outside = emitter.text.open(&arguments.declared);
    let indices = emitter.program(&window.index_map, arguments.items.iter().cloned())?;
    let mut values: Vec<Val> = indices
        .into_iter()
        .filter_map(|item| match item {
            Item::Value(value) => Some(value),
            Item::Memory(_) => None,
        })
        .collect();
    if window.block.is_empty() {
        let zero = emitter.text.int(0);
        values = vec![zero.clone(), zero];
    }
    let operands: Vec<(&str, String)> =
        values.iter().map(|value| (value.name.as_str(), value.ty())).collect();
    emitter.text.op("func.return", &operands, "", &[], &[]);
    let region = emitter.text.close(outside);
    let results = list(values.iter().map(Val::ty));
    let types = arguments.types();
    let attributes =
        format!("function_type = ({types}) -> ({results}), sym_name = \"map_{index}\"");
    emitter.text.op("func.func", &[], &attributes, &[region], &[]);
    Ok(())
}

/// Copies the block of an input to the output that shares its memory, in the first program of each
/// block. The compiler gives each window separate buffers, and the buffer of an output starts
/// undefined.
fn copy_alias(
    emitter: &mut Emitter,
    kernel: &KernelCall,
    items: &[Item],
    (input, output): (usize, usize),
) -> RuleResult<()> {
    let state = kernel.first_output() + output;
    if is_overwritten(kernel, state) {
        return Ok(());
    }
    let (from, to) = (&kernel.inputs[input], &kernel.outputs[output]);
    if from.index_map != to.index_map {
        let message = format!(
            "input {input} and output {output} share memory and have different index maps, and \
             the kernel does not write all of the output's block first"
        );
        return Err(RuleError::value(message).help("give both the same index map"));
    }
    let (Item::Memory(from), Item::Memory(to)) =
        (&items[kernel.first_input() + input], &items[state])
    else {
        return Ok(());
    };
    let first_unused = to_first_unused(kernel, output);
    let mut is_first: Option<Val> = None;
    for item in &items[first_unused..kernel.rank()] {
        let Item::Value(index) = item else { continue };
        let zero = emitter.text.fill(Scalar::Int(0), DType::I32, &[]);
        let is_zero = emitter.compare(ComparisonDirection::Eq, index, &zero);
        is_first = Some(match is_first {
            None => is_zero,
            Some(all) => binary(emitter, super::elementwise::AND, &all, &is_zero)?,
        });
    }
    let (from, to) = (emitter.memories[*from].clone(), emitter.memories[*to].clone());
    match is_first {
        None => emitter.copy(&from, &to),
        Some(is_first) => {
            let outside = emitter.text.open(&[]);
            emitter.copy(&from, &to)?;
            emitter.text.op("scf.yield", &[], "", &[], &[]);
            let copy = emitter.text.close(outside);
            let operand = [(is_first.name.as_str(), is_first.ty())];
            emitter.text.op("scf.if", &operand, "", &[copy, "{\n}".to_string()], &[]);
            Ok(())
        }
    }
}

/// Returns the number of leading grid axes after which the block of an output does not change.
fn to_first_unused(kernel: &KernelCall, output: usize) -> usize {
    let innermost = kernel.outputs[output].innermost_axis(kernel.rank());
    innermost.map_or(0, |axis| axis + 1)
}

/// Returns true if the first operation on a reference writes all of its elements.
fn is_overwritten(kernel: &KernelCall, input: usize) -> bool {
    let var = kernel.body.inputs()[input];
    let first = kernel.body.eqns().iter().find(|eqn| eqn.operands.contains(&var));
    first.is_some_and(|eqn| {
        let set: Option<&RefSet> = (*eqn.primitive).as_any().downcast_ref();
        let shape = &kernel.body.aval(var).shape;
        set.is_some_and(|set| {
            eqn.operands[0] == var && set.part.is_whole(shape) && !set.part.masked
        })
    })
}
