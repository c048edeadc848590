//! `composite`: an operation with a name that compilers may know, and a program that defines it.

use super::call::{Call, bind_traced, expect_operands};
use super::derive::{batch_call, jvp_call, split_call, transpose_call};
use super::parse;
use super::pruning::prune_call;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleResult, RunCount, Sample,
    SplitEqn, Tangent, Used,
};
use crate::passes;
use crate::stablehlo::{Value, quote};
use crate::transforms::staging::{trace_function_at, trace_rules};
use crate::tree::{
    Args, Arguments, FnArgs, Function, StaticFloat, TransformedFn, leaves_of, transformed,
};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An attribute of a [composite](composite()).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompositeAttribute {
    /// A `bool`.
    Bool(bool),
    /// An `i64`.
    Int(i64),
    /// An `f64`.
    #[serde(serialize_with = "float_bits", deserialize_with = "float_of_bits")]
    Float(StaticFloat),
    /// A string.
    Text(String),
    /// A list of attributes.
    List(Vec<CompositeAttribute>),
}

fn float_bits<S: Serializer>(number: &StaticFloat, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(number.get().to_bits())
}

fn float_of_bits<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<StaticFloat, D::Error> {
    u64::deserialize(deserializer).map(|bits| StaticFloat(f64::from_bits(bits)))
}

impl CompositeAttribute {
    /// Returns the attribute in the syntax of MLIR.
    fn mlir(&self) -> String {
        match self {
            CompositeAttribute::Bool(value) => value.to_string(),
            CompositeAttribute::Int(value) => format!("{value} : i64"),
            // Bits represent every number, also those that are not finite.
            CompositeAttribute::Float(value) => format!("0x{:016X} : f64", value.get().to_bits()),
            CompositeAttribute::Text(text) => quote(text),
            CompositeAttribute::List(items) => {
                let items: Vec<String> = items.iter().map(CompositeAttribute::mlir).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

macro_rules! attribute_from {
    ($($type:ty => |$value:ident| $attribute:expr;)*) => {$(
        impl From<$type> for CompositeAttribute {
            fn from($value: $type) -> CompositeAttribute {
                $attribute
            }
        }
    )*};
}

attribute_from! {
    bool => |value| CompositeAttribute::Bool(value);
    i32 => |value| CompositeAttribute::Int(value.into());
    i64 => |value| CompositeAttribute::Int(value);
    f32 => |value| CompositeAttribute::Float(value.into());
    f64 => |value| CompositeAttribute::Float(StaticFloat(value));
    &str => |value| CompositeAttribute::Text(value.into());
    String => |value| CompositeAttribute::Text(value);
}

impl<T: Into<CompositeAttribute>> From<Vec<T>> for CompositeAttribute {
    fn from(items: Vec<T>) -> CompositeAttribute {
        CompositeAttribute::List(items.into_iter().map(Into::into).collect())
    }
}

/// Applies a program as an operation with a name, which a compiler may replace by its own.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | `stablehlo.composite`, with the program as its decomposition |
/// | derivative | that of the program |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Composite {
    /// The name of the operation: `my.tangent`.
    #[serde(rename = "composite")]
    pub composite_name: String,
    /// The version of its meaning.
    pub version: i32,
    /// The attributes by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, CompositeAttribute>,
    /// The program that defines it.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl Composite {
    fn with_program(&self, program: Arc<Program>) -> Composite {
        Composite { program, ..self.clone() }
    }

    /// Returns a call of a program derived from the decomposition.
    fn derived(&self, prefix: &str, program: Arc<Program>) -> Call {
        Call { name: format!("{prefix}_{}", self.composite_name), program }
    }

    fn attributes(&self, decomposition: &str) -> String {
        let entries = self.attributes.iter();
        let entries: Vec<String> =
            entries.map(|(name, value)| format!("{} = {}", quote(name), value.mlir())).collect();
        format!(
            "composite_attributes = {{{}}}, decomposition = @{decomposition}, name = {}, version \
             = {} : i32",
            entries.join(", "),
            quote(&self.composite_name),
            self.version
        )
    }
}

impl Primitive for Composite {
    fn name(&self) -> &'static str {
        "composite"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        expect_operands(&self.composite_name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.derived("jvp", program)))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        Ok(batch_call(&self.program, operands, axes, axis, |program| self.with_program(program)))
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        _: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let Some(decomposition) = ctx.shared_function(&self.program, &self.composite_name)? else {
            return ctx.inline(&self.program, operands);
        };
        let results = self.program.avals_out();
        let results: Vec<_> = results.iter().map(Aval::stablehlo).collect();
        let attributes = self.attributes(&decomposition);
        Ok(ctx.op_full("stablehlo.composite", operands, &attributes, Vec::new(), &results))
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(transpose_call(&self.program, cts, operands, |program| {
            self.derived("transpose", program)
        }))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for Composite {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1)]
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let half = |prefix| move |program| self.derived(prefix, program);
        split_call(&self.program, known, half("known"), half("unknown"))
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        // Without some of its results it is another operation.
        match used.any() {
            true => None,
            false => prune_call(&self.program, used, |program, _| self.with_program(program)),
        }
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(self.with_program(program)))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

/// Options of [`composite_with`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompositeOptions {
    /// The version of the operation's meaning; 0 by default.
    pub version: i32,
    /// The attributes by name.
    pub attributes: BTreeMap<String, CompositeAttribute>,
}

