//! First-order operations: one file per family, one struct with all rules per primitive.
//!
//! Families follow the chapters of StableHLO. Each public function (`add`, `sin`, `dot_general`) is
//! defined below its primitive. Primitives that hold programs are in `control_flow`.

mod arithmetic;
mod barrier;
mod bitcast;
mod callback;
mod collective;
mod comparison;
mod complex;
mod composite;
mod constant;
mod convert;
mod convolution;
mod cumulative;
mod dot;
mod elementwise;
mod exponential;
mod fft;
mod gather;
mod iota;
mod linalg;
mod logaddexp;
mod logic;
mod operators;
mod promote;
mod reduce;
mod reduce_precision;
mod rng_bits;
mod rng_generator;
pub mod rules;
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
mod top_k;
mod trig;
mod window;

pub use crate::core::Precision;
pub use arithmetic::*;
pub use barrier::{Name, OptimizationBarrier, checkpoint_name, optimization_barrier};
pub use bitcast::*;
pub use callback::{Callback, callback};
pub(crate) use collective::vary;
pub use collective::{
    AllGather, AllToAll, AxisIndex, PMax, PMin, PPermute, PSum, PSumScatter, PVary,
};
pub use comparison::*;
pub use complex::*;
pub use constant::*;
pub use convert::*;
pub use convolution::*;
pub use cumulative::*;
pub use dot::*;
pub use elementwise::{
    BinaryTangent, CostRule, Derivative, Dtypes, Elementwise, Lowering, TransposeRule, TypeRule,
};
pub use exponential::*;
pub use fft::{Fft, FftType, fft};
pub use gather::*;
pub use iota::*;
pub use linalg::{
    Cholesky, Eig, Eigh, Lu, Qr, QrOptions, Svd, SvdOptions, TransposeA, TriangularSolve, cholesky,
    eig, eigh, lu, qr, qr_with, svd, svd_with, triangular_solve,
};
pub use logaddexp::*;
pub use logic::*;
pub use promote::{ArrayLike, Like, promote_arrays};
pub(crate) use promote::{inexact, promote_inexact};
pub use reduce::*;
pub use reduce_precision::*;
pub use rng_bits::*;
pub use rng_generator::{RandomAlgorithm, RngBitGenerator, rng_bit_generator};
pub use scatter::*;
pub use select::*;
pub use shape::*;
pub use sharding_constraint::ShardingConstraint;
pub use slicing::*;
pub use sort::*;
pub use special::*;
pub(crate) use special::{has_open_terms, unconverged};
pub use stop_gradient::*;
pub(crate) use structural::resize_axis;
pub use structural::*;
pub use top_k::*;
pub use trig::*;
pub use window::*;

use crate::core::Entry;

