//! [`call`] and [`Kernel`]: the description of a kernel, and its application to operands.

use super::checks;
use super::kernel_call::{BlockMapping, KernelCall, KernelPlatform};
use super::refs::{Ref, RefRole};
use super::scope;
use super::spec::{BlockDim, BlockSpec, Grid, Output, Scratch};
use crate::core::{Array, Aval, DType, Error, Loc, OpErrorKind, Program, RuleError, Scalar, trace};
use crate::passes;
use crate::primitives::{ListEntry, convert_element_type, fill_of};
use crate::transforms::staging::trace_function_at;
use crate::tree::short_name;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A kind of compiler for kernels. Its rules are checked when a kernel is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelTarget {
    /// Mosaic, for TPUs.
    Tpu,
    /// The [`GpuBackend`] of the kernel, for NVIDIA GPUs.
    Gpu,
}

/// A compiler of kernels for NVIDIA GPUs. Both are parts of XLA's CUDA plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GpuBackend {
    /// Triton. It takes every operation of kernels for GPUs, and uses tensor cores.
    #[default]
    Triton,
    /// Mosaic GPU, by text of its stable form. It takes elementwise operations, reductions,
    /// operations that move elements, and conditions, and blocks of any sizes. Compiling needs the
    /// runtime library of Mosaic GPU, which `oxidax plugin install cuda` installs.
    MosaicGpu,
}

/// Options of the compilers of kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelOptions {
    /// The compilers whose rules the kernel obeys, all of them by default. On other platforms it
    /// runs as a loop over its grid.
    pub targets: Vec<KernelTarget>,
    /// Runs the kernel as a loop over its grid on every platform, as on a CPU.
    pub interpret: bool,
    /// The bytes of VMEM that the kernel may use on a TPU. The default is 16 MiB.
    pub vmem_limit: usize,
    /// The number of warps of each program on a GPU, a power of two up to 32; chosen from the
    /// blocks if `None`.
    pub num_warps: Option<u32>,
    /// The number of stages of software pipelining on a GPU. If `None`, the largest of 3 with which
    /// operands of products fit the shared memory.
    pub num_stages: Option<u32>,
    /// The compiler on NVIDIA GPUs, Triton by default.
    #[serde(default)]
    pub gpu_backend: GpuBackend,
    /// The outputs that the kernel does not write, by index: memory for another kernel, which
    /// shares it as an alias. [`Kernel::run_checked`] does not miss their elements.
    pub unwritten: Vec<usize>,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            targets: vec![KernelTarget::Tpu, KernelTarget::Gpu],
            interpret: false,
            vmem_limit: 16 << 20,
            num_warps: None,
            num_stages: None,
            gpu_backend: GpuBackend::Triton,
            unwritten: Vec::new(),
        }
    }
}

/// The references of a kernel as one argument: an array, `[x, y]: [Ref; 2]`, or a vector.
pub trait Refs: Sized {
    /// Returns the references as this type, or `None` if their number differs.
    fn from_list(refs: &[Ref]) -> Option<Self>;
    /// Returns the number of references that the type holds, if it is fixed.
    fn count() -> Option<usize>;
}

impl<const N: usize> Refs for [Ref; N] {
    fn from_list(refs: &[Ref]) -> Option<Self> {
        refs.to_vec().try_into().ok()
    }
    fn count() -> Option<usize> {
        Some(N)
    }
}

impl Refs for Vec<Ref> {
    fn from_list(refs: &[Ref]) -> Option<Self> {
        Some(refs.to_vec())
    }
    fn count() -> Option<usize> {
        None
    }
}

/// The body, without the type of its argument.
type Body = dyn Fn(&[Ref]) -> Option<()> + Send + Sync;

/// A function of the operands, as a list.
type ListFunction = dyn Fn(&[Array]) -> Vec<Array> + Send + Sync;

