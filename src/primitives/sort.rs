//! Sorting.

use super::composite::lower_two_bits;
use super::gather::elements_along;
use super::iota::broadcasted_iota;
use super::rules::{batch_at_front, resolve_axis};
use super::structural::rev;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx,
    Primitive, Registered, RuleError, RuleResult, Sample, Tangent, bind, trace,
};
use crate::stablehlo::Value;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;

/// Sorts several arrays along one axis by the same keys.
///
/// The first `num_keys` operands are compared lexicographically. Floats have the order -∞ < … < -0
/// = 0 < … < ∞ < NaN, and all NaNs are equal. Complex numbers are compared by real, then imaginary
/// part. `false` is less than `true`.
///
/// | | |
/// |-|-|
/// | operands   | one or more `any[…]` of one shape: keys first, then values |
/// | results    | the operands' types, smallest keys first along `dimension` |
/// | lowering   | [`stablehlo.sort`](https://openxla.org/stablehlo/spec#sort) |
/// | derivative | the tangents in the order of their elements |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sort {
    /// The axis to sort along.
    pub dimension: usize,
    /// Equal keys keep their order.
    pub is_stable: bool,
    /// The number of operands that are keys, at least 1.
    pub num_keys: usize,
}

impl Sort {
    #[track_caller]
    fn apply(&self, operands: &[Array]) -> Vec<Array> {
        bind(self.clone(), &operands.iter().collect::<Vec<_>>())
    }
}

impl Primitive for Sort {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let Some(first) = operands.first() else {
            return Err(RuleError::value("takes at least one operand, got 0"));
        };
        for other in operands {
            ensure_shape!(
                other.shape == first.shape,
                "operands must have one shape, got {} and {}",
                first.shape,
                other.shape
            );
        }
        ensure_shape!(
            self.dimension < first.rank(),
            "dimension {} must be less than the rank {} of {first}",
            self.dimension,
            first.rank()
        );
        ensure!(
            (1..=operands.len()).contains(&self.num_keys),
            "num_keys must be in 1..={}, the number of operands, got {}",
            operands.len(),
            self.num_keys
        );
        Ok(operands.to_vec())
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let shape = primals[0].shape();
        let mut operands = primals.to_vec();
        let positions =
            if shape[self.dimension] > u32::MAX as usize { DType::U64 } else { DType::U32 };
        operands.push(broadcasted_iota(positions, shape, self.dimension));
        let mut sorted = self.apply(&operands);
        let order = sorted.pop().expect("there are as many results as operands");
        let reordered = tangents.iter().zip(&sorted).map(|(tangent, y)| {
            tangent.map(y.aval(), |dx| elements_along(dx, &order, self.dimension))
        });
        let reordered = reordered.collect();
        Ok((sorted, reordered))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let operands = batch_at_front(operands, axes, axis);
        let sort = Sort { dimension: self.dimension + 1, ..self.clone() };
        let outputs = sort.apply(&operands);
        let axes = vec![Some(0); outputs.len()];
        Ok(Batched { outputs, axes })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let by_bytes =
            |operands: &[Array]| bind(self.clone(), &operands.iter().collect::<Vec<_>>());
        if let Some(sorted) = lower_two_bits(ctx, operands, results, by_bytes) {
            return sorted;
        }
        let pairs: Vec<_> =
            operands.iter().flat_map(|x| [x.ty().scalar(), x.ty().scalar()]).collect();
        let (outside, arguments) = ctx.open_region(&pairs);
        let mut keys = Vec::new();
        for (aval, pair) in results.iter().zip(arguments.chunks(2)).take(self.num_keys) {
            lower_keys(ctx, aval.dtype, [&pair[0], &pair[1]], &mut keys);
        }
        let before = lower_lexicographic(ctx, &keys);
        let region = ctx.close_region(outside, &[before]);
        let attributes =
            format!("dimension = {} : i64, is_stable = {}", self.dimension, self.is_stable);
        let types: Vec<_> = results.iter().map(Aval::stablehlo).collect();
        Ok(ctx.op_full("sort", operands, &attributes, vec![region], &types))
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let size = operands[0].size() as u64;
        let length = operands[0].shape[self.dimension].max(1) as u64;
        // The number of comparisons of a merge sort.
        let flops = size * u64::from(length.next_power_of_two().ilog2());
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Sort {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a library")
    }
}

