//! [`Primitive`]: an operation with all its rules.

use crate::core::array::array::Array;
use crate::core::error::{Error, RuleError, RuleResult};
use crate::core::lowering::lower_ctx::LowerCtx;
use crate::core::mesh::axis_spec::AxisSpec;
use crate::core::mesh::partition::NamedSharding;
use crate::core::program::cost::{Contraction, Cost};
use crate::core::program::marks::{Known, Marks, Used};
use crate::core::program::program::Program;
use crate::core::program::spmd::Spmd;
use crate::core::program::tangent::Tangent;
use crate::core::types::aval::Aval;
use crate::core::types::check_set::CheckSet;
use crate::stablehlo::Value;
use rustc_hash::FxHasher;
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Equality and hashing through `dyn Primitive`, so that programs can be compared and cached.
///
/// Implemented for every `Eq + Hash` type. On an `Arc<dyn Primitive>` call it on the inner value,
/// `(**arc)`: the `Arc` itself is a different key.
pub trait DynKey: Any {
    /// Returns the value for downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Returns true if `other` has the same type and is equal.
    fn dyn_eq(&self, other: &dyn Any) -> bool;
    /// Hashes the type and the value.
    fn dyn_hash(&self, state: &mut FxHasher);
}

impl<T: Any + Eq + Hash> DynKey for T {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn dyn_eq(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
    fn dyn_hash(&self, state: &mut FxHasher) {
        TypeId::of::<T>().hash(state);
        self.hash(state);
    }
}

/// A primitive's parameters as printed. Implemented for every type that serializes.
pub trait Parameters {
    /// The fields by name; `Null` for a primitive without parameters.
    fn params(&self) -> serde_json::Value;
}

impl<T: serde::Serialize> Parameters for T {
    fn params(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("parameters are plain data with string keys")
    }
}

/// A primitive's parameters as parsed. Implemented for every type that deserializes.
pub trait FromParameters: Sized {
    /// Reads the primitive from its parameters, as [`Parameters::params`] returns them.
    ///
    /// # Errors
    /// If a field is missing or has another type.
    fn from_parameters(parameters: serde_json::Value) -> RuleResult<Self>;
}

impl<T: serde::de::DeserializeOwned> FromParameters for T {
    fn from_parameters(parameters: serde_json::Value) -> RuleResult<T> {
        serde_json::from_value(parameters).map_err(unreadable)
    }
}

fn unreadable(error: serde_json::Error) -> RuleError {
    RuleError::value(error.to_string())
}

/// Side effects of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Effects {
    /// None: dead-code elimination may remove the equation.
    None,
    /// The equation is never removed. Order does not matter.
    Unordered,
    /// The equation is never removed and runs in program order.
    Ordered,
}

impl Effects {
    /// Returns the stronger of the two.
    #[must_use]
    pub fn and(self, other: Effects) -> Effects {
        match (self, other) {
            (Effects::Ordered, _) | (_, Effects::Ordered) => Effects::Ordered,
            (Effects::Unordered, _) | (_, Effects::Unordered) => Effects::Unordered,
            _ => Effects::None,
        }
    }
}

/// The form of an operation in a program that another process reads.
#[derive(Debug)]
pub enum TextForm {
    /// The operation itself.
    Same,
    /// Another operation, which computes the same results from the first operands.
    Other {
        /// The operation.
        primitive: Arc<dyn Primitive>,
        /// The number of operands that it takes.
        n_operands: usize,
    },
    /// Nothing: the operation has no results, and its effects belong to this process.
    Omitted,
    /// There is no such form, because the results come from a closure of this process.
    None,
}

/// The axis that `vmap` adds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchAxis {
    /// The size of the batch.
    pub size: usize,
    /// The name by which collectives refer to the axis.
    pub name: Option<Arc<str>>,
    /// The mesh axes over which the batch is sharded, where a sharding is stated. Empty if none.
    pub spmd_axis_name: AxisSpec,
    /// The sharding of the batch axis over explicit axes of a mesh, as of an array with this axis
    /// alone. `None` if it is not sharded over them.
    pub sharding: Option<NamedSharding>,
}

