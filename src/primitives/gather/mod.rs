//! Gather: slices at computed indices.

mod exemplars;
mod numbers;
pub use numbers::{GatherDimensionNumbers, GatherScatterMode};
pub(super) use numbers::{attribute_lists, ensure_addressing, ensure_increasing};
pub(super) use numbers::{shifted, with_front};

use super::checks::{Starts, component, inside};
use super::constant::zeros_of;
use super::rules::{arity, batched, element_dtype, move_axis, one_cotangent};
use super::scatter::{Combiner, Scatter, ScatterDimensionNumbers};
use super::slicing::widened_indices;
use super::structural::expand_dims;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, CheckSet, Cost, DType, JvpResult, LowerCtx, Operand,
    OperandCheck, Primitive, Registered, RuleError, RuleResult, Scalar, ShardingRule, Spmd,
    Tangent, bind1,
};
use crate::ensure_dtype;
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// Gathers slices of an operand at computed indices, and stacks them.
///
/// | | |
/// |-|-|
/// | operands   | `x: any[…]`, `indices: int[…, n]`: one vector of `n` start indices along the last axis for each slice |
/// | result     | dtype of `x`; the axes of `indices` but the last, and those of the slices at `offset_dims` |
/// | lowering   | [`stablehlo.gather`](https://openxla.org/stablehlo/spec#gather), masked where the mode is `fill_or_drop` |
/// | derivative | linear in `x`; transposes to a [`Scatter`] that adds |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gather {
    /// The correspondence of axes.
    pub dimension_numbers: GatherDimensionNumbers,
    /// The size of a slice along each operand axis.
    pub slice_sizes: Vec<usize>,
    /// The caller promises that no two slices overlap. The transpose may rely on it.
    pub unique_indices: bool,
    /// The caller promises that the index vectors are in lexicographic order.
    pub indices_are_sorted: bool,
    /// The treatment of indices out of range.
    pub mode: GatherScatterMode,
    /// The value that `fill_or_drop` fills with. `None` is NaN, the smallest value of a signed
    /// integer dtype, the largest of an unsigned one, or true.
    pub fill_value: Option<Scalar>,
}

