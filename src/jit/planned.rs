//! [`Planned`]: a function compiled for devices that are not here.

use super::artifact::{Artifact, Head};
use super::entry::Staged;
use crate::core::{Array, Cost, Error, Program};
use crate::passes::{self, Placed};
use crate::runtime::{Collectives, MemoryAnalysis, Topology, Unloaded};
use crate::tree::{Signature, Tree};
use std::collections::BTreeMap;
use std::fmt;

/// A function compiled for a [`Topology`]: the compiler's word on it, without the devices. Made by
/// [`Lowered::compile_for`](super::Lowered::compile_for).
pub struct Planned {
    unloaded: Unloaded,
    head: Head,
    program: Program,
    captures: Vec<Array>,
    placed: Option<Placed>,
    topology: Topology,
}

impl Planned {
    /// Compiles a function for a topology.
    ///
    /// # Errors
    /// As [`Lowered::compile_for`](super::Lowered::compile_for).
    pub(super) fn compile<O: Tree>(
        staged: &Staged<O>,
        signature: &Signature,
        topology: &Topology,
    ) -> Result<Planned, Error> {
        let (program, placed) = (staged.program.clone(), staged.placed()?);
        let unloaded = Unloaded::compile(&program, &staged.name, placed.as_ref(), topology)?;
        let (head, captures) = (staged.head(signature), staged.captures.clone());
        Ok(Planned { unloaded, head, program, captures, placed, topology: topology.clone() })
    }

    /// The function as bytes.
    ///
    /// # Errors
    /// As [`Planned::serialize`].
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let shipped = self.unloaded.ship(&self.program, self.placed.as_ref(), &self.topology)?;
        Artifact::to_bytes(self.head.clone(), Some(&self.program), &self.captures, shipped)
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// What it was compiled for.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The traced program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Arithmetic and memory traffic of all devices together, counted on the program.
    pub fn cost(&self) -> Cost {
        passes::cost(&self.program)
    }

    /// The memory that it takes on each device, in bytes.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not say.
    pub fn memory_analysis(&self) -> Result<MemoryAnalysis, Error> {
        self.unloaded.asked().memory()
    }

    /// What the compiler reckons it costs each device, by the compiler's names: `flops`, `bytes accessed`, and so on. It
    /// counts the body of a loop once.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not say.
    pub fn cost_analysis(&self) -> Result<BTreeMap<String, f64>, Error> {
        self.unloaded.asked().costs()
    }

    /// The program after the compiler's optimizations: a protocol buffer of type
    /// `HloModuleProtoWithConfig`, which XLA's tools read and print.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not give it.
    pub fn optimized_hlo(&self) -> Result<Vec<u8>, Error> {
        self.unloaded.asked().optimized_hlo()
    }

    /// What the optimized program sends from device to device, by kind.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the plugin does not give the program.
    pub fn collectives(&self) -> Result<Collectives, Error> {
        self.unloaded.asked().collectives()
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Planned({} for {})", self.name(), self.topology.name())
    }
}
