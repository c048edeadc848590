//! Custom calls and composites, by the names of their targets.

use super::{Operands, Traced, Translated, Translator};
use crate::core::{Array, bind1};
use crate::primitives::{
    Acos, Acosh, Asin, Asinh, Atanh, BesselI1e, Cosh, Digamma, Erf, ErfInv, Erfc, Lgamma,
    Nextafter, Polygamma, Sinh, Tan, Zeta, convert_element_type, neg, threefry2x32, top_k,
};
use oxidax_vhlo::AttributeValue;
use std::collections::BTreeMap;

/// The parameters of a custom call by their names.
pub(super) type Parameters<'m> = BTreeMap<&'m str, AttributeValue<'m>>;

impl<'m> Translator<'m> {
    pub(super) fn composite(&self, operands: Operands<'m>) -> Translated<Vec<Traced>> {
        let name = operands.operation.text("name").unwrap_or_default();
        let parameters = match self.vhlo(operands.operation.attribute("composite_attributes"))? {
            Some(AttributeValue::Dictionary(parameters)) => parameters,
            _ => Parameters::new(),
        };
        if let Some(results) = self.named(&operands, name, &parameters)? {
            return Ok(results);
        }
        let missing = || self.unsupported(operands.operation, "it has no decomposition");
        let decomposition = operands.operation.text("decomposition").ok_or_else(missing)?;
        self.call(decomposition, operands.values)
    }

    pub(super) fn custom_call(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let target = operands.operation.text("call_target_name").unwrap_or_default();
        let mut parameters = Parameters::new();
        for name in ["mhlo.attributes", "mhlo.backend_config", "backend_config"] {
            if let Some(AttributeValue::Dictionary(found)) =
                self.vhlo(operands.operation.attribute(name))?
            {
                parameters.extend(found);
            }
        }
        if let Some(results) = self.named(operands, target, &parameters)? {
            return Ok(results);
        }
        if let Some(results) = self.linear_algebra(operands, target, &parameters)? {
            return Ok(results);
        }
        match target {
            "shape_assertion" => self.shape_assertion(operands),
            "Sharding" => self.hlo_constraint(operands),
            "SPMDFullToShardShape" | "SPMDShardToFullShape" => self.shards(operands, target),
            "xla.sdy.FuncResultSharding"
            | "xla.sdy.ShardingGroup"
            | "LayoutConstraint"
            | "annotate_device_placement" => Ok(operands.values.clone()),
            "cu_threefry2x32_ffi" | "hip_threefry2x32_ffi" | "cu_threefry2x32" => {
                self.threefry(operands)
            }
            _ => {
                let platform = &self.target.platform;
                let message = format!("the custom call `{target}` is not known on {platform}");
                let help = "export the function for this platform with \
                            `jax.export.export(f, platforms=[…])`, or without the operation that \
                            needs it";
                Err(self.error(message).with_help(help))
            }
        }
    }

