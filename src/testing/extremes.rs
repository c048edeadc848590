//! Extreme numbers in the parameters and operand sizes of primitives.
//!
//! XLA checks some numbers by ending the process, and arithmetic on sizes can overflow. A rule must
//! refuse such numbers first. [`extreme_cases`] lists them for one primitive, and
//! [`ExtremeCase::attempt`] tries one. Run them in a child process.

use super::numbers::sample;
use crate::core::{
    Array, Aval, Error, Exemplar, Primitive, RegistryEntry, Sample, bind_shared, catch,
};
use crate::jit::jit;
use serde_json::{Value, json};
use std::sync::Arc;

/// Results of at most this many bytes are computed.
const SMALL: u128 = 1 << 20;
/// Results of at least this many bytes fit into no memory.
const LARGE: u128 = 1 << 50;

/// A primitive with one extreme number in its parameters, or one extreme operand size.
#[derive(Clone, Debug)]
pub struct ExtremeCase {
    /// The primitive, its parameters and the operand types, as text.
    pub label: String,
    primitive: Arc<dyn Primitive>,
    avals: Vec<Aval>,
    /// The operands' elements. Empty if an operand has an extreme size.
    operands: Vec<Sample>,
}

/// Returns the extreme cases of the first `exemplars` exemplars of a primitive, in a fixed order.
pub fn extreme_cases(entry: &RegistryEntry, exemplars: usize) -> Vec<ExtremeCase> {
    let exemplars: Vec<Exemplar> = (entry.exemplars)().into_iter().take(exemplars).collect();
    let mut cases = Vec::new();
    for exemplar in &exemplars {
        let avals: Vec<Aval> = exemplar.operands.iter().map(|x| x.aval.clone()).collect();
        for parameters in replacements(&exemplar.primitive.params()) {
            let label = format!("{} {parameters} of {}", entry.name, list(&avals));
            if let Ok(primitive) = (entry.read)(parameters, Vec::new()) {
                let operands = exemplar.operands.clone();
                cases.push(ExtremeCase { label, primitive, avals: avals.clone(), operands });
            }
        }
        for avals in extreme_operands(&avals) {
            let label = format!("{:?} of {}", exemplar.primitive, list(&avals));
            let primitive = exemplar.primitive.clone();
            cases.push(ExtremeCase { label, primitive, avals, operands: Vec::new() });
        }
    }
    cases
}

/// Returns the types with one size replaced by an extreme one, in all operands that have it.
fn extreme_operands(avals: &[Aval]) -> Vec<Vec<Aval>> {
    let mut changed = Vec::new();
    for (operand, aval) in avals.iter().enumerate() {
        for axis in 0..aval.rank() {
            let old = aval.shape[axis];
            for size in [1 << 31, 1 << 48, 1 << 56, 1 << 61, i64::MAX as usize, usize::MAX] {
                let replace = |aval: &Aval, only: Option<usize>| {
                    let dims = aval.shape.iter().enumerate().map(|(at, &dim)| match only {
                        Some(axis) if at != axis => dim,
                        None if dim != old => dim,
                        _ => size,
                    });
                    aval.with_shape(dims.collect::<Vec<_>>())
                };
                let mut one = avals.to_vec();
                one[operand] = replace(aval, Some(axis));
                changed.push(one);
                changed.push(avals.iter().map(|aval| replace(aval, None)).collect());
            }
        }
    }
    changed.dedup();
    changed
}

/// Returns the extreme numbers that a field is replaced with.
fn extremes() -> impl Iterator<Item = Value> {
    let large = [31, 32, 40, 61, 62].map(|power: u32| json!(1i64 << power));
    let ends = [json!(0), json!(-1), json!(i64::MIN), json!(i64::MAX), json!(u64::MAX)];
    large.into_iter().chain(ends)
}

/// Returns every copy of `value` with one of its numbers replaced by an extreme one.
fn replacements(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Number(_) => all.extend(extremes().filter(|other| other != value)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for other in replacements(item) {
                    let mut items = items.clone();
                    items[index] = other;
                    all.push(Value::Array(items));
                }
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                for other in replacements(field) {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), other);
                    all.push(Value::Object(fields));
                }
            }
        }
        _ => {}
    }
    all
}

fn list(avals: &[Aval]) -> String {
    avals.iter().map(Aval::to_string).collect::<Vec<_>>().join(" ")
}

fn bytes(aval: &Aval) -> u128 {
    let elements = aval.shape.iter().try_fold(1u128, |n, &dim| n.checked_mul(dim as u128));
    elements.map_or(u128::MAX, |n| n.saturating_mul(aval.dtype.host_bytes() as u128))
}

impl ExtremeCase {
    /// Compiles the operation. Executes it too, outside of `jit`, if its result is small or larger
    /// than any memory.
    ///
    /// # Errors
    /// The error that refuses the number.
    pub fn attempt(&self) -> Result<(), Error> {
        let bind =
            |operands: &[Array]| bind_shared(&self.primitive, &operands.iter().collect::<Vec<_>>());
        let examples: Vec<Array> = self.avals.iter().cloned().map(Array::of_type).collect();
        let lowered = jit(|operands: Vec<Array>| bind(&operands)).lower(examples)?;
        let largest = lowered.program().avals_out().iter().map(bytes).max().unwrap_or(0);
        let _ = lowered.cost();
        lowered.compile()?;
        let runs = largest <= SMALL || largest >= LARGE;
        if self.operands.len() < self.avals.len() || !runs {
            return Ok(());
        }
        let operands = self.operands.iter().map(|operand| sample(operand, 0));
        let operands: Vec<Array> = operands.collect::<Result<_, _>>()?;
        let results = catch(|| bind(&operands))?;
        results.iter().try_for_each(|result| result.block_until_ready().map(|_| ()))
    }
}