/// Two scalars and the attributes of their comparison.
struct Key {
    pair: [Value; 2],
    kind: &'static str,
}

/// Adds the pairs by which two elements are compared, in a form whose order in StableHLO is the
/// documented order.
fn lower_keys(ctx: &mut LowerCtx<'_>, dtype: DType, pair: [&Value; 2], keys: &mut Vec<Key>) {
    let float = |ctx: &mut LowerCtx<'_>, pair: [Value; 2]| Key {
        pair: pair.map(|x| lower_canonical(ctx, x)),
        kind: "TOTALORDER",
    };
    if dtype.is_complex() {
        for part in ["real", "imag"] {
            let element = dtype.real().stablehlo();
            let pair = pair.map(|x| {
                ctx.op_as(part, std::slice::from_ref(x), "", &x.ty().with_element(element))
            });
            let key = float(ctx, pair);
            keys.push(key);
        }
    } else if dtype.is_float() {
        let key = float(ctx, pair.map(Value::clone));
        keys.push(key);
    } else if dtype.bits() < 8 {
        let wide = if dtype.is_signed() { "i32" } else { "ui32" };
        let pair = pair
            .map(|x| ctx.op_as("convert", std::slice::from_ref(x), "", &x.ty().with_element(wide)));
        keys.push(Key { pair, kind: if dtype.is_signed() { "SIGNED" } else { "UNSIGNED" } });
    } else {
        let kind = if dtype.is_signed() { "SIGNED" } else { "UNSIGNED" };
        keys.push(Key { pair: pair.map(Value::clone), kind });
    }
}

/// Writes the float in at least 32 bits with one zero and one NaN. The total order distinguishes
/// values that should be equal, and puts NaNs with the sign bit first.
fn lower_canonical(ctx: &mut LowerCtx<'_>, x: Value) -> Value {
    let ty = match x.ty().element() {
        "f64" => x.ty().clone(),
        _ => x.ty().with_element("f32"),
    };
    let x = if x.ty() == &ty { x } else { ctx.op_as("convert", &[x], "", &ty) };
    let dtype = if ty.element() == "f64" { DType::F64 } else { DType::F32 };
    let number = |ctx: &mut LowerCtx<'_>, value: f64| {
        ctx.constant(&crate::core::Scalar::Float(value).stablehlo(dtype), &ty)
    };
    let (zero, nan) = (number(ctx, 0.0), number(ctx, f64::NAN));
    let is_zero = lower_compare(ctx, "EQ", "FLOAT", [&x, &zero]);
    let one_zero = ctx.op_as("select", &[is_zero, zero, x.clone()], "", &ty);
    let is_nan = lower_compare(ctx, "NE", "FLOAT", [&x, &x]);
    ctx.op_as("select", &[is_nan, nan, one_zero], "", &ty)
}

fn lower_compare(ctx: &mut LowerCtx<'_>, direction: &str, kind: &str, pair: [&Value; 2]) -> Value {
    let attributes = format!(
        "comparison_direction = #stablehlo<comparison_direction {direction}>, \
         compare_type = #stablehlo<comparison_type {kind}>"
    );
    let ty = pair[0].ty().with_element("i1");
    ctx.op_as("compare", &pair.map(Value::clone), &attributes, &ty)
}

/// Writes the comparison of two lists of keys: the first key that differs decides.
fn lower_lexicographic(ctx: &mut LowerCtx<'_>, keys: &[Key]) -> Value {
    let less =
        |ctx: &mut LowerCtx<'_>, key: &Key| lower_compare(ctx, "LT", key.kind, key.pair.each_ref());
    let (last, rest) = keys.split_last().expect("there is at least one key");
    let mut before = less(ctx, last);
    for key in rest.iter().rev() {
        let first = less(ctx, key);
        let tie = lower_compare(ctx, "EQ", key.kind, key.pair.each_ref());
        let later = ctx.op("and", &[tie, before]);
        before = ctx.op("or", &[first, later]);
    }
    before
}

