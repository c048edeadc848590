//! First-order operations: one file per family, one struct with all rules per primitive.
//!
//! Families follow the chapters of StableHLO. Each public function (`add`, `sin`, `dot_general`) is
//! defined below its primitive. Primitives that hold programs are in `control_flow`.

mod accuracy;
mod approx_top_k;
mod arithmetic;
mod array_list;
mod barrier;
mod bitcast;
mod callback;
mod checks;
mod collective;
mod comparison;
mod complex;
mod composite;
mod constant;
mod convert;
mod convolution;
mod cumulative;
mod dense_constant;
mod device_put;
mod dot;
mod elementwise;
mod exponential;
mod fft;
mod gather;
mod inspect_sharding;
mod iota;
mod layout_constraint;
mod linalg;
mod logaddexp;
mod logic;
mod operators;
mod promote;
mod reduce;
mod reduce_precision;
mod reshard;
mod rng_bits;
mod rng_generator;
pub mod rules;
mod saturated;
mod scatter;
mod select;
mod shape;
mod sharding_constraint;
mod slicing;
#[cfg(test)]
mod snapshot;
mod sort;
mod special;
mod stop_gradient;
mod structural;
mod tangents;
mod threefry_bits;
mod top_k;
mod trig;
mod undifferentiable;
mod window;

pub use crate::core::Precision;
pub use accuracy::*;
pub use approx_top_k::*;
pub use arithmetic::*;
pub(crate) use array_list::references;
pub use array_list::{ArrayList, ListEntry, SequenceForm, TupleForm};
pub use barrier::{Name, OptimizationBarrier, checkpoint_name, optimization_barrier};
pub use bitcast::*;
pub(crate) use callback::USER_CHECK;
pub use callback::{Callback, CallbackFailure, VmapMethod, callback};
pub(crate) use collective::vary;
pub use collective::{
    AllGather, AllToAll, AxisIndex, AxisIndexGroups, CollectiveAxes, PMax, PMin, PPermute, PSum,
    PSumScatter, PVary, RaggedAllToAll,
};
pub use comparison::*;
pub use complex::*;
pub(crate) use constant::index_of;
pub use constant::*;
pub use convert::*;
pub use convolution::*;
pub use cumulative::*;
pub use dense_constant::DenseConstant;
pub(crate) use dense_constant::constant_of;
pub use device_put::DevicePut;
pub(crate) use device_put::in_memory;
pub use dot::*;
pub use elementwise::{
    BinaryTangent, CostRule, Derivative, Dtypes, Elementwise, LowerRule, Lowering, TransposeRule,
    TypeRule,
};
pub use exponential::*;
pub use fft::{Fft, FftType, fft};
pub use gather::*;
pub use inspect_sharding::InspectSharding;
pub(crate) use inspect_sharding::inspect_sharding;
pub use iota::*;
pub use layout_constraint::LayoutConstraint;
pub(crate) use layout_constraint::in_layout;
pub(crate) use linalg::check_subset;
pub use linalg::{
    Cholesky, Eig, EigImplementation, Eigh, EighImplementation, Geqrf, Lu, Qr, QrOptions, Svd,
    SvdAlgorithm, SvdOptions, TransposeA, TriangularSolve, cholesky, eig, eigh, geqrf, lu, qr,
    qr_with, svd, svd_with, triangular_solve,
};
pub use logaddexp::*;
pub use logic::*;
pub use promote::{ArrayLike, Like, promote_arrays};
pub(crate) use promote::{for_each_number, inexact, promote_inexact};
pub use reduce::*;
pub use reduce_precision::*;
pub use reshard::{Reshard, ToAutoAxes};
pub(crate) use reshard::{resharded, target_of_reshard};
pub use rng_bits::*;
pub use rng_generator::{RandomAlgorithm, RngBitGenerator, rng_bit_generator};
pub use scatter::*;
pub use select::*;
pub use shape::*;
pub use sharding_constraint::ShardingConstraint;
pub(crate) use sharding_constraint::constrained;
pub use slicing::*;
pub use sort::*;
pub use special::*;
pub(crate) use special::{has_open_terms, unconverged};
pub use stop_gradient::*;
pub(crate) use structural::resize_axis;
pub use structural::*;
pub use threefry_bits::ThreefryBits;
pub(crate) use threefry_bits::threefry_bits;
pub use top_k::*;
pub use trig::*;
pub use undifferentiable::Undifferentiable;
#[cfg(feature = "import")]
pub(crate) use undifferentiable::undifferentiable;
pub(crate) use window::reduce_windows;
pub use window::*;