impl Primitive for Gather {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x, indices] = arity(operands)?;
        ensure_dtype!(
            indices.dtype.is_integer(),
            "indices must be integers, got {}",
            indices.dtype
        );
        let shape = self.dimension_numbers.result(&x.shape, &indices.shape, &self.slice_sizes)?;
        Ok(vec![x.with_shape(shape)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let y = bind1(self.clone(), [&primals[0], &primals[1]]);
        let filled_with_zero = Gather { fill_value: Some(Scalar::Int(0)), ..self.clone() };
        let dy = tangents[0].map(y.aval(), |dx| bind1(filled_with_zero, [dx, &primals[1]]));
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let front = |index: usize| match axes[index] {
            Some(from) => move_axis(&operands[index], from, 0),
            None => operands[index].clone(),
        };
        let (x, indices) = (front(0), front(1));
        let numbers = &self.dimension_numbers;
        let mut dimension_numbers = numbers.clone();
        let mut gather = self.clone();
        if axes[0].is_some() {
            dimension_numbers.collapsed_slice_dims = shifted(&numbers.collapsed_slice_dims);
            dimension_numbers.start_index_map = shifted(&numbers.start_index_map);
            dimension_numbers.operand_batching_dims = shifted(&numbers.operand_batching_dims);
        }
        if axes[1].is_some() {
            dimension_numbers.start_indices_batching_dims =
                shifted(&numbers.start_indices_batching_dims);
        }
        match (axes[0].is_some(), axes[1].is_some()) {
            (true, false) => {
                // Every slice contains the whole batch axis.
                dimension_numbers.offset_dims = with_front(&numbers.offset_dims);
                gather.slice_sizes.insert(0, axis.size);
            }
            (false, _) => {
                // All examples address the same operand, so promises about one example do not hold.
                dimension_numbers.offset_dims = shifted(&numbers.offset_dims);
                gather.unique_indices = false;
                gather.indices_are_sorted = false;
            }
            (true, true) => {
                dimension_numbers.offset_dims = shifted(&numbers.offset_dims);
                dimension_numbers.operand_batching_dims =
                    with_front(&numbers.operand_batching_dims);
                dimension_numbers.start_indices_batching_dims =
                    with_front(&numbers.start_indices_batching_dims);
                gather.slice_sizes.insert(0, axis.size.min(1));
            }
        }
        gather.dimension_numbers = dimension_numbers;
        Ok(batched(bind1(gather, [&x, &indices]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let ty = results[0].stablehlo();
        let dtype = results[0].dtype;
        if results[0].size() == 0 {
            // Plugins reject slices of empty operands, but an empty result needs none.
            return Ok(vec![ctx.constant(&Scalar::Int(0).stablehlo(dtype), &ty)]);
        }
        let indices = widened_indices(ctx, &operands[1]);
        let n_batch = indices.ty().dims().len() - 1;
        let attributes = format!(
            "dimension_numbers = #stablehlo.gather<{}index_vector_dim = {n_batch}>, \
             slice_sizes = {}, indices_are_sorted = {}",
            self.dimension_numbers,
            i64_array(&self.slice_sizes),
            self.indices_are_sorted
        );
        let gathered =
            ctx.op_as("gather", &[operands[0].clone(), indices.clone()], &attributes, &ty);
        if self.mode != GatherScatterMode::FillOrDrop || indices.ty().dims()[n_batch] == 0 {
            return Ok(vec![gathered]);
        }
        let within = self.lower_mask(ctx, operands[0].ty().dims(), &indices)?;
        let dims = self.dimension_numbers.batch_dims(results[0].rank());
        let dims = format!("broadcast_dimensions = {}", i64_array(dims));
        let mask = ctx.op_as("broadcast_in_dim", &[within], &dims, &ty.with_element("i1"));
        let fill = lower_fill(ctx, self.fill_value, &results[0]);
        Ok(vec![ctx.op_as("select", &[mask, gathered, fill], "", &ty)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::part(operands, &results[0])
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let [Operand::Linear(x), Operand::Known(indices)] = operands else {
            return Err(RuleError::not_linear("gather"));
        };
        let ct = one_cotangent(cts)?;
        let scatter = Scatter {
            combiner: Combiner::Add,
            dimension_numbers: ScatterDimensionNumbers::undoing(&self.dimension_numbers),
            indices_are_sorted: self.indices_are_sorted,
            unique_indices: self.unique_indices,
            mode: self.mode,
        };
        let zeros = zeros_of(&ct.aval().with_shape(&x.shape));
        Ok(vec![Some(bind1(scatter, [&zeros, indices, ct]).into()), None])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Gather {
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        let axes = self.dimension_numbers.start_index_map.iter().enumerate();
        let starts = axes.map(|(index, &axis)| Starts {
            axis,
            indices: component(operands[1], index),
            size: self.slice_sizes[axis],
        });
        inside(enabled, operands[0].aval(), starts)
    }
}

impl Spmd for Gather {
    fn sharding_rule(&self, operands: &[Aval], results: &[Aval]) -> Option<ShardingRule> {
        Some(self.dimension_numbers.sharding_rule(
            &operands[0].shape,
            &self.slice_sizes,
            results[0].rank(),
        ))
    }
}

impl Gather {
    /// Returns a mask of the index vectors whose slices are within the operand: `i1` of the shape
    /// of the indices without the last axis.
    fn lower_mask(
        &self,
        ctx: &mut LowerCtx<'_>,
        x: &[usize],
        indices: &Value,
    ) -> RuleResult<Value> {
        let ty = indices.ty().clone();
        let dtype = element_dtype(indices);
        let bounds = self.dimension_numbers.start_index_map.iter().map(|&axis| {
            // An index dtype too narrow for the bound has no values beyond it.
            let last = x[axis] as i128 - self.slice_sizes[axis] as i128;
            Scalar::Int(last.min(dtype.int_range().1)).stablehlo(dtype)
        });
        let bounds = format!("[{}]", bounds.collect::<Vec<_>>().join(", "));
        let n_batch = ty.dims().len() - 1;
        let bounds = ctx.constant(&bounds, &ty.with_dims(&ty.dims()[n_batch..]));
        let last_axis = format!("broadcast_dimensions = {}", i64_array([n_batch]));
        let bounds = ctx.op_as("broadcast_in_dim", &[bounds], &last_axis, &ty);
        let mask = ty.with_element("i1");
        let compare = |direction: &str| {
            format!("comparison_direction = #stablehlo<comparison_direction {direction}>")
        };
        let mut inside = ctx.op_as("compare", &[indices.clone(), bounds], &compare("LE"), &mask);
        if dtype.is_signed() {
            let zero = ctx.constant("0", &ty);
            let above = ctx.op_as("compare", &[indices.clone(), zero], &compare("GE"), &mask);
            inside = ctx.op("and", &[above, inside]);
        }
        let yes = ctx.constant("true", &mask.scalar());
        let scalar = mask.scalar();
        let (outside, arguments) = ctx.open_region(&[scalar.clone(), scalar]);
        let both = ctx.op("and", &arguments);
        let region = ctx.close_region(outside, &[both]);
        let along = format!("dimensions = {}", i64_array([n_batch]));
        let result = mask.with_dims(&mask.dims()[..n_batch]);
        Ok(ctx.op_full("reduce", &[inside, yes], &along, vec![region], &[result]).swap_remove(0))
    }
}

/// Writes the fill value of slices out of range.
fn lower_fill(ctx: &mut LowerCtx<'_>, fill_value: Option<Scalar>, result: &Aval) -> Value {
    let dtype = result.dtype;
    let value = fill_value.unwrap_or_else(|| default_fill(dtype));
    let ty = result.stablehlo();
    if dtype.is_float() && dtype.bits() < 16 && !value.as_f64().is_finite() {
        // NaN has no decimal form in the 8-bit floats; conversion produces it.
        let wide = ctx.constant(&value.stablehlo(DType::F32), &ty.with_element("f32"));
        return ctx.op_as("convert", &[wide], "", &ty);
    }
    ctx.constant(&value.stablehlo(dtype), &ty)
}

/// Returns the default fill value of slices out of range.
fn default_fill(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(true),
        _ if dtype.is_signed() => Scalar::Int(dtype.int_range().0),
        _ if dtype.is_unsigned() => Scalar::Int(dtype.int_range().1),
        _ => Scalar::Float(f64::NAN),
    }
}

/// Gathers slices of `x` of shape `slice_sizes`, one for each index vector along the last axis of
/// `indices`.
///
/// Component `i` of a vector is the start along operand axis `start_index_map[i]`. The start along
/// the other axes is 0 or, along `operand_batching_dims[j]`, the position along axis
/// `start_indices_batching_dims[j]` of `indices`. Slices lose the axes `collapsed_slice_dims` and
/// the batching axes; their other axes become the result axes `offset_dims`. The axes of `indices`
/// but the last become the remaining result axes. Negative indices are out of range. See [`Gather`]
/// for its rules.
/// [`Gather`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{GatherDimensionNumbers, GatherScatterMode, gather};
/// // Rows of a table.
/// let numbers = GatherDimensionNumbers {
///     offset_dims: vec![1],
///     collapsed_slice_dims: vec![0],
///     start_index_map: vec![0],
///     ..GatherDimensionNumbers::default()
/// };
/// let rows = move |table: Array, ids: Array| {
///     gather(&table, &ids, &numbers, &[1, 8], GatherScatterMode::Clip)
/// };
/// let y = eval_shape(rows, (Aval::new(DType::F32, [100, 8]), Aval::new(DType::I32, [5, 1])))?;
/// assert_eq!(y.aval().to_string(), "f32[5,8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn gather(
    x: &Array,
    indices: &Array,
    dimension_numbers: &GatherDimensionNumbers,
    slice_sizes: &[usize],
    mode: GatherScatterMode,
) -> Array {
    gather_with(
        x,
        indices,
        dimension_numbers,
        slice_sizes,
        GatherOptions { mode, ..GatherOptions::default() },
    )
}

/// Options of [`gather_with`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GatherOptions {
    /// The treatment of indices out of range. The default is [`GatherScatterMode::FillOrDrop`].
    pub mode: GatherScatterMode,
    /// The value that `FillOrDrop` fills with. `None` is NaN, the smallest value of a signed
    /// integer dtype, the largest of an unsigned one, or true.
    pub fill_value: Option<Scalar>,
    /// Promises that no two slices overlap. The default is false.
    pub unique_indices: bool,
    /// Promises that the index vectors are in lexicographic order. The default is false.
    pub indices_are_sorted: bool,
}

/// Gathers slices, as [`gather()`], with promises about the indices and a fill value. Promises that
/// do not hold give a result that depends on the platform.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{GatherDimensionNumbers, GatherOptions, gather_with};
/// let numbers = GatherDimensionNumbers {
///     collapsed_slice_dims: vec![0],
///     start_index_map: vec![0],
///     ..GatherDimensionNumbers::default()
/// };
/// let options = GatherOptions { fill_value: Some(7.0.into()), ..Default::default() };
/// let (x, ids) = (array![1.0, 2.0], array![[1], [5]]);
/// let y = gather_with(&x, &ids, &numbers, &[1], options);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 7.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn gather_with(
    x: &Array,
    indices: &Array,
    dimension_numbers: &GatherDimensionNumbers,
    slice_sizes: &[usize],
    options: GatherOptions,
) -> Array {
    let gather = Gather {
        dimension_numbers: dimension_numbers.clone(),
        slice_sizes: slice_sizes.to_vec(),
        unique_indices: options.unique_indices,
        indices_are_sorted: options.indices_are_sorted,
        mode: options.mode,
        fill_value: options.fill_value,
    };
    bind1(gather, [x, indices])
}

/// Returns the elements of `x` at `positions` along one axis. The shape of `positions` differs from
/// the shape of `x` along that axis only. Positions are in range and distinct.
pub(super) fn elements_along(x: &Array, positions: &Array, axis: usize) -> Array {
    let others: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
    // An empty axis has no slice of size 1.
    let slice_size = |(other, &size): (usize, &usize)| if other == axis { 1 } else { size.min(1) };
    let gather = Gather {
        dimension_numbers: GatherDimensionNumbers {
            offset_dims: Vec::new(),
            collapsed_slice_dims: vec![axis],
            start_index_map: vec![axis],
            operand_batching_dims: others.clone(),
            start_indices_batching_dims: others,
        },
        slice_sizes: x.shape().iter().enumerate().map(slice_size).collect(),
        unique_indices: true,
        indices_are_sorted: false,
        mode: GatherScatterMode::PromiseInBounds,
        fill_value: None,
    };
    bind1(gather, [x, &expand_dims(positions, &[-1])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    fn elements() -> GatherDimensionNumbers {
        GatherDimensionNumbers {
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            ..GatherDimensionNumbers::default()
        }
    }

    fn of_mode(mode: GatherScatterMode) -> Gather {
        Gather {
            dimension_numbers: elements(),
            slice_sizes: vec![1],
            unique_indices: false,
            indices_are_sorted: false,
            mode,
            fill_value: None,
        }
    }

    #[test]
    fn lowering() {
        let avals = || [Aval::new(DType::F32, [4]), Aval::new(DType::I32, [3, 1])];
        expect![[r#"
            func.func public @main(%0: tensor<4xf32>, %1: tensor<3x1xi32>) -> (tensor<3xf32>) {
            %2 = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false}> : (tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>
            "func.return"(%2) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(of_mode(GatherScatterMode::Clip), avals()));
        expect![[r#"
            func.func public @main(%0: tensor<4xf32>, %1: tensor<3x1xi32>) -> (tensor<3xf32>) {
            %2 = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false}> : (tensor<4xf32>, tensor<3x1xi32>) -> tensor<3xf32>
            %3 = "stablehlo.constant"() <{value = dense<[3]> : tensor<1xi32>}> : () -> tensor<1xi32>
            %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 1>}> : (tensor<1xi32>) -> tensor<3x1xi32>
            %5 = "stablehlo.compare"(%1, %4) <{comparison_direction = #stablehlo<comparison_direction LE>}> : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
            %6 = "stablehlo.constant"() <{value = dense<0> : tensor<3x1xi32>}> : () -> tensor<3x1xi32>
            %7 = "stablehlo.compare"(%1, %6) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
            %8 = "stablehlo.and"(%7, %5) : (tensor<3x1xi1>, tensor<3x1xi1>) -> tensor<3x1xi1>
            %9 = "stablehlo.constant"() <{value = dense<true> : tensor<i1>}> : () -> tensor<i1>
            %13 = "stablehlo.reduce"(%8, %9) <{dimensions = array<i64: 1>}> ({
            ^bb0(%10: tensor<i1>, %11: tensor<i1>):
            %12 = "stablehlo.and"(%10, %11) : (tensor<i1>, tensor<i1>) -> tensor<i1>
            "stablehlo.return"(%12) : (tensor<i1>) -> ()
            }) : (tensor<3x1xi1>, tensor<i1>) -> tensor<3xi1>
            %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xi1>) -> tensor<3xi1>
            %15 = "stablehlo.constant"() <{value = dense<0x7FC00000> : tensor<3xf32>}> : () -> tensor<3xf32>
            %16 = "stablehlo.select"(%14, %2, %15) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
            "func.return"(%16) : (tensor<3xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(of_mode(GatherScatterMode::FillOrDrop), avals()));
    }

    #[test]
    fn rejects_invalid_operands() {
        let gather = of_mode(GatherScatterMode::Clip);
        let x = Aval::new(DType::F32, [4]);
        expect![[r#"
            error[dtype]: gather: indices must be integers, got f32
              lhs: f32[4]
              rhs: f32[3,1]"#]]
        .assert_eq(&error_of(gather.clone(), [x.clone(), Aval::new(DType::F32, [3, 1])]));
        expect![[r#"
            error[shape]: gather: the last axis of the indices, of shape [3,2], must have size 1: one component for each of start_index_map [0]
              lhs: f32[4]
              rhs: i32[3,2]"#]]
            .assert_eq(&error_of(gather.clone(), [x.clone(), Aval::new(DType::I32, [3, 2])]));
        let wide = Gather { slice_sizes: vec![2], ..gather.clone() };
        let indices = Aval::new(DType::I32, [3, 1]);
        expect![[r#"
            error[shape]: gather: collapsed axis 0 must have slice size 1, got 2
              lhs: f32[4]
              rhs: i32[3,1]"#]]
        .assert_eq(&error_of(wide, [x.clone(), indices.clone()]));
        let mut both = gather;
        both.dimension_numbers.operand_batching_dims = vec![0];
        both.dimension_numbers.start_indices_batching_dims = vec![0];
        expect![[r#"
            error[value]: gather: collapsed_slice_dims [0] and operand_batching_dims [0] must have nothing in common
              lhs: f32[4]
              rhs: i32[3,1]"#]].assert_eq(&error_of(both, [x, indices]));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::vjp;

        fn f32s(elements: &[f32]) -> Array {
            Array::from_slice(elements, [elements.len()]).unwrap()
        }

        /// Values and gradients recorded from JAX, in and out of range.
        #[test]
        fn modes() {
            let x = f32s(&[10.0, 11.0, 12.0, 13.0]);
            let indices = Array::from_slice(&[-1i32, 3, 4, 1], [4, 1]).unwrap();
            let ct = f32s(&[1.0, 2.0, 4.0, 8.0]);
            let run = |mode| {
                let (y, pullback) =
                    vjp(|x: &Array| gather(x, &indices, &elements(), &[1], mode), &x);
                let values: Vec<f32> = y.to_vec().unwrap();
                (values, pullback.apply(&ct).to_vec::<f32>().unwrap())
            };
            let (values, gradient) = run(GatherScatterMode::Clip);
            assert_eq!(values, [10.0, 13.0, 13.0, 11.0]);
            assert_eq!(gradient, [1.0, 8.0, 0.0, 6.0]);
            let (values, gradient) = run(GatherScatterMode::FillOrDrop);
            assert!(values[0].is_nan() && values[2].is_nan());
            assert_eq!([values[1], values[3]], [13.0, 11.0]);
            assert_eq!(gradient, [0.0, 8.0, 0.0, 2.0]);
        }

        #[test]
        fn every_kind_of_dtype_has_its_fill() {
            let indices = Array::from_slice(&[1i64, 3, -1], [3, 1]).unwrap();
            let filled = |dtype: DType| {
                let ones = crate::primitives::ones(([3], dtype));
                let mode = GatherScatterMode::FillOrDrop;
                let y = gather(&ones, &indices, &elements(), &[1], mode).to_bytes().unwrap();
                y.chunks(y.len() / 3).map(<[u8]>::to_vec).collect::<Vec<_>>()
            };
            assert_eq!(filled(DType::I8), [[1], [0x80], [0x80]]);
            assert_eq!(filled(DType::U16), [[1, 0], [0xFF, 0xFF], [0xFF, 0xFF]]);
            assert_eq!(filled(DType::Bool), [[1], [1], [1]]);
            assert_eq!(filled(DType::F8E4M3FN), [[0x38], [0x7F], [0x7F]]);
            assert_eq!(filled(DType::BF16)[1], [0xC0, 0x7F]);
            assert_eq!(filled(DType::C64)[2], [0, 0, 0xC0, 0x7F, 0, 0, 0, 0]);
        }

        /// `-128` and `127` must neither wrap nor be compared in 8 bits.
        #[test]
        fn narrow_indices_do_not_wrap() {
            let elements_300: Vec<f32> = (0..300).map(|i| i as f32).collect();
            let indices = Array::from_slice(&[-128i8, 2, 127], [3, 1]).unwrap();
            let clip = GatherScatterMode::Clip;
            let y = gather(&f32s(&elements_300), &indices, &elements(), &[1], clip);
            assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 2.0, 127.0]);
        }
    }
}
