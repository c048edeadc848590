//! Index of the largest or smallest element.

use super::axes::{compare, highest, lowest, reduction_rule};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleError, RuleResult, Sample, Scalar, ShardingRule, Spmd, Tangent, bind1, trace,
};
use crate::primitives::composite::lower_two_bits;
use crate::primitives::rules::element_dtype;
use crate::primitives::rules::{arity, batched, move_axis, resolve_axis, without_axes, zero_jvp};
use crate::stablehlo::{Value, i64_array};
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

fn indices_along(operands: &[Aval], axis: usize, index_dtype: DType) -> RuleResult<Vec<Aval>> {
    let [x] = arity(operands)?;
    ensure_dtype!(x.dtype.is_real(), "needs an operand with an order, got {}", x.dtype);
    ensure_dtype!(index_dtype.is_integer(), "index_dtype must be an integer, got {index_dtype}");
    ensure_shape!(axis < x.rank(), "axis {axis} must be less than the rank {} of {x}", x.rank());
    let size = x.shape[axis];
    ensure_shape!(size > 0, "axis {axis} of {x} is empty, so no element is the first");
    ensure!(
        size as i128 - 1 <= index_dtype.int_range().1,
        "axis {axis} has {size} elements, more than {index_dtype} can index"
    );
    Ok(vec![Aval::new(index_dtype, without_axes(&x.shape, &[axis]))])
}

/// Writes a reduction of pairs (element, index). It keeps the pair that `direction` (`GT`, `LT`)
/// prefers, a NaN before any number, and the smaller index among equal elements.
fn lower_arg(
    ctx: &mut LowerCtx<'_>,
    x: &Value,
    dtype: DType,
    axis: usize,
    result: &Aval,
    direction: &str,
    initial: Scalar,
) -> RuleResult<Vec<Value>> {
    let index_dtype = result.dtype;
    let element = x.ty().scalar();
    let index = element.with_element(index_dtype.stablehlo());
    let indices = ctx.op_as(
        "iota",
        &[],
        &format!("iota_dimension = {axis} : i64"),
        &x.ty().with_element(index_dtype.stablehlo()),
    );
    let initial = ctx.constant(&initial.stablehlo(dtype), &element);
    let zero = ctx.constant("0", &index);
    let pair = [element.clone(), index.clone()];
    let (outside, arguments) =
        ctx.open_region(&[pair[0].clone(), pair[1].clone(), pair[0].clone(), pair[1].clone()]);
    let [x0, i0, x1, i1] = arguments.as_slice() else {
        return Err(RuleError::value("a region of two pairs has four arguments"));
    };
    let better = compare(ctx, direction, dtype, x0, x1);
    let nan = compare(ctx, "NE", dtype, x0, x0);
    let take = ctx.op("or", &[better, nan]);
    let equal = compare(ctx, "EQ", dtype, x0, x1);
    let earlier = compare(ctx, "LT", index_dtype, i0, i1);
    let tie = ctx.op("and", &[equal, earlier]);
    let take_index = ctx.op("or", &[take.clone(), tie]);
    let best = ctx.op_as("select", &[take, x0.clone(), x1.clone()], "", &element);
    let index_value = ctx.op_as("select", &[take_index, i0.clone(), i1.clone()], "", &index);
    let region = ctx.close_region(outside, &[best, index_value]);
    let index_type = result.stablehlo();
    let elements = index_type.with_element(x.ty().element());
    let dimensions = format!("dimensions = {}", i64_array([axis]));
    let operands = [x.clone(), indices, initial, zero];
    let mut results =
        ctx.op_full("reduce", &operands, &dimensions, vec![region], &[elements, index_type]);
    Ok(vec![results.swap_remove(1)])
}

/// Options of [`argmax_with`] and [`argmin_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgmaxOptions {
    /// The integer dtype of the result. The default is `i32`.
    pub index_dtype: DType,
}

