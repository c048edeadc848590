//! A traced function, looked at before it is compiled, and compiled without being called.

use super::ahead::Compiled;
use super::entry::Staged;
use super::planned::Planned;
use crate::core::{Cost, Error, Program};
use crate::passes;
use crate::runtime::{Topology, Unloaded};
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
        passes::lower_placed(self.program(), &self.staged.name, platform, true, placed.as_ref())
    }

    /// Arithmetic and memory traffic, counted on the program.
    pub fn cost(&self) -> Cost {
        passes::cost(self.program())
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
    /// [`Error::Compile`] with the compiler's message, also if it does not fit into the devices' memory, or if the
    /// mesh has more devices than the topology; [`Error::Op`] if a primitive refuses the platform.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::BF16, [8192, 8192]))?;
    /// let compiled = square.compile_for(&Topology::named("v5e:1x1")?)?;
    /// assert_eq!(compiled.memory_analysis()?.arguments, 2 * 8192 * 8192);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn compile_for(&self, topology: &Topology) -> Result<Planned, Error> {
        let placed = self.staged.placed()?;
        let name = &self.staged.name;
        let unloaded = Unloaded::compile(self.program(), name, placed.as_ref(), topology)?;
        Ok(Planned::new(unloaded, name, self.program(), topology))
    }
}

impl<A, O> fmt::Debug for Lowered<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lowered({}: {})", self.staged.name, self.staged.program)
    }
}
