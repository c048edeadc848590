//! `kernel_call`: the primitive that runs a kernel.

use super::grid_loop;
use super::interpreter;
use super::kernel::{GpuBackend, KernelOptions, KernelTarget};
use super::spec::{BlockDim, DimensionSemantics, KernelMemory, Scratch};
use super::{batch, mosaic, mosaic_gpu, traffic, triton};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Error, HigherOrder, JvpResult, Known,
    LowerCtx, Marks, Primitive, Program, Pruned, RuleError, RuleResult, RunCount, Shape, SplitEqn,
    Tangent, Used,
};
use crate::ensure_shape;
use crate::passes;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The blocks of one operand or result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlockMapping {
    /// The type of the array: dtype and shape.
    #[serde(with = "super::text::aval")]
    pub array: Aval,
    /// The size of a block along each axis of the array.
    pub block: Vec<BlockDim>,
    /// The memory of the block.
    pub memory: KernelMemory,
    /// From the grid indices `i32[]` and the prefetched operands to the index of a block.
    #[serde(skip, default = "super::text::no_program")]
    pub index_map: Arc<Program>,
}

impl BlockMapping {
    /// Returns the sizes of a block, 1 for squeezed axes.
    pub fn block_sizes(&self) -> Vec<usize> {
        self.block.iter().map(|dim| dim.size()).collect()
    }

    /// Returns the type of the reference, without squeezed axes.
    pub fn ref_aval(&self) -> Aval {
        let kept = self.block.iter().filter(|&&dim| dim != BlockDim::Squeezed);
        let shape: Vec<usize> = kept.map(|dim| dim.size()).collect();
        Aval::new(self.array.dtype, shape)
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(&self) -> usize {
        Aval::new(self.array.dtype, self.block_sizes()).bytes()
    }

    /// Returns the number of blocks along each axis.
    pub fn n_blocks(&self) -> Vec<usize> {
        let sizes = self.array.shape.iter().zip(&self.block);
        sizes.map(|(&size, block)| size.div_ceil(block.size().max(1))).collect()
    }

    /// Returns true if blocks reach beyond the array.
    pub fn is_ragged(&self) -> bool {
        let mut axes = self.array.shape.iter().zip(&self.block);
        axes.any(|(&size, block)| size % block.size().max(1) != 0)
    }

    /// Returns the last grid axis on which the index of the block depends, or `None` if all
    /// programs see one block.
    pub fn innermost_axis(&self, rank: usize) -> Option<usize> {
        self.used_axes(rank).iter().rposition(|&is_used| is_used)
    }

    /// Marks the grid axes on which the index of the block depends.
    pub fn used_axes(&self, rank: usize) -> Vec<bool> {
        let used = passes::dce(&self.index_map).used_inputs();
        // A block that prefetched operands choose may change at every step.
        let prefetches = used.slice(rank..used.len()).any();
        (0..rank).map(|axis| prefetches || used[axis]).collect()
    }
}

/// A platform on which another kernel may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelPlatform {
    /// CPUs, on which a kernel is a loop over its grid.
    Cpu,
    /// NVIDIA GPUs.
    Gpu,
}

impl std::fmt::Display for KernelPlatform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KernelPlatform::Cpu => "CPUs",
            KernelPlatform::Gpu => "GPUs",
        })
    }
}

/// Runs a kernel: a program of references for every index of a grid.
///
/// | | |
/// |-|-|
/// | operands   | `n_prefetch` operands of scalars, then the inputs |
/// | results    | the outputs |
/// | body       | from the grid indices `i32[]`, the prefetched operands and the states of inputs, outputs and scratch memory to the states of outputs and scratch memory |
/// | lowering   | a loop over the grid on CPU; a kernel on TPU and GPU |
/// | derivative | none: give the function one with [`custom_vjp`](crate::control_flow::custom_vjp) |
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[doc(alias = "pallas_call")]
pub struct KernelCall {
    /// The name, for profiles.
    pub name: String,
    /// The number of programs along each grid axis. The last axis varies fastest.
    pub grid: Vec<usize>,
    /// The order of programs along each grid axis.
    pub semantics: Vec<DimensionSemantics>,
    /// The number of leading operands that index maps may read.
    pub n_prefetch: usize,
    /// The blocks of the inputs.
    pub inputs: Vec<BlockMapping>,
    /// The blocks of the outputs.
    pub outputs: Vec<BlockMapping>,
    /// Scratch memory.
    pub scratch: Vec<Scratch>,
    /// Pairs of an input and an output that share memory. The output starts with the input's
    /// elements.
    pub aliases: Vec<(usize, usize)>,
    /// Options of compilers.
    pub options: KernelOptions,
    /// The kernels that run instead on some platforms, for example with larger blocks on CPUs, at
    /// most one for each platform.
    pub variants: Vec<(KernelPlatform, Box<KernelCall>)>,
    /// The program of ordinary operations that runs instead where the compiler partitions.
    #[serde(with = "super::text::presence")]
    pub on_partitioned: Option<Arc<Program>>,
    /// The program.
    #[serde(skip, default = "super::text::no_program")]
    pub body: Arc<Program>,
}