/// Sorts the arrays along `axis` by the first `num_keys` of them. Equal keys keep their order. See
/// [`Sort`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let by_two = |a: Array, b: Array, x: Array| sort_multi(&[a, b, x], -1, 2).swap_remove(2);
/// let key = Aval::new(DType::I32, [7]);
/// let y = eval_shape(by_two, (key.clone(), key, Aval::new(DType::F32, [7])))?;
/// assert_eq!(y.aval().to_string(), "f32[7]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lexsort")]
#[track_caller]
pub fn sort_multi(operands: &[impl Borrow<Array>], axis: isize, num_keys: usize) -> Vec<Array> {
    let operands: Vec<&Array> = operands.iter().map(Borrow::borrow).collect();
    let rank = operands.first().map_or(0, |x| x.rank());
    match resolve_axis(axis, rank) {
        Ok(dimension) => bind(Sort { dimension, is_stable: true, num_keys }, &operands),
        Err(error) => trace::throw_operands("sort", error, &operands),
    }
}

/// Sorts `x` along `axis`, or the flattened array for `None`, smallest first. Negative axes count
/// from the back. Equal elements keep their order. See [`Sort`] for the order and the rules.
#[track_caller]
pub fn sort(x: &Array, axis: impl Into<Option<isize>>) -> Array {
    let (x, axis) = along(x, axis.into());
    sort_multi(&[x], axis, 1).swap_remove(0)
}

/// Returns `x` and the axis, or the flattened array and its axis for `None`.
#[track_caller]
fn along(x: &Array, axis: Option<isize>) -> (Array, isize) {
    match axis {
        Some(axis) => (x.clone(), axis),
        None => (super::reshape(x, [x.size()]), 0),
    }
}

/// Sorts `keys` along `axis`, and `values` of the same shape in the order of their keys. Equal keys
/// keep their order. See [`Sort`] for its rules.
#[track_caller]
pub fn sort_key_val(keys: &Array, values: &Array, axis: isize) -> (Array, Array) {
    let mut sorted = sort_multi(&[keys, values], axis, 1);
    let values = sorted.swap_remove(1);
    (sorted.swap_remove(0), values)
}

/// Returns the indices, `i32`, that sort `x` along `axis`. Equal elements keep their order. See
/// [`Sort`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| argsort(&x, -1), Aval::new(DType::F32, [2, 5]))?;
/// assert_eq!(y.aval().to_string(), "i32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn argsort(x: &Array, axis: impl Into<Option<isize>>) -> Array {
    let (x, axis) = &along(x, axis.into());
    let axis = *axis;
    match resolve_axis(axis, x.rank()) {
        Ok(dimension) => {
            let positions = broadcasted_iota(DType::I32, x.shape(), dimension);
            sort_key_val(x, &positions, axis).1
        }
        Err(error) => trace::throw_operands("argsort", error, &[x]),
    }
}

/// Sorts `x` along `axis`, largest first: the reverse of [`sort`], so NaN comes first.
#[track_caller]
pub fn sort_descending(x: &Array, axis: impl Into<Option<isize>>) -> Array {
    let (x, axis) = &along(x, axis.into());
    let axis = *axis;
    rev(&sort(x, axis), &[axis])
}

/// Returns the indices, `i32`, that sort `x` along `axis`, largest first. Equal elements keep their
/// order, so this is not the reverse of [`argsort`].
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| argsort_descending(&x, -1), Aval::new(DType::F32, [2, 5]))?;
/// assert_eq!(y.aval().to_string(), "i32[2,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn argsort_descending(x: &Array, axis: impl Into<Option<isize>>) -> Array {
    let (x, axis) = &along(x, axis.into());
    let axis = *axis;
    match resolve_axis(axis, x.rank()) {
        Ok(dimension) => {
            // Reversed before and after, so that the first of equal elements stays the first.
            let positions = rev(&broadcasted_iota(DType::I32, x.shape(), dimension), &[axis]);
            rev(&sort_key_val(&rev(x, &[axis]), &positions, axis).1, &[axis])
        }
        Err(error) => trace::throw_operands("argsort_descending", error, &[x]),
    }
}

