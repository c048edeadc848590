//! First-order operations: one file per family, one struct per primitive, all its rules inside.
//!
//! Families follow the chapters of StableHLO. The public functions (`add`, `sin`, `dot_general`)
//! stand under their primitive. Primitives that hold programs live in `control_flow`.

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
pub use exponential::*;
pub use fft::{Fft, FftType, fft};
pub use gather::*;
pub use iota::*;
pub use linalg::{
    Cholesky, Eig, Eigh, Lu, Qr, Svd, TransposeA, TriangularSolve, cholesky, eig, eigh, lu, qr,
    svd, triangular_solve,
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
pub(crate) use special::{go_on, still_open};
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
    Entry::of::<Abs>("abs", arithmetic::sign::exemplars_abs),
    Entry::of::<Add>("add", arithmetic::basic::exemplars_add),
    Entry::of::<Cbrt>("cbrt", arithmetic::roots::exemplars_cbrt),
    Entry::of::<Ceil>("ceil", arithmetic::rounding::exemplars_ceil),
    Entry::of::<Clamp>("clamp", arithmetic::extrema::exemplars_clamp),
    Entry::of::<Div>("div", arithmetic::basic::exemplars_div),
    Entry::of::<Floor>("floor", arithmetic::rounding::exemplars_floor),
    Entry::of::<IntegerPow>("integer_pow", arithmetic::powers::exemplars_integer_pow),
    Entry::of::<IsFinite>("is_finite", arithmetic::sign::exemplars_is_finite),
    Entry::of::<Max>("max", arithmetic::extrema::exemplars_max),
    Entry::of::<Min>("min", arithmetic::extrema::exemplars_min),
    Entry::of::<Mul>("mul", arithmetic::basic::exemplars_mul),
    Entry::of::<Neg>("neg", arithmetic::basic::exemplars_neg),
    Entry::of::<Nextafter>("nextafter", arithmetic::sign::exemplars_nextafter),
    Entry::of::<Pow>("pow", arithmetic::powers::exemplars_pow),
    Entry::of::<Rem>("rem", arithmetic::rounding::exemplars_rem),
    Entry::of::<Round>("round", arithmetic::rounding::exemplars_round),
    Entry::of::<Rsqrt>("rsqrt", arithmetic::roots::exemplars_rsqrt),
    Entry::of::<Sign>("sign", arithmetic::sign::exemplars_sign),
    Entry::of::<Sqrt>("sqrt", arithmetic::roots::exemplars_sqrt),
    Entry::of::<Sub>("sub", arithmetic::basic::exemplars_sub),
    // barrier
    Entry::of::<OptimizationBarrier>("optimization_barrier", barrier::exemplars_barrier),
    Entry::of::<Name>("name", barrier::exemplars_name),
    // bitcast
    Entry::of::<BitcastConvertType>("bitcast_convert_type", bitcast::exemplars),
    // callback
    Entry { name: "callback", make: callback::make, exemplars: callback::exemplars },
    // collective
    Entry::of::<AllGather>("all_gather", collective::exemplars_all_gather),
    Entry::of::<AllToAll>("all_to_all", collective::exemplars_all_to_all),
    Entry::of::<AxisIndex>("axis_index", collective::exemplars_index),
    Entry::of::<PMax>("pmax", collective::exemplars_max),
    Entry::of::<PMin>("pmin", collective::exemplars_min),
    Entry::of::<PPermute>("ppermute", collective::exemplars_permute),
    Entry::of::<PSum>("psum", collective::exemplars_sum),
    Entry::of::<PSumScatter>("psum_scatter", collective::exemplars_scatter),
    Entry::of::<PVary>("pvary", collective::exemplars_vary),
    // comparison
    Entry::of::<Compare>("compare", comparison::exemplars_compare),
    // complex
    Entry::of::<Complex>("complex", complex::exemplars_complex),
    Entry::of::<Conj>("conj", complex::exemplars_conj),
    Entry::of::<Imag>("imag", complex::exemplars_imag),
    Entry::of::<Real>("real", complex::exemplars_real),
    // constant
    Entry::of::<Fill>("fill", constant::exemplars_fill),
    // convert
    Entry::of::<ConvertElementType>("convert_element_type", convert::exemplars),
    // convolution
    Entry::of::<ConvGeneralDilated>("conv_general_dilated", convolution::exemplars),
    // cumulative
    Entry::of::<Cumlogsumexp>("cumlogsumexp", cumulative::exemplars_cumlogsumexp),
    Entry::of::<Cummax>("cummax", cumulative::exemplars_cummax),
    Entry::of::<Cummin>("cummin", cumulative::exemplars_cummin),
    Entry::of::<Cumprod>("cumprod", cumulative::exemplars_cumprod),
    Entry::of::<Cumsum>("cumsum", cumulative::exemplars_cumsum),
    Entry::of::<LinearRecurrence>("linear_recurrence", cumulative::exemplars_linear_recurrence),
    // dot
    Entry::of::<DotGeneral>("dot_general", dot::exemplars),
    // exponential
    Entry::of::<Exp>("exp", exponential::exemplars_exp),
    Entry::of::<Exp2>("exp2", exponential::exemplars_exp2),
    Entry::of::<Expm1>("expm1", exponential::exemplars_expm1),
    Entry::of::<Log>("log", exponential::exemplars_log),
    Entry::of::<Log1p>("log1p", exponential::exemplars_log1p),
    Entry::of::<Logistic>("logistic", exponential::exemplars_logistic),
    Entry::of::<Tanh>("tanh", exponential::exemplars_tanh),
    // logaddexp
    Entry::of::<LogAddExp>("logaddexp", logaddexp::exemplars),
    // fft
    Entry::of::<Fft>("fft", fft::exemplars),
    // gather
    Entry::of::<Gather>("gather", gather::exemplars_gather),
    // iota
    Entry::of::<Iota>("iota", iota::exemplars_iota),
    // linalg
    Entry::of::<Cholesky>("cholesky", linalg::exemplars_cholesky),
    Entry::of::<Eig>("eig", linalg::exemplars_eig),
    Entry::of::<Eigh>("eigh", linalg::exemplars_eigh),
    Entry::of::<Lu>("lu", linalg::exemplars_lu),
    Entry::of::<Qr>("qr", linalg::exemplars_qr),
    Entry::of::<Svd>("svd", linalg::exemplars_svd),
    Entry::of::<TriangularSolve>("triangular_solve", linalg::exemplars_triangular_solve),
    // logic
    Entry::of::<And>("and", logic::bitwise::exemplars_and),
    Entry::of::<CountLeadingZeros>(
        "count_leading_zeros",
        logic::counts::exemplars_count_leading_zeros,
    ),
    Entry::of::<Not>("not", logic::bitwise::exemplars_not),
    Entry::of::<Or>("or", logic::bitwise::exemplars_or),
    Entry::of::<PopulationCount>("population_count", logic::counts::exemplars_population_count),
    Entry::of::<ShiftLeft>("shift_left", logic::shifts::exemplars_shift_left),
    Entry::of::<ShiftRightArithmetic>(
        "shift_right_arithmetic",
        logic::shifts::exemplars_shift_right_arithmetic,
    ),
    Entry::of::<ShiftRightLogical>(
        "shift_right_logical",
        logic::shifts::exemplars_shift_right_logical,
    ),
    Entry::of::<Xor>("xor", logic::bitwise::exemplars_xor),
    // reduce
    Entry::of::<ArgMax>("argmax", reduce::exemplars_argmax),
    Entry::of::<ArgMin>("argmin", reduce::exemplars_argmin),
    Entry::of::<ReduceAnd>("reduce_and", reduce::exemplars_and),
    Entry::of::<ReduceMax>("reduce_max", reduce::exemplars_max),
    Entry::of::<ReduceMin>("reduce_min", reduce::exemplars_min),
    Entry::of::<ReduceOr>("reduce_or", reduce::exemplars_or),
    Entry::of::<ReduceProd>("reduce_prod", reduce::exemplars_prod),
    Entry::of::<ReduceSum>("reduce_sum", reduce::exemplars_sum),
    Entry::of::<ReduceXor>("reduce_xor", reduce::exemplars_xor),
    // reduce_precision
    Entry::of::<ReducePrecision>("reduce_precision", reduce_precision::exemplars),
    // rng_bits
    Entry::of::<Threefry2x32>("threefry2x32", rng_bits::exemplars_threefry2x32),
    // rng_generator
    Entry::of::<RngBitGenerator>("rng_bit_generator", rng_generator::exemplars),
    // scatter
    Entry::of::<Scatter>("scatter", scatter::exemplars_scatter),
    // select
    Entry::of::<Select>("select", select::exemplars_select),
    // shape
    Entry::of::<BroadcastInDim>("broadcast_in_dim", shape::exemplars_broadcast_in_dim),
    Entry::of::<Reshape>("reshape", shape::exemplars_reshape),
    Entry::of::<Transpose>("transpose", shape::exemplars_transpose),
    // stop_gradient
    Entry::of::<StopGradient>("stop_gradient", stop_gradient::exemplars),
    // sharding_constraint
    Entry::of::<ShardingConstraint>("sharding_constraint", sharding_constraint::exemplars),
    // slicing
    Entry::of::<DynamicSlice>("dynamic_slice", slicing::exemplars_dynamic_slice),
    Entry::of::<DynamicUpdateSlice>(
        "dynamic_update_slice",
        slicing::exemplars_dynamic_update_slice,
    ),
    Entry::of::<Slice>("slice", slicing::exemplars_slice),
    // sort
    Entry::of::<Sort>("sort", sort::exemplars_sort),
    // special
    Entry::of::<BesselI0e>("bessel_i0e", special::exemplars_i0e),
    Entry::of::<BesselI1e>("bessel_i1e", special::exemplars_i1e),
    Entry::of::<Digamma>("digamma", special::exemplars_digamma),
    Entry::of::<Erf>("erf", special::exemplars_erf),
    Entry::of::<ErfInv>("erf_inv", special::exemplars_erf_inv),
    Entry::of::<Erfc>("erfc", special::exemplars_erfc),
    Entry::of::<Igamma>("igamma", special::exemplars_igamma),
    Entry::of::<IgammaGradA>("igamma_grad_a", special::exemplars_igamma_grad_a),
    Entry::of::<Igammac>("igammac", special::exemplars_igammac),
    Entry::of::<Lgamma>("lgamma", special::exemplars_lgamma),
    Entry::of::<Polygamma>("polygamma", special::exemplars_polygamma),
    Entry::of::<RandomGammaGrad>("random_gamma_grad", special::exemplars_random_gamma_grad),
    Entry::of::<RegularizedIncompleteBeta>(
        "regularized_incomplete_beta",
        special::exemplars_regularized_incomplete_beta,
    ),
    Entry::of::<Zeta>("zeta", special::exemplars_zeta),
    // structural
    Entry::of::<Concatenate>("concatenate", structural::exemplars_concatenate),
    Entry::of::<Pad>("pad", structural::exemplars_pad),
    Entry::of::<Rev>("rev", structural::exemplars_rev),
    // top_k
    Entry::of::<TopK>("top_k", top_k::exemplars),
    // trig
    Entry::of::<Acos>("acos", trig::inverse::exemplars_acos),
    Entry::of::<Acosh>("acosh", trig::hyperbolic::exemplars_acosh),
    Entry::of::<Asin>("asin", trig::inverse::exemplars_asin),
    Entry::of::<Asinh>("asinh", trig::hyperbolic::exemplars_asinh),
    Entry::of::<Atan>("atan", trig::inverse::exemplars_atan),
    Entry::of::<Atan2>("atan2", trig::inverse::exemplars_atan2),
    Entry::of::<Atanh>("atanh", trig::hyperbolic::exemplars_atanh),
    Entry::of::<Cos>("cos", trig::circular::exemplars_cos),
    Entry::of::<Cosh>("cosh", trig::hyperbolic::exemplars_cosh),
    Entry::of::<Sin>("sin", trig::circular::exemplars_sin),
    Entry::of::<Sinh>("sinh", trig::hyperbolic::exemplars_sinh),
    Entry::of::<Tan>("tan", trig::circular::exemplars_tan),
    // window
    Entry::of::<ReduceWindowMax>("reduce_window_max", window::exemplars_max),
    Entry::of::<ReduceWindowMin>("reduce_window_min", window::exemplars_min),
    Entry::of::<ReduceWindowProd>("reduce_window_prod", window::exemplars_prod),
    Entry::of::<ReduceWindowSum>("reduce_window_sum", window::exemplars_sum),
    Entry::of::<SelectAndGatherAdd>("select_and_gather_add", window::exemplars_gather_add),
    Entry::of::<SelectAndScatterAdd>("select_and_scatter_add", window::exemplars_scatter_add),
];