impl KernelCall {
    /// Returns the number of programs.
    pub fn n_programs(&self) -> usize {
        self.grid.iter().product()
    }

    /// Returns the number of grid axes.
    pub fn rank(&self) -> usize {
        self.grid.len()
    }

    /// Returns true if a compiler of kernels compiles it for the platform, and false if it runs as
    /// a loop over its grid.
    fn is_compiled_for(&self, platform: &str) -> bool {
        let target = match platform {
            "tpu" => KernelTarget::Tpu,
            "cuda" => KernelTarget::Gpu,
            _ => return false,
        };
        let mut windows = self.inputs.iter().chain(&self.outputs);
        let is_empty = self.n_programs() == 0 || windows.any(|window| window.array.size() == 0);
        !self.options.interpret && self.options.targets.contains(&target) && !is_empty
    }

    /// Returns the kernel that runs instead on a platform.
    pub fn variant(&self, platform: KernelPlatform) -> Option<&KernelCall> {
        let mut variants = self.variants.iter();
        variants.find(|(of, _)| *of == platform).map(|(_, kernel)| &**kernel)
    }

    /// Returns the kernel that runs on the platform of this name.
    fn on_platform(&self, name: &str) -> &KernelCall {
        let platform = match name {
            "cpu" => KernelPlatform::Cpu,
            "cuda" if !self.options.interpret => KernelPlatform::Gpu,
            _ => return self,
        };
        self.variant(platform).unwrap_or(self)
    }

    /// Returns the number of stages of software pipelining on a GPU.
    pub(crate) fn num_stages(&self) -> u32 {
        triton::shared_memory::n_stages(self)
    }

    /// Returns the input that shares memory with an output.
    pub fn alias_of_output(&self, output: usize) -> Option<usize> {
        let pair = self.aliases.iter().find(|&&(_, of)| of == output);
        pair.map(|&(input, _)| input)
    }

    /// Returns the position of the first prefetched operand among the inputs of the body.
    pub fn first_prefetch(&self) -> usize {
        self.rank()
    }

    /// Returns the position of the first input among the inputs of the body.
    pub fn first_input(&self) -> usize {
        self.rank() + self.n_prefetch
    }

    /// Returns the position of the first output among the inputs of the body.
    pub fn first_output(&self) -> usize {
        self.first_input() + self.inputs.len()
    }

    /// Returns the position of the first scratch memory among the inputs of the body.
    pub fn first_scratch(&self) -> usize {
        self.first_output() + self.outputs.len()
    }
}

impl KernelCall {
    /// Checks that the programs fit the windows, for a kernel that was read from text.
    pub(super) fn check_programs(&self) -> RuleResult<()> {
        let index = Aval::new(DType::I32, []);
        let body = self.body.avals_in();
        let windows = || self.inputs.iter().chain(&self.outputs);
        let n_inputs = self.first_scratch() + self.scratch.len();
        ensure_shape!(
            self.semantics.len() == self.rank()
                && self.grid.iter().try_fold(1, |n: usize, &size| n.checked_mul(size)).is_some()
                && windows().all(|window| window.block.len() == window.array.rank())
                && windows().all(|window| {
                    let mut axes = window.block.iter().zip(window.array.shape.iter());
                    axes.all(|(dim, &size)| dim.size() > 0 || size == 0)
                })
                && self
                    .aliases
                    .iter()
                    .all(|&(i, o)| { i < self.inputs.len() && o < self.outputs.len() })
                && body.len() == n_inputs,
            "the parts of the kernel do not fit each other"
        );
        let prefetched = &body[self.rank()..self.first_input()];
        let map_inputs: Vec<Aval> = vec![index.clone(); self.rank()]
            .into_iter()
            .chain(prefetched.iter().cloned())
            .collect();
        let mut expected = map_inputs.clone();
        expected.extend(windows().map(BlockMapping::ref_aval));
        expected.extend(self.scratch.iter().map(|scratch| scratch.aval().clone()));
        ensure_shape!(
            body == expected
                && self.body.avals_out() == expected[self.first_output()..]
                && windows().all(|window| {
                    window.index_map.avals_in() == map_inputs
                        && window.index_map.avals_out() == vec![index.clone(); window.array.rank()]
                }),
            "a program of the kernel does not have the types of its windows"
        );
        Ok(())
    }
}

