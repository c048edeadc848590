//! [`Primitive`]: an operation with all its rules.

use crate::core::array::array::Array;
use crate::core::error::{Error, Rule, RuleError};
use crate::core::lowering::lower_ctx::LowerCtx;
use crate::core::mesh::communication::Communication;
use crate::core::mesh::mesh::Mesh;
use crate::core::mesh::partition::PartitionSpec;
use crate::core::mesh::sharding_rule::ShardingRule;
use crate::core::mesh::varying::{Varying, joint};
use crate::core::program::cost::{Contraction, Cost};
use crate::core::program::program::Program;
use crate::core::program::tangent::Tangent;
use crate::core::types::aval::Aval;
use crate::stablehlo::Value;
use rustc_hash::FxHasher;
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Equality and hashing through `dyn Primitive`, so that programs can be compared and cached.
///
/// Implemented for every `Eq + Hash` type. On an `Arc<dyn Primitive>` call it on the inner value,
/// `(**arc)`: the `Arc` is a key of its own.
pub trait DynKey: Any {
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// Equal to `other`, of the same type.
    fn dyn_eq(&self, other: &dyn Any) -> bool;
    /// Hashes type and value.
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

/// A primitive's parameters as they print. Implemented for everything that serializes.
pub trait Params {
    /// The fields, by name; `Null` if there is none.
    fn params(&self) -> serde_json::Value;
}

impl<T: serde::Serialize> Params for T {
    fn params(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("parameters are plain data with string keys")
    }
}

/// Side effects of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// None: the equation may be dropped if nobody uses its results.
    None,
    /// Kept, in no particular order.
    Unordered,
    /// Kept, in program order.
    Ordered,
}

impl Effects {
    /// The stronger of the two.
    #[must_use]
    pub fn and(self, other: Effects) -> Effects {
        match (self, other) {
            (Effects::Ordered, _) | (_, Effects::Ordered) => Effects::Ordered,
            (Effects::Unordered, _) | (_, Effects::Unordered) => Effects::Unordered,
            _ => Effects::None,
        }
    }
}

/// The axis that `vmap` adds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchAxis {
    /// Its size.
    pub size: usize,
    /// Its name, by which collectives may speak of it.
    pub name: Option<Arc<str>>,
}

impl BatchAxis {
    /// An axis without a name.
    pub fn new(size: usize) -> BatchAxis {
        BatchAxis { size, name: None }
    }

    /// An axis with a name.
    pub fn named(name: &str, size: usize) -> BatchAxis {
        BatchAxis { size, name: Some(name.into()) }
    }

    /// Whether this is its name.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// Whether one of these names is its own.
    pub fn is_among(&self, names: &[String]) -> bool {
        self.name.is_some() && names.iter().any(|name| self.is_named(name))
    }
}

/// What a batch rule gives: the outputs and, for each, the position of the batch axis; `None` for
/// an output that is the same for the whole batch.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The outputs.
    pub outputs: Vec<Array>,
    /// Where each has its batch axis.
    pub axes: Vec<Option<usize>>,
}

/// What a policy of `remat` may want to know of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveHint<'a> {
    /// Nothing in particular.
    None,
    /// It multiplies and sums: dear to compute, and its result is as small as any.
    Contraction {
        /// Whether it does so for each element of a batch.
        batched: bool,
    },
    /// Its result has a name.
    Named(&'a str),
}

/// How often a program runs when the equation that holds it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// So many times.
    Times(usize),
    /// Once on each of so many devices.
    Devices(usize),
    /// As often as values say, which are not known.
    Unknown,
    /// This one or one of the others of which the same is said, once.
    Choice,
    /// As often as there are elements; [`Primitive::cost`] counts that.
    Counted,
    /// Not at all: it is there for derivatives.
    Never,
}

/// An operand as a transpose rule sees it.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A value to transpose with respect to.
    Linear(Aval),
    /// A value that is there.
    Known(Array),
}

impl Operand {
    /// The aval either way.
    pub fn aval(&self) -> &Aval {
        match self {
            Operand::Linear(aval) => aval,
            Operand::Known(array) => array.aval(),
        }
    }

    /// Whether the operand is linear.
    pub fn is_linear(&self) -> bool {
        matches!(self, Operand::Linear(_))
    }

    /// The array, if it is known.
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
pub trait Primitive: Debug + DynKey + Params + Send + Sync + 'static {
    /// The name, as JAX or StableHLO spells it. Unique.
    fn name(&self) -> &'static str;

    /// The results' avals, or what is wrong with the operands.
    ///
    /// # Errors
    /// Whatever does not fit.
    fn abstract_eval(&self, operands: &[Aval]) -> Rule<Vec<Aval>>;

    /// Forward derivative: results and their tangents. Not called if all tangents are zero.
    ///
    /// # Errors
    /// `Unsupported` where there is no derivative.
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> Rule<(Vec<Array>, Vec<Tangent>)>;

    /// The operation on a batch. Not called if no operand has a batch axis, unless the axis is one of
    /// [`Primitive::axis_names`].
    ///
    /// # Errors
    /// `Unsupported` where there is no such rule.
    fn batch(&self, operands: &[Array], axes: &[Option<usize>], axis: &BatchAxis) -> Rule<Batched>;

    /// The bytes of the only result, where they are known without operands: applied outside of any trace, it is copied to
    /// the device instead of compiled. Otherwise `x * 0.1` would compile a program for every other number.
    fn on_host(&self) -> Option<Vec<u8>> {
        None
    }

