//! [`Lowered`]: a traced function that has not been compiled yet.

use super::compiled::Compiled;
use super::traced::Traced;
use crate::core::{Aval, Cost, Error, LoopReport, Mesh, NamedSharding, Program, RepeatedPart};
use crate::passes::{self, LowerOptions, Peak, StableHloModule};
use crate::runtime::{CompilerOptions, Topology, target_of};
use crate::tree::{Args, Arguments, Signature, Tree};
#[cfg(feature = "export")]
use crate::{core::Array, passes::Plan, tree::Nesting};
use std::fmt;
use std::marker::PhantomData;

/// A function traced on arguments of given types. Made by [`Jit::lower`](super::Jit::lower).
pub struct Lowered<A, O> {
    traced: Traced<O>,
    signature: Signature,
    /// The containers of the arguments.
    #[cfg(feature = "export")]
    containers: Nesting,
    arguments: PhantomData<fn(A)>,
}

/// A lowered function, as an export takes it.
#[cfg(feature = "export")]
pub(crate) struct LoweredFunction<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a Program,
    /// The arrays that the function captured; the last inputs of the program.
    pub(crate) captures: &'a [Array],
    pub(crate) plan: &'a Plan,
    pub(crate) arguments: Nesting,
    pub(crate) results: Nesting,
}

impl<A: Args, O: Tree> Lowered<A, O> {
    pub(super) fn new(traced: Traced<O>, arguments: &Arguments<'_, A>) -> Lowered<A, O> {
        Lowered {
            traced,
            signature: Signature::of(arguments),
            #[cfg(feature = "export")]
            containers: Nesting::of(arguments),
            arguments: PhantomData,
        }
    }

