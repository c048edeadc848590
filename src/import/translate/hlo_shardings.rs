//! Shardings as HLO writes them, in modules of JAX before version 0.7: constraints, and functions
//! that each device calls with its shards.

use super::{Operands, Traced, Translated, Translator};
use crate::core::{Mesh, PartitionSpec};
use crate::primitives::constrained;
use crate::runtime::sharding_of_text;
use oxidax_vhlo::VhloBlock;

impl<'m> Translator<'m> {
    /// Translates the custom call `Sharding`.
    pub(super) fn hlo_constraint(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let text = operands.operation.text("mhlo.sharding");
        if let (Some(id), Some(text)) = (operands.operation.results().next(), text) {
            self.constraints.borrow_mut().insert(id, text);
        }
        let [value] = &operands.values[..] else { return Ok(operands.values.clone()) };
        let (Some(mesh), Some(text), true) =
            (&self.target.mesh, text, self.manual.borrow().is_empty())
        else {
            return Ok(vec![value.clone()]);
        };
        if !value.is_array() {
            return Ok(vec![value.clone()]);
        }
        let x = self.array(value)?;
        // Other shardings than those over axes of the mesh are hints.
        Ok(vec![Traced::Array(match sharding_of_text(mesh, text, x.rank()) {
            Some(sharding) if sharding.mesh() == mesh => constrained(&x, sharding),
            _ => x,
        })])
    }

    /// Translates the custom calls at the borders of functions on shards.
    pub(super) fn shards(&self, operands: &Operands<'m>, target: &str) -> Translated<Vec<Traced>> {
        let [value] = &operands.values[..] else {
            return Err(self.unsupported(operands.operation, "it has several operands"));
        };
        if target == "SPMDShardToFullShape" {
            return match value {
                Traced::Sharded(x, _) => Ok(vec![Traced::Array(x.clone())]),
                _ => {
                    let message = "its operand is not the result of a function on shards";
                    Err(self.unsupported(operands.operation, message))
                }
            };
        }
        // The sharding is that of the constraint before.
        let text = self.sharding_before(operands)?;
        Ok(vec![Traced::Sharded(self.array(value)?, text.to_owned())])
    }

    fn sharding_before(&self, operands: &Operands<'m>) -> Translated<&'m str> {
        let id = operands.operation.operands().first().copied();
        let text = id.and_then(|id| self.constraints.borrow().get(&id).copied());
        text.ok_or_else(|| self.unsupported(operands.operation, "there is no sharding before it"))
    }

    /// Calls a function with the shards of arrays, on each device. The shardings of its results are
    /// those of the custom calls behind it.
    pub(super) fn call_on_shards(
        &self,
        name: &str,
        operands: &Operands<'m>,
        block: VhloBlock<'m>,
    ) -> Translated<Vec<Traced>> {
        let operation = operands.operation;
        let Some(mesh) = &self.target.mesh else {
            return Err(self.unsupported(operation, "the caller has one device"));
        };
        let mut arrays = Vec::new();
        let mut in_specs = Vec::new();
        for value in &operands.values {
            let (x, spec) = match value {
                Traced::Sharded(x, text) => (x.clone(), self.spec_of(mesh, text, x.rank())?),
                value => (self.array(value)?, PartitionSpec(Vec::new())),
            };
            arrays.push(x);
            in_specs.push(spec);
        }
        let types = self.vhlo(operation.result_types())?;
        let mut out_specs = Vec::new();
        let mut texts = Vec::new();
        for (id, ty) in operation.results().zip(types) {
            let text = sharding_behind(block, id).unwrap_or("{replicated}");
            let rank = match ty {
                oxidax_vhlo::ValueType::Tensor(_, sizes) => sizes.len(),
                _ => return Err(self.unsupported(operation, "a result is not an array")),
            };
            out_specs.push(self.spec_of(mesh, text, rank)?);
            texts.push(text.to_owned());
        }
        let axes: Vec<String> = mesh.axis_names().map(str::to_owned).collect();
        let run = |shards| self.call(name, shards);
        let results = self.on_shards((mesh, axes), (arrays, in_specs), run, out_specs);
        Ok(results.into_iter().zip(texts).map(|(x, text)| Traced::Sharded(x, text)).collect())
    }

    fn spec_of(&self, mesh: &Mesh, text: &str, rank: usize) -> Translated<PartitionSpec> {
        let sharding = sharding_of_text(mesh, text, rank);
        match sharding.filter(|sharding| sharding.mesh() == mesh) {
            Some(sharding) => Ok(sharding.spec().clone()),
            None => Err(self.error(format!("the sharding {text} is not over axes of {mesh}"))),
        }
    }
}

/// Returns the sharding of the whole array that is made of a value's shards.
fn sharding_behind<'m>(block: VhloBlock<'m>, id: usize) -> Option<&'m str> {
    let mut id = id;
    for operation in block.operations() {
        if operation.operands() != [id] {
            continue;
        }
        match operation.text("call_target_name") {
            Some("Sharding") => id = operation.results().next()?,
            Some("SPMDShardToFullShape") => return operation.text("mhlo.sharding"),
            _ => {}
        }
    }
    None
}