/// A kernel, returned by [`call`].
#[derive(Clone)]
pub struct Kernel {
    name: String,
    body: Arc<Body>,
    /// The number of references that the body takes, if it is fixed.
    n_refs: Option<usize>,
    grid: Grid,
    inputs: Vec<BlockSpec>,
    outputs: Vec<Output>,
    scratch: Vec<Scratch>,
    n_prefetch: usize,
    aliases: Vec<(usize, usize)>,
    options: KernelOptions,
    variants: Vec<(KernelPlatform, Kernel)>,
    on_partitioned: Option<Arc<ListFunction>>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("grid", &self.grid)
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

/// Describes a kernel: `body` runs once for every index of `grid`, on references to its blocks of
/// the inputs and outputs.
///
/// The references are those of prefetched operands, inputs, outputs and scratch memory, in this
/// order. The methods of [`Kernel`] set the other properties, and [`Kernel::apply`] runs it.
///
/// ```
/// use oxidax::kernel::{self, BlockSpec, Grid, Output, Ref};
/// use oxidax::prelude::*;
/// let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
/// let add = kernel::call(
///     |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
///     Grid::new([4]),
///     [rows(), rows()],
///     [Output::new(DType::F32, [32, 128], rows())],
/// );
/// let x = Aval::new(DType::F32, [32, 128]);
/// let sum = eval_shape(|x: Array, y: Array| add.apply1(&[&x, &y]), (x.clone(), x))?;
/// assert_eq!(sum.aval().to_string(), "f32[32,128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// Reference: JAX's Pallas, `jax.experimental.pallas.pallas_call`.
#[doc(alias = "pallas_call")]
pub fn call<R: Refs, F: Fn(R) + Send + Sync + 'static>(
    body: F,
    grid: Grid,
    inputs: impl Into<Vec<BlockSpec>>,
    outputs: impl Into<Vec<Output>>,
) -> Kernel {
    Kernel {
        name: short_name::<F>(),
        body: Arc::new(move |refs| {
            body(R::from_list(refs)?);
            Some(())
        }),
        n_refs: R::count(),
        grid,
        inputs: inputs.into(),
        outputs: outputs.into(),
        scratch: Vec::new(),
        n_prefetch: 0,
        aliases: Vec::new(),
        options: KernelOptions::default(),
        variants: Vec::new(),
        on_partitioned: None,
    }
}

impl Kernel {
    /// Sets the name, which profiles and errors show.
    #[must_use]
    pub fn name(mut self, name: &str) -> Kernel {
        self.name = name.to_string();
        self
    }

    /// Adds scratch memory.
    #[doc(alias = "scratch_shapes")]
    #[must_use]
    pub fn scratch(mut self, scratch: impl Into<Vec<Scratch>>) -> Kernel {
        self.scratch = scratch.into();
        self
    }

    /// Makes the first `count` operands available to index maps: see [`BlockSpec::prefetched`].
    /// They are integers in the memory of scalars, and have no [`BlockSpec`].
    #[doc(alias = "num_scalar_prefetch")]
    #[must_use]
    pub fn prefetch(mut self, count: usize) -> Kernel {
        self.n_prefetch = count;
        self
    }

    /// Lets the output at index `output` share the memory of the input at index `input`. It starts
    /// with the elements of the input. Prefetched operands do not count.
    #[doc(alias = "input_output_aliases")]
    #[must_use]
    pub fn alias(mut self, input: usize, output: usize) -> Kernel {
        self.aliases.push((input, output));
        self
    }

    /// Sets the options of compilers.
    #[must_use]
    pub fn options(mut self, options: KernelOptions) -> Kernel {
        self.options = options;
        self
    }

    /// Sets the compilers whose rules are checked. On other platforms the kernel runs as a loop
    /// over its grid.
    #[must_use]
    pub fn targets(mut self, targets: impl Into<Vec<KernelTarget>>) -> Kernel {
        self.options.targets = targets.into();
        self
    }

