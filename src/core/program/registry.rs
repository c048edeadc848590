//! What the list of primitives says of each: its name, how its parameters are read, and exemplars.

use crate::core::error::{RuleError, RuleResult};
use crate::core::program::primitive::Primitive;
use crate::core::program::program::Program;
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::shape::Shape;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Makes a primitive from its parameters as printed and the programs it holds.
pub type Make = fn(Value, Vec<Program>) -> RuleResult<Arc<dyn Primitive>>;

/// One primitive in the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The primitive's name.
    pub name: &'static str,
    /// Reads it from text.
    pub make: Make,
    /// Instances with sample operands, on which every law is checked.
    pub exemplars: fn() -> Vec<Exemplar>,
}

impl Entry {
    /// The entry of a primitive whose parameters are plain fields.
    pub const fn of<P: Primitive + DeserializeOwned>(
        name: &'static str,
        exemplars: fn() -> Vec<Exemplar>,
    ) -> Entry {
        Entry { name, make: make::<P>, exemplars }
    }
}

fn make<P: Primitive + DeserializeOwned>(
    params: Value,
    _: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let primitive: P =
        serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))?;
    Ok(Arc::new(primitive))
}

/// A primitive with its parameters and what to apply it to.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// The primitive.
    pub primitive: Arc<dyn Primitive>,
    /// Its operands.
    pub operands: Vec<Sample>,
    /// The named axes that it stands in, outermost first, with their sizes: it is run on examples along
    /// all of them, each with operands of its own.
    pub axes: Vec<(String, usize)>,
    /// Whether derivatives are compared with finite differences: not where the function jumps or
    /// bends at the samples.
    pub differentiable: bool,
    /// Whether there is a derivative in reverse mode, to be compared with the one in forward mode.
    pub reverse: bool,
    /// Relative tolerance of the derivative laws, evaluated in `f64`.
    pub tolerance: f64,
}

impl Exemplar {
    /// A primitive on these operands.
    pub fn new(primitive: impl Primitive, operands: impl IntoIterator<Item = Sample>) -> Exemplar {
        Exemplar {
            primitive: Arc::new(primitive),
            operands: operands.into_iter().collect(),
            axes: Vec::new(),
            differentiable: true,
            reverse: true,
            tolerance: 1e-5,
        }
    }

    /// The same, inside named axes of these sizes.
    pub fn along<const N: usize>(mut self, axes: [(&str, usize); N]) -> Exemplar {
        self.axes = axes.map(|(name, size)| (name.to_string(), size)).into();
        self
    }

    /// The same, left out of the derivative laws: say why at the call.
    pub fn without_derivative(mut self) -> Exemplar {
        self.differentiable = false;
        self
    }

    /// The same, left out of the laws of reverse mode, which it refuses.
    pub fn forward_only(mut self) -> Exemplar {
        self.reverse = false;
        self
    }

    /// The same with a tolerance of its own: say why at the call.
    pub fn tolerance(mut self, tolerance: f64) -> Exemplar {
        self.tolerance = tolerance;
        self
    }
}

/// How to make a sample operand.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its type.
    pub aval: Aval,
    /// Its elements.
    pub elements: Elements,
}

/// The elements of a sample operand.
#[derive(Clone, Debug)]
pub enum Elements {
    /// Uniform between two bounds, rounded down to integers for integer dtypes.
    Uniform(f64, f64),
    /// These, row-major, repeated as needed.
    Listed(Vec<f64>),
}

impl Sample {
    /// Uniform random elements in `low..high`.
    pub fn uniform(dtype: DType, shape: impl Into<Shape>, low: f64, high: f64) -> Sample {
        Sample { aval: Aval::new(dtype, shape), elements: Elements::Uniform(low, high) }
    }

    /// These elements, row-major, repeated as needed.
    pub fn listed(dtype: DType, shape: impl Into<Shape>, elements: &[f64]) -> Sample {
        Sample { aval: Aval::new(dtype, shape), elements: Elements::Listed(elements.to_vec()) }
    }
}