    /// Returns the parts of the function that an export takes.
    #[cfg(feature = "export")]
    pub(crate) fn function(&self) -> LoweredFunction<'_> {
        let Traced { name, program, captures, plan, template, .. } = &self.traced;
        let (arguments, results) = (self.containers.clone(), Nesting::of(template));
        LoweredFunction { name, program, captures, plan, arguments, results }
    }

    /// Returns the traced program.
    pub fn program(&self) -> &Program {
        &self.traced.program
    }

    /// Returns the name of the function.
    pub fn name(&self) -> &str {
        &self.traced.name
    }

    /// Returns the text of the StableHLO module for `platform`: `cpu`, `cuda` or `tpu`. Operations
    /// carry the file and line of user code.
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses the platform.
    pub fn as_text(&self, platform: &str) -> Result<String, Error> {
        self.module(platform).map(|module| module.text)
    }

    /// Returns the loops of the function as they are compiled for a CPU: as one kernel, or
    /// operation by operation, and why. In program order, outer loops before inner ones. Inside of
    /// [`enable_program_kernels`](crate::jit::enable_program_kernels) a program without loops has
    /// one report, of the name `program`.
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses CPUs.
    ///
    /// ```
    /// use oxidax::jit::LoopForm;
    /// use oxidax::prelude::*;
    /// let f = jit(|x: Array| fori_loop(0, 100, |_, x: Array| sin(&x) + 1.0, x));
    /// let loops = f.lower(Aval::new(DType::F32, [3]))?.loops()?;
    /// assert_eq!(loops[0].form, LoopForm::Kernel);
    /// println!("{}", loops[0]); // src/main.rs:3:25: while: one kernel
    /// let sorted = jit(|x: Array| fori_loop(0, 100, |_, x: Array| sort(&x, 0) + 1.0, x));
    /// let loops = sorted.lower(Aval::new(DType::F32, [3]))?.loops()?;
    /// assert!(loops[0].to_string().contains("operation by operation: sort "));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "explain")]
    pub fn loops(&self) -> Result<Vec<LoopReport>, Error> {
        self.module("cpu").map(|module| module.facts.loops)
    }

    fn module(&self, platform: &str) -> Result<StableHloModule, Error> {
        let Traced { name, program, plan, .. } = &self.traced;
        let target = target_of(program, platform);
        passes::lower_with_plan(program, name, target, LowerOptions { donatable: true }, plan)
    }

    /// Returns the parts of the program that lowering for `platform` writes as functions, because
    /// the program repeats them: layers that a Rust loop traces, their derivatives, and an
    /// optimizer's updates of equal parameters. Empty on platforms other than `cpu`, for programs
    /// over several devices, and inside [`disable_outlining`](super::disable_outlining).
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses the platform.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let deep = jit(|layers: Vec<nn::Linear>, x: Array| {
    ///     let normalize = |x: Array| standardize(x, -1, 1e-5);
    ///     layers.iter().fold(x, |x, layer| gelu(normalize(layer.forward(&x))))
    /// });
    /// let layers = random::split(random::key(0), 6);
    /// let layers: Vec<_> = layers.into_iter().map(|key| nn::Linear::new(key, 256, 256)).collect();
    /// let parts = deep.lower(&layers, ones([32, 256]))?.repeated_parts("cpu")?;
    /// assert_eq!((parts.len(), parts[0].times), (1, 6));
    /// println!("{}", parts[0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn repeated_parts(&self, platform: &str) -> Result<Vec<RepeatedPart>, Error> {
        self.module(platform).map(|module| module.facts.repeated_parts)
    }

    /// Returns arithmetic and memory traffic of all devices together, counted on the program.
    pub fn cost(&self) -> Cost {
        passes::cost(self.program())
    }

    /// Estimates the peak memory of all devices together, and the values that are alive at it, with
    /// the paths of arguments. Prints as a table by source line; see [`passes::peak`].
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let f = jit(|x: Array| x.matmul(&x).sum());
    /// let peak = f.lower(Aval::new(DType::F32, [64, 64]))?.peak_memory();
    /// assert_eq!(peak.bytes, 2 * 64 * 64 * 4); // x and the product
    /// assert_eq!(peak.by_line()[1].values[0].produced_by, Some("dot_general"));
    /// println!("{peak}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn peak_memory(&self) -> Peak {
        passes::peak(self.program()).with_paths(self.traced.paths())
    }

    /// Returns the mesh that the function runs on; `None` for one device.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.traced.plan.mesh()
    }

    /// Returns the leaves of the arguments, in order, with their shardings.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::without_devices([("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let layer = jit(|w: Array, x: Array| x.matmul(&w));
    /// let layer = layer.in_shardings((None::<NamedSharding>, &rows));
    /// let (w, x) = (Aval::new(DType::F32, [64, 8]), Aval::new(DType::F32, [32, 64]));
    /// let arguments = layer.lower(w, x)?.arguments();
    /// assert_eq!((arguments[1].path.as_str(), arguments[1].position), ("$[1]", 1));
    /// assert_eq!(arguments[0].bytes_per_device(), 64 * 8 * 4);
    /// assert_eq!(arguments[1].bytes_per_device(), 32 * 64 * 4 / 8);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn arguments(&self) -> Vec<Argument> {
        let mut arguments = Vec::with_capacity(self.traced.paths.len());
        for (position, avals) in self.traced.arguments.iter().enumerate() {
            for aval in avals {
                let leaf = arguments.len();
                let path = self.traced.paths[leaf].clone();
                let sharding = self.traced.plan.inputs.get(leaf).cloned();
                arguments.push(Argument::new(path, position, (**aval).clone(), sharding));
            }
        }
        arguments
    }

    /// Compiles the function for the devices of this process, without running it. The
    /// [`Jit`](super::Jit) that it was lowered from does not cache the result.
    ///
    /// # Errors
    /// `Plugin`, `Compile`; [`Error::Op`] if a primitive refuses the platform; [`Error::Tracer`] if
    /// the function captured an array without elements.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [1024]);
    /// let compiled = jit(|x: Array| sin(&x) * &x).lower(x)?.compile()?;
    /// println!("{} bytes of temporaries", compiled.report().memory_analysis()?.temporaries);
    /// let y = compiled.call(zeros([1024]))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile(&self) -> Result<Compiled<A, O>, Error> {
        self.compile_with(CompilerOptions::new())
    }

    /// As [`compile`](Self::compile), with options of the compiler. They are added to those of
    /// [`Jit::compiler_options`](super::Jit::compiler_options).
    ///
    /// # Errors
    /// As [`compile`](Self::compile); `Compile` names an option that the plugin does not know.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let lowered = jit(|x: Array| sin(&x) * &x).lower(Aval::new(DType::F32, [1024]))?;
    /// let fast = lowered.compile_with([("xla_cpu_enable_fast_math", true)])?;
    /// fast.call(zeros([1024]))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile_with(
        &self,
        options: impl Into<CompilerOptions>,
    ) -> Result<Compiled<A, O>, Error> {
        let options = self.traced.compiler_options.merged(&options.into());
        Compiled::for_process(&self.traced, self.signature.clone(), &options)
    }

    /// Compiles the function for devices that need not be attached.
    ///
    /// If shardings name a mesh, it is compiled for that mesh, otherwise for one device. The mesh
    /// is made of the topology's devices ([`Topology::mesh`]), or
    /// [`without_devices`](crate::core::Mesh::without_devices), which stands for the topology's
    /// first devices. The result reports memory and cost, and can be serialized; it cannot be
    /// called.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the program exceeds the memory of a device; [`Error::Compile`] with
    /// the compiler's message, or if the mesh has more devices than the topology; [`Error::Op`] if
    /// a primitive refuses the platform.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::BF16, [8192, 8192]))?;
    /// let compiled = square.compile_for(&Topology::named("v5e:1x1")?)?;
    /// println!("{} bytes of arguments", compiled.report().memory_analysis()?.arguments);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile_for(&self, topology: &Topology) -> Result<Compiled<A, O>, Error> {
        self.compile_for_with(topology, CompilerOptions::new())
    }

    /// As [`compile_for`](Self::compile_for), with options of the compiler. They are added to those
    /// of [`Jit::compiler_options`](super::Jit::compiler_options).
    ///
    /// # Errors
    /// As [`compile_for`](Self::compile_for); `Compile` names an option that the plugin does not
    /// know.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::BF16, [8192, 8192]))?;
    /// let slice = Topology::named("v5e:1x1")?;
    /// square.compile_for_with(&slice, [("xla_tpu_scoped_vmem_limit_kib", 32_768)])?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile_for_with(
        &self,
        topology: &Topology,
        options: impl Into<CompilerOptions>,
    ) -> Result<Compiled<A, O>, Error> {
        let options = self.traced.compiler_options.merged(&options.into());
        Compiled::for_topology(&self.traced, self.signature.clone(), topology, &options)
    }
}

/// A leaf of a lowered function's arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Argument {
    /// Its path among all arguments: `$[0].weight`.
    pub path: String,
    /// The index of the argument that it belongs to.
    pub position: usize,
    /// Its type, of the whole array.
    pub aval: Aval,
    /// Its sharding; `None` if the program runs on one device.
    pub sharding: Option<NamedSharding>,
}

impl Argument {
    pub(crate) fn new(
        path: String,
        position: usize,
        aval: Aval,
        sharding: Option<NamedSharding>,
    ) -> Argument {
        Argument { path, position, aval, sharding }
    }

    /// Returns the number of bytes that one device stores of it.
    pub fn bytes_per_device(&self) -> usize {
        let shard = self.sharding.as_ref().map(|sharding| sharding.shard_shape(&self.aval.shape));
        match shard {
            Some(Ok(shape)) => self.aval.with_shape(shape).bytes(),
            _ => self.aval.bytes(),
        }
    }
}

impl<A, O> fmt::Debug for Lowered<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lowered({}: {})", self.traced.name, self.traced.program)
    }
}