impl Default for ArgmaxOptions {
    fn default() -> ArgmaxOptions {
        ArgmaxOptions { index_dtype: DType::I32 }
    }
}

/// Index of the largest element along an axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int, float}[…]`, axis `axis` not empty |
/// | result     | `index_dtype`, without the axis; the first of equals, the first NaN if there is one |
/// | lowering   | variadic [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgMax {
    /// The axis of the search.
    pub axis: usize,
    /// The integer dtype of the result.
    pub index_dtype: DType,
}

impl Primitive for ArgMax {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        indices_along(operands, self.axis, self.index_dtype)
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
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ArgMax { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let by_bytes = |operands: &[Array]| vec![bind1(self.clone(), [&operands[0]])];
        if let Some(lowered) = lower_two_bits(ctx, operands, results, by_bytes) {
            return lowered;
        }
        let x = &operands[0];
        let dtype = element_dtype(x);
        lower_arg(ctx, x, dtype, self.axis, &results[0], "GT", lowest(dtype))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ArgMax {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &[self.axis]))
    }
}

/// Returns the index of the largest element of `x` along `axis`, as `i32`: the first of equal
/// elements, the first NaN if there is one. Negative axes count from the back. [`argmax_with`]
/// returns other integers. See [`ArgMax`] for its rules.
#[track_caller]
pub fn argmax(x: &Array, axis: isize) -> Array {
    argmax_with(x, axis, ArgmaxOptions::default())
}

/// Returns the index of the largest element, as [`argmax`], in another dtype.
///
/// Throws `Op` if the dtype is not an integer, or cannot hold the largest index.
///
/// ```
/// use oxidax::prelude::*;
/// let options = ArgmaxOptions { index_dtype: DType::I64 };
/// let index = argmax_with(&array![[1.0, 5.0], [7.0, 2.0]], -1, options);
/// assert_eq!(index.to_vec::<i64>()?, [1, 0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn argmax_with(x: &Array, axis: isize, options: ArgmaxOptions) -> Array {
    let ArgmaxOptions { index_dtype } = options;
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => bind1(ArgMax { axis, index_dtype }, [x]),
        Err(error) => trace::throw_operands("argmax", error, &[x]),
    }
}

/// Index of the smallest element along an axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int, float}[…]`, axis `axis` not empty |
/// | result     | `index_dtype`, without the axis; the first of equals, the first NaN if there is one |
/// | lowering   | variadic [`stablehlo.reduce`](https://openxla.org/stablehlo/spec#reduce) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgMin {
    /// The axis of the search.
    pub axis: usize,
    /// The integer dtype of the result.
    pub index_dtype: DType,
}

impl Primitive for ArgMin {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        indices_along(operands, self.axis, self.index_dtype)
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
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(ArgMin { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let by_bytes = |operands: &[Array]| vec![bind1(self.clone(), [&operands[0]])];
        if let Some(lowered) = lower_two_bits(ctx, operands, results, by_bytes) {
            return lowered;
        }
        let x = &operands[0];
        let dtype = element_dtype(x);
        lower_arg(ctx, x, dtype, self.axis, &results[0], "LT", highest(dtype))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::reduction(operands, results)
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ArgMin {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(reduction_rule(operands[0].rank(), &[self.axis]))
    }
}

/// Returns the index of the smallest element of `x` along `axis`, as `i32`: the first of equal
/// elements, the first NaN if there is one. Negative axes count from the back. [`argmin_with`]
/// returns other integers. See [`ArgMin`] for its rules.
#[track_caller]
pub fn argmin(x: &Array, axis: isize) -> Array {
    argmin_with(x, axis, ArgmaxOptions::default())
}

/// Returns the index of the smallest element, as [`argmin`], in another dtype.
///
/// Throws `Op` if the dtype is not an integer, or cannot hold the largest index.
///
/// ```
/// use oxidax::prelude::*;
/// let options = ArgmaxOptions { index_dtype: DType::I64 };
/// let index = argmin_with(&array![[1.0, 5.0], [7.0, 2.0]], -1, options);
/// assert_eq!(index.to_vec::<i64>()?, [0, 1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn argmin_with(x: &Array, axis: isize, options: ArgmaxOptions) -> Array {
    let ArgmaxOptions { index_dtype } = options;
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => bind1(ArgMin { axis, index_dtype }, [x]),
        Err(error) => trace::throw_operands("argmin", error, &[x]),
    }
}

