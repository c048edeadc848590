//! Scatter: updates at computed indices.

mod derivatives;
mod exemplars;
mod numbers;
pub use numbers::ScatterDimensionNumbers;

use super::checks::{Starts, component, inside};
use super::constant::zeros_of;
use super::gather::{Gather, GatherScatterMode, shifted, with_front};
use super::rules::{arity, batch_at, batched, element_dtype, move_axis, one_cotangent};
use super::slicing::widened_indices;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, CheckSet, Cost, DType, JvpResult, LowerCtx, Operand,
    OperandCheck, Primitive, Registered, RuleError, RuleResult, Scalar, Shape, ShardingRule, Spmd,
    Tangent, bind1,
};
use crate::ensure_dtype;
use crate::stablehlo::{Value, i64_array};
use serde::{Deserialize, Serialize};

/// The combination of an update and the element that it hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combiner {
    /// The update replaces the element. The platform chooses among several updates of one element.
    Update,
    /// The sum.
    Add,
    /// The product.
    Mul,
    /// The minimum; NaN if either is NaN.
    Min,
    /// The maximum; NaN if either is NaN.
    Max,
}

/// Combines updates into an operand at computed indices.
///
/// | | |
/// |-|-|
/// | operands   | `x: any[…]`, `indices: int[…, n]`: one vector of `n` start indices along the last axis for each window, `updates` of the dtype of `x` |
/// | result     | the type of `x` |
/// | lowering   | [`stablehlo.scatter`](https://openxla.org/stablehlo/spec#scatter), indices clamped first where the mode is `clip` |
/// | derivative | `add`: linear, transposes to [`Gather`]; `update`: linear if indices are unique or there is one, else by a mask of the updates that win; `mul`: in the updates only if indices are unique or there is one; `min`, `max`: those that win share equally |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scatter {
    /// The combination of updates and elements.
    pub combiner: Combiner,
    /// The correspondence of axes.
    pub dimension_numbers: ScatterDimensionNumbers,
    /// The caller promises that the index vectors are in lexicographic order.
    pub indices_are_sorted: bool,
    /// The caller promises that no two windows overlap; for the mode `clip`, after clamping.
    pub unique_indices: bool,
    /// The treatment of indices out of range.
    pub mode: GatherScatterMode,
}