impl BatchAxis {
    /// Creates an axis without a name.
    pub fn new(size: usize) -> BatchAxis {
        BatchAxis { size, name: None, spmd_axis_name: AxisSpec::default(), sharding: None }
    }

    /// Creates an axis with a name.
    pub fn named(name: &str, size: usize) -> BatchAxis {
        BatchAxis { name: Some(name.into()), ..BatchAxis::new(size) }
    }

    /// Returns the type of a batch of values of type `aval`, with the batch axis at index `index`.
    pub(crate) fn batch_of(&self, aval: &Aval, index: usize) -> Aval {
        let over = self.sharding.as_ref().map(|sharding| sharding.spec().along(0).to_vec());
        let over = AxisSpec::from(over.unwrap_or_default());
        // A mesh axis that already shards another axis does not shard the batch.
        let sharding = match (&aval.sharding, &self.sharding) {
            (Some(own), _) => own
                .with_axis_over(index, &over)
                .or_else(|_| own.with_axis_over(index, &AxisSpec::default())),
            (None, Some(batch)) => batch.mesh().replicated().with_axis_over(index, &over),
            (None, None) => return aval.with_shape(aval.shape.insert(index, self.size)),
        };
        let shape = aval.shape.insert(index, self.size);
        Aval { sharding: sharding.ok().and_then(|s| s.explicit_part()), ..aval.with_shape(shape) }
    }

    /// Returns true if the axis has this name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Returns true if the axis has one of these names.
    pub fn is_among(&self, names: &[String]) -> bool {
        self.name.is_some() && names.iter().any(|name| self.is_named(name))
    }
}

/// The result of a [`jvp`](Primitive::jvp) rule: results and their tangents.
pub type JvpResult = RuleResult<(Vec<Array>, Vec<Tangent>)>;

/// The result of a batch rule.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The outputs.
    pub outputs: Vec<Array>,
    /// The batch axis of each output; `None` for an output that is equal for the whole batch.
    pub axes: Vec<Option<usize>>,
}

/// A condition on the operands of an operation, for
/// [`Analysis::checks`].
#[derive(Clone, Debug)]
pub struct OperandCheck {
    /// True everywhere if the operands are valid: `bool[…]`.
    pub condition: Array,
    /// The error. Placeholders stand for `fields`, as in [`print`](crate::debug::print()).
    pub message: String,
    /// The arrays in the message.
    pub fields: Vec<Array>,
}

/// Properties of a primitive that analyses of programs use.
pub trait Analysis {
    /// The matrix product that the operation computes, if it is one.
    fn contraction(&self, _operands: &[Aval], _results: &[Aval]) -> Option<Contraction> {
        None
    }

    /// The property by which policies of `remat` select results to save.
    fn save_hint(&self) -> SaveHint<'_> {
        SaveHint::None
    }

    /// The operation on a loop counter, from which the number of iterations is computed.
    fn counter_op(&self) -> Option<CounterOp> {
        None
    }

    /// True for an operation without operands whose result is zero everywhere.
    fn fills_with_zero(&self) -> bool {
        false
    }

    /// True for an operation that adds updates to its first operand, whose type the result has.
    fn accumulates(&self) -> bool {
        false
    }

    /// The operand axis of each result axis, for an operation that only permutes the axes of its
    /// operand.
    fn permutation(&self) -> Option<&[usize]> {
        None
    }

    /// The place of the first operand in the result, for an operation that only surrounds it along
    /// one axis by its second operand, a scalar.
    fn embedding(&self, _operands: &[Aval]) -> Option<PartOfArray> {
        None
    }

    /// Returns the operation that computes the same from the operand at `index` before a
    /// [`permutation`](Self::permutation) of its axes, if there is one that is as fast. `operands`
    /// are the types of the operands, permuted.
    fn with_permuted_operand(
        &self,
        _operands: &[Aval],
        _index: usize,
        _permutation: &[usize],
    ) -> Option<Arc<dyn Primitive>> {
        None
    }

    /// The sum of the results of several applications, from their operands, which are stacked along
    /// a new leading axis, if one application computes it.
    fn sum_over_steps(&self, _stacked: &[Array]) -> Option<Array> {
        None
    }

    /// Conditions that the operands must meet for the errors in `enabled`, which
    /// [`checkify`](crate::debug::checkify) checks while the program runs.
    fn checks(&self, _enabled: CheckSet, _operands: &[&Array]) -> Vec<OperandCheck> {
        Vec::new()
    }

    /// True for a check that the user wrote.
    fn is_user_check(&self) -> bool {
        false
    }

    /// The reason why a loop that holds the operation cannot be one kernel of XLA's CPU compiler,
    /// as the end of a sentence that begins with the name: `"runs in a library"`.
    fn kernel_obstacle(&self) -> Option<&'static str> {
        None
    }
}