/// Every first-order primitive, sorted by name within its family.
pub const PRIMITIVES: &[Entry] = &[
    // arithmetic
    Entry::of::<Abs>(),
    Entry::of::<Add>(),
    Entry::of::<Cbrt>(),
    Entry::of::<Ceil>(),
    Entry::of::<Clamp>(),
    Entry::of::<Div>(),
    Entry::of::<Floor>(),
    Entry::of::<IntegerPow>(),
    Entry::of::<IsFinite>(),
    Entry::of::<Max>(),
    Entry::of::<Min>(),
    Entry::of::<Mul>(),
    Entry::of::<Neg>(),
    Entry::of::<Nextafter>(),
    Entry::of::<Pow>(),
    Entry::of::<Rem>(),
    Entry::of::<Round>(),
    Entry::of::<Rsqrt>(),
    Entry::of::<Sign>(),
    Entry::of::<Sqrt>(),
    Entry::of::<Sub>(),
    // barrier
    Entry::of::<OptimizationBarrier>(),
    Entry::of::<Name>(),
    // bitcast
    Entry::of::<BitcastConvertType>(),
    // callback
    Entry::new("callback", callback::make, callback::exemplars),
    // collective
    Entry::of::<AllGather>(),
    Entry::of::<AllToAll>(),
    Entry::of::<AxisIndex>(),
    Entry::of::<PMax>(),
    Entry::of::<PMin>(),
    Entry::of::<PPermute>(),
    Entry::of::<PSum>(),
    Entry::of::<PSumScatter>(),
    Entry::of::<PVary>(),
    // comparison
    Entry::of::<Compare>(),
    // complex
    Entry::of::<Complex>(),
    Entry::of::<Conj>(),
    Entry::of::<Imag>(),
    Entry::of::<Real>(),
    // constant
    Entry::of::<Fill>(),
    // convert
    Entry::of::<ConvertElementType>(),
    // convolution
    Entry::of::<ConvGeneralDilated>(),
    // cumulative
    Entry::of::<Cumlogsumexp>(),
    Entry::of::<Cummax>(),
    Entry::of::<Cummin>(),
    Entry::of::<Cumprod>(),
    Entry::of::<Cumsum>(),
    Entry::of::<LinearRecurrence>(),
    // dot
    Entry::of::<DotGeneral>(),
    // exponential
    Entry::of::<Exp>(),
    Entry::of::<Exp2>(),
    Entry::of::<Expm1>(),
    Entry::of::<Log>(),
    Entry::of::<Log1p>(),
    Entry::of::<Logistic>(),
    Entry::of::<Tanh>(),
    // logaddexp
    Entry::of::<LogAddExp>(),
    // fft
    Entry::of::<Fft>(),
    // gather
    Entry::of::<Gather>(),
    // iota
    Entry::of::<Iota>(),
    // linalg
    Entry::of::<Cholesky>(),
    Entry::of::<Eig>(),
    Entry::of::<Eigh>(),
    Entry::of::<Lu>(),
    Entry::of::<Qr>(),
    Entry::of::<Svd>(),
    Entry::of::<TriangularSolve>(),
    // logic
    Entry::of::<And>(),
    Entry::of::<CountLeadingZeros>(),
    Entry::of::<Not>(),
    Entry::of::<Or>(),
    Entry::of::<PopulationCount>(),
    Entry::of::<ShiftLeft>(),
    Entry::of::<ShiftRightArithmetic>(),
    Entry::of::<ShiftRightLogical>(),
    Entry::of::<Xor>(),
    // reduce
    Entry::of::<ArgMax>(),
    Entry::of::<ArgMin>(),
    Entry::of::<ReduceAnd>(),
    Entry::of::<ReduceMax>(),
    Entry::of::<ReduceMin>(),
    Entry::of::<ReduceOr>(),
    Entry::of::<ReduceProd>(),
    Entry::of::<ReduceSum>(),
    Entry::of::<ReduceXor>(),
    // reduce_precision
    Entry::of::<ReducePrecision>(),
    // rng_bits
    Entry::of::<Threefry2x32>(),
    // rng_generator
    Entry::of::<RngBitGenerator>(),
    // scatter
    Entry::of::<Scatter>(),
    // select
    Entry::of::<Select>(),
    // shape
    Entry::of::<BroadcastInDim>(),
    Entry::of::<Reshape>(),
    Entry::of::<Transpose>(),
    // stop_gradient
    Entry::of::<StopGradient>(),
    // sharding_constraint
    Entry::of::<ShardingConstraint>(),
    // slicing
    Entry::of::<DynamicSlice>(),
    Entry::of::<DynamicUpdateSlice>(),
    Entry::of::<Slice>(),
    // sort
    Entry::of::<Sort>(),
    // special
    Entry::of::<BesselI0e>(),
    Entry::of::<BesselI1e>(),
    Entry::of::<Digamma>(),
    Entry::of::<Erf>(),
    Entry::of::<ErfInv>(),
    Entry::of::<Erfc>(),
    Entry::of::<Igamma>(),
    Entry::of::<IgammaGradA>(),
    Entry::of::<Igammac>(),
    Entry::of::<Lgamma>(),
    Entry::of::<Polygamma>(),
    Entry::of::<RandomGammaGrad>(),
    Entry::of::<RegularizedIncompleteBeta>(),
    Entry::of::<Zeta>(),
    // structural
    Entry::of::<Concatenate>(),
    Entry::of::<Pad>(),
    Entry::of::<Rev>(),
    // top_k
    Entry::of::<TopK>(),
    // trig
    Entry::of::<Acos>(),
    Entry::of::<Acosh>(),
    Entry::of::<Asin>(),
    Entry::of::<Asinh>(),
    Entry::of::<Atan>(),
    Entry::of::<Atan2>(),
    Entry::of::<Atanh>(),
    Entry::of::<Cos>(),
    Entry::of::<Cosh>(),
    Entry::of::<Sin>(),
    Entry::of::<Sinh>(),
    Entry::of::<Tan>(),
    // window
    Entry::of::<ReduceWindowMax>(),
    Entry::of::<ReduceWindowMin>(),
    Entry::of::<ReduceWindowProd>(),
    Entry::of::<ReduceWindowSum>(),
    Entry::of::<SelectAndGatherAdd>(),
    Entry::of::<SelectAndScatterAdd>(),
];
