//! The functions of reductions, scatters and collectives: regions of one operation.

use super::{Operands, Scope, Traced, Translated, Translator};
use crate::core::{Array, Scalar, bind1, trace};
use crate::primitives::{Add, And, Max, Min, Mul, Or, Xor, broadcast_to, reshape};
use crate::transforms::vmap;
use oxidax_vhlo::VhloBlock;

impl<'m> Translator<'m> {
    /// Returns the name of the only operation of a region of two arguments, in either order:
    /// `add`, `maximum`; or `first` or `second` if it returns an argument. `None` for another
    /// region.
    pub(super) fn reducer(
        &self,
        operands: &Operands<'m>,
        index: usize,
        scope: &Scope<'_>,
    ) -> Translated<Option<&'static str>> {
        let block = self.region(operands, index)?;
        let arguments = self.vhlo(block.arguments())?;
        let [(a, _), (b, _)] = arguments[..] else { return Ok(None) };
        let operations: Vec<_> = block.operations().collect();
        let name = match operations[..] {
            [end] if end.operands() == [b] => "second",
            [end] if end.operands() == [a] => "first",
            [operation, end] => {
                let is_pair = operation.operands() == [a, b] || operation.operands() == [b, a];
                if !is_pair || !operation.results().eq(end.operands().iter().copied()) {
                    return Ok(None);
                }
                let names = ["add", "multiply", "maximum", "minimum", "and", "or", "xor"];
                match names.into_iter().find(|name| *name == operation.name()) {
                    Some(name) => name,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        // Sums and products of flags are `or` and `and`.
        let ids = operands.operation.operands();
        let first = ids.first().and_then(|id| scope.get(*id));
        let is_bool = first.and_then(|x| x.array_type()).is_some_and(|(dtype, _)| dtype.is_bool());
        Ok(Some(match name {
            "add" | "maximum" if is_bool => "or",
            "multiply" | "minimum" if is_bool => "and",
            name => name,
        }))
    }

    /// Applies a region to arrays of elements, each on its own.
    pub(super) fn apply_to_elements(
        &self,
        block: VhloBlock<'m>,
        arrays: Vec<Array>,
        scope: &Scope<'_>,
    ) -> Vec<Array> {
        let Some(first) = arrays.first() else { return Vec::new() };
        let shape = first.shape().clone();
        let one = |elements: Vec<Array>| self.apply(block, elements, scope);
        if shape.rank() == 0 {
            return one(arrays);
        }
        let flat: Vec<Array> = arrays.iter().map(|x| reshape(x, [shape.size()])).collect();
        let results: Vec<Array> = vmap(one).apply(flat);
        results.iter().map(|y| reshape(y, shape.clone())).collect()
    }

    /// Returns the result of a region that has one. Throws an error if it has another number.
    pub(super) fn only_result(&self, results: Vec<Array>) -> Array {
        let count = results.len();
        let [result] = <[Array; 1]>::try_from(results).unwrap_or_else(|_| {
            let message = format!("a region has {count} results in place of one");
            trace::throw(self.error(message))
        });
        result
    }

    /// Applies a region to arrays. Throws its errors, for functions that a transform traces.
    pub(super) fn apply(
        &self,
        block: VhloBlock<'m>,
        arrays: Vec<Array>,
        scope: &Scope<'_>,
    ) -> Vec<Array> {
        let arguments = arrays.into_iter().map(Traced::Array).collect();
        let results = self.block(block, arguments, Some(scope));
        let arrays = results.and_then(|values| self.arrays_of(&values));
        arrays.unwrap_or_else(|error| trace::throw(error))
    }
}

/// Combines two arrays by the operation of a reducer. The first one may be a scalar.
pub(super) fn combine(name: &str, x: &Array, y: &Array) -> Option<Array> {
    let x = broadcast_to(x, y.shape().clone());
    Some(match name {
        "add" => bind1(Add, [&x, y]),
        "multiply" => bind1(Mul, [&x, y]),
        "maximum" => bind1(Max, [&x, y]),
        "minimum" => bind1(Min, [&x, y]),
        "and" => bind1(And, [&x, y]),
        "or" => bind1(Or, [&x, y]),
        "xor" => bind1(Xor, [&x, y]),
        _ => return None,
    })
}

/// Returns true if a number leaves others unchanged.
pub(super) fn is_neutral(name: &str, init: &Traced) -> bool {
    let (value, dtype) = match init {
        Traced::Filled(array, value) => (*value, array.dtype()),
        Traced::Known(known) => match known.elements[..] {
            [value] => (Scalar::Int(value), known.dtype),
            _ => return false,
        },
        _ => return false,
    };
    let value = match value {
        Scalar::Bool(flag) => f64::from(flag),
        Scalar::Int(number) if matches!(name, "maximum" | "minimum") => {
            let (low, high) = dtype.int_range();
            return number == if name == "maximum" { low } else { high };
        }
        Scalar::Int(number) if name == "and" && !dtype.is_bool() => {
            return number == if dtype.is_signed() { -1 } else { dtype.int_range().1 };
        }
        Scalar::Int(number) => number as f64,
        Scalar::Float(number) => number,
        Scalar::Complex(..) => return false,
    };
    match name {
        "add" | "or" | "xor" => value == 0.0,
        "multiply" | "and" => value == 1.0,
        "maximum" => value == f64::NEG_INFINITY,
        "minimum" => value == f64::INFINITY,
        _ => false,
    }
}