use crate::core::RegistryEntry;

/// Every first-order primitive, sorted by name within its family.
pub const PRIMITIVES: &[RegistryEntry] = &[
    // accuracy
    RegistryEntry::of::<Accurate>(),
    // arithmetic
    RegistryEntry::of::<Abs>(),
    RegistryEntry::of::<Add>(),
    RegistryEntry::of::<Cbrt>(),
    RegistryEntry::of::<Ceil>(),
    RegistryEntry::of::<Clamp>(),
    RegistryEntry::of::<Div>(),
    RegistryEntry::of::<Floor>(),
    RegistryEntry::of::<IntegerPow>(),
    RegistryEntry::of::<IsFinite>(),
    RegistryEntry::of::<Max>(),
    RegistryEntry::of::<Min>(),
    RegistryEntry::of::<Mul>(),
    RegistryEntry::of::<Neg>(),
    RegistryEntry::of::<Nextafter>(),
    RegistryEntry::of::<Pow>(),
    RegistryEntry::of::<Rem>(),
    RegistryEntry::of::<Round>(),
    RegistryEntry::of::<Rsqrt>(),
    RegistryEntry::of::<Sign>(),
    RegistryEntry::of::<Sqrt>(),
    RegistryEntry::of::<Sub>(),
    // barrier
    RegistryEntry::of::<OptimizationBarrier>(),
    RegistryEntry::of::<Name>(),
    // bitcast
    RegistryEntry::of::<BitcastConvertType>(),
    // callback
    RegistryEntry::new("callback", callback::make, callback::exemplars),
    // collective
    RegistryEntry::of::<AllGather>(),
    RegistryEntry::of::<AllToAll>(),
    RegistryEntry::of::<AxisIndex>(),
    RegistryEntry::of::<PMax>(),
    RegistryEntry::of::<PMin>(),
    RegistryEntry::of::<PPermute>(),
    RegistryEntry::of::<PSum>(),
    RegistryEntry::of::<PSumScatter>(),
    RegistryEntry::of::<PVary>(),
    RegistryEntry::of::<RaggedAllToAll>(),
    // comparison
    RegistryEntry::of::<Compare>(),
    // complex
    RegistryEntry::of::<Complex>(),
    RegistryEntry::of::<Conj>(),
    RegistryEntry::of::<Imag>(),
    RegistryEntry::of::<Real>(),
    // constant
    RegistryEntry::of::<DenseConstant>(),
    RegistryEntry::of::<Fill>(),
    // convert
    RegistryEntry::of::<ConvertElementType>(),
    // convolution
    RegistryEntry::of::<ConvGeneralDilated>(),
    // cumulative
    RegistryEntry::of::<Cumlogsumexp>(),
    RegistryEntry::of::<Cummax>(),
    RegistryEntry::of::<Cummin>(),
    RegistryEntry::of::<Cumprod>(),
    RegistryEntry::of::<Cumsum>(),
    RegistryEntry::of::<LinearRecurrence>(),
    // dot
    RegistryEntry::of::<DotGeneral>(),
    // exponential
    RegistryEntry::of::<Exp>(),
    RegistryEntry::of::<Exp2>(),
    RegistryEntry::of::<Expm1>(),
    RegistryEntry::of::<Log>(),
    RegistryEntry::of::<Log1p>(),
    RegistryEntry::of::<Logistic>(),
    RegistryEntry::of::<Tanh>(),
    // logaddexp
    RegistryEntry::of::<LogAddExp>(),
    // fft
    RegistryEntry::of::<Fft>(),
    // gather
    RegistryEntry::of::<Gather>(),
    // iota
    RegistryEntry::of::<Iota>(),
    // linalg
    RegistryEntry::of::<Cholesky>(),
    RegistryEntry::of::<Eig>(),
    RegistryEntry::of::<Eigh>(),
    RegistryEntry::of::<Geqrf>(),
    RegistryEntry::of::<Lu>(),
    RegistryEntry::of::<Qr>(),
    RegistryEntry::of::<Svd>(),
    RegistryEntry::of::<TriangularSolve>(),
    // logic
    RegistryEntry::of::<And>(),
    RegistryEntry::of::<CountLeadingZeros>(),
    RegistryEntry::of::<Not>(),
    RegistryEntry::of::<Or>(),
    RegistryEntry::of::<PopulationCount>(),
    RegistryEntry::of::<ShiftLeft>(),
    RegistryEntry::of::<ShiftRightArithmetic>(),
    RegistryEntry::of::<ShiftRightLogical>(),
    RegistryEntry::of::<Xor>(),
    // reduce
    RegistryEntry::of::<ArgMax>(),
    RegistryEntry::of::<ArgMin>(),
    RegistryEntry::of::<ReduceAnd>(),
    RegistryEntry::of::<ReduceMax>(),
    RegistryEntry::of::<ReduceMin>(),
    RegistryEntry::of::<ReduceOr>(),
    RegistryEntry::of::<ReduceProd>(),
    RegistryEntry::of::<ReduceSum>(),
    RegistryEntry::of::<ReduceXor>(),
    // reduce_precision
    RegistryEntry::of::<ReducePrecision>(),
    // rng_bits
    RegistryEntry::of::<Threefry2x32>(),
    // threefry_bits
    RegistryEntry::of::<ThreefryBits>(),
    // rng_generator
    RegistryEntry::of::<RngBitGenerator>(),
    // scatter
    RegistryEntry::of::<Scatter>(),
    // select
    RegistryEntry::of::<Select>(),
    // shape
    RegistryEntry::of::<BroadcastInDim>(),
    RegistryEntry::of::<Reshape>(),
    RegistryEntry::of::<Transpose>(),
    // stop_gradient
    RegistryEntry::of::<StopGradient>(),
    // layout_constraint
    RegistryEntry::of::<LayoutConstraint>(),
    // sharding_constraint
    RegistryEntry::of::<ShardingConstraint>(),
    // reshard
    RegistryEntry::of::<Reshard>(),
    RegistryEntry::of::<ToAutoAxes>(),
    RegistryEntry::of::<DevicePut>(),
    // slicing
    RegistryEntry::of::<DynamicSlice>(),
    RegistryEntry::of::<DynamicUpdateSlice>(),
    RegistryEntry::of::<Slice>(),
    // sort
    RegistryEntry::of::<Sort>(),
    // special
    RegistryEntry::of::<BesselI0e>(),
    RegistryEntry::of::<BesselI1e>(),
    RegistryEntry::of::<Digamma>(),
    RegistryEntry::of::<Erf>(),
    RegistryEntry::of::<ErfInv>(),
    RegistryEntry::of::<Erfc>(),
    RegistryEntry::of::<Igamma>(),
    RegistryEntry::of::<IgammaGradA>(),
    RegistryEntry::of::<Igammac>(),
    RegistryEntry::of::<Lgamma>(),
    RegistryEntry::of::<Polygamma>(),
    RegistryEntry::of::<RandomGammaGrad>(),
    RegistryEntry::of::<RegularizedIncompleteBeta>(),
    RegistryEntry::of::<Zeta>(),
    // structural
    RegistryEntry::of::<Concatenate>(),
    RegistryEntry::of::<Pad>(),
    RegistryEntry::of::<Rev>(),
    RegistryEntry::of::<SplitSizes>(),
    // top_k
    RegistryEntry::of::<ApproxTopK>(),
    RegistryEntry::of::<TopK>(),
    // trig
    RegistryEntry::of::<Acos>(),
    RegistryEntry::of::<Acosh>(),
    RegistryEntry::of::<Asin>(),
    RegistryEntry::of::<Asinh>(),
    RegistryEntry::of::<Atan>(),
    RegistryEntry::of::<Atan2>(),
    RegistryEntry::of::<Atanh>(),
    RegistryEntry::of::<Cos>(),
    RegistryEntry::of::<Cosh>(),
    RegistryEntry::of::<Sin>(),
    RegistryEntry::of::<Sinh>(),
    RegistryEntry::of::<Tan>(),
    // undifferentiable
    RegistryEntry::of::<Undifferentiable>(),
    // window
    RegistryEntry::of::<ReduceWindowMax>(),
    RegistryEntry::of::<ReduceWindowMin>(),
    RegistryEntry::of::<ReduceWindowProd>(),
    RegistryEntry::of::<ReduceWindowSum>(),
    RegistryEntry::of::<SelectAndGatherAdd>(),
    RegistryEntry::of::<SelectAndScatterAdd>(),
];