/// The place of an array in a larger one.
#[derive(Clone, Debug)]
pub struct PartOfArray {
    /// The axis along which the arrays differ in size.
    pub axis: usize,
    /// The index of the first element along the axis.
    pub start: usize,
    /// The operation that concatenates arrays along the axis.
    pub concatenation: Arc<dyn Primitive>,
}

/// An operation on the integer counter of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterOp {
    /// Adds two operands.
    Add,
    /// Compares: the first operand is less than the second.
    Less,
    /// Compares: the first operand is at most the second.
    LessOrEqual,
    /// Compares: the first operand is greater than the second.
    Greater,
    /// Compares: the first operand is at least the second.
    GreaterOrEqual,
}

/// The property by which policies of [`remat`](crate::control_flow::remat()) select results to
/// save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveHint<'a> {
    /// The operation has none.
    None,
    /// The operation multiplies and sums. It is expensive to compute again.
    Contraction {
        /// The contraction has batch dimensions.
        batched: bool,
    },
    /// The result has a name.
    Named(&'a str),
}

/// Number of runs of a held program for each run of its equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunCount {
    /// A fixed number of times.
    Times(usize),
    /// Once on each of this many devices.
    Devices(usize),
    /// Data-dependent, as in `while_loop`.
    Unknown,
    /// Once, if it is the chosen one of the branches marked `Choice`.
    Choice,
    /// Once per element; [`Primitive::cost`] includes it.
    Counted,
    /// Never: the program only serves derivatives.
    Never,
}

/// An operand of an equation that is being transposed.
#[derive(Clone, Debug)]
pub enum Operand {
    /// Unknown: the equation is transposed with respect to it.
    Linear(Aval),
    /// A known value.
    Known(Array),
}

impl Operand {
    /// Returns the aval.
    pub fn aval(&self) -> &Aval {
        match self {
            Operand::Linear(aval) => aval,
            Operand::Known(array) => array.aval(),
        }
    }

    /// Returns true for a linear operand.
    pub fn is_linear(&self) -> bool {
        matches!(self, Operand::Linear(_))
    }

    /// Returns the array of a known operand.
    pub fn known(&self) -> Option<&Array> {
        match self {
            Operand::Linear(_) => None,
            Operand::Known(array) => Some(array),
        }
    }
}

