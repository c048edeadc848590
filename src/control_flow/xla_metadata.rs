//! `xla_metadata_call`: programs whose operations carry attributes for XLA.

use super::call::{bind_traced, expect_operands};
use super::derive::{batch_call, jvp_call, split_call, transpose_call};
use super::parse;
use super::pruning::prune_call;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, JvpResult,
    Known, Loc, LowerCtx, Marks, Operand, Primitive, Program, Pruned, RuleResult, RunCount, Sample,
    SplitEqn, Tangent, Used, trace,
};
use crate::passes;
use crate::stablehlo::Value;
use crate::transforms::staging::{trace_function, trace_rules};
use crate::tree::{Args, Arguments, FnArgs, Function, TransformedFn, Tree, leaves_of, transformed};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The operations that carry the metadata of an [`XlaMetadataCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetadataTarget {
    /// The call of the function.
    Call,
    /// Each operation of the function, which is inlined.
    Operations,
}

/// Applies a program, with attributes for XLA.
///
/// | | |
/// |-|-|
/// | operands   | those of the program |
/// | results    | those of the program |
/// | lowering   | a call of a private function, or the operations of the program, with `mhlo.frontend_attributes` |
/// | derivative | that of the program, with the same attributes |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct XlaMetadataCall {
    /// The name of the function, for printing.
    pub name: String,
    /// Keys and values of the attributes.
    pub metadata: Vec<(String, String)>,
    /// The operations that have the attributes.
    pub target: MetadataTarget,
    /// The program.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl XlaMetadataCall {
    fn with_program(&self, program: Arc<Program>) -> XlaMetadataCall {
        XlaMetadataCall { program, ..self.clone() }
    }
}

impl Primitive for XlaMetadataCall {
    fn name(&self) -> &'static str {
        "xla_metadata_call"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        expect_operands(&self.name, &self.program, operands)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(jvp_call(&self.program, primals, tangents, |program| self.with_program(program)))
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
        match self.target {
            MetadataTarget::Call => {
                ctx.call_with_metadata(&self.program, &self.name, operands, &self.metadata)
            }
            MetadataTarget::Operations => {
                ctx.inline_with_metadata(&self.program, operands, &self.metadata)
            }
        }
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program)
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        Ok(transpose_call(&self.program, cts, operands, |program| self.with_program(program)))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl HigherOrder for XlaMetadataCall {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Times(1)]
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let half = |program| self.with_program(program);
        split_call(&self.program, known, half, half)
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        prune_call(&self.program, used, |program, _| self.with_program(program))
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(XlaMetadataCall::with_program(self, program)))
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        Ok(passes::eval(&self.program, operands))
    }
}

type Pairs = Vec<(String, String)>;

fn pairs<K: Into<String>, V: Into<String>>(metadata: impl IntoIterator<Item = (K, V)>) -> Pairs {
    metadata.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Traces a function on these operands and binds it with metadata. Outside of a trace, where
/// operations run one by one, `call` runs as it is.
fn bind_with_metadata<O: Tree>(
    name: String,
    (metadata, target): (Pairs, MetadataTarget),
    operands: Vec<Array>,
    loc: Loc,
    call: impl FnOnce(Vec<Array>) -> O,
) -> O {
    if !trace::is_tracing() {
        return call(operands);
    }
    let avals = operands.iter().map(|operand| operand.aval().clone());
    let scope = format!("xla_metadata({name})");
    let traced = loc.scope(|| trace_function(scope, avals, call));
    bind_traced(traced, operands, loc, |program| XlaMetadataCall {
        name,
        metadata,
        target,
        program,
    })
}

/// Runs `f` with attributes for XLA on each operation that it traces: `mhlo.frontend_attributes` in
/// StableHLO, which compilers of XLA read. Scopes nest; an inner value replaces an outer one of the
/// same key. Derivatives of the operations have the attributes too.
///
/// The arrays that `f` makes must leave it in its result. Outside of traced functions `f` just
/// runs.
///
/// ```
/// use oxidax::control_flow::set_xla_metadata;
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| set_xla_metadata([("mark", "hot")], || sin(&x)) + 1.0);
/// let text = f.lower(Aval::new(DType::F32, [3]))?.as_text("cpu")?;
/// let sine = text.lines().find(|line| line.contains("stablehlo.sine")).unwrap();
/// assert!(sine.contains("mhlo.frontend_attributes = {mark = \"hot\"}"), "{sine}");
/// assert_eq!(f.call(zeros([3]))?.to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn set_xla_metadata<O: Tree, K: Into<String>, V: Into<String>>(
    metadata: impl IntoIterator<Item = (K, V)>,
    f: impl FnOnce() -> O,
) -> O {
    let of_operations = (pairs(metadata), MetadataTarget::Operations);
    bind_with_metadata("scope".into(), of_operations, Vec::new(), Loc::caller(), |_| f())
}

/// Returns `f` as a function that is called with attributes for XLA on the call:
/// `mhlo.frontend_attributes` of a `func.call`.
///
/// ```
/// use oxidax::control_flow::xla_metadata_call;
/// use oxidax::prelude::*;
/// let layer = xla_metadata_call(|x: &Array| sin(x) * 2.0, [("mark", "layer")]);
/// let f = jit(move |x: Array| layer(&x));
/// let text = f.lower(Aval::new(DType::F32, [3]))?.as_text("cpu")?;
/// assert!(text.contains("{mhlo.frontend_attributes = {mark = \"layer\"}}"), "{text}");
/// assert_eq!(f.call(zeros([3]))?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn xla_metadata_call<'f, A, M: 'f, F, K, V>(
    f: F,
    metadata: impl IntoIterator<Item = (K, V)>,
) -> impl TransformedFn<'f, A, F::Output>
where
    A: FnArgs,
    F: Function<A, M> + 'f,
    K: Into<String>,
    V: Into<String>,
{
    called_with::<A, M, F>(f, pairs(metadata), Loc::caller())
}

