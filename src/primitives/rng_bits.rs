//! Counter-based random bits: the Threefry block function. Keys and samplers are in `random`.

use super::promote::{ArrayLike, promote_arrays};
use super::rules::{arity, batch_elementwise, same_type, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind,
};
use crate::ensure_dtype;
use crate::stablehlo::{TensorType, Value, Writer};
use serde::{Deserialize, Serialize};

/// Threefry with two 32-bit words and 20 rounds: hashes each counter pair under its key pair.
///
/// Equal keys and counters give equal bits on every platform.
///
/// | | |
/// |-|-|
/// | operands   | `k0, k1, x0, x1: u32[…]`, of one shape: the key's words, then the counter's |
/// | results    | two of that type: the hashed words |
/// | lowering   | the 20 rounds written out in a private function; on a CPU its results stand behind an `optimization_barrier`, or the compiler would repeat the rounds in everything that uses them |
/// | derivative | none: integers |
///
/// # Reference
/// Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011), section 4.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Threefry2x32;

/// Rotation distances of the rounds: two schedules of four, used in turn.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// The parity word of the key schedule.
const PARITY: u32 = 0x1BD1_1BDA;

/// Operations per element: 20 rounds of five, five key injections of three, the key schedule and
/// the first injection.
const FLOPS: u64 = 20 * 5 + 5 * 3 + 4;