impl Primitive for Scatter {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x, indices, updates] = arity(operands)?;
        ensure_dtype!(
            indices.dtype.is_integer(),
            "indices must be integers, got {}",
            indices.dtype
        );
        ensure_dtype!(
            x.dtype == updates.dtype,
            "the operand is {} and the updates {}",
            x.dtype,
            updates.dtype
        );
        ensure_dtype!(
            x.dtype.is_real() || !matches!(self.combiner, Combiner::Min | Combiner::Max),
            "{} has no order to take a minimum or maximum by",
            x.dtype
        );
        self.dimension_numbers.check(&x.shape, &indices.shape, &updates.shape)?;
        Ok(vec![x.clone()])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        if !self.unique_indices && self.has_one_window(primals[1].shape()) {
            let unique = Scatter { unique_indices: true, ..self.clone() };
            return unique.jvp(primals, tangents);
        }
        let (y, dy) = match self.combiner {
            Combiner::Add => self.jvp_linear(primals, tangents),
            Combiner::Update if self.unique_indices => self.jvp_linear(primals, tangents),
            Combiner::Update => self.jvp_masked(primals, tangents),
            Combiner::Mul => self.jvp_mul(primals, tangents)?,
            Combiner::Min | Combiner::Max => self.jvp_extremum(primals, tangents),
        };
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = batch_at(&operands[0], axes[0], 0, axis);
        let updates = batch_at(&operands[2], axes[2], 0, axis);
        let numbers = &self.dimension_numbers;
        let mut dimension_numbers = ScatterDimensionNumbers {
            update_window_dims: shifted(&numbers.update_window_dims),
            inserted_window_dims: shifted(&numbers.inserted_window_dims),
            scatter_dims_to_operand_dims: shifted(&numbers.scatter_dims_to_operand_dims),
            operand_batching_dims: shifted(&numbers.operand_batching_dims),
            scatter_indices_batching_dims: numbers.scatter_indices_batching_dims.clone(),
        };
        let indices = match axes[1] {
            None => {
                // Every window contains the whole batch axis.
                dimension_numbers.update_window_dims = with_front(&numbers.update_window_dims);
                operands[1].clone()
            }
            Some(from) => {
                dimension_numbers.operand_batching_dims =
                    with_front(&numbers.operand_batching_dims);
                dimension_numbers.scatter_indices_batching_dims =
                    with_front(&numbers.scatter_indices_batching_dims);
                move_axis(&operands[1], from, 0)
            }
        };
        let scatter = Scatter { dimension_numbers, ..self.clone() };
        Ok(batched(bind1(scatter, [&x, &indices, &updates]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let [x, indices, updates] = operands else {
            return Err(RuleError::value(format!("takes 3 operands, got {}", operands.len())));
        };
        if updates.ty().dims().contains(&0) || results[0].size() == 0 {
            // Without updates the result is the operand, and no operation is written.
            return Ok(vec![x.clone()]);
        }
        let mut indices = widened_indices(ctx, indices);
        let n_batch = indices.ty().dims().len() - 1;
        if self.mode == GatherScatterMode::Clip && indices.ty().dims()[n_batch] > 0 {
            indices = self.lower_clamp(ctx, x.ty().dims(), updates.ty().dims(), &indices);
        }
        let scalar = x.ty().scalar();
        let (outside, arguments) = ctx.open_region(&[scalar.clone(), scalar]);
        let combined = match self.combiner {
            Combiner::Update => arguments[1].clone(),
            Combiner::Add => ctx.op("add", &arguments),
            Combiner::Mul => ctx.op("multiply", &arguments),
            Combiner::Min => ctx.op("minimum", &arguments),
            Combiner::Max => ctx.op("maximum", &arguments),
        };
        let region = ctx.close_region(outside, &[combined]);
        let attributes = format!(
            "scatter_dimension_numbers = #stablehlo.scatter<{}index_vector_dim = {n_batch}>, \
             indices_are_sorted = {}, unique_indices = {}",
            self.dimension_numbers, self.indices_are_sorted, self.unique_indices
        );
        let operands = [x.clone(), indices, updates.clone()];
        Ok(ctx.op_full("scatter", &operands, &attributes, vec![region], &[x.ty().clone()]))
    }
    fn cost(&self, operands: &[Aval], _: &[Aval]) -> Cost {
        let flops = match self.combiner {
            Combiner::Update => 0,
            _ => operands[2].size() as u64,
        };
        // In place: only the elements that updates hit are read and written.
        let updates = &operands[2..];
        Cost { flops, ..Cost::whole(&[&operands[1..], updates].concat(), &updates[..1]) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let [x, Operand::Known(indices), updates] = operands else {
            return Err(RuleError::not_linear("scatter"));
        };
        let linear = self.combiner == Combiner::Add
            || self.combiner == Combiner::Update && self.unique_indices
            || self.combiner == Combiner::Mul && x.is_linear() != updates.is_linear();
        if !linear {
            return Err(RuleError::not_linear("scatter"));
        }
        let shape = &updates.aval().shape;
        let to_x = || match (self.combiner, updates.known()) {
            (Combiner::Update, _) => {
                let zeros = zeros_of(&ct.aval().with_shape(shape));
                bind1(self.clone(), [ct, indices, &zeros])
            }
            (Combiner::Mul, Some(updates)) => bind1(self.clone(), [ct, indices, updates]),
            _ => ct.clone(),
        };
        let to_updates = || match x.known() {
            Some(x) if self.combiner == Combiner::Mul => {
                self.require_unique()?;
                Ok(self.inverse(&super::arithmetic::mul(ct, x), indices, shape))
            }
            _ => Ok(self.inverse(ct, indices, shape)),
        };
        let to_x = x.is_linear().then(|| to_x().into());
        let to_updates = if updates.is_linear() { Some(to_updates()?.into()) } else { None };
        Ok(vec![to_x, None, to_updates])
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Scatter {
    fn accumulates(&self) -> bool {
        self.combiner == Combiner::Add
    }
    fn checks(&self, enabled: CheckSet, operands: &[&Array]) -> Vec<OperandCheck> {
        let sizes = self.dimension_numbers.window_sizes(operands[0].shape(), operands[2].shape());
        let axes = self.dimension_numbers.scatter_dims_to_operand_dims.iter().enumerate();
        let starts = axes.map(|(index, &axis)| Starts {
            axis,
            indices: component(operands[1], index),
            size: sizes[axis],
        });
        inside(enabled, operands[0].aval(), starts)
    }
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("is not compiled in kernels")
    }
}

impl Spmd for Scatter {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        Some(self.dimension_numbers.sharding_rule(&operands[0].shape, &operands[2].shape))
    }
}

impl Scatter {
    /// Gathers from `x` where this scatter writes updates of shape `updates`; 0 where it drops
    /// them.
    fn inverse(&self, x: &Array, indices: &Array, updates: &Shape) -> Array {
        let gather = Gather {
            dimension_numbers: self.dimension_numbers.undone(),
            slice_sizes: self.dimension_numbers.window_sizes(x.shape(), updates),
            unique_indices: self.unique_indices,
            indices_are_sorted: self.indices_are_sorted,
            mode: self.mode,
            fill_value: Some(Scalar::Int(0)),
        };
        bind1(gather, [x, indices])
    }

    /// Returns true if indices of this shape have one vector per element of the batch, so that no
    /// two windows can overlap.
    fn has_one_window(&self, indices: &Shape) -> bool {
        let batch = &self.dimension_numbers.scatter_indices_batching_dims;
        let mut axes = 0..indices.rank().saturating_sub(1);
        axes.all(|axis| batch.contains(&axis) || indices[axis] == 1)
    }

    fn require_unique(&self) -> RuleResult<()> {
        if self.unique_indices {
            Ok(())
        } else {
            Err(RuleError::unsupported(
                "the derivative of a product with its updates takes unique indices",
            )
            .help("set `unique_indices` if no two windows overlap"))
        }
    }

    /// Clamps the indices so that their windows are within the operand.
    fn lower_clamp(
        &self,
        ctx: &mut LowerCtx<'_>,
        x: &[usize],
        updates: &[usize],
        indices: &Value,
    ) -> Value {
        let ty = indices.ty().clone();
        let dtype: DType = element_dtype(indices);
        let sizes = self.dimension_numbers.window_sizes(&Shape::new(x), &Shape::new(updates));
        let bounds = self.dimension_numbers.scatter_dims_to_operand_dims.iter().map(|&axis| {
            let last = x[axis] as i128 - sizes[axis] as i128;
            Scalar::Int(last.min(dtype.int_range().1)).stablehlo(dtype)
        });
        let bounds = format!("[{}]", bounds.collect::<Vec<_>>().join(", "));
        let n_batch = ty.dims().len() - 1;
        let bounds = ctx.constant(&bounds, &ty.with_dims(&ty.dims()[n_batch..]));
        let last_axis = format!("broadcast_dimensions = {}", i64_array([n_batch]));
        let bounds = ctx.op_as("broadcast_in_dim", &[bounds], &last_axis, &ty);
        let zero = ctx.constant("0", &ty.scalar());
        ctx.op_as("clamp", &[zero, indices.clone(), bounds], "", &ty)
    }
}

/// Combines `updates` into `x`: one window of `updates` for each index vector along the last axis
/// of `indices`.
///
/// Component `i` of a vector is the start along operand axis `scatter_dims_to_operand_dims[i]`. The
/// start along the other axes is 0 or, along `operand_batching_dims[j]`, the position along axis
/// `scatter_indices_batching_dims[j]` of `indices`. Windows are the axes `update_window_dims` of
/// `updates`, with axes of size 1 inserted at `inserted_window_dims` and the batching axes.
/// Negative indices are out of range. See [`Scatter`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{Combiner, GatherScatterMode, ScatterDimensionNumbers, scatter};
/// // Counts.
/// let numbers = ScatterDimensionNumbers {
///     inserted_window_dims: vec![0],
///     scatter_dims_to_operand_dims: vec![0],
///     ..ScatterDimensionNumbers::default()
/// };
/// let count = move |ids: Array| {
///     let (bins, ones) = (zeros([10]), ones([5]));
///     scatter(&bins, &ids, &ones, Combiner::Add, &numbers, GatherScatterMode::FillOrDrop)
/// };
/// let y = eval_shape(count, Aval::new(DType::I32, [5, 1]))?;
/// assert_eq!(y.aval().to_string(), "f32[10]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "scatter_add")]
#[doc(alias = "scatter_mul")]
#[doc(alias = "scatter_min")]
#[doc(alias = "scatter_max")]
#[track_caller]
pub fn scatter(
    x: &Array,
    indices: &Array,
    updates: &Array,
    combiner: Combiner,
    dimension_numbers: &ScatterDimensionNumbers,
    mode: GatherScatterMode,
) -> Array {
    let options = ScatterOptions { mode, ..ScatterOptions::default() };
    scatter_with(x, indices, updates, combiner, dimension_numbers, options)
}

/// Options of [`scatter_with`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScatterOptions {
    /// The treatment of indices out of range. The default is [`GatherScatterMode::FillOrDrop`].
    pub mode: GatherScatterMode,
    /// Promises that no two windows overlap. The default is false.
    pub unique_indices: bool,
    /// Promises that the index vectors are in lexicographic order. The default is false.
    pub indices_are_sorted: bool,
}

/// Combines updates into `x`, as [`scatter()`], with promises about the indices. Promises that do
/// not hold give a result that depends on the platform.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{Combiner, ScatterDimensionNumbers, ScatterOptions, scatter_with};
/// let numbers = ScatterDimensionNumbers {
///     inserted_window_dims: vec![0],
///     scatter_dims_to_operand_dims: vec![0],
///     ..ScatterDimensionNumbers::default()
/// };
/// let options = ScatterOptions { unique_indices: true, ..Default::default() };
/// let (x, ids, updates) = (zeros([3]), array![[2], [0]], array![1.0, 2.0]);
/// let y = scatter_with(&x, &ids, &updates, Combiner::Update, &numbers, options);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 0.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn scatter_with(
    x: &Array,
    indices: &Array,
    updates: &Array,
    combiner: Combiner,
    dimension_numbers: &ScatterDimensionNumbers,
    options: ScatterOptions,
) -> Array {
    let scatter = Scatter {
        combiner,
        dimension_numbers: dimension_numbers.clone(),
        indices_are_sorted: options.indices_are_sorted,
        unique_indices: options.unique_indices,
        mode: options.mode,
    };
    bind1(scatter, [x, indices, updates])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::{error_of, module_of};
    use expect_test::expect;

    fn elements() -> ScatterDimensionNumbers {
        ScatterDimensionNumbers {
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            ..ScatterDimensionNumbers::default()
        }
    }

    fn of(combiner: Combiner, mode: GatherScatterMode) -> Scatter {
        Scatter {
            combiner,
            dimension_numbers: elements(),
            indices_are_sorted: false,
            unique_indices: false,
            mode,
        }
    }

    #[test]
    fn lowering() {
        let avals =
            [Aval::new(DType::F32, [4]), Aval::new(DType::I16, [3, 1]), Aval::new(DType::F32, [3])];
        expect![[r#"
            func.func public @main(%0: tensor<4xf32>, %1: tensor<3x1xi16>, %2: tensor<3xf32>) -> (tensor<4xf32>) {
            %3 = "stablehlo.convert"(%1) : (tensor<3x1xi16>) -> tensor<3x1xi32>
            %4 = "stablehlo.constant"() <{value = dense<[3]> : tensor<1xi32>}> : () -> tensor<1xi32>
            %5 = "stablehlo.broadcast_in_dim"(%4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<1xi32>) -> tensor<3x1xi32>
            %6 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
            %7 = "stablehlo.clamp"(%6, %3, %5) : (tensor<i32>, tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi32>
            %11 = "stablehlo.scatter"(%0, %7, %2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}> ({
            ^bb0(%8: tensor<f32>, %9: tensor<f32>):
            %10 = "stablehlo.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
            "stablehlo.return"(%10) : (tensor<f32>) -> ()
            }) : (tensor<4xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<4xf32>
            "func.return"(%11) : (tensor<4xf32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(of(Combiner::Add, GatherScatterMode::Clip), avals));
    }

    #[test]
    fn rejects_invalid_operands() {
        let add = of(Combiner::Add, GatherScatterMode::Clip);
        let floats = |size: usize| Aval::new(DType::F32, [size]);
        let indices = Aval::new(DType::I32, [3, 1]);
        expect![[r#"
            error[shape]: scatter: the updates' axes outside of windows have sizes [2], the indices [3,1]
              operand 0: f32[4]
              operand 1: i32[3,1]
              operand 2: f32[2]"#]]
        .assert_eq(&error_of(add.clone(), [floats(4), indices.clone(), floats(2)]));
        let integers = Aval::new(DType::I32, [3]);
        expect![[r#"
            error[dtype]: scatter: the operand is f32 and the updates i32
              operand 0: f32[4]
              operand 1: i32[3,1]
              operand 2: i32[3]"#]]
        .assert_eq(&error_of(add, [floats(4), indices.clone(), integers]));
        let max = of(Combiner::Max, GatherScatterMode::Clip);
        let complex = |size: usize| Aval::new(DType::C64, [size]);
        expect![[r#"
            error[dtype]: scatter: c64 has no order to take a minimum or maximum by
              operand 0: c64[4]
              operand 1: i32[3,1]
              operand 2: c64[3]"#]]
        .assert_eq(&error_of(max, [complex(4), indices, complex(3)]));
    }

    mod on_cpu {
        use super::*;
        use crate::prelude::{jvp, make_program, reshape, vjp, vmap};

        fn f32s(elements: &[f32]) -> Array {
            Array::from_slice(elements, [elements.len()]).unwrap()
        }

        fn close(a: &[f32], b: &[f32]) {
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * b.abs();
            assert!(a.len() == b.len() && a.iter().zip(b).all(near), "{a:?} against {b:?}");
        }

        /// Returns result, tangent, and the cotangents of operand and updates, for updates that hit
        /// the same element, equal it, or are out of range.
        #[derive(Clone, Copy)]
        struct Expected {
            y: [f32; 4],
            dy: [f32; 4],
            ct_x: [f32; 4],
            ct_updates: [f32; 5],
        }

        #[track_caller]
        fn check(combiner: Combiner, mode: GatherScatterMode, expected: Expected) {
            let indices = Array::from_slice(&[3i32, 0, 3, -1, 4], [5, 1]).unwrap();
            let f = |(x, updates): &(Array, Array)| {
                scatter(x, &indices, updates, combiner, &elements(), mode)
            };
            let primals = (f32s(&[10.0, 11.0, 12.0, 13.0]), f32s(&[13.0, 2.0, 13.0, 5.0, 7.0]));
            let directions = (f32s(&[1.0, 2.0, 3.0, 4.0]), f32s(&[10.0, 20.0, 30.0, 40.0, 50.0]));
            close(&f(&primals).to_vec::<f32>().unwrap(), &expected.y);
            let (y, dy) = jvp(f, &primals, &directions);
            close(&y.to_vec::<f32>().unwrap(), &expected.y);
            close(&dy.to_vec::<f32>().unwrap(), &expected.dy);
            let (y, pullback) = vjp(f, &primals);
            close(&y.to_vec::<f32>().unwrap(), &expected.y);
            let (ct_x, ct_updates) = pullback.apply(&f32s(&[1.0, 2.0, 4.0, 8.0]));
            close(&ct_x.to_vec::<f32>().unwrap(), &expected.ct_x);
            close(&ct_updates.to_vec::<f32>().unwrap(), &expected.ct_updates);
        }

        /// Values recorded from JAX.
        #[test]
        fn replacement_follows_the_update_that_wins() {
            let clipped = Expected {
                y: [5.0, 11.0, 12.0, 7.0],
                dy: [40.0, 2.0, 3.0, 50.0],
                ct_x: [0.0, 2.0, 4.0, 0.0],
                ct_updates: [0.0, 0.0, 0.0, 1.0, 8.0],
            };
            check(Combiner::Update, GatherScatterMode::Clip, clipped);
            let dropped = Expected {
                y: [2.0, 11.0, 12.0, 13.0],
                dy: [20.0, 2.0, 3.0, 30.0],
                ct_x: [0.0, 2.0, 4.0, 0.0],
                ct_updates: [0.0, 1.0, 8.0, 0.0, 0.0],
            };
            check(Combiner::Update, GatherScatterMode::FillOrDrop, dropped);
        }

        /// Values recorded from JAX.
        #[test]
        fn sums_are_linear() {
            let clipped = Expected {
                y: [17.0, 11.0, 12.0, 46.0],
                dy: [61.0, 2.0, 3.0, 94.0],
                ct_x: [1.0, 2.0, 4.0, 8.0],
                ct_updates: [8.0, 1.0, 8.0, 1.0, 8.0],
            };
            check(Combiner::Add, GatherScatterMode::Clip, clipped);
            let dropped = Expected {
                y: [12.0, 11.0, 12.0, 39.0],
                dy: [21.0, 2.0, 3.0, 44.0],
                ct_updates: [8.0, 1.0, 8.0, 0.0, 0.0],
                ..clipped
            };
            check(Combiner::Add, GatherScatterMode::FillOrDrop, dropped);
        }

        /// Values recorded from JAX where updates are dropped. Where indices are clamped, JAX's
        /// masks are not (its tangents are infinite); the rule here is the same as for dropped
        /// updates.
        #[test]
        fn ties_share_the_gradient() {
            let third = 8.0 / 3.0;
            let least = Expected {
                y: [2.0, 11.0, 12.0, 13.0],
                dy: [20.0, 2.0, 3.0, 44.0 / 3.0],
                ct_x: [0.0, 2.0, 4.0, third],
                ct_updates: [third, 1.0, third, 0.0, 0.0],
            };
            check(Combiner::Min, GatherScatterMode::FillOrDrop, least);
            let clamped = Expected {
                y: [2.0, 11.0, 12.0, 7.0],
                dy: [20.0, 2.0, 3.0, 50.0],
                ct_x: [0.0, 2.0, 4.0, 0.0],
                ct_updates: [0.0, 1.0, 0.0, 0.0, 8.0],
            };
            check(Combiner::Min, GatherScatterMode::Clip, clamped);
            let greatest = Expected {
                y: [10.0, 11.0, 12.0, 13.0],
                dy: [1.0, 2.0, 3.0, 44.0 / 3.0],
                ct_x: [1.0, 2.0, 4.0, third],
                ct_updates: [third, 0.0, third, 0.0, 0.0],
            };
            check(Combiner::Max, GatherScatterMode::FillOrDrop, greatest);
            check(Combiner::Max, GatherScatterMode::Clip, greatest);
        }

        #[test]
        fn one_window_per_example_needs_no_mask() {
            let x = f32s(&[1.0, 2.0, 3.0, 4.0]);
            let start = x.clone();
            let set = move |at: Array, y: Array| {
                let (indices, updates) = (reshape(&at, [1, 1]), reshape(&y, [1]));
                let mode = GatherScatterMode::FillOrDrop;
                scatter(&start, &indices, &updates, Combiner::Update, &elements(), mode)
            };
            let at = Array::from_slice(&[2i32, 0], [2]).unwrap();
            let y = f32s(&[5.0, 7.0]);
            let derivative = move |y: &Array| {
                let (set, at) = (set.clone(), at.clone());
                jvp(move |y: &Array| vmap(set.clone()).apply(&at, y), y, y).1
            };
            let expected = [0.0, 0.0, 5.0, 0.0, 7.0, 0.0, 0.0, 0.0];
            assert_eq!(derivative(&y).to_vec::<f32>().unwrap(), expected);
            let text = make_program(derivative, &y).unwrap().to_string();
            assert!(text.contains("scatter") && !text.contains("iota"), "{text}");
        }

        #[test]
        fn a_product_with_overlapping_updates_has_no_derivative_in_them() {
            let indices = Array::from_slice(&[3i32, 0, 3, -1, 4], [5, 1]).unwrap();
            let x = f32s(&[10.0, 11.0, 12.0, 13.0]);
            let updates = f32s(&[13.0, 2.0, 13.0, 5.0, 7.0]);
            let times = |updates: &Array| {
                scatter(&x, &indices, updates, Combiner::Mul, &elements(), GatherScatterMode::Clip)
            };
            assert_eq!(times(&updates).to_vec::<f32>().unwrap(), [100.0, 11.0, 12.0, 15379.0]);
            let error = crate::catch(|| jvp(times, &updates, &updates)).unwrap_err().to_string();
            assert!(error.contains("takes unique indices"), "{error}");
        }
    }
}
