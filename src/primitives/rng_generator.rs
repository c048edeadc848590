//! Random bits from a state, by XLA's generators.

use super::composite::{lower_by, lower_while};
use super::rules::{arity, move_axis, zero_jvp};
use super::{bitcast_convert_type, reshape, zeros_of};
use super::{dynamic_slice_in_dim, dynamic_update_slice_in_dim, lt, scalar};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Shape, Tangent, bind,
};
use crate::stablehlo::{TensorType, Value};
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// The generator of an [`RngBitGenerator`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RandomAlgorithm {
    /// The default of the platform: Philox on CPU.
    #[default]
    Default,
    /// Threefry-2x32.
    ThreeFry,
    /// Philox-4x32.
    Philox,
}

/// Generates random bits and the next state.
///
/// | | |
/// |-|-|
/// | operand    | the state, `u32[…, 4]` or `u64[…, 2]`; leading axes are independent states |
/// | results    | the next state, of that type, and `dtype[…, shape…]` |
/// | lowering   | [`stablehlo.rng_bit_generator`](https://openxla.org/stablehlo/spec#rng_bit_generator), in a loop over states |
/// | derivative | none: integers |
///
/// # Reference
/// Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RngBitGenerator {
    /// The random number generator.
    pub algorithm: RandomAlgorithm,
    /// `u8`, `u16`, `u32` or `u64`.
    pub dtype: DType,
    /// The shape of the bits of one state.
    pub shape: Vec<usize>,
}

impl RngBitGenerator {
    /// Writes the operation for one state of 64-bit words.
    fn lower_one(&self, ctx: &mut LowerCtx<'_>, state: &Value) -> Vec<Value> {
        let name = match self.algorithm {
            RandomAlgorithm::Default => "DEFAULT",
            RandomAlgorithm::ThreeFry => "THREE_FRY",
            RandomAlgorithm::Philox => "PHILOX",
        };
        let attributes = format!("rng_algorithm = #stablehlo<rng_algorithm {name}>");
        let bits = Aval::new(self.dtype, &self.shape).stablehlo();
        let types: [TensorType; 2] = [state.ty().clone(), bits];
        let operands = std::slice::from_ref(state);
        ctx.op_full("rng_bit_generator", operands, &attributes, Vec::new(), &types)
    }
}

impl Primitive for RngBitGenerator {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [state] = arity(operands)?;
        let words = match state.dtype {
            DType::U32 => 4,
            DType::U64 => 2,
            other => {
                return Err(crate::core::RuleError::dtype(format!(
                    "the state must be u32 or u64, got {other}"
                )));
            }
        };
        let last = state.shape.iter().last().copied();
        ensure_shape!(
            last == Some(words),
            "a state of {} has {words} words in its last axis, got {state}",
            state.dtype
        );
        ensure_dtype!(
            matches!(self.dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64),
            "gives u8, u16, u32 or u64, not {}",
            self.dtype
        );
        let batch = &state.shape.dims()[..state.rank() - 1];
        let shape: Shape = batch.iter().chain(&self.shape).copied().collect();
        Ok(vec![state.strong(), Aval::new(self.dtype, shape)])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let states = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(Batched { outputs: bind(self.clone(), &[&states]), axes: vec![Some(0); 2] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dims = operands[0].ty().dims().to_vec();
        if let [words] = dims[..] {
            let wide = lower_by(ctx, operands, |x| vec![as_words(&x[0])])?;
            let mut outputs = self.lower_one(ctx, &wide[0]);
            let state = lower_by(ctx, &outputs[..1], |x| vec![from_words(&x[0], words)])?;
            outputs.splice(..1, state);
            return Ok(outputs);
        }
        let count: usize = dims[..dims.len() - 1].iter().product();
        if count == 0 {
            return lower_by(ctx, operands, |_| results.iter().map(zeros_of).collect());
        }
        let words = dims[dims.len() - 1];
        let flat: Shape = std::iter::once(count).chain(self.shape.iter().copied()).collect();
        let begin = lower_by(ctx, operands, |x| {
            let states = reshape(&x[0], [count, words]);
            vec![scalar(0), states, zeros_of(&Aval::new(self.dtype, flat.clone()))]
        })?;
        let end = lower_while(
            ctx,
            &begin,
            |x| lt(&x[0], count as i32),
            |x| {
                let [index, states, bits] = x else { unreachable!("three arrays") };
                let state = reshape(&dynamic_slice_in_dim(states, index, 1, 0), [words]);
                let outputs = bind(self.clone(), &[&state]);
                let put = |all: &Array, one: &Array| {
                    let one = reshape(one, one.shape().insert(0, 1));
                    dynamic_update_slice_in_dim(all, &one, index, 0)
                };
                vec![index + 1, put(states, &outputs[0]), put(bits, &outputs[1])]
            },
        )?;
        lower_by(ctx, &end[1..], |x| {
            x.iter().zip(results).map(|(x, result)| reshape(x, result.shape.clone())).collect()
        })
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        // Ten rounds of Philox of about a dozen operations each produce four words.
        let words = results[1].bytes() as u64 / 4;
        Cost { flops: 30 * words, ..Cost::whole(operands, results) }
    }
}

/// Converts a state to two 64-bit words, as the generators require.
fn as_words(state: &Array) -> Array {
    match state.dtype() {
        DType::U64 => state.clone(),
        _ => bitcast_convert_type(&reshape(state, [2, 2]), DType::U64),
    }
}

/// Converts a state back to its original words.
fn from_words(state: &Array, words: usize) -> Array {
    match words {
        2 => state.clone(),
        _ => reshape(&bitcast_convert_type(state, DType::U32), [4]),
    }
}

/// Returns the next state and random bits of `dtype` (`u8`, `u16`, `u32`, `u64`) and `shape`, from
/// a state, `u32[4]` or `u64[2]`. See [`RngBitGenerator`] for its rules.
///
/// The bits of a state depend on the plugin, and may differ between platforms and versions.
/// Samplers with keys are reproducible; see [`random`](crate::random). Under `vmap` each state
/// generates its own bits.
///
/// Throws `Op` (dtype, shape) if the state or the dtype is not one of these.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{RandomAlgorithm, rng_bit_generator};
/// let draw = |state: Array| rng_bit_generator(&state, [2, 3], DType::U8, RandomAlgorithm::Philox);
/// let (state, bits) = eval_shape(draw, Aval::new(DType::U32, [4]))?;
/// assert_eq!(state.aval().to_string(), "u32[4]");
/// assert_eq!(bits.aval().to_string(), "u8[2,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn rng_bit_generator(
    state: &Array,
    shape: impl Into<Shape>,
    dtype: DType,
    algorithm: RandomAlgorithm,
) -> (Array, Array) {
    let generator = RngBitGenerator { algorithm, dtype, shape: shape.into().dims().to_vec() };
    let outputs = bind(generator, &[state]);
    let [state, bits] = <[Array; 2]>::try_from(outputs).expect("the primitive has two results");
    (state, bits)
}

