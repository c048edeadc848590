//! [`Spmd`]: rules of primitives that concern several devices and memories.

use super::sharding_observer::ShardingObserver;
use crate::core::error::{RuleError, RuleResult};
use crate::core::mesh::communication::Communication;
use crate::core::mesh::explicit::result_shardings;
use crate::core::mesh::memory_kind::MemoryKind;
use crate::core::mesh::mesh::Mesh;
use crate::core::mesh::partition::{NamedSharding, PartitionSpec};
use crate::core::mesh::sharding_rule::ShardingRule;
use crate::core::mesh::varying::{Varying, joint};
use crate::core::program::primitive::{HigherOrder, Primitive};
use crate::core::types::aval::Aval;

/// Rules that concern several devices, or several memories: collectives, shardings, axes of a mesh,
/// and the memory of results.
///
/// Every method defaults to `None`, the convention that its documentation states. A primitive that
/// departs from one returns itself from [`Primitive::spmd`]. Callers use the methods of
/// `dyn Primitive`, which resolve the conventions.
pub trait Spmd {
    /// The exchange between devices along manual axes of a mesh. By convention none.
    fn communication(&self) -> Option<Communication> {
        None
    }

    /// The named axes that the operation refers to, as collectives do. Under `vmap` over one of
    /// these names, results may differ between examples whose operands are equal. By convention
    /// the names that the held programs refer to.
    fn axis_names(&self) -> Option<Vec<String>> {
        None
    }

    /// The mesh axes over which each operand must vary. An operand that varies over fewer axes is
    /// converted by [`PVary`](crate::primitives::PVary), whose transpose is a sum. By convention
    /// all axes over which any operand varies; for holders of a program, those of its inputs.
    fn operand_varying(&self, _operands: &[Aval]) -> Option<Vec<Varying>> {
        None
    }

    /// The mesh axes over which each result varies, for operands that are as
    /// [`operand_varying`](Spmd::operand_varying) requires. By convention all axes over which any
    /// operand varies; for holders of programs, what `abstract_eval` returned.
    fn result_varying(&self, _operands: &[Aval], _results: &[Aval]) -> Option<Vec<Varying>> {
        None
    }

    /// The memory of every result. By convention that of the operands, which must be in one memory;
    /// for holders of programs, what `abstract_eval` returned.
    fn result_memory(&self) -> Option<MemoryKind> {
        None
    }

    /// The function that receives the sharding of the first operand when a program is compiled. By
    /// convention none.
    fn observer(&self) -> Option<&ShardingObserver> {
        None
    }

    /// The mesh that is a parameter of the operation, as in sharding constraints. By convention
    /// none.
    fn mesh(&self) -> Option<&Mesh> {
        None
    }

    /// The shardings over [`mesh`](Spmd::mesh) that the operation gives its results. By convention
    /// the compiler chooses them.
    fn result_specs(&self) -> Option<&[PartitionSpec]> {
        None
    }

    /// The shardings over [`mesh`](Spmd::mesh) that the operation takes its operands with. By
    /// convention any.
    fn operand_specs(&self) -> Option<&[PartitionSpec]> {
        None
    }

    /// The operand dimensions that each result dimension corresponds to. By convention those with
    /// the same index, which is right for elementwise and row-wise operations.
    fn sharding_rule(&self, _operands: &[Aval], _results: &[Aval]) -> Option<ShardingRule> {
        None
    }

    /// Returns true if results without a sharding over explicit axes are sharded as the compiler
    /// chooses. By convention they are replicated over these axes.
    fn leaves_results_to_compiler(&self) -> bool {
        false
    }

    /// The sharding of each result over explicit axes of a mesh. By convention that of the operand
    /// dimensions that the [`sharding_rule`](Spmd::sharding_rule) names; for holders of programs,
    /// what `abstract_eval` returned.
    ///
    /// # Errors
    /// `Sharding` if the operands contradict each other, or do not determine it.
    fn result_shardings(
        &self,
        _operands: &[Aval],
        _results: &[Aval],
    ) -> RuleResult<Option<Vec<Option<NamedSharding>>>> {
        Ok(None)
    }
}

impl dyn Primitive {
    /// The exchange between devices along manual axes of a mesh, if there is one.
    pub fn communication(&self) -> Option<Communication> {
        self.spmd().and_then(Spmd::communication)
    }

    /// The named axes that the operation, or a program that it holds, refers to.
    pub fn axis_names(&self) -> Vec<String> {
        self.spmd().and_then(Spmd::axis_names).unwrap_or_else(|| {
            let programs = self.as_higher_order().map(HigherOrder::programs).unwrap_or_default();
            programs.iter().flat_map(|(_, program)| program.axis_names()).cloned().collect()
        })
    }

