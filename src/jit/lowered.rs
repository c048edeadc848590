//! A traced function, looked at before it is compiled, and compiled without being called.

use super::ahead::Compiled;
use super::entry::Staged;
use super::planned::Planned;
use crate::core::{Aval, Cost, Error, Mesh, NamedSharding, Program};
use crate::passes;
use crate::runtime::{Topology, lowering_target};
use crate::tree::{Args, Signature, Tree};
use std::fmt;
use std::marker::PhantomData;

/// A function traced on arguments of given types. Made by [`Jit::lower`](super::Jit::lower).
pub struct Lowered<A, O> {
    staged: Staged<O>,
    signature: Signature,
    arguments: PhantomData<fn(A)>,
}

impl<A: Args, O: Tree> Lowered<A, O> {
    pub(super) fn new(staged: Staged<O>, signature: Signature) -> Lowered<A, O> {
        Lowered { staged, signature, arguments: PhantomData }
    }

    /// The traced program.
    pub fn program(&self) -> &Program {
        &self.staged.program
    }

    /// The text of its StableHLO module for `platform`: `cpu`, `cuda` or `tpu`. Operations carry
    /// the user's file and line.
    ///
    /// # Errors
    /// [`Error::Op`] if a primitive refuses the platform.
    pub fn as_text(&self, platform: &str) -> Result<String, Error> {
        let placed = self.staged.placed()?;
        let target = lowering_target(platform);
        passes::lower_placed(self.program(), &self.staged.name, target, true, placed.as_ref())
    }

    /// Arithmetic and memory traffic, counted on the program.
    pub fn cost(&self) -> Cost {
        passes::cost(self.program())
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.staged.name
    }

    /// The mesh that it is to run over; `None` for one device.
    ///
    /// # Errors
    /// As [`Lowered::compile`] where shardings do not fit.
    pub fn mesh(&self) -> Result<Option<Mesh>, Error> {
        Ok(self.staged.placed()?.and_then(|placed| placed.mesh().cloned()))
    }

    /// The leaves of its arguments, in order, and how they lie.
    ///
    /// # Errors
    /// As [`Lowered::compile`] where shardings do not fit.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::without_devices([("data", 8)])?;
    /// let rows = mesh.sharding(p!["data"])?;
    /// let layer = jit(|w: Array, x: Array| x.matmul(&w)).in_shardings((None::<NamedSharding>, &rows));
    /// let (w, x) = (Aval::new(DType::F32, [64, 8]), Aval::new(DType::F32, [32, 64]));
    /// let arguments = layer.lower((w, x))?.arguments()?;
    /// assert_eq!((arguments[1].path.as_str(), arguments[1].position), ("$[1]", 1));
    /// assert_eq!(arguments[0].bytes_per_device(), 64 * 8 * 4);
    /// assert_eq!(arguments[1].bytes_per_device(), 32 * 64 * 4 / 8);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn arguments(&self) -> Result<Vec<Argument>, Error> {
        let placed = self.staged.placed()?;
        let shardings = placed.map_or_else(Vec::new, |placed| placed.inputs);
        let positions = self.staged.arguments.iter().enumerate();
        let leaves = positions.flat_map(|(at, of)| of.iter().map(move |aval| (at, aval)));
        let leaves = leaves.zip(&self.staged.spread.paths).enumerate();
        Ok(leaves
            .map(|(at, ((position, aval), path))| {
                let sharding = shardings.get(at).cloned().flatten();
                Argument::new(path.clone(), position, (**aval).clone(), sharding)
            })
            .collect())
    }

    /// Compiles it for the default device, without arguments and without running it. The
    /// [`Jit`](super::Jit) that it came from does not learn of it.
    ///
    /// # Errors
    /// `Plugin`, `Compile`; [`Error::Op`] if a primitive refuses the platform; [`Error::Tracer`] if
    /// the function captured an array that has no elements.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let x = Aval::new(DType::F32, [1024]);
    /// let compiled = jit(|x: Array| sin(&x) * &x).lower(x)?.compile()?;
    /// println!("{} bytes of temporaries", compiled.memory_analysis()?.temporaries);
    /// let y = compiled.call(zeros([1024], DType::F32))?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile(&self) -> Result<Compiled<A, O>, Error> {
        let plan = self.staged.plan()?;
        let text = self.staged.lower(&plan)?;
        let entry = self.staged.load(&text, plan)?;
        Ok(Compiled::new(&self.staged, entry, self.signature.clone()))
    }

    /// Compiles it for devices that need not be here. Over a mesh, if shardings speak of one: one of the topology's
    /// devices ([`Topology::mesh`]), or one [`without_devices`](crate::core::Mesh::without_devices), which takes the topology's
    /// first; else for one device.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it does not fit into the memory of a device; [`Error::Compile`] with the compiler's message, or
    /// if the mesh has more devices than the topology; [`Error::Op`] if a primitive refuses the platform.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::BF16, [8192, 8192]))?;
    /// let compiled = square.compile_for(&Topology::named("v5e:1x1")?)?;
    /// assert_eq!(compiled.memory_analysis()?.arguments, 2 * 8192 * 8192);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile_for(&self, topology: &Topology) -> Result<Planned, Error> {
        Planned::compile(&self.staged, &self.signature, topology)
    }
}

/// A leaf of a lowered function's arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Argument {
    /// Its path among all arguments: `$[0].weight`.
    pub path: String,
    /// The argument that it belongs to, from 0.
    pub position: usize,
    /// Its type, of all devices together.
    pub aval: Aval,
    /// How it lies on the mesh; `None` if the program runs on one device.
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

    /// The bytes of it that a device holds.
    pub fn bytes_per_device(&self) -> usize {
        let part = self.sharding.as_ref().map(|it| it.shard_shape(&self.aval.shape));
        match part {
            Some(Ok(shape)) => self.aval.with_shape(shape).bytes(),
            _ => self.aval.bytes(),
        }
    }
}

impl<A, O> fmt::Debug for Lowered<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lowered({}: {})", self.staged.name, self.staged.program)
    }
}