impl Registered for RngBitGenerator {
    const NAME: &'static str = "rng_bit_generator";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |algorithm, dtype, shape: &[usize], state: Sample| {
            Exemplar::new(RngBitGenerator { algorithm, dtype, shape: shape.to_vec() }, [state])
        };
        let narrow = |shape: &[usize]| Sample::uniform(DType::U32, shape, 0.0, f64::from(u32::MAX));
        let wide = Sample::listed(DType::U64, [2], &[3.0, 7.0]);
        use RandomAlgorithm::{Default, Philox, ThreeFry};
        vec![
            exemplar(Default, DType::U32, &[2, 3], narrow(&[4])),
            exemplar(ThreeFry, DType::U64, &[5], wide.clone()),
            exemplar(Philox, DType::U16, &[3], wide),
            exemplar(Philox, DType::U8, &[], narrow(&[2, 3, 4])),
            exemplar(ThreeFry, DType::U32, &[0], narrow(&[4])),
            exemplar(Default, DType::U32, &[2], narrow(&[0, 4])),
            exemplar(ThreeFry, DType::U32, &[1], narrow(&[1, 4])),
            exemplar(ThreeFry, DType::U32, &[], narrow(&[4])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::module_of;
    use expect_test::expect;

    #[test]
    fn one_state_is_one_operation() {
        let state = Aval::new(DType::U64, [2]);
        let how = RngBitGenerator {
            algorithm: RandomAlgorithm::Philox,
            dtype: DType::U32,
            shape: vec![3],
        };
        expect![[r#"
            func.func public @main(%0: tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>) {
            %1:2 = "stablehlo.rng_bit_generator"(%0) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
            "func.return"(%1#0, %1#1) : (tensor<2xui64>, tensor<3xui32>) -> ()
            }
        "#]].assert_eq(&module_of(how, [state]));
    }

    #[test]
    fn states_have_as_many_words_as_they_need() {
        let how = RngBitGenerator {
            algorithm: RandomAlgorithm::Default,
            dtype: DType::I32,
            shape: vec![3],
        };
        let error = |state| how.abstract_eval(&[state]).unwrap_err().message;
        expect!["a state of u32 has 4 words in its last axis, got u32[2]"]
            .assert_eq(&error(Aval::new(DType::U32, [2])));
        expect!["the state must be u32 or u64, got i32"]
            .assert_eq(&error(Aval::new(DType::I32, [4])));
        expect!["gives u8, u16, u32 or u64, not i32"].assert_eq(&error(Aval::new(DType::U64, [2])));
    }
}
