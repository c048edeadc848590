//! Random bits of one word per counter, from both words of a Threefry hash.

use super::promote::{ArrayLike, promote_arrays};
use super::rng_bits::{Threefry2x32, lower_hashed, write_hash};
use super::rules::{batch_elementwise, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::ensure_dtype;
use crate::stablehlo::{Value, Writer};
use serde::{Deserialize, Serialize};

/// Hashes each counter pair under its key pair, as [`Threefry2x32`] does, and combines both words
/// to one: `x0 ^ x1` of 32 bits, or `x0 << 32 | x1` of 64.
///
/// | | |
/// |-|-|
/// | operands   | `k0, k1, x0, x1: u32[…]`, of one shape: the key's words, then the counter's |
/// | result     | `dtype[…]` |
/// | lowering   | the 20 rounds and the combination in a private function; on a CPU its result stands behind an `optimization_barrier`, or the compiler would repeat the rounds in everything that uses it |
/// | derivative | none: integers |
///
/// A barrier around both words of a hash would make the CPU compiler compute the rounds twice, once
/// for each word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreefryBits {
    /// `u32` or `u64`.
    pub dtype: DType,
}

/// Operations per element that combine the words.
const COMBINATION: u64 = 3;

impl Primitive for ThreefryBits {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        ensure_dtype!(
            matches!(self.dtype, DType::U32 | DType::U64),
            "gives u32 or u64, not {}",
            self.dtype
        );
        let words = Threefry2x32.abstract_eval(operands)?;
        Ok(vec![words[0].with_dtype(self.dtype)])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        batch_elementwise(self, operands, axes, axis)
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        lower_hashed(ctx, Self::NAME, operands, results, |writer, words| {
            let words = write_hash(writer, words);
            vec![write_combined(writer, words, &results[0])]
        })
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let words = [results[0].with_dtype(DType::U32), results[0].with_dtype(DType::U32)];
        let combination = COMBINATION.saturating_mul(results[0].size() as u64);
        let flops = Threefry2x32.cost(operands, &words).flops.saturating_add(combination);
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Writes the combination of two words to a result of this type.
fn write_combined(writer: &mut Writer, words: Vec<Value>, result: &Aval) -> Value {
    if result.dtype != DType::U64 {
        return writer.op("xor", &words);
    }
    let ty = result.stablehlo();
    let mut wide = |word: &Value| writer.op_as("convert", std::slice::from_ref(word), "", &ty);
    let (high, low) = (wide(&words[0]), wide(&words[1]));
    let distance = writer.constant("32", &ty);
    let high = writer.op("shift_left", &[high, distance]);
    writer.op("or", &[high, low])
}

/// Hashes the counter `(x0, x1)` under the key `(k0, k1)` for each element, to bits of `dtype`.
/// Operands are `u32` and broadcast. See [`ThreefryBits`] for its rules.
#[track_caller]
pub(crate) fn threefry_bits(
    dtype: DType,
    k0: impl ArrayLike,
    k1: impl ArrayLike,
    x0: impl ArrayLike,
    x1: impl ArrayLike,
) -> Array {
    let words = promote_arrays("threefry_bits", [k0.like(), k1.like(), x0.like(), x1.like()]);
    bind1(ThreefryBits { dtype }, words.each_ref())
}

impl Registered for ThreefryBits {
    const NAME: &'static str = "threefry_bits";
    fn exemplars() -> Vec<Exemplar> {
        let words = |shape: &[usize]| {
            [0; 4].map(|_| Sample::uniform(DType::U32, shape, 0.0, f64::from(u32::MAX)))
        };
        [(DType::U32, &[2, 3][..]), (DType::U64, &[3]), (DType::U32, &[]), (DType::U64, &[0])]
            .into_iter()
            .map(|(dtype, shape)| Exemplar::new(ThreefryBits { dtype }, words(shape)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::threefry2x32;
    use expect_test::expect;

    #[test]
    fn bits_have_32_or_64() {
        let words = [0; 4].map(|_| Aval::new(DType::U32, [2]));
        let eval = |dtype| ThreefryBits { dtype }.abstract_eval(&words);
        assert_eq!(eval(DType::U64).unwrap(), [Aval::new(DType::U64, [2])]);
        let error = eval(DType::U16).unwrap_err();
        expect!["gives u32 or u64, not u16"].assert_eq(&error.message);
    }

    mod on_cpu {
        use super::*;
        use crate::jit::jit;

        #[test]
        fn bits_are_both_words() {
            let word = |x: [u32; 3]| Array::from_slice(&x, [3]).unwrap();
            let words = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, u32::MAX]].map(word);
            let [k0, k1, x0, x1] = &words;
            let [a, b] = threefry2x32(k0, k1, x0, x1).map(|x| x.to_vec::<u32>().unwrap());
            let bits = threefry_bits(DType::U32, k0, k1, x0, x1).to_vec::<u32>().unwrap();
            let wide = threefry_bits(DType::U64, k0, k1, x0, x1).to_vec::<u64>().unwrap();
            for at in 0..3 {
                assert_eq!(bits[at], a[at] ^ b[at]);
                assert_eq!(wide[at], u64::from(a[at]) << 32 | u64::from(b[at]));
            }
        }

        /// The functions of both widths have the same operand types.
        #[test]
        fn one_program_draws_both_widths() {
            let both = |k: Array| {
                let bits = |dtype| threefry_bits(dtype, &k, &k, &k, &k);
                (bits(DType::U32), bits(DType::U64))
            };
            let k = Array::from_slice(&[1u32, 2, 3], [3]).unwrap();
            let (bits, wide) = jit(both).call(&k).unwrap();
            let (bits, wide) = (bits.to_vec::<u32>().unwrap(), wide.to_vec::<u64>().unwrap());
            for (bits, wide) in bits.into_iter().zip(wide) {
                assert_eq!(bits, (wide >> 32) as u32 ^ wide as u32);
            }
        }
    }
}
