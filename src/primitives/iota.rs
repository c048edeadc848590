//! Iota and ranges.

use super::arithmetic::{add, mul};
use super::constant::fill_of;
use super::rules::{arity, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Loc, LowerCtx, OpErrorKind,
    Primitive, Registered, RuleResult, Scalar, Shape, Tangent, bind1, trace,
};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// Array of each element's index along one axis.
///
/// | | |
/// |-|-|
/// | operands   | none |
/// | result     | dtype `dtype` (int, float or complex), shape `shape`; 0, 1, 2, … along `dimension`, constant along the other axes; rounds or wraps beyond the range of the dtype |
/// | lowering   | [`stablehlo.iota`](https://openxla.org/stablehlo/spec#iota) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Iota {
    /// The dtype of the result.
    pub dtype: DType,
    /// The shape of the result, of at least one axis.
    pub shape: Vec<usize>,
    /// The axis along which to count.
    pub dimension: usize,
}

impl Primitive for Iota {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        arity::<0>(operands)?;
        ensure_dtype!(!self.dtype.is_bool(), "counts in int, float or complex, not in bool");
        ensure_shape!(
            self.dimension < self.shape.len(),
            "dimension {} must be less than the rank {} of {}",
            self.dimension,
            self.shape.len(),
            Shape::new(&self.shape)
        );
        Ok(vec![Aval::new(self.dtype, self.shape.as_slice())])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(&self, _: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
        Ok(Batched { outputs: vec![bind1(self.clone(), [])], axes: vec![None] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        _: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let attributes = format!("iota_dimension = {} : i64", self.dimension);
        Ok(vec![ctx.op_as("iota", &[], &attributes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::elementwise(operands, results)
    }
}

/// Returns `0, 1, …, size - 1` in `dtype`. See [`Iota`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let aval = eval_shape(|| iota(DType::U32, 5), ())?;
/// assert_eq!(aval.aval().to_string(), "u32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn iota(dtype: DType, size: usize) -> Array {
    broadcasted_iota(dtype, [size], 0)
}

/// Returns the index of each element along axis `dimension` of an array of shape `shape`. See
/// [`Iota`] for its rules.
#[track_caller]
pub fn broadcasted_iota(dtype: DType, shape: impl Into<Shape>, dimension: usize) -> Array {
    bind1(Iota { dtype, shape: shape.into().to_vec(), dimension }, [])
}

/// Returns `start, start + step, …` up to `stop`, which is excluded: `i32` if all three are
/// integers, else `f32`.
///
/// The length is `⌈(stop - start) / step⌉`, computed in `f64`, and 0 if that is negative. Element
/// `i` is `start + i·step` in the result's dtype.
///
/// Throws `Op` (value) if `step` is zero, a number is not finite or the length passes 2³¹.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, y) = eval_shape(|| (arange_step(2, 11, 3), arange_step(0.0, 1.0, 0.25)), ())?;
/// assert_eq!(x.aval().to_string(), "i32[3]");
/// assert_eq!(y.aval().to_string(), "f32[4]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn arange_step(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
) -> Array {
    let numbers = [start.into(), stop.into(), step.into()];
    let integers = numbers.iter().all(|n| matches!(n, Scalar::Int(_) | Scalar::Bool(_)));
    counted(numbers, if integers { DType::I32 } else { DType::F32 })
}

/// As [`arange_step`], of dtype `dtype` (int, float or complex).
///
/// Throws `Op` (value) as `arange_step` does, and `Op` (dtype) for `bool`.
///
/// ```
/// use oxidax::prelude::*;
/// let aval = eval_shape(|| arange_dtype(1, 0, -0.1, DType::F64), ())?;
/// assert_eq!(aval.aval().to_string(), "f64[10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn arange_dtype(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
) -> Array {
    counted([start.into(), stop.into(), step.into()], dtype)
}

#[track_caller]
fn counted(numbers: [Scalar; 3], dtype: DType) -> Array {
    let [start, stop, step] = numbers.map(Scalar::as_f64);
    let count = ((stop - start) / step).ceil().max(0.0);
    let refused = match (step == 0.0, count < 2f64.powi(31)) {
        (true, _) => Some("step is 0".to_string()),
        (_, false) => Some(format!("{start} to {stop} by {step} has no countable length")),
        _ => None,
    };
    if let Some(message) = refused {
        trace::throw_op(OpErrorKind::Value, "arange_step", message, Loc::caller());
    }
    let positions = iota(dtype, count as usize);
    let scaled = if step == 1.0 {
        positions
    } else {
        mul(&positions, fill_of(numbers[2], positions.aval()))
    };
    if start == 0.0 { scaled } else { add(&scaled, fill_of(numbers[0], scaled.aval())) }
}

impl Registered for Iota {
    const NAME: &'static str = "iota";
    fn exemplars() -> Vec<Exemplar> {
        let along = |dtype, shape: &[usize], dimension| {
            Exemplar::new(Iota { dtype, shape: shape.to_vec(), dimension }, [])
        };
        let countable = DType::all().filter(|dtype| !dtype.is_bool());
        let mut all: Vec<Exemplar> = countable.map(|dtype| along(dtype, &[2], 0)).collect();
        all.push(along(DType::F32, &[2, 3], 1));
        all.push(along(DType::I32, &[2, 3, 2], 0));
        all.push(along(DType::U32, &[0], 0));
        all.push(along(DType::F32, &[1, 3], 0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn rejects_axis_out_of_range() {
        let error = Iota { dtype: DType::I32, shape: vec![2, 3], dimension: 2 }
            .abstract_eval(&[])
            .unwrap_err();
        expect!["dimension 2 must be less than the rank 2 of [2,3]"].assert_eq(&error.message);
    }

    #[test]
    fn lowers_to_one_operation() {
        let mut ctx = LowerCtx::new("cpu");
        let iota = Iota { dtype: DType::BF16, shape: vec![2, 3], dimension: 1 };
        let avals = iota.abstract_eval(&[]).unwrap();
        let (outside, arguments) = ctx.open_function(&[]);
        let results = iota.lower(&mut ctx, &[], &avals).unwrap();
        ctx.close_function(outside, "main", &arguments, &results);
        expect![[r#"
            module @"m" {
              func.func public @main() -> (tensor<2x3xbf16>) {
              %0 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xbf16>
              "func.return"(%0) : (tensor<2x3xbf16>) -> ()
              }
            }
        "#]]
        .assert_eq(&ctx.finish("m"));
    }

    mod on_cpu {
        use super::*;

        #[test]
        fn ranges_exclude_their_end() {
            let integers = |start: i32, stop: i32, step: i32| {
                arange_step(start, stop, step).to_vec::<i32>().unwrap()
            };
            assert_eq!(integers(2, 11, 3), [2, 5, 8]);
            assert_eq!(integers(5, 0, -2), [5, 3, 1]);
            assert_eq!(integers(5, 0, 1), [0; 0]);
            let quarters = arange_step(0.0, 1.0, 0.25).to_vec::<f32>().unwrap();
            assert_eq!(quarters, [0.0, 0.25, 0.5, 0.75]);
            let bytes = arange_dtype(250, 256, 2, DType::U8).to_vec::<u8>().unwrap();
            assert_eq!(bytes, [250, 252, 254]);
            let down = arange_dtype(1, 0, -0.5, DType::F64).to_vec::<f64>().unwrap();
            assert_eq!(down, [1.0, 0.5]);
        }
    }
}