    /// Translates operations of the dialect CHLO, and those that came before them.
    fn named(
        &self,
        operands: &Operands<'m>,
        name: &str,
        parameters: &Parameters<'m>,
    ) -> Translated<Option<Vec<Traced>>> {
        let word = name.strip_prefix("chlo.").or_else(|| name.strip_prefix("mhlo."));
        let unary = |f: fn(&Array) -> Array| -> Translated<Option<Vec<Traced>>> {
            let [x] = self.exactly(operands)?;
            Ok(Some(vec![Traced::Array(f(&x))]))
        };
        let binary = |f: fn(&Array, &Array) -> Array| -> Translated<Option<Vec<Traced>>> {
            let [x, y] = self.exactly(operands)?;
            Ok(Some(vec![Traced::Array(f(&x, &y))]))
        };
        match word {
            Some("acos") => unary(|x| bind1(Acos, [x])),
            Some("acosh") => unary(|x| bind1(Acosh, [x])),
            Some("asin") => unary(|x| bind1(Asin, [x])),
            Some("asinh") => unary(|x| bind1(Asinh, [x])),
            Some("atanh") => unary(|x| bind1(Atanh, [x])),
            Some("bessel_i1e") => unary(|x| bind1(BesselI1e, [x])),
            Some("cosh") => unary(|x| bind1(Cosh, [x])),
            Some("digamma") => unary(|x| bind1(Digamma, [x])),
            Some("erf") => unary(|x| bind1(Erf, [x])),
            Some("erf_inv") => unary(|x| bind1(ErfInv, [x])),
            Some("erfc") => unary(|x| bind1(Erfc, [x])),
            Some("lgamma") => unary(|x| bind1(Lgamma, [x])),
            Some("next_after") => binary(|x, y| bind1(Nextafter, [x, y])),
            Some("polygamma") => binary(|x, y| bind1(Polygamma, [x, y])),
            Some("sinh") => unary(|x| bind1(Sinh, [x])),
            Some("square") => unary(|x| bind1(crate::primitives::Mul, [x, x])),
            Some("tan") => unary(|x| bind1(Tan, [x])),
            Some("zeta") => binary(|x, y| bind1(Zeta, [x, y])),
            Some("top_k" | "topk") => self.top_k(operands, parameters).map(Some),
            _ => Ok(None),
        }
    }

    fn top_k(
        &self,
        operands: &Operands<'m>,
        parameters: &Parameters<'m>,
    ) -> Translated<Vec<Traced>> {
        let [x] = self.exactly(operands)?;
        let count = match parameters.get("k") {
            Some(AttributeValue::Integer(count)) => usize::try_from(*count).ok(),
            _ => None,
        };
        let missing = || self.unsupported(operands.operation, "it does not state a number");
        let count = count.ok_or_else(missing)?;
        let is_smallest = parameters.get("largest") == Some(&AttributeValue::Integer(0));
        let (values, indices) = match is_smallest {
            true => {
                let (values, indices) = top_k(&neg(&x), count, -1);
                (neg(&values), indices)
            }
            false => top_k(&x, count, -1),
        };
        let dtype = self.result_type(operands, 1)?.0;
        Ok(vec![Traced::Array(values), Traced::Array(convert_element_type(&indices, dtype))])
    }

    /// Checks a condition on sizes that the module states.
    fn shape_assertion(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let template = operands.operation.text("error_message").unwrap_or("a size is refused");
        let numbers = operands.values.iter();
        let numbers =
            numbers.map(|value| value.known().and_then(|known| known.elements.first().copied()));
        let numbers: Vec<Option<i128>> = numbers.collect();
        match numbers.first() {
            Some(Some(0)) => {
                let mut message = template.to_owned();
                for (index, number) in numbers[1..].iter().enumerate() {
                    let number = number.map_or("?".to_owned(), |number| number.to_string());
                    message = message.replace(&format!("{{{index}}}"), &number);
                }
                Err(self.error(message))
            }
            Some(Some(_)) => Ok(Vec::new()),
            _ => Err(self.unsupported(operands.operation, "its condition depends on contents")),
        }
    }

    /// Translates the hash function behind JAX's random numbers.
    fn threefry(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let arrays = self.arrays(operands)?;
        // Other versions have the number of elements as an operand too.
        let [a, b, x, y] = match &arrays[..] {
            [a, b, x, y] | [_, a, b, x, y] => [a, b, x, y],
            _ => return Err(self.unsupported(operands.operation, "it has another form")),
        };
        let [x, y] = threefry2x32(a, b, x, y);
        Ok(vec![Traced::Array(x), Traced::Array(y)])
    }

    /// Returns a parameter that is a letter, by its code.
    pub(super) fn letter(&self, parameters: &Parameters<'m>, name: &str) -> Option<char> {
        match parameters.get(name) {
            Some(AttributeValue::Integer(code)) => u8::try_from(*code).ok().map(char::from),
            _ => None,
        }
    }
}