/// An operation: a struct whose fields are its parameters, with one method per rule.
///
/// Five rules are required and have no default, so that forgetting one is a compile error in the
/// file where the primitive lives. Rules are written with ordinary functions on arrays and work
/// under every trace; they never ask whether an array is concrete.
pub trait Primitive: Debug + DynKey + Parameters + Send + Sync + 'static {
    /// The name, as JAX or StableHLO spells it. Unique.
    fn name(&self) -> &'static str;

    /// Returns the avals of the results.
    ///
    /// # Errors
    /// If dtypes or shapes of the operands are not supported.
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>>;

    /// Forward derivative: returns results and tangents. Not called if all tangents are zero.
    ///
    /// # Errors
    /// `Unsupported` where there is no derivative.
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult;

    /// Applies the operation to a batch. Not called if no operand has a batch axis, unless the
    /// axis is among the operation's [`axis_names`](Spmd::axis_names).
    ///
    /// # Errors
    /// `Unsupported` where there is no batch rule.
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched>;

    /// The bytes of the only result, for a small constant. Outside of any trace it is copied to the
    /// device. Otherwise `x * 0.1` would compile one program per number.
    fn constant_bytes(&self) -> Option<Vec<u8>> {
        None
    }

    /// Writes the operation in StableHLO.
    ///
    /// # Errors
    /// `Unsupported` if the platform does not support it.
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>>;

    /// Returns the counts of arithmetic and memory traffic.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost;

    /// Returns the side effects. An equation with side effects is never removed.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// Transposes a primitive that is linear in some operands: maps the results' cotangents to
    /// cotangents of the linear operands. Returns `None` for each known operand. At least one
    /// cotangent is not zero.
    ///
    /// # Errors
    /// If the primitive is not linear, which is the default.
    fn transpose(
        &self,
        _cts: &[Tangent],
        _operands: &[Operand],
    ) -> RuleResult<Vec<Option<Tangent>>> {
        Err(RuleError::not_linear(self.name()))
    }

    /// Rules that concern several devices, for primitives that depart from the conventions of
    /// [`Spmd`].
    fn spmd(&self) -> Option<&dyn Spmd> {
        None
    }

    /// Properties that analyses of programs use, for primitives that have some.
    fn analysis(&self) -> Option<&dyn Analysis> {
        None
    }

    /// Returns true if the primitive holds a closure. Its text cannot be parsed.
    fn is_opaque(&self) -> bool {
        false
    }

    /// Returns the form in which another process can run the operation, for example without the
    /// closures of its derivative.
    fn text_form(&self) -> TextForm {
        if self.is_opaque() { TextForm::None } else { TextForm::Same }
    }

    /// Rules of primitives that hold programs.
    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        None
    }
}

impl dyn Primitive {
    /// The matrix product that the operation computes, if it is one.
    pub fn contraction(&self, operands: &[Aval], results: &[Aval]) -> Option<Contraction> {
        self.analysis().and_then(|analysis| analysis.contraction(operands, results))
    }

    /// The operation on a loop counter, if the primitive is one.
    pub fn counter_op(&self) -> Option<CounterOp> {
        self.analysis().and_then(Analysis::counter_op)
    }

    /// Returns true if the result is zero everywhere.
    pub fn fills_with_zero(&self) -> bool {
        self.analysis().is_some_and(Analysis::fills_with_zero)
    }

    /// Returns true if the operation adds updates to its first operand.
    pub fn accumulates(&self) -> bool {
        self.analysis().is_some_and(Analysis::accumulates)
    }

    /// The operand axis of each result axis, if the operation only permutes axes.
    pub fn permutation(&self) -> Option<&[usize]> {
        self.analysis().and_then(Analysis::permutation)
    }

    /// The place of the first operand in the result, if the operation only surrounds it.
    pub fn embedding(&self, operands: &[Aval]) -> Option<PartOfArray> {
        self.analysis()?.embedding(operands)
    }

    /// Returns the operation that takes over a permutation of an operand's axes, if there is one.
    pub fn with_permuted_operand(
        &self,
        operands: &[Aval],
        index: usize,
        permutation: &[usize],
    ) -> Option<Arc<dyn Primitive>> {
        self.analysis()?.with_permuted_operand(operands, index, permutation)
    }

    /// The sum of the results of several applications, of operands that are stacked along a new
    /// leading axis.
    pub fn sum_over_steps(&self, stacked: &[Array]) -> Option<Array> {
        self.analysis().and_then(|analysis| analysis.sum_over_steps(stacked))
    }