impl Primitive for KernelCall {
    fn name(&self) -> &'static str {
        "kernel_call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let expected = self.n_prefetch + self.inputs.len();
        ensure_shape!(
            operands.len() == expected,
            "`{}` takes {expected} operands, got {}",
            self.name,
            operands.len()
        );
        for (index, (operand, window)) in
            operands[self.n_prefetch..].iter().zip(&self.inputs).enumerate()
        {
            ensure_shape!(
                (operand.dtype, &operand.shape) == (window.array.dtype, &window.array.shape),
                "input {index} of `{}` is {}, got {operand}",
                self.name,
                window.array
            );
        }
        Ok(self.outputs.iter().map(|window| window.array.clone()).collect())
    }

    fn jvp(&self, _: &[Array], _: &[Tangent]) -> JvpResult {
        Err(RuleError::unsupported(format!("the kernel `{}` has no derivative", self.name)).help(
            "give the function that calls it a derivative with `custom_vjp`, whose backward pass \
             may call other kernels",
        ))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch::batch(self, operands, axes, axis)
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let is_partitioned = is_auto_partitioned(ctx);
        if let Some(program) = self.on_partitioned.as_ref().filter(|_| is_partitioned) {
            return ctx.call(program, &self.name, operands);
        }
        let chosen = self.on_platform(ctx.platform());
        if chosen.is_compiled_for(ctx.platform()) {
            if is_partitioned {
                return Err(refused_partition(chosen));
            }
            return match ctx.platform() {
                "tpu" => mosaic::lower(chosen, ctx, operands),
                _ if chosen.options.gpu_backend == GpuBackend::MosaicGpu => {
                    mosaic_gpu::lower(chosen, ctx, operands)
                }
                _ => triton::lower(chosen, ctx, operands),
            };
        }
        ctx.call(&grid_loop::program(chosen), &self.name, operands)
    }

    /// Returns the arithmetic of all programs, and the traffic of blocks between memories.
    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        let body = passes::cost(&self.body).times(self.n_programs());
        Cost { bytes: traffic::bytes(self), ..body }
    }

    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for KernelCall {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        let windows = self.inputs.iter().chain(&self.outputs);
        let maps = windows.map(|window| ("index_map", &*window.index_map));
        let own = std::iter::once(("body", &*self.body)).chain(maps);
        let partitioned = self.on_partitioned.iter().map(|of| ("on_partitioned", &**of));
        let variants = self.variants.iter().flat_map(|(_, other)| other.programs());
        own.chain(partitioned).chain(variants).collect()
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        // `cost` counts the body for all programs of the grid.
        vec![RunCount::Counted; self.programs().len()]
    }

    /// Returns `None`: all outputs come from one kernel.
    fn split(&self, _: &Marks<Known>) -> Option<SplitEqn> {
        None
    }

    /// Returns `None`: the kernel writes all outputs.
    fn prune(&self, _: &Marks<Used>) -> Option<Pruned> {
        None
    }

    /// Returns `None`: a kernel does not call the host.
    fn with_programs(&self, _: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        None
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        interpreter::run_within_checks(self, operands)
            .unwrap_or_else(|| Ok(passes::eval(&grid_loop::program(self), operands)))
    }
}

/// Returns true if the compiler partitions the operations along an axis of a mesh.
fn is_auto_partitioned(ctx: &LowerCtx<'_>) -> bool {
    let is_manual = |name: &str| {
        let axes = ctx.manual().map(|manual| &manual.axes);
        axes.is_some_and(|axes| axes.iter().any(|axis| axis == name))
    };
    ctx.partition().is_some_and(|mesh| mesh.axis_names().any(|name| !is_manual(name)))
}

/// Returns the error for a kernel that the compiler would have to split over devices.
fn refused_partition(kernel: &KernelCall) -> RuleError {
    RuleError::sharding(format!(
        "the kernel `{}` is in a program that the compiler splits over devices: it would gather \
         all operands on each of them",
        kernel.name
    ))
    .help("call the kernel inside of `shard_map`, on the part of each device")
}

/// Returns the shape of an array whose axes are multiples of a window's blocks.
pub(super) fn padded_shape(window: &BlockMapping) -> Shape {
    let sizes = window.n_blocks().into_iter().zip(&window.block);
    Shape::from(sizes.map(|(count, block)| count * block.size()).collect::<Vec<_>>())
}