/// Returns `f` as a function whose call carries these attributes.
fn called_with<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    metadata: Pairs,
    loc: Loc,
) -> impl TransformedFn<'f, A, F::Output> {
    transformed::<A, _>(f.name(), move |arguments| apply(&f, &metadata, arguments, loc))
}

fn apply<A: Args, M, F: Function<A, M>>(
    f: &F,
    metadata: &Pairs,
    arguments: A::Refs<'_>,
    loc: Loc,
) -> F::Output {
    let operands = leaves_of(&Arguments::<A>(arguments));
    let of_call = (metadata.clone(), MetadataTarget::Call);
    bind_with_metadata(f.name(), of_call, operands, loc, |leaves| {
        f.apply(A::unflatten(arguments, &mut leaves.into_iter()))
    })
}

/// Returns `f` as a function whose operations are scheduled together: an
/// [`xla_metadata_call`] with the attribute `scheduling_group`. XLA's latency-hiding scheduler
/// overlaps the collectives of a group with its computations. CPUs ignore it.
///
/// ```
/// use oxidax::control_flow::scheduling_group;
/// use oxidax::prelude::*;
/// let step = scheduling_group(|x: &Array| sin(x), "step:0");
/// let text = jit(move |x: Array| step(&x)).lower(Aval::new(DType::F32, [3]))?.as_text("tpu")?;
/// assert!(text.contains("scheduling_group = \"step:0\""), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn scheduling_group<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    name: &str,
) -> impl TransformedFn<'f, A, F::Output> {
    called_with::<A, M, F>(f, pairs([("scheduling_group", name)]), Loc::caller())
}

/// The processor that runs a part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputeType {
    /// The host of the device. Operands must be in host memory:
    /// [`with_memory_kind`](crate::parallel::with_memory_kind).
    DeviceHost,
    /// The device itself: the dense cores of a TPU.
    Device,
    /// The sparse cores of a TPU.
    TpuSparsecore,
    /// A stream of a GPU, by its number.
    GpuStream(u32),
}

impl ComputeType {
    fn metadata(self) -> Pairs {
        match self {
            ComputeType::DeviceHost => pairs([("_xla_compute_type", "host")]),
            ComputeType::Device => pairs([("_xla_compute_type", "dense")]),
            ComputeType::TpuSparsecore => pairs([("_xla_compute_type", "sparse")]),
            ComputeType::GpuStream(stream) => pairs([
                ("_xla_stream_annotation", stream.to_string()),
                ("inlineable", "false".to_owned()),
            ]),
        }
    }
}

/// Runs `f` with its operations placed on another processor: XLA's attribute `_xla_compute_type` on
/// each of them, or a call on a GPU's stream. A compiler without that processor, such as the CPU's,
/// ignores it.
///
/// As for [`set_xla_metadata`], arrays leave `f` in its result.
///
/// ```
/// use oxidax::control_flow::{ComputeType, compute_on};
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| compute_on(ComputeType::DeviceHost, || sin(&x)) * 2.0);
/// let text = f.lower(Aval::new(DType::F32, [3]))?.as_text("tpu")?;
/// assert!(text.contains("_xla_compute_type = \"host\""), "{text}");
/// assert_eq!(f.call(zeros([3]))?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn compute_on<O: Tree>(compute_type: ComputeType, f: impl FnOnce() -> O) -> O {
    let target = match compute_type {
        ComputeType::GpuStream(_) => MetadataTarget::Call,
        _ => MetadataTarget::Operations,
    };
    let metadata = (compute_type.metadata(), target);
    bind_with_metadata("compute_on".into(), metadata, Vec::new(), Loc::caller(), |_| f())
}

/// Returns `f` as a function that runs on another processor, as one call; see [`compute_on`].
///
/// Results are in the memory of the operands; move them with
/// [`with_memory_kind`](crate::parallel::with_memory_kind).
///
/// ```
/// use oxidax::control_flow::{ComputeType, compute_on2};
/// use oxidax::prelude::*;
/// let on_host = compute_on2(|x: &Array| sin(x), ComputeType::DeviceHost);
/// let f = jit(move |x: Array| on_host(&x) * 2.0);
/// assert_eq!(f.call(zeros([3]))?.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn compute_on2<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    compute_type: ComputeType,
) -> impl TransformedFn<'f, A, F::Output> {
    called_with::<A, M, F>(f, compute_type.metadata(), Loc::caller())
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    #[derive(Deserialize)]
    struct Parameters {
        name: String,
        metadata: Vec<(String, String)>,
        target: MetadataTarget,
    }
    let Parameters { name, metadata, target } = parse::parameters(params)?;
    let [program] = parse::exact("xla_metadata_call", programs)?;
    Ok(Arc::new(XlaMetadataCall { name, metadata, target, program: Arc::new(program) }))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let aval = || Aval::new(DType::F64, [2, 3]);
    let program = Arc::new(trace_rules([aval(), aval()], |inputs| {
        let sine = crate::primitives::sin(&inputs[1]);
        vec![&inputs[0] * &sine, crate::primitives::exp(&sine)]
    }));
    let sample = || Sample::uniform(DType::F64, [2, 3], -2.0, 2.0);
    [MetadataTarget::Call, MetadataTarget::Operations]
        .into_iter()
        .map(|target| {
            let (program, metadata) = (program.clone(), pairs([("mark", "a \"b\"")]));
            let call = XlaMetadataCall { name: "f".into(), metadata, target, program };
            Exemplar::new(call, [sample(), sample()])
        })
        .collect()
}