    /// Sets the compiler on NVIDIA GPUs.
    ///
    /// ```
    /// use oxidax::kernel::{self, BlockSpec, GpuBackend, Grid, Kernel, Output, Ref};
    /// use oxidax::prelude::*;
    /// let rows = || BlockSpec::new([8, 100], |[i]| (i, 0));
    /// let softmax = move || -> Kernel {
    ///     let body = |[x, o]: [Ref; 2]| o.store(softmax(x.load(), [1]));
    ///     let output = Output::new(DType::F32, [32, 100], rows());
    ///     let softmax = kernel::call(body, Grid::new([4]), [rows()], [output]);
    ///     softmax.gpu_backend(GpuBackend::MosaicGpu)
    /// };
    /// let run = jit(move |x: Array| softmax().apply1(&[&x]));
    /// let lowered = run.lower(Aval::new(DType::F32, [32, 100]))?;
    /// assert!(lowered.as_text("cuda")?.contains("mosaic_gpu_v2"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn gpu_backend(mut self, backend: GpuBackend) -> Kernel {
        self.options.gpu_backend = backend;
        self
    }

    /// Runs another kernel on CPUs, which computes the same outputs from the same operands, usually
    /// with larger blocks. Rules of other platforms do not apply to it.
    #[must_use]
    pub fn on_cpu(self, kernel: Kernel) -> Kernel {
        self.with_variant(KernelPlatform::Cpu, kernel.targets([]))
    }

    /// Runs another kernel on GPUs, which computes the same outputs from the same operands, usually
    /// with smaller blocks: a program of a GPU has less memory than a core of a TPU. Only rules of
    /// GPUs apply to it, and this kernel then has no rules of GPUs.
    #[must_use]
    pub fn on_gpu(self, kernel: Kernel) -> Kernel {
        self.with_variant(KernelPlatform::Gpu, kernel.targets([KernelTarget::Gpu]))
    }

    fn with_variant(mut self, platform: KernelPlatform, kernel: Kernel) -> Kernel {
        self.variants.retain(|(other, _)| *other != platform);
        self.variants.push((platform, kernel));
        self
    }

    /// Runs ordinary operations instead in programs that the compiler partitions over devices. It
    /// cannot partition a kernel, and would gather the operands on every device. The function maps
    /// the operands to the outputs.
    #[must_use]
    pub fn on_partitioned(
        mut self,
        f: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
    ) -> Kernel {
        self.on_partitioned = Some(Arc::new(f));
        self
    }

    /// Runs the kernel as a loop over its grid on every platform.
    #[must_use]
    pub fn interpret(mut self) -> Kernel {
        self.options.interpret = true;
        self
    }

    /// Runs a kernel that has one output: [`Kernel::apply`].
    ///
    /// Throws as [`Kernel::apply`] does, and `Op` (value) if there are several outputs.
    #[track_caller]
    pub fn apply1(&self, operands: &[&Array]) -> Array {
        let [output] = self.apply(operands);
        output
    }

    /// Runs the kernel: prefetched operands, then inputs. Returns the outputs.
    ///
    /// The kernel is traced, and the rules of its compilers are checked.
    ///
    /// Throws `Op` if the operands do not fit the specifications, if the kernel violates a rule of
    /// a compiler, at the line of the specification or operation, if the number of outputs is not
    /// `N`, and whatever the body throws.
    #[track_caller]
    pub fn apply<const N: usize>(&self, operands: &[&Array]) -> [Array; N] {
        let loc = Loc::caller();
        if self.outputs.len() != N {
            let count = self.outputs.len();
            self.refuse(format!("has {count} outputs, and {N} were expected"), None, loc);
        }
        let outputs = self.apply_list(operands);
        outputs.try_into().expect("a kernel returns its outputs")
    }

    /// Runs the kernel as [`Kernel::apply`] does. Returns the outputs as a list.
    ///
    /// Throws as [`Kernel::apply`] does.
    #[track_caller]
    pub fn apply_list(&self, operands: &[&Array]) -> Vec<Array> {
        let loc = Loc::caller();
        let kernel: Arc<dyn crate::core::Primitive> = Arc::new(self.traced_at(operands, loc));
        trace::bind_at(&kernel, operands, loc)
    }

    /// Traces the kernel for these operands, of which only the types count.
    ///
    /// Throws as [`Kernel::apply`] does.
    #[track_caller]
    pub fn trace(&self, operands: &[&Array]) -> KernelCall {
        self.traced_at(operands, Loc::caller())
    }

    /// Throws an error about the kernel.
    fn refuse(&self, message: String, help: Option<&str>, loc: Loc) -> ! {
        let name = format!("kernel `{}`", self.name);
        let error = trace::op_error(OpErrorKind::Value, &name, message, loc);
        trace::throw(match help {
            Some(help) => error.with_help(help),
            None => error,
        })
    }

    /// Returns the lines of the specifications of inputs, then of outputs.
    pub(super) fn spec_locs(&self) -> Vec<Loc> {
        let input_locs = self.inputs.iter().map(|spec| spec.loc);
        input_locs.chain(self.outputs.iter().map(|output| output.spec.loc)).collect()
    }

    /// Returns the name.
    pub(super) fn kernel_name(&self) -> &str {
        &self.name
    }

    /// Traces the kernel for these operands, called at `loc`.
    pub(super) fn traced_at(&self, operands: &[&Array], loc: Loc) -> KernelCall {
        self.check_counts(operands, loc);
        let (prefetched, inputs) = operands.split_at(self.n_prefetch);
        let prefetched: Vec<Aval> = prefetched.iter().map(|x| strong(x.aval())).collect();
        self.check_shardings(operands, loc);
        let arrays = inputs.iter().map(|x| x.aval().clone());
        let inputs: Vec<BlockMapping> = arrays
            .zip(&self.inputs)
            .enumerate()
            .map(|(index, (array, spec))| {
                self.window(&format!("input {index}"), array, spec, &prefetched)
            })
            .collect();
        let outputs: Vec<BlockMapping> = self
            .outputs
            .iter()
            .enumerate()
            .map(|(index, output)| {
                let array = output.aval.clone();
                self.window(&format!("output {index}"), array, &output.spec, &prefetched)
            })
            .collect();
        self.check_aliases(&inputs, &outputs, loc);
        let body = self.traced_body(&prefetched, &inputs, &outputs, loc);
        let types = |kernel: &KernelCall| -> Vec<Aval> {
            kernel.outputs.iter().map(|window| window.array.clone()).collect()
        };
        let traced_variant = |(platform, kernel): &(KernelPlatform, Kernel)| {
            let other = kernel.traced_at(operands, loc);
            let expected: Vec<Aval> = outputs.iter().map(|window| window.array.clone()).collect();
            if types(&other) != expected {
                let message =
                    format!("the kernel for {platform} `{}` has other outputs", other.name);
                self.refuse(message, None, loc);
            }
            (*platform, Box::new(other))
        };
        let variants = self.variants.iter().map(traced_variant).collect();
        let on_partitioned = self.on_partitioned.as_ref().map(|function| {
            let operands = operands.iter().map(|x| strong(x.aval()));
            let scope = format!("kernel({}), partitioned", self.name);
            let operands: Vec<Aval> = operands.collect();
            let traced = trace::with_numbers_as_operands(false, || {
                trace_function_at(loc, scope, operands, |operands| function(&operands))
            });
            let expected: Vec<Aval> = outputs.iter().map(|window| window.array.clone()).collect();
            let found = traced.program.avals_out();
            let is_same = found.len() == expected.len()
                && found.iter().zip(&expected).all(|(found, of)| found.same_type(of));
            if !is_same || !traced.captures.is_empty() {
                let message = "the function for partitioned programs has other outputs, or uses \
                               arrays that are not operands";
                self.refuse(message.to_string(), None, loc);
            }
            Arc::new(traced.program)
        });
        let kernel = KernelCall {
            name: self.name.clone(),
            grid: self.grid.sizes.clone(),
            semantics: self.grid.semantics.clone(),
            n_prefetch: self.n_prefetch,
            inputs,
            outputs,
            scratch: self.scratch.clone(),
            aliases: self.aliases.clone(),
            options: self.options.clone(),
            variants,
            on_partitioned,
            body: Arc::new(body),
        };
        if let Err((error, at)) = checks::check(&kernel, &self.spec_locs()) {
            self.throw_rule(error, at.or(loc));
        }
        kernel
    }

    fn throw_rule(&self, error: RuleError, loc: Loc) -> ! {
        let name = format!("kernel `{}`", self.name);
        // A location in scope would replace that of the specification.
        let thrown: Error = loc.scope(|| trace::rule_error(&name, error, loc));
        trace::throw(thrown)
    }

    fn check_counts(&self, operands: &[&Array], loc: Loc) {
        let expected = self.n_prefetch + self.inputs.len();
        if operands.len() != expected {
            let message = format!(
                "takes {expected} operands, {} prefetched and {} with a BlockSpec, got {}",
                self.n_prefetch,
                self.inputs.len(),
                operands.len()
            );
            self.refuse(message, None, loc);
        }
        let n_refs = expected + self.outputs.len() + self.scratch.len();
        if self.n_refs.is_some_and(|count| count != n_refs) {
            let message = format!(
                "the body takes {} references, the kernel has {n_refs}: {} prefetched, {} inputs, \
                 {} outputs, {} scratch",
                self.n_refs.unwrap_or(0),
                self.n_prefetch,
                self.inputs.len(),
                self.outputs.len(),
                self.scratch.len()
            );
            self.refuse(message, Some("take one reference for each of them"), loc);
        }
        let (sizes, semantics) = (self.grid.sizes.len(), self.grid.semantics.len());
        if sizes != semantics {
            let message = format!("the grid has {sizes} axes and semantics for {semantics}");
            self.refuse(message, None, loc);
        }
        let n_programs = self.grid.sizes.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        if n_programs.is_none_or(|count| count > i32::MAX as usize) {
            let message =
                format!("a grid of {:?} has more than 2^31 - 1 programs", self.grid.sizes);
            self.refuse(message, None, loc);
        }
        for (index, operand) in operands[..self.n_prefetch].iter().enumerate() {
            if operand.dtype() != DType::I32 {
                let message = format!("prefetched operand {index} is {}", operand.aval());
                self.refuse(message, Some("prefetched operands are i32"), loc);
            }
        }
    }

    /// Refuses operands that are sharded over explicit axes of a mesh: a kernel runs on one device.
    fn check_shardings(&self, operands: &[&Array], loc: Loc) {
        let sharded = operands.iter().position(|operand| operand.aval().sharding.is_some());
        if let Some(index) = sharded {
            let message = format!("operand {index} is sharded: {}", operands[index].aval());
            let help = "call the kernel inside of `shard_map`, on each device's shard";
            self.refuse(message, Some(help), loc);
        }
    }

    fn check_aliases(&self, inputs: &[BlockMapping], outputs: &[BlockMapping], loc: Loc) {
        for &(input, output) in &self.aliases {
            let (Some(a), Some(b)) = (inputs.get(input), outputs.get(output)) else {
                let message = format!(
                    "an alias of input {input} and output {output}, of {} inputs and {} outputs",
                    inputs.len(),
                    outputs.len()
                );
                self.refuse(message, None, loc);
            };
            if a.array.shape != b.array.shape
                || a.array.dtype != b.array.dtype
                || a.block != b.block
            {
                let message = format!(
                    "input {input} and output {output} share memory and differ: {} in blocks {:?}, \
                     {} in blocks {:?}",
                    a.array,
                    a.block_sizes(),
                    b.array,
                    b.block_sizes()
                );
                self.refuse(message, None, loc);
            }
            let same = |&&(i, o): &&(usize, usize)| i == input || o == output;
            if self.aliases.iter().filter(same).count() > 1 {
                let message = format!("input {input} or output {output} has two aliases");
                self.refuse(message, None, loc);
            }
        }
    }

    /// Traces the index map of a specification.
    fn window(
        &self,
        role: &str,
        array: Aval,
        spec: &BlockSpec,
        prefetched: &[Aval],
    ) -> BlockMapping {
        let refuse = |message: String, help: Option<&str>| -> ! {
            self.refuse(format!("{role}: {message}"), help, spec.loc)
        };
        let rank = self.grid.sizes.len();
        let whole = || array.shape.iter().map(|&size| BlockDim::Size(size)).collect();
        let block: Vec<BlockDim> = spec.block.clone().unwrap_or_else(whole);
        if block.len() != array.rank() {
            let sizes: Vec<usize> = block.iter().map(|dim| dim.size()).collect();
            refuse(format!("a block of {} axes, {sizes:?}, for {array}", sizes.len()), None);
        }
        let is_empty = |(dim, &size): (&BlockDim, &usize)| dim.size() == 0 && size > 0;
        if let Some(axis) = block.iter().zip(array.shape.iter()).position(is_empty) {
            refuse(format!("a block of size 0 along axis {axis} of {array}"), None);
        }
        if let Some(count) = spec.n_indices.filter(|&count| count != rank) {
            let help = "take one index for each axis of the grid";
            refuse(format!("the index map takes {count} indices, the grid has {rank}"), Some(help));
        }
        let index = Aval::new(DType::I32, []);
        let avals: Vec<Aval> =
            vec![index.clone(); rank].into_iter().chain(prefetched.iter().cloned()).collect();
        let scope = format!("index_map({role} of {})", self.name);
        let traced = trace::with_numbers_as_operands(false, || {
            trace_function_at(spec.loc, scope, avals, |inputs| {
                let (ids, states) = inputs.split_at(rank);
                let refs: Vec<Ref> = references(states, RefRole::Prefetch);
                let indices = match &spec.index_map {
                    Some(index_map) => index_map(ids, &refs),
                    None => vec![ListEntry::Scalar(Scalar::Int(0)); array.rank()],
                };
                let scalar = |entry: ListEntry| match entry {
                    ListEntry::Scalar(number) => fill_of(number, &index),
                    ListEntry::Array(x) => x,
                };
                indices.into_iter().map(scalar).collect::<Vec<Array>>()
            })
        });
        if !traced.captures.is_empty() {
            let help = "compute the index from the grid indices and prefetched operands";
            refuse("the index map uses an array from outside".to_string(), Some(help));
        }
        let outputs = traced.program.avals_out();
        if outputs.len() != array.rank() {
            let message = format!("the index map returns {} indices for {array}", outputs.len());
            refuse(message, Some("return the index of a block for each axis of the array"));
        }
        for (axis, output) in outputs.iter().enumerate() {
            if output.rank() != 0 || !output.dtype.is_integer() {
                let message = format!("the index map returns {output} for axis {axis} of {array}");
                refuse(message, Some("return an integer scalar for each axis of the array"));
            }
        }
        let converted =
            crate::transforms::staging::trace_rules(traced.program.avals_in(), |inputs| {
                let indices = passes::eval(&traced.program, inputs);
                indices.iter().map(|index| convert_element_type(index, DType::I32)).collect()
            });
        let index_map = Arc::new(passes::dce(&converted));
        BlockMapping { array: strong(&array), block, memory: spec.memory, index_map }
    }

    fn traced_body(
        &self,
        prefetched: &[Aval],
        inputs: &[BlockMapping],
        outputs: &[BlockMapping],
        loc: Loc,
    ) -> Program {
        let rank = self.grid.sizes.len();
        let mut avals = vec![Aval::new(DType::I32, []); rank];
        avals.extend(prefetched.iter().cloned());
        avals.extend(inputs.iter().chain(outputs).map(BlockMapping::ref_aval));
        avals.extend(self.scratch.iter().map(|scratch| scratch.aval.clone()));
        let scope = format!("kernel({})", self.name);
        let traced = trace::with_numbers_as_operands(false, || {
            trace_function_at(loc, scope, avals, |arguments| {
                let (ids, states) = arguments.split_at(rank);
                let (prefetched, states) = states.split_at(self.n_prefetch);
                let (inputs, states) = states.split_at(inputs.len());
                let (outputs, scratch) = states.split_at(outputs.len());
                let mut refs = references(prefetched, RefRole::Prefetch);
                refs.extend(references(inputs, RefRole::Input));
                refs.extend(references(outputs, RefRole::Output));
                refs.extend(references(scratch, RefRole::Scratch));
                scope::with_kernel(ids, &self.grid.sizes, &refs, || {
                    (self.body)(&refs).expect("the number of references was checked")
                });
                let written = &refs[self.n_prefetch + inputs.len()..];
                written.iter().map(Ref::state).collect::<Vec<Array>>()
            })
        });
        if let Some(capture) = traced.captures.first() {
            let message = format!(
                "the body uses {} arrays from outside, the first is {}",
                traced.captures.len(),
                capture.aval()
            );
            self.refuse(message, Some("pass them as operands with a BlockSpec each"), loc);
        }
        // Conditions and loops carry the states of all references, also of those that they leave
        // as they are.
        passes::dce(&passes::forward(&passes::dce(&traced.program)))
    }
}

/// Returns dtype and shape.
fn strong(aval: &Aval) -> Aval {
    Aval::new(aval.dtype, aval.shape.clone())
}

fn references(states: &[Array], role: fn(usize) -> RefRole) -> Vec<Ref> {
    states.iter().enumerate().map(|(index, state)| Ref::new(role(index), state.clone())).collect()
}