impl Registered for Sort {
    const NAME: &'static str = "sort";
    fn exemplars() -> Vec<Exemplar> {
        let by = |dimension, num_keys, operands: Vec<Sample>| {
            Exemplar::new(Sort { dimension, is_stable: true, num_keys }, operands)
        };
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        let edges = [f64::NAN, 0.0, -0.0, f64::INFINITY, -1.0, f64::NEG_INFINITY, 1.0, 0.0];
        let mut all = vec![
            by(1, 1, vec![floats(&[2, 5])]),
            by(0, 1, vec![floats(&[4, 2]), floats(&[4, 2])]),
            by(0, 2, vec![Sample::uniform(DType::I32, [6], 0.0, 2.0), floats(&[6]), floats(&[6])]),
            by(0, 1, vec![floats(&[0])]),
            by(1, 1, vec![floats(&[2, 1]), Sample::uniform(DType::I8, [2, 1], -9.0, 9.0)]),
            by(0, 1, vec![floats(&[0, 3])]),
            by(0, 1, vec![Sample::uniform(DType::C64, [5], -1.0, 1.0)]),
        ];
        // Ties and edges of the order, distinguished by index.
        for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16, DType::F8E5M2, DType::C64] {
            let key = Sample::listed(dtype, [8], &edges);
            let position: Vec<f64> = (0..8).map(f64::from).collect();
            let position = Sample::listed(DType::U32, [8], &position);
            all.push(by(0, 1, vec![key, position]).without_derivative());
        }
        for dtype in [DType::Bool, DType::I4, DType::U4, DType::I64, DType::U8, DType::F8E4M3FN] {
            all.push(by(0, 1, vec![Sample::uniform(dtype, [6], 0.0, 6.0)]));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    fn by(num_keys: usize) -> Sort {
        Sort { dimension: 0, is_stable: true, num_keys }
    }

    #[test]
    fn lowering() {
        let avals = [Aval::new(DType::BF16, [4]), Aval::new(DType::U32, [4])];
        expect![[r#"
            func.func public @main(%0: tensor<4xbf16>, %1: tensor<4xui32>) -> (tensor<4xbf16>, tensor<4xui32>) {
            %23:2 = "stablehlo.sort"(%0, %1) <{dimension = 0 : i64, is_stable = true}> ({
            ^bb0(%2: tensor<bf16>, %3: tensor<bf16>, %4: tensor<ui32>, %5: tensor<ui32>):
            %6 = "stablehlo.convert"(%2) : (tensor<bf16>) -> tensor<f32>
            %7 = "stablehlo.constant"() <{value = dense<0x00000000> : tensor<f32>}> : () -> tensor<f32>
            %8 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<f32>}> : () -> tensor<f32>
            %9 = "stablehlo.compare"(%6, %7) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %10 = "stablehlo.select"(%9, %7, %6) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %11 = "stablehlo.compare"(%6, %6) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %12 = "stablehlo.select"(%11, %8, %10) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %13 = "stablehlo.convert"(%3) : (tensor<bf16>) -> tensor<f32>
            %14 = "stablehlo.compare"(%13, %7) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %15 = "stablehlo.select"(%14, %7, %13) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %16 = "stablehlo.compare"(%13, %13) <{comparison_direction = #stablehlo<comparison_direction NE>, compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %17 = "stablehlo.select"(%16, %8, %15) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
            %18 = "stablehlo.compare"(%4, %5) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type UNSIGNED>}> : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
            %19 = "stablehlo.compare"(%12, %17) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %20 = "stablehlo.compare"(%12, %17) <{comparison_direction = #stablehlo<comparison_direction EQ>, compare_type = #stablehlo<comparison_type TOTALORDER>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %21 = "stablehlo.and"(%20, %18) : (tensor<i1>, tensor<i1>) -> tensor<i1>
            %22 = "stablehlo.or"(%19, %21) : (tensor<i1>, tensor<i1>) -> tensor<i1>
            "stablehlo.return"(%22) : (tensor<i1>) -> ()
            }) : (tensor<4xbf16>, tensor<4xui32>) -> (tensor<4xbf16>, tensor<4xui32>)
            "func.return"(%23#0, %23#1) : (tensor<4xbf16>, tensor<4xui32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(by(2), avals));
    }

    #[test]
    fn rejects_invalid_operands() {
        let avals = |size| [Aval::new(DType::F32, [4]), Aval::new(DType::U32, [size])];
        expect![[r#"
            error[shape]: sort: operands must have one shape, got [4] and [5]
              lhs: f32[4]
              rhs: u32[5]"#]]
        .assert_eq(&error_of(by(1), avals(5)));
        expect![[r#"
            error[value]: sort: num_keys must be in 1..=2, the number of operands, got 3
              lhs: f32[4]
              rhs: u32[4]"#]]
        .assert_eq(&error_of(by(3), avals(4)));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::grad;

        /// The order recorded from JAX: one zero, one NaN, ties in their original order.
        #[test]
        fn floats_have_a_total_order() {
            let edges = [f32::NAN, 0.0, -0.0, f32::INFINITY, -1.0, f32::NEG_INFINITY, 1.0, 0.0];
            let mut edges = Array::from_slice(&edges, [8]).unwrap();
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::F8E5M2] {
                edges = crate::primitives::convert_element_type(&edges, dtype);
                let order = argsort(&edges, 0);
                assert_eq!(order.to_vec::<i32>().unwrap(), [5, 4, 1, 2, 7, 6, 3, 0], "{dtype}");
            }
            // The sign of a NaN is ignored.
            let nans = [f32::from_bits(0xFFC0_0000), f32::INFINITY, f32::NAN];
            let order = argsort(&Array::from_slice(&nans, [3]).unwrap(), 0);
            assert_eq!(order.to_vec::<i32>().unwrap(), [1, 0, 2]);
        }

        #[test]
        fn downwards_equal_elements_keep_their_order() {
            let x = Array::from_slice(&[1.0f32, f32::NAN, 1.0, 3.0], [4]).unwrap();
            assert_eq!(argsort_descending(&x, 0).to_vec::<i32>().unwrap(), [1, 3, 0, 2]);
            let sorted = sort_descending(&x, -1).to_vec::<f32>().unwrap();
            assert!(sorted[0].is_nan());
            assert_eq!(sorted[1..], [3.0, 1.0, 1.0]);
        }

        #[test]
        fn complex_numbers_are_sorted_by_real_then_imaginary_part() {
            let c = num_complex::Complex32::new;
            let z = [c(1.0, 2.0), c(1.0, -1.0), c(0.0, 5.0), c(f32::NAN, 0.0), c(1.0, f32::NAN)];
            let order = argsort(&Array::from_slice(&z, [5]).unwrap(), 0);
            assert_eq!(order.to_vec::<i32>().unwrap(), [2, 1, 0, 4, 3]);
        }

        #[test]
        fn later_keys_decide_ties() {
            let keys = |elements: &[u8]| Array::from_slice(elements, [elements.len()]).unwrap();
            let operands = [keys(&[2, 1, 2, 1, 0]), keys(&[0, 9, 0, 3, 5]), keys(&[0, 1, 2, 3, 4])];
            let sorted = sort_multi(&operands, 0, 2);
            assert_eq!(sorted[2].to_vec::<u8>().unwrap(), [4, 3, 1, 0, 2]);
        }

        #[test]
        fn cotangents_follow_their_elements() {
            let weights = Array::from_slice(&[1.0f32, 2.0, 4.0, 8.0], [4]).unwrap();
            let x = Array::from_slice(&[3.0f32, 1.0, 2.0, 0.0], [4]).unwrap();
            let weighted = |x: &Array| {
                let products = crate::primitives::mul(sort(x, 0), &weights);
                crate::primitives::reduce_sum(&products, &[0])
            };
            assert_eq!(grad(weighted)(&x).to_vec::<f32>().unwrap(), [8.0, 2.0, 4.0, 1.0]);
        }
    }
}