/// Returns `f` as an operation called `name`, which a compiler that knows the name may replace by
/// its own. Other compilers use `f`, its decomposition.
///
/// In lowered programs and in exported functions it is a `stablehlo.composite`. The operation is
/// batched as one. Its derivative is that of `f`, without the name; give it another one with
/// [`custom_jvp`](super::custom_jvp) or [`custom_vjp`](super::custom_vjp).
///
/// ```
/// use oxidax::prelude::*;
/// let tangent = composite(|x: &Array| sin(x) / cos(x), "my.tangent");
/// let lowered = jit(move |x: Array| tangent(&x)).lower(Aval::new(DType::F32, [3]))?;
/// let text = lowered.as_text("cpu")?;
/// assert!(text.contains("stablehlo.composite") && text.contains("my.tangent"), "{text}");
/// let tangent = composite(|x: &Array| sin(x) / cos(x), "my.tangent");
/// assert_eq!(tangent(&zeros([3])).to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn composite<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    name: &str,
) -> impl TransformedFn<'f, A, F::Output> {
    composite_with(f, name, CompositeOptions::default())
}

/// As [`composite`](composite()), with a version and attributes. Attributes describe what `f`
/// computes; `f` does not receive them.
///
/// ```
/// use oxidax::control_flow::CompositeOptions;
/// use oxidax::prelude::*;
/// let options = CompositeOptions {
///     version: 1,
///     attributes: [("axis".to_string(), (-1).into())].into(),
/// };
/// let softmax = composite_with(|x: &Array| softmax(x, -1), "my.softmax", options);
/// assert_eq!(softmax(&zeros([2])).to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn composite_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    name: &str,
    options: CompositeOptions,
) -> impl TransformedFn<'f, A, F::Output> {
    let (loc, name) = (Loc::caller(), name.to_string());
    transformed::<A, _>(f.name(), move |arguments| apply(&name, &options, &f, arguments, loc))
}

fn apply<A: Args, M, F: Function<A, M>>(
    name: &str,
    options: &CompositeOptions,
    f: &F,
    arguments: A::Refs<'_>,
    loc: Loc,
) -> F::Output {
    let operands = leaves_of(&Arguments::<A>(arguments));
    let avals = operands.iter().map(|operand| operand.aval().clone());
    let call = |leaves: Vec<Array>| f.apply(A::unflatten(arguments, &mut leaves.into_iter()));
    let traced = trace_function_at(loc, format!("composite({name})"), avals, call);
    let (composite_name, CompositeOptions { version, attributes }) =
        (name.to_string(), options.clone());
    bind_traced(traced, operands, loc, |program| Composite {
        composite_name,
        version,
        attributes,
        program,
    })
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        composite: String,
        version: i32,
        #[serde(default)]
        attributes: BTreeMap<String, CompositeAttribute>,
    }
    let Parameters { composite, version, attributes } = parse::parameters(params)?;
    let [program] = parse::exact("composite", programs)?;
    let program = Arc::new(program);
    Ok(Arc::new(Composite { composite_name: composite, version, attributes, program }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let attributes: BTreeMap<String, CompositeAttribute> = [
        ("axis".to_string(), CompositeAttribute::from(-1)),
        ("scale".to_string(), 0.5.into()),
        ("exact".to_string(), true.into()),
        ("modes".to_string(), vec!["a\"b", "c"].into()),
    ]
    .into();
    // Derivative laws run in f64, and the types of a program are fixed.
    [DType::F32, DType::F64]
        .map(|dtype| {
            let aval = || Aval::new(dtype, [2, 3]);
            let program = trace_rules([aval(), aval()], |inputs| {
                let product = &inputs[0] * &crate::primitives::sin(&inputs[1]);
                vec![product, inputs[1].clone()]
            });
            let (program, attributes) = (Arc::new(program), attributes.clone());
            let composite_name = "test.product".into();
            let composite = Composite { composite_name, version: 2, attributes, program };
            let sample = || Sample::uniform(dtype, [2, 3], -2.0, 2.0);
            Exemplar::new(composite, [sample(), sample()])
        })
        .into()
}