impl Primitive for Threefry2x32 {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let word = same_type(arity::<4>(operands)?)?.strong();
        ensure_dtype!(
            word.dtype == DType::U32,
            "keys and counters must be u32, got {}",
            word.dtype
        );
        Ok(vec![word.clone(), word])
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
        lower_hashed(ctx, Self::NAME, operands, results, write_hash)
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = FLOPS.saturating_mul(results[0].size() as u64);
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Writes a call of the function that `body` writes. On a CPU its results stand behind a barrier:
/// the compiler would repeat the rounds in everything that uses them.
pub(super) fn lower_hashed(
    ctx: &mut LowerCtx<'_>,
    stem: &str,
    words: &[Value],
    results: &[Aval],
    body: impl FnOnce(&mut Writer, &[Value]) -> Vec<Value>,
) -> RuleResult<Vec<Value>> {
    let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
    let hashed = ctx.routine(stem, words, &types, |writer, words| Ok(body(writer, words)))?;
    if ctx.platform() != "cpu" {
        return Ok(hashed);
    }
    Ok(ctx.op_full("stablehlo.optimization_barrier", &hashed, "", Vec::new(), &types))
}

/// Writes the rounds. `words` are two key words and two counter words.
pub(super) fn write_hash(writer: &mut Writer, words: &[Value]) -> Vec<Value> {
    let ty = words[0].ty().clone();
    let number = |writer: &mut Writer, value: u32| writer.constant(&value.to_string(), &ty);
    let [k0, k1] = [words[0].clone(), words[1].clone()];
    let parity = number(writer, PARITY);
    let both = writer.op("xor", &[k0.clone(), k1.clone()]);
    let k2 = writer.op("xor", &[both, parity]);
    let keys = [k0, k1, k2];
    let mut x0 = writer.op("add", &[words[2].clone(), keys[0].clone()]);
    let mut x1 = writer.op("add", &[words[3].clone(), keys[1].clone()]);
    for group in 0..5 {
        for distance in ROTATIONS[group % 2] {
            x0 = writer.op("add", &[x0, x1.clone()]);
            let left = number(writer, distance);
            let right = number(writer, u32::BITS - distance);
            let high = writer.op("shift_left", &[x1.clone(), left]);
            let low = writer.op("shift_right_logical", &[x1, right]);
            let rotated = writer.op("or", &[high, low]);
            x1 = writer.op("xor", &[rotated, x0.clone()]);
        }
        x0 = writer.op("add", &[x0, keys[(group + 1) % 3].clone()]);
        x1 = writer.op("add", &[x1, keys[(group + 2) % 3].clone()]);
        let injection = number(writer, group as u32 + 1);
        x1 = writer.op("add", &[x1, injection]);
    }
    vec![x0, x1]
}

/// Hashes the counter `(x0, x1)` under the key `(k0, k1)` for each element, by Threefry-2x32.
/// Operands are `u32` and broadcast. See [`Threefry2x32`] for its rules.
#[doc(alias = "threefry_2x32")]
#[track_caller]
pub fn threefry2x32(
    k0: impl ArrayLike,
    k1: impl ArrayLike,
    x0: impl ArrayLike,
    x1: impl ArrayLike,
) -> [Array; 2] {
    let words = promote_arrays("threefry2x32", [k0.like(), k1.like(), x0.like(), x1.like()]);
    let results = bind(Threefry2x32, &words.each_ref());
    <[Array; 2]>::try_from(results).expect("the primitive has two results")
}

impl Registered for Threefry2x32 {
    const NAME: &'static str = "threefry2x32";
    fn exemplars() -> Vec<Exemplar> {
        let words = |shape: &[usize]| {
            [0; 4].map(|_| Sample::uniform(DType::U32, shape, 0.0, f64::from(u32::MAX)))
        };
        vec![
            Exemplar::new(Threefry2x32, words(&[2, 3])),
            Exemplar::new(Threefry2x32, words(&[])),
            Exemplar::new(Threefry2x32, words(&[0])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::trace::{Mode, Tracing};
    use expect_test::expect;

    #[test]
    fn one_function_serves_equal_types() {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let word = || tracing.input(Aval::new(DType::U32, [2]));
        let [k0, k1, x0, x1] = [word(), word(), word(), word()];
        let [a, b] = threefry2x32(&k0, &k1, &x0, &x1);
        let [a, b] = threefry2x32(&k0, &k1, &a, &b);
        let (program, _) = tracing.finish(&[a, b]);
        let mut ctx = LowerCtx::new("cpu");
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        assert_eq!(text.matches("func.func private @threefry2x32_0").count(), 1);
        assert_eq!(text.matches("callee = @threefry2x32_0").count(), 2);
        assert_eq!(text.matches("stablehlo.shift_left").count(), 20);
        // Behind a barrier, because the CPU compiler would repeat the hash for every use.
        assert_eq!(text.matches("stablehlo.optimization_barrier").count(), 2);
    }

    #[test]
    fn keys_are_words() {
        let avals = ["u32", "u32", "u32", "i32"]
            .map(|name| Aval::new(DType::from_name(name).unwrap(), [2]));
        let error = Threefry2x32.abstract_eval(&avals).unwrap_err();
        expect!["operands must have one dtype, got u32 and i32"].assert_eq(&error.message);
        let avals = [0; 4].map(|_| Aval::new(DType::I32, [2]));
        let error = Threefry2x32.abstract_eval(&avals).unwrap_err();
        expect!["keys and counters must be u32, got i32"].assert_eq(&error.message);
    }

    mod on_cpu {
        use super::*;

        /// Known answers of the reference implementation (Random123, `kat_vectors`).
        #[test]
        fn known_answers() {
            let cases: [[u32; 6]; 3] = [
                [0, 0, 0, 0, 0x6b20_0159, 0x99ba_4efe],
                [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0x1cb9_96fc, 0xbb00_2be7],
                [0x1319_8a2e, 0x0370_7344, 0x243f_6a88, 0x85a3_08d3, 0xc492_3a9c, 0x483d_f7a0],
            ];
            let word = |index: usize| {
                let column: Vec<u32> = cases.iter().map(|case| case[index]).collect();
                Array::from_slice(&column, [3]).unwrap()
            };
            let [a, b] = threefry2x32(word(0), word(1), word(2), word(3));
            assert_eq!(a.to_vec::<u32>().unwrap(), word(4).to_vec::<u32>().unwrap());
            assert_eq!(b.to_vec::<u32>().unwrap(), word(5).to_vec::<u32>().unwrap());
        }
    }
}
