//! Entries of the list of primitives: name, reader and exemplars.

use crate::core::error::RuleResult;
use crate::core::program::primitive::{FromParameters, Primitive};
use crate::core::program::program::Program;
use crate::core::types::aval::Aval;
use crate::core::types::dtype::DType;
use crate::core::types::shape::Shape;
use serde_json::Value;
use std::sync::Arc;

/// Reads a primitive from its printed parameters and the programs that it holds.
pub type ReadPrimitive = fn(Value, Vec<Program>) -> RuleResult<Arc<dyn Primitive>>;

/// A primitive that is listed under its name.
///
/// Elementwise primitives are registered by their `Elementwise` implementation.
pub trait Registered: Primitive + FromParameters {
    /// The primitive's name.
    const NAME: &'static str;

    /// Returns instances with sample operands, on which every law is checked.
    fn exemplars() -> Vec<Exemplar>;
}

/// One primitive in the list.
#[derive(Clone, Copy, Debug)]
pub struct RegistryEntry {
    /// The primitive's name.
    pub name: &'static str,
    /// Reads the primitive from its printed parameters.
    pub read: ReadPrimitive,
    /// Instances with sample operands, on which every law is checked.
    #[cfg(feature = "testing")]
    pub exemplars: fn() -> Vec<Exemplar>,
}

impl RegistryEntry {
    /// Builds the entry of a primitive. Exemplars are kept with the feature `testing`; without it
    /// no program contains them.
    pub const fn new(
        name: &'static str,
        read: ReadPrimitive,
        exemplars: fn() -> Vec<Exemplar>,
    ) -> RegistryEntry {
        #[cfg(not(feature = "testing"))]
        let _ = exemplars;
        RegistryEntry {
            name,
            read,
            #[cfg(feature = "testing")]
            exemplars,
        }
    }

    /// Returns the entry of a primitive whose parameters are plain fields.
    pub const fn of<P: Registered>() -> RegistryEntry {
        RegistryEntry::new(P::NAME, read::<P>, P::exemplars)
    }
}

fn read<P: Registered>(parameters: Value, _: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    Ok(Arc::new(P::from_parameters(parameters)?))
}

/// A primitive with sample operands, on which laws are checked.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// The primitive.
    pub primitive: Arc<dyn Primitive>,
    /// The sample operands.
    pub operands: Vec<Sample>,
    /// Names and sizes of the axes around the operation, outermost first. The operation runs on
    /// examples along all of them, each with different operands.
    pub axes: Vec<(String, usize)>,
    /// Compares derivatives with finite differences. False where the function is not smooth at the
    /// samples.
    pub differentiable: bool,
    /// Compares reverse mode with forward mode. False for primitives without reverse mode.
    pub reverse: bool,
    /// Relative tolerance of the derivative laws, which are evaluated in `f64`.
    pub tolerance: f64,
}

impl Exemplar {
    /// Creates an exemplar of `primitive` with these operands.
    pub fn new(primitive: impl Primitive, operands: impl IntoIterator<Item = Sample>) -> Exemplar {
        Exemplar::shared(Arc::new(primitive), operands.into_iter().collect())
    }

    fn shared(primitive: Arc<dyn Primitive>, operands: Vec<Sample>) -> Exemplar {
        Exemplar {
            primitive,
            operands,
            axes: Vec::new(),
            differentiable: true,
            reverse: true,
            tolerance: 1e-5,
        }
    }

    /// Runs the operation inside named axes of these sizes.
    pub fn along<const N: usize>(mut self, axes: [(&str, usize); N]) -> Exemplar {
        self.axes = axes.map(|(name, size)| (name.to_string(), size)).into();
        self
    }

    /// Skips the derivative laws. State the reason at the call.
    pub fn without_derivative(mut self) -> Exemplar {
        self.differentiable = false;
        self
    }

    /// Skips the laws of reverse mode.
    pub fn forward_only(mut self) -> Exemplar {
        self.reverse = false;
        self
    }

    /// Sets the tolerance of the derivative laws. State the reason at the call.
    pub fn tolerance(mut self, tolerance: f64) -> Exemplar {
        self.tolerance = tolerance;
        self
    }
}

/// A sample operand: its type and elements.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The operand's type.
    pub aval: Aval,
    /// The operand's elements.
    pub elements: Elements,
}

/// The elements of a sample operand.
#[derive(Clone, Debug)]
pub enum Elements {
    /// Uniform between two bounds, rounded down to integers for integer dtypes.
    Uniform(f64, f64),
    /// Listed values, row-major, repeated as needed.
    Listed(Vec<f64>),
}

impl Sample {
    /// Creates an operand with uniform random elements in `low..high`.
    pub fn uniform(dtype: DType, shape: impl Into<Shape>, low: f64, high: f64) -> Sample {
        Sample { aval: Aval::new(dtype, shape), elements: Elements::Uniform(low, high) }
    }

    /// Creates an operand with these elements, row-major, repeated as needed.
    pub fn listed(dtype: DType, shape: impl Into<Shape>, elements: &[f64]) -> Sample {
        Sample { aval: Aval::new(dtype, shape), elements: Elements::Listed(elements.to_vec()) }
    }
}