    /// Conditions that the operands must meet for the errors in `enabled`.
    pub fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        let checks = self.analysis().map(|analysis| analysis.checks(enabled, operands));
        checks.unwrap_or_default()
    }

    /// Returns true for a check that the user wrote.
    pub fn is_user_check(&self) -> bool {
        self.analysis().is_some_and(Analysis::is_user_check)
    }

    /// The reason why a kernel of XLA's CPU compiler cannot hold the operation.
    pub fn kernel_obstacle(&self) -> Option<&'static str> {
        self.analysis().and_then(Analysis::kernel_obstacle)
    }

    /// The property by which policies of `remat` select results to save.
    pub fn save_hint(&self) -> SaveHint<'_> {
        self.analysis().map_or(SaveHint::None, Analysis::save_hint)
    }
}

impl PartialEq for dyn Primitive {
    fn eq(&self, other: &dyn Primitive) -> bool {
        self.dyn_eq(other.as_any())
    }
}

impl Eq for dyn Primitive {}

impl Hash for dyn Primitive {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut inner = FxHasher::default();
        self.dyn_hash(&mut inner);
        state.write_u64(inner.finish());
    }
}

/// Additional rules of primitives that hold programs.
pub trait HigherOrder {
    /// Returns the programs, each with its parameter name.
    fn programs(&self) -> Vec<(&'static str, &Program)>;

    /// Returns how often each of the programs runs.
    fn run_counts(&self, operands: &[Aval], results: &[Aval]) -> Vec<RunCount>;

    /// Returns the program whose equations may replace the equation, if the primitive only calls
    /// it.
    fn inlined(&self) -> Option<&Program> {
        None
    }

    /// Returns a program that computes the same results and is faster if its loops are kernels of
    /// XLA's CPU compiler. Returns `None` for one that is as fast as it is.
    fn kernel_form(&self, _operands: &[Aval]) -> Option<Program> {
        None
    }

    /// Splits an equation into the part that the known operands determine and the rest. Returns
    /// `None` if the known operands determine nothing.
    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn>;

    /// Removes equations, operands and loop carries that no used result needs. Returns `None` if
    /// everything is needed.
    fn prune(&self, used: &Marks<Used>) -> Option<Pruned>;

    /// Returns the operand that each result always equals, for results that the programs only pass
    /// on. An empty list stands for none.
    fn forwarded(&self) -> Vec<Option<usize>> {
        Vec::new()
    }

    /// Returns the primitive with other programs, in the order of
    /// [`programs`](HigherOrder::programs). They have the same types and may have side effects.
    /// Returns `None` if the primitive cannot hold side effects.
    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>>;

    /// Runs on concrete operands and evaluates the programs equation by equation, as
    /// `disable_jit` requires.
    ///
    /// # Errors
    /// Errors of evaluation.
    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error>;
}

/// An equation after dead-code elimination.
#[derive(Debug)]
pub struct Pruned {
    /// The primitive that remains.
    pub primitive: Arc<dyn Primitive>,
    /// Indices of the original operands that it takes, in order.
    pub operands: Vec<usize>,
    /// Indices of the original results that it returns, in order. Every used one is among them.
    pub results: Vec<usize>,
}

/// The origin of an operand of the unknown half of a split equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitOperand {
    /// An operand of the original equation, known or not.
    Operand(usize),
    /// A result of the known half: a known output or a residual.
    Known(usize),
}

/// The half of a split equation or program that computes an output, and the output's index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// An output of the known half.
    Known(usize),
    /// An output of the unknown half.
    Unknown(usize),
}

impl Half {
    /// Returns true for an output of the known half.
    pub fn is_known(&self) -> bool {
        matches!(self, Half::Known(_))
    }

    /// Returns true for an output of the unknown half.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Half::Unknown(_))
    }
}

/// The two halves of a split equation.
#[derive(Debug)]
pub struct SplitEqn {
    /// Computes the known results and the residuals.
    pub known: Arc<dyn Primitive>,
    /// Indices of the original operands that the known half takes.
    pub known_operands: Vec<usize>,
    /// Computes the unknown results.
    pub unknown: Arc<dyn Primitive>,
    /// The origin of each operand of the unknown half.
    pub unknown_operands: Vec<SplitOperand>,
    /// The half that computes each original result.
    pub outputs: Vec<Half>,
}
