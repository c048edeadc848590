//! Helpers of all samplers: execution as one program, parameters, and checks.

use super::key::{Key, KeyImpl, words_of};
use super::key_words::KeyWords;
use crate::core::trace::{self};
use crate::core::{
    Array, Aval, Cache, DType, Loc, Program, RuleError, Scalar, Shape, catch, throw, throw_operands,
};
use crate::primitives::{Like, convert_element_type, fill_of};
use crate::transforms::staging::{run_stage, staged, trace_stage};
use crate::tree::Tree;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// Number of traced programs of samplers that are kept.
const SAMPLERS: usize = 256;

/// Runs a sampler as one program, or in place inside a trace. Its operations have the location of
/// the sampler's caller.
///
/// One program is faster, and it is required for equal bits: the compiler fuses a product and a sum
/// into one rounding, as in JAX's samplers, which are compiled as a whole.
#[track_caller]
pub(super) fn draw<O: Tree>(sampler: impl FnOnce() -> O) -> O {
    let loc = Loc::caller();
    staged(|| with_constants(|| loc.scope(sampler)))
}

/// Runs a sampler with its numbers as constants: they are the same in every call, and equal bits
/// require them, because the compiler rounds operations with constants differently.
fn with_constants<R>(sampler: impl FnOnce() -> R) -> R {
    trace::with_numbers_as_operands(false, sampler)
}

/// The cache key of a sampler's program.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SamplerKey {
    name: &'static str,
    shape: Shape,
    dtype: DType,
    implementation: KeyImpl,
    operands: Vec<Aval>,
}

/// Draws from one key, as [`draw`] does. Outside of traces, the program is traced once per shape,
/// dtype and types of the operands, of which it must be a function. `sampler` gets the words of the
/// key and the operands.
#[track_caller]
pub(super) fn draw_from(
    (name, shape, dtype): (&'static str, &Shape, DType),
    key: &Key,
    operands: &[&Array],
    sampler: impl FnOnce(KeyWords, &[Array]) -> Array,
) -> Array {
    static PROGRAMS: LazyLock<Cache<SamplerKey, Program>> = LazyLock::new(|| Cache::new(SAMPLERS));
    let loc = Loc::caller();
    key.expect_one(name);
    let inputs: Vec<Array> =
        std::iter::once(key.data()).chain(operands.iter().copied()).cloned().collect();
    let implementation = key.implementation();
    let sample = |inputs: &[Array]| {
        with_constants(|| loc.scope(|| sampler(words_of(&inputs[0], implementation), &inputs[1..])))
    };
    if trace::is_tracing() {
        return sample(&inputs);
    }
    // The functions of a generator that the program defines may capture arrays.
    if matches!(implementation, KeyImpl::Custom(_)) {
        return draw(|| sample(&inputs));
    }
    let avals: Vec<Aval> = inputs.iter().map(|input| input.aval().clone()).collect();
    let sampler_key =
        SamplerKey { name, shape: shape.clone(), dtype, implementation, operands: avals };
    let mut hasher = FxHasher::default();
    sampler_key.hash(&mut hasher);
    let program = PROGRAMS.get_or_make(
        hasher.finish(),
        |other| *other == sampler_key,
        || sampler_key.clone(),
        |key| {
            let avals = key.operands.iter().cloned();
            catch(|| trace_stage(avals, |inputs| vec![sample(inputs)]))
        },
    );
    let program = program.unwrap_or_else(|error| throw(error));
    run_stage(program.value(), &inputs).swap_remove(0)
}

/// Converts a parameter to an input of the program. A number becomes an array of `dtype`, so that
/// another number does not require another compilation.
#[track_caller]
pub(super) fn parameter(value: Like<'_>, dtype: DType) -> Array {
    match value {
        Like::Array(x) => x.clone(),
        Like::Scalar(value) => number(value, dtype),
    }
}

/// Returns a scalar array of `dtype`: a constant inside a trace, or an array on the device.
#[track_caller]
pub(super) fn number(value: Scalar, dtype: DType) -> Array {
    if trace::is_tracing() {
        return fill_of(value, &Aval::new(dtype, Shape::scalar()));
    }
    let float = value.as_f64();
    let int = match value {
        Scalar::Int(int) => int as i64,
        other => other.as_f64() as i64,
    };
    let array = match dtype {
        DType::F16 => Array::from_slice(&[half::f16::from_f64(float)], []),
        DType::BF16 => Array::from_slice(&[half::bf16::from_f64(float)], []),
        DType::F32 => Array::from_slice(&[float as f32], []),
        DType::F64 => Array::from_slice(&[float], []),
        DType::I8 => Array::from_slice(&[int as i8], []),
        DType::I16 => Array::from_slice(&[int as i16], []),
        DType::I32 => Array::from_slice(&[int as i32], []),
        DType::I64 => Array::from_slice(&[int], []),
        DType::U8 => Array::from_slice(&[int as u8], []),
        DType::U16 => Array::from_slice(&[int as u16], []),
        DType::U32 => Array::from_slice(&[int as u32], []),
        DType::U64 => Array::from_slice(&[int as u64], []),
        _ => return fill_of(value, &Aval::new(dtype, Shape::scalar())),
    };
    array.unwrap_or_else(|error| throw(error))
}

/// Returns a constant of a sampler's program.
#[track_caller]
pub(super) fn constant(value: impl Into<Scalar>, dtype: DType) -> Array {
    fill_of(value.into(), &Aval::new(dtype, Shape::scalar()))
}

/// Returns the float dtype of a number parameter for results of `dtype`: 64 bits for results of 64
/// bits, as in JAX with 64-bit types enabled.
pub(super) fn number_dtype(dtype: DType) -> DType {
    if dtype.real().bits() == 64 { DType::F64 } else { DType::F32 }
}

/// Converts an array to `dtype`.
#[track_caller]
pub(super) fn cast(x: &Array, dtype: DType) -> Array {
    if x.dtype() == dtype { x.clone() } else { convert_element_type(x, dtype) }
}

/// Throws unless `dtype` is supported by samplers of integers.
#[track_caller]
pub(super) fn expect_integer(name: &str, dtype: DType) {
    Loc::caller().scope(|| {
        if !dtype.is_integer() || dtype.bits() < 8 {
            let message = format!("draws integers of 8, 16, 32 or 64 bits, not {dtype}");
            throw_operands(name, RuleError::dtype(message), &[]);
        }
    })
}

/// Throws unless `dtype` is supported by samplers of floats.
#[track_caller]
pub(super) fn expect_float(name: &str, dtype: DType) {
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        let error = RuleError::dtype(format!("draws f16, bf16, f32 or f64, not {dtype}"));
        throw_operands(name, error, &[]);
    }
}
