//! Loops, branches and the operations around them.

use super::{Operands, Scope, Traced, Translated, Translator};
use crate::control_flow;
use crate::core::{Array, DType, trace};
use crate::primitives::{bitwise_not, convert_element_type, optimization_barrier};

/// Returns arrays in the places of arrays, and other values as they were.
fn refilled(template: &[Traced], arrays: Vec<Array>) -> Vec<Traced> {
    let mut arrays = arrays.into_iter();
    let mut refill = |value: &Traced| match value.is_array() {
        true => arrays.next().map_or(Traced::Token, Traced::Array),
        false => value.clone(),
    };
    template.iter().map(&mut refill).collect()
}

impl<'m> Translator<'m> {
    /// Returns the arrays among values, without tokens.
    fn without_tokens(&self, values: &[Traced]) -> Translated<Vec<Array>> {
        values.iter().filter(|value| value.is_array()).map(|value| self.array(value)).collect()
    }

    pub(super) fn barrier(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let arrays = self.without_tokens(&operands.values)?;
        if arrays.is_empty() {
            return Ok(operands.values.clone());
        }
        Ok(refilled(&operands.values, optimization_barrier(&arrays)))
    }

    pub(super) fn while_loop(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let (condition, body) = (self.region(operands, 0)?, self.region(operands, 1)?);
        let template = &operands.values;
        let carry = self.without_tokens(template)?;
        let run = |block, carry: Vec<Array>| -> Vec<Array> {
            let results = self.block(block, refilled(template, carry), Some(scope));
            let arrays = results.and_then(|results| self.without_tokens(&results));
            arrays.unwrap_or_else(|error| trace::throw(error))
        };
        let results: Vec<Array> = control_flow::while_loop(
            |carry: Vec<Array>| self.only_result(run(condition, carry)),
            |carry: Vec<Array>| run(body, carry),
            carry,
        );
        Ok(refilled(template, results))
    }

    pub(super) fn branches(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let blocks: Vec<_> = operands.operation.regions().collect();
        let Some(index) = operands.values.first() else {
            return Err(self.unsupported(operands.operation, "it has no index"));
        };
        let last = blocks.len().saturating_sub(1);
        let is_if = operands.operation.name() == "if";
        if let Some([known]) = index.known().map(|known| &known.elements[..]) {
            // The first branch of `if` is that of true; `case` takes the last one for others.
            let chosen = match (is_if, usize::try_from(*known)) {
                (true, _) => usize::from(*known == 0),
                (false, Ok(index)) => index.min(last),
                (false, Err(_)) => last,
            };
            let block = blocks.get(chosen).copied();
            let missing = || self.unsupported(operands.operation, "it has too few branches");
            return self.block(block.ok_or_else(missing)?, Vec::new(), Some(scope));
        }
        let index = self.array(index)?;
        let index = match is_if {
            true => convert_element_type(&bitwise_not(&index), DType::I32),
            false => self.clamped(&index, last),
        };
        let types = self.vhlo(operands.operation.result_types())?;
        let branch = |block| {
            move |_: Vec<Array>| -> Vec<Array> {
                let results = self.block(block, Vec::new(), Some(scope));
                let arrays = results.and_then(|results| self.without_tokens(&results));
                arrays.unwrap_or_else(|error| trace::throw(error))
            }
        };
        let branches: Vec<_> = blocks.into_iter().map(branch).collect();
        let arrays: Vec<Array> =
            control_flow::switch::<Vec<Array>, Vec<Array>, _>(&index, branches, Vec::new());
        let mut arrays = arrays.into_iter();
        let values = types.iter().map(|ty| match ty {
            oxidax_vhlo::ValueType::Token => Some(Traced::Token),
            _ => arrays.next().map(Traced::Array),
        });
        let values: Option<Vec<Traced>> = values.collect();
        values.ok_or_else(|| self.unsupported(operands.operation, "a branch has too few results"))
    }

    /// Returns an index with the last branch in place of indices out of range.
    fn clamped(&self, index: &Array, last: usize) -> Array {
        use crate::primitives::{bitwise_or, gt, lt, scalar, select};
        let last = convert_element_type(&scalar(last as i64), index.dtype());
        let zero = convert_element_type(&scalar(0), index.dtype());
        let outside = bitwise_or(lt(index, &zero), gt(index, &last));
        select(&outside, &last, index)
    }
}