fn samples() -> Vec<(usize, DType, Sample)> {
    let inf = f64::INFINITY;
    let edges = [1.0, f64::NAN, inf, f64::NAN, -inf, -inf, -inf, -inf, 0.0, -0.0, 2.0, 2.0];
    vec![
        (1, DType::I32, Sample::uniform(DType::F32, [2, 3], -1.0, 1.0)),
        (1, DType::I32, Sample::listed(DType::F32, [3, 4], &edges)),
        (0, DType::I64, Sample::listed(DType::I8, [4], &[3.0, -128.0, -128.0, 3.0])),
        (0, DType::U8, Sample::listed(DType::Bool, [2, 2], &[0.0, 1.0, 1.0, 1.0])),
        (0, DType::I32, Sample::listed(DType::U32, [1, 2], &[4e9, 0.0])),
        (1, DType::I32, Sample::uniform(DType::BF16, [0, 3], -1.0, 1.0)),
    ]
}

impl Registered for ArgMax {
    const NAME: &'static str = "argmax";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar_of = |(axis, index_dtype, x)| Exemplar::new(ArgMax { axis, index_dtype }, [x]);
        samples().into_iter().map(exemplar_of).collect()
    }
}

impl Registered for ArgMin {
    const NAME: &'static str = "argmin";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar_of = |(axis, index_dtype, x)| Exemplar::new(ArgMin { axis, index_dtype }, [x]);
        samples().into_iter().map(exemplar_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::reduce::axes::testing::{error_line, lowered};
    use expect_test::expect;

    #[test]
    fn lowering() {
        expect![[r#"
            module @"m" {
              func.func public @main(%0: tensor<2x3xf32>) -> (tensor<2xi32>) {
              %1 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x3xi32>
              %2 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
              %3 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
              %17:2 = "stablehlo.reduce"(%0, %1, %2, %3) <{dimensions = array<i64: 1>}> ({
                ^bb0(%4: tensor<f32>, %5: tensor<i32>, %6: tensor<f32>, %7: tensor<i32>):
                %8 = "stablehlo.compare"(%4, %6) <{comparison_direction = #stablehlo<comparison_direction GT>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %9 = "stablehlo.compare"(%4, %4) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %10 = "stablehlo.or"(%8, %9) : (tensor<i1>, tensor<i1>) -> tensor<i1>
                %11 = "stablehlo.compare"(%4, %6) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %12 = "stablehlo.compare"(%5, %7) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %13 = "stablehlo.and"(%11, %12) : (tensor<i1>, tensor<i1>) -> tensor<i1>
                %14 = "stablehlo.or"(%10, %13) : (tensor<i1>, tensor<i1>) -> tensor<i1>
                %15 = "stablehlo.select"(%10, %4, %6) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
                %16 = "stablehlo.select"(%14, %5, %7) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
                "stablehlo.return"(%15, %16) : (tensor<f32>, tensor<i32>) -> ()
              }) : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
              "func.return"(%17#1) : (tensor<2xi32>) -> ()
              }
            }
        "#]].assert_eq(&lowered(DType::F32, &[2, 3], |x| argmax(x, -1)));
    }

    #[test]
    fn an_empty_axis_is_refused() {
        expect!["error[shape]: argmin: axis 1 of f32[2,0] is empty, so no element is the first"]
            .assert_eq(&error_line(DType::F32, &[2, 0], |x| argmin(x, 1)));
    }
}