    /// Writes the operation in StableHLO.
    ///
    /// # Errors
    /// `Unsupported` if the platform cannot do it.
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> Rule<Vec<Value>>;

    /// Arithmetic and memory traffic.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost;

    /// The product of matrices that it is, if it is one.
    fn contraction(&self, _operands: &[Aval], _results: &[Aval]) -> Option<Contraction> {
        None
    }

    /// What it sends from device to device, if it does: along axes of a mesh that it is manual over.
    fn communication(&self) -> Option<Communication> {
        None
    }

    /// Side effects keep an equation alive.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// For primitives linear in some operands: from the results' cotangents to those operands'.
    /// `None` for each known operand. At least one cotangent is not zero.
    ///
    /// # Errors
    /// By default, that the primitive is not linear.
    fn transpose(&self, _cts: &[Tangent], _operands: &[Operand]) -> Rule<Vec<Option<Tangent>>> {
        Err(RuleError::not_linear(self.name()))
    }

    /// The names of the axes that it speaks of, as collectives do: examples along an axis that has one of
    /// them may differ in the results even where they agree in the operands. By default those that its
    /// programs mention.
    fn axis_names(&self) -> Vec<String> {
        let Some(holder) = self.as_higher_order() else { return Vec::new() };
        let programs = holder.programs();
        programs.iter().flat_map(|(_, program)| program.axis_names()).cloned().collect()
    }

    /// Over which axes of a mesh each operand is to vary. An operand that varies over fewer is made to, by
    /// [`PVary`](crate::primitives::PVary), whose transpose is a sum: by default over all that some operand
    /// varies over, and for holders of a program over what its inputs do.
    fn takes(&self, operands: &[Aval]) -> Vec<Varying> {
        let programs = self.as_higher_order().map(HigherOrder::programs).unwrap_or_default();
        match programs.as_slice() {
            // Operands behind the program's own are captured by rules.
            [(_, program)] if program.inputs().len() <= operands.len() => {
                let own = program.inputs().iter().map(|&var| program.aval(var));
                let rest = operands[program.inputs().len()..].iter();
                own.chain(rest).map(|aval| aval.varying.clone()).collect()
            }
            _ => vec![joint(operands); operands.len()],
        }
    }

    /// Writes into the results' types over which axes of a mesh they vary: by default over those of all operands,
    /// and for holders of programs over what these say. Operands are as [`Primitive::takes`] has them.
    fn vary(&self, operands: &[Aval], results: &mut [Aval]) {
        if self.as_higher_order().is_some() {
            return;
        }
        let varying = joint(operands);
        results.iter_mut().for_each(|result| result.varying = varying.clone());
    }

    /// The mesh that it speaks of, as constraints of shardings do.
    fn mesh(&self) -> Option<&Mesh> {
        None
    }

    /// How its results lie on that mesh, where it says so itself.
    fn placed(&self) -> Option<&[PartitionSpec]> {
        None
    }

    /// Which dimensions of its results run along which of its operands. By default those at the same place, which holds for
    /// everything that is computed element by element or row by row.
    fn sharding_rule(&self, operands: &[Aval], results: &[Aval]) -> ShardingRule {
        ShardingRule::in_place(operands, results)
    }

    /// What a policy of `remat` may want to know of it.
    fn save_hint(&self) -> SaveHint<'_> {
        SaveHint::None
    }

    /// Whether it holds a closure, so that its text cannot be read back.
    fn is_opaque(&self) -> bool {
        false
    }

    /// For primitives that hold programs.
    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        None
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

/// What a primitive that holds programs can do besides.
pub trait HigherOrder {
    /// The programs, each with its parameter name.
    fn programs(&self) -> Vec<(&'static str, &Program)>;

    /// How often each of the programs runs.
    fn runs(&self, operands: &[Aval], results: &[Aval]) -> Vec<Run>;

    /// The program whose equations could stand in the equation's place, if that is all the primitive
    /// means.
    fn inlined(&self) -> Option<&Program> {
        None
    }

    /// Splits an equation into what the known operands alone determine and the rest; `None` if
    /// nothing can be done ahead.
    fn split(&self, known: &[bool]) -> Option<Split>;

    /// The same without what only unused results need: dead equations of the programs, operands,
    /// loop carries. `None` if everything is needed.
    fn prune(&self, used: &[bool]) -> Option<Pruned>;

    /// Runs on concrete operands with the programs evaluated equation by equation: what
    /// `disable_jit` asks for.
    ///
    /// # Errors
    /// Those of evaluation.
    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error>;
}

/// An equation without what nobody needs.
#[derive(Debug)]
pub struct Pruned {
    /// What is left of the primitive.
    pub primitive: Arc<dyn Primitive>,
    /// Which operands of the original it takes, in order.
    pub operands: Vec<usize>,
    /// Which results of the original it gives, in order: every used one is among them.
    pub results: Vec<usize>,
}

/// Where an operand of the unknown half of a split equation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An operand of the original, known or not.
    Operand(usize),
    /// A result of the known half: a residual.
    Known(usize),
}

/// The two halves of a split equation.
#[derive(Debug)]
pub struct Split {
    /// Computes the known results and the residuals.
    pub known: Arc<dyn Primitive>,
    /// Which operands of the original it takes.
    pub known_operands: Vec<usize>,
    /// Computes the unknown results.
    pub unknown: Arc<dyn Primitive>,
    /// Where each of its operands comes from.
    pub unknown_operands: Vec<Source>,
    /// For each original result, which one it is: `Ok` of the known half, `Err` of the unknown half.
    pub outputs: Vec<Result<usize, usize>>,
}