    /// The mesh axes over which each operand must vary.
    pub fn operand_varying(&self, operands: &[Aval]) -> Vec<Varying> {
        if let Some(varying) = self.spmd().and_then(|rules| rules.operand_varying(operands)) {
            return varying;
        }
        let programs = self.as_higher_order().map(HigherOrder::programs).unwrap_or_default();
        match programs.as_slice() {
            // Operands behind the program's own are captured by rules.
            [(_, program)] if program.inputs().len() <= operands.len() => {
                let own = program.inputs().iter().map(|&var| program.aval(var));
                let captured = operands[program.inputs().len()..].iter();
                own.chain(captured).map(|aval| aval.varying.clone()).collect()
            }
            _ => vec![joint(operands); operands.len()],
        }
    }

    /// Sets the mesh axes over which the results vary.
    pub fn set_result_varying(&self, operands: &[Aval], results: &mut [Aval]) {
        match self.spmd().and_then(|rules| rules.result_varying(operands, results)) {
            Some(varying) => {
                for (result, varying) in results.iter_mut().zip(varying) {
                    result.varying = varying;
                }
            }
            None if self.as_higher_order().is_some() => {}
            None => {
                let varying = joint(operands);
                results.iter_mut().for_each(|result| result.varying = varying.clone());
            }
        }
    }

    /// Sets the memory of the results.
    ///
    /// # Errors
    /// `Value` if the operands must be in one memory and are not.
    pub fn set_result_memory(&self, operands: &[Aval], results: &mut [Aval]) -> RuleResult<()> {
        let memory = match self.spmd().and_then(Spmd::result_memory) {
            Some(memory) => memory,
            None if self.as_higher_order().is_some() => return Ok(()),
            None => joint_memory(operands)?,
        };
        results.iter_mut().for_each(|result| result.memory = memory);
        Ok(())
    }

    /// Sets the shardings of the results over explicit axes of a mesh.
    ///
    /// # Errors
    /// `Sharding` if the operands contradict each other, or do not determine them.
    pub fn set_result_shardings(&self, operands: &[Aval], results: &mut [Aval]) -> RuleResult<()> {
        let stated = match self.spmd() {
            Some(rules) => rules.result_shardings(operands, results)?,
            None => None,
        };
        let shardings = match stated {
            Some(shardings) => shardings,
            None if self.as_higher_order().is_some() => return Ok(()),
            None if operands.iter().all(|operand| operand.sharding.is_none()) => return Ok(()),
            None => result_shardings(&self.sharding_rule(operands, results), operands, results)?,
        };
        for (result, sharding) in results.iter_mut().zip(shardings) {
            result.sharding = sharding;
        }
        Ok(())
    }

    /// The mesh that is a parameter of the operation, if there is one.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.spmd().and_then(Spmd::mesh)
    }

    /// The shardings that the operation gives its results, if it fixes them.
    pub fn result_specs(&self) -> Option<&[PartitionSpec]> {
        self.spmd().and_then(Spmd::result_specs)
    }

    /// The shardings that the operation takes its operands with, if it fixes them.
    pub fn operand_specs(&self) -> Option<&[PartitionSpec]> {
        self.spmd().and_then(Spmd::operand_specs)
    }

    /// The operand dimensions that each result dimension corresponds to.
    pub fn sharding_rule(&self, operands: &[Aval], results: &[Aval]) -> ShardingRule {
        self.spmd()
            .and_then(|rules| rules.sharding_rule(operands, results))
            .unwrap_or_else(|| ShardingRule::in_place(operands, results))
    }
}

/// Returns the memory that all of these values are in. Scalars, such as `2.0` in `&x * 2.0`, may be
/// in another one if there are arrays.
///
/// # Errors
/// `Value` if two of them are in different memories.
fn joint_memory(avals: &[Aval]) -> RuleResult<MemoryKind> {
    let has_arrays = avals.iter().any(|aval| aval.rank() > 0);
    let mut decisive = avals.iter().filter(|aval| !has_arrays || aval.rank() > 0);
    let Some(first) = decisive.next() else { return Ok(MemoryKind::Device) };
    match decisive.find(|aval| aval.memory != first.memory) {
        None => Ok(first.memory),
        Some(other) => Err(RuleError::value(format!(
            "operands must be in one memory, got {first} in {} and {other} in {}",
            first.memory, other.memory
        ))
        .help("move one of them: `device_put(&x, MemoryKind::Device)`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::DType;

    #[test]
    fn scalars_may_be_in_another_memory() {
        let host = Aval::new(DType::F32, [2]).with_memory(MemoryKind::PinnedHost);
        let scalar = Aval::new(DType::F32, []);
        let host_scalar = scalar.with_memory(MemoryKind::PinnedHost);
        let device = Aval::new(DType::F32, [2]);
        let joint = |avals: &[&Aval]| {
            let avals: Vec<Aval> = avals.iter().map(|&aval| aval.clone()).collect();
            joint_memory(&avals).ok()
        };
        assert_eq!(joint(&[]), Some(MemoryKind::Device));
        assert_eq!(joint(&[&scalar, &host]), Some(MemoryKind::PinnedHost));
        assert_eq!(joint(&[&host, &host]), Some(MemoryKind::PinnedHost));
        assert_eq!(joint(&[&host, &device]), None);
        assert_eq!(joint(&[&scalar, &host_scalar]), None);
    }
}
