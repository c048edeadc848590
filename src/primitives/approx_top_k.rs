//! The largest or smallest elements along an axis, found approximately by TPUs.

use super::comparison::{ComparisonDirection, compare_attributes};
use super::reduce::{highest, lowest};
use super::rules::{arity, element_dtype, move_axis, resolve_axis};
use super::top_k::{TopK, search_cost, with_chosen_tangents};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Loc, LowerCtx,
    Primitive, Registered, RuleError, RuleResult, Sample, Scalar, Tangent, bind, trace,
};
use crate::stablehlo::{TensorType, Value};
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};
use std::slice::from_ref;

/// The `k` largest or smallest elements along an axis, or most of them, and their indices.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float}[…]` |
/// | results    | values, dtype of `x`, and indices, `i32`; axis `axis` has size `k`, or more if results are not aggregated |
/// | lowering   | TPUs: the custom call `ApproxTopK`; elsewhere the exact elements, by [`chlo.top_k`](https://openxla.org/stablehlo/generated/chlo) |
/// | derivative | the tangents of the chosen elements |
///
/// Reference: Chern, Hechtman, Davis, Guo, Majnemer and Kumar, "TPU-KNN: K nearest neighbor search
/// at peak FLOP/s", 2022.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ApproxTopK {
    /// The number of elements, at most the size of the axis.
    pub k: usize,
    /// The axis of the search.
    pub axis: usize,
    /// True for the largest elements, false for the smallest.
    pub is_max: bool,
    /// The expected share of the true elements among the results, above 0 and at most 1.
    pub recall_target: Scalar,
    /// The size of the whole axis, if `x` is one of several parts, whose results are aggregated.
    pub reduction_input_size: Option<usize>,
    /// Returns the best `k` elements of the candidates, and not all candidates.
    pub aggregate_to_topk: bool,
}

impl ApproxTopK {
    /// Returns the number of results along the axis.
    fn output_size(&self, x: &Aval) -> usize {
        let size = x.shape[self.axis];
        match self.aggregate_to_topk {
            true => self.k,
            false => {
                let whole = self.reduction_input_size.unwrap_or(size);
                candidates(size, whole, x.rank(), self.k, self.recall_target.as_f64())
            }
        }
    }

    /// Writes the exact elements.
    fn lower_exact(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let k = results[0].shape[self.axis].min(operands[0].ty().dims()[self.axis]);
        let exact = TopK { k, axis: self.axis };
        if self.is_max {
            return exact.lower(ctx, operands, results);
        }
        let negative = ctx.op("negate", operands);
        let mut chosen = exact.lower(ctx, &[negative], results)?;
        chosen[0] = ctx.op("negate", &chosen[..1]);
        Ok(chosen)
    }

    /// Writes the custom call of TPUs.
    fn lower_for_tpu(
        &self,
        ctx: &mut LowerCtx<'_>,
        x: &Value,
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let dtype = element_dtype(x);
        let index = x.ty().with_element(DType::I32.stablehlo());
        let iota = format!("iota_dimension = {} : i64", self.axis);
        let indices = ctx.op_as("iota", &[], &iota, &index);
        let (start, direction, name) = match self.is_max {
            true => (lowest(dtype), ComparisonDirection::Gt, "gt"),
            false => (highest(dtype), ComparisonDirection::Lt, "lt"),
        };
        let start = ctx.constant(&start.stablehlo(dtype), &x.ty().scalar());
        let no_index = ctx.constant("-1", &index.scalar());
        let pair = [start.clone(), start.clone(), no_index.clone(), no_index.clone()];
        let bool = TensorType::new(DType::Bool.stablehlo(), &[]);
        let attributes = compare_attributes(direction, dtype, false);
        let comparator =
            ctx.routine_name(&format!("top_k_{name}"), &pair, from_ref(&bool), |writer, x| {
                Ok(vec![writer.op_as("compare", &x[..2], &attributes, &bool)])
            })?;
        let called =
            format!("call_target_name = \"ApproxTopK\", called_computations = [@{comparator}]");
        let config = format!(
            "mhlo.backend_config = {{aggregate_to_topk = {}, recall_target = {:.9e} : f32, \
             reduction_dim = {} : i64, reduction_input_size_override = {} : i64, \
             top_k = {} : i64}}",
            self.aggregate_to_topk,
            self.recall_target.as_f64(),
            self.axis,
            self.reduction_input_size.map_or(-1, |size| size as i64),
            self.k
        );
        let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        let operands = [x.clone(), indices, start, no_index];
        Ok(ctx.op_annotated("custom_call", &operands, &called, Vec::new(), &config, &types))
    }
}

/// Returns the number of candidates that a TPU keeps of `size` elements, a part of `whole`, so that
/// the expected recall of the `k` best is reached: the formula of XLA's `ApproxTopK`.
fn candidates(size: usize, whole: usize, rank: usize, k: usize, recall: f64) -> usize {
    let tile = if rank == 1 { 1024 } else { 128 };
    if size <= tile {
        return size;
    }
    if k == 1 {
        return tile;
    }
    if recall >= 1.0 {
        return size;
    }
    let needed = ((1.0 - k as f64) / recall.ln()) as usize;
    let ratio = whole / needed.max(tile);
    if ratio < 2 {
        return size;
    }
    // Halvings of the tiles.
    let halvings = ratio.ilog2().min((size / tile).next_power_of_two().ilog2());
    tile * size.div_ceil(tile).div_ceil(1 << halvings)
}

impl Primitive for ApproxTopK {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let (k, axis) = (self.k, self.axis);
        ensure_dtype!(x.dtype.is_float(), "needs a float operand, got {}", x.dtype);
        ensure_shape!(
            axis < x.rank(),
            "axis {axis} must be less than the rank {} of {x}",
            x.rank()
        );
        let size = x.shape[axis];
        ensure_shape!(
            k > 0 && k <= size,
            "k must be from 1 to {size}, the size of axis {axis} of {x}, got {k}"
        );
        let recall = self.recall_target.as_f64();
        ensure!(
            recall > 0.0 && recall <= 1.0,
            "recall_target must be above 0 and at most 1, got {recall}"
        );
        if let Some(whole) = self.reduction_input_size {
            ensure!(
                whole >= size,
                "reduction_input_size is {whole}, less than the {size} elements along axis {axis}"
            );
        }
        let mut shape = x.shape.to_vec();
        shape[axis] = self.output_size(x);
        Ok(vec![x.with_shape(&shape), Aval::new(DType::I32, shape)])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        Ok(with_chosen_tangents(bind(self.clone(), &[&primals[0]]), &tangents[0], self.axis))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let batch = axes[0].unwrap_or(0);
        // A vector has other tiles on a TPU than its rows.
        if !self.aggregate_to_topk && operands[0].rank() == 2 {
            return Err(RuleError::unsupported("candidates of vectors cannot be batched")
                .help("set aggregate_to_topk, or pass matrices"));
        }
        let x = move_axis(&operands[0], batch, 0);
        let outputs = bind(ApproxTopK { axis: self.axis + 1, ..self.clone() }, &[&x]);
        Ok(Batched { outputs, axes: vec![Some(0), Some(0)] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let is_wide = matches!(results[0].dtype, DType::F32 | DType::BF16);
        if ctx.platform() == "tpu" && is_wide && results[0].size() > 0 {
            return self.lower_for_tpu(ctx, &operands[0], results);
        }
        self.lower_exact(ctx, operands, results)
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        search_cost(self.k, operands, results)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for ApproxTopK {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a library")
    }
}

/// Options of [`approx_max_k_with`] and [`approx_min_k_with`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApproxTopKOptions {
    /// The expected share of the true elements among the results, above 0 and at most 1. The
    /// default is 0.95.
    pub recall_target: f64,
    /// The size of the whole axis, if the operand is one of several parts, such as one device's,
    /// whose results are aggregated. The default is the operand's size.
    #[doc(alias = "reduction_input_size_override")]
    pub reduction_input_size: Option<usize>,
    /// Returns the best `k` of the candidates, sorted: the default. Without it, all candidates are
    /// returned, at least `k`, for an aggregation over several parts.
    pub aggregate_to_topk: bool,
}

impl Default for ApproxTopKOptions {
    fn default() -> ApproxTopKOptions {
        ApproxTopKOptions {
            recall_target: 0.95,
            reduction_input_size: None,
            aggregate_to_topk: true,
        }
    }
}

#[track_caller]
fn approximately(
    name: &str,
    x: &Array,
    k: usize,
    axis: isize,
    options: ApproxTopKOptions,
) -> (Array, Array) {
    let axis = match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands(name, error, &[x]),
    };
    let search = ApproxTopK {
        k,
        axis,
        is_max: name == "approx_max_k",
        recall_target: Scalar::Float(options.recall_target),
        reduction_input_size: options.reduction_input_size,
        aggregate_to_topk: options.aggregate_to_topk,
    };
    if let Err(error) = search.abstract_eval(&[x.aval().clone()]) {
        trace::throw_operands(name, error, &[x]);
    }
    let mut outputs = Loc::caller().scope(|| bind(search, &[x]));
    let indices = outputs.swap_remove(1);
    (outputs.swap_remove(0), indices)
}

/// Returns at least the fraction `recall_target` of the `k` largest elements of `x` along `axis`,
/// largest first, and their indices, `i32`.
///
/// TPUs find them approximately, in much less time than [`top_k`](super::top_k), for operands in
/// `f32` and `bf16`. Elsewhere the result is exact. See [`ApproxTopK`] for its rules, and
/// [`approx_max_k_with`] for parts of an operand.
#[track_caller]
pub fn approx_max_k(x: &Array, k: usize, axis: isize, recall_target: f64) -> (Array, Array) {
    let options = ApproxTopKOptions { recall_target, ..ApproxTopKOptions::default() };
    approx_max_k_with(x, k, axis, options)
}

/// Returns the largest elements approximately, as [`approx_max_k`], of a part of an operand.
///
/// Throws `Op` for other operands than floats, and for a recall or a size out of range.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{ApproxTopKOptions, approx_max_k_with};
/// // The candidates of one of eight parts.
/// let options = ApproxTopKOptions {
///     reduction_input_size: Some(80_000),
///     aggregate_to_topk: false,
///     ..Default::default()
/// };
/// let part = Aval::new(DType::F32, [4, 10_000]);
/// let (values, _) = eval_shape(move |x: Array| approx_max_k_with(&x, 10, -1, options), part)?;
/// assert_eq!(values.aval().to_string(), "f32[4,128]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn approx_max_k_with(
    x: &Array,
    k: usize,
    axis: isize,
    options: ApproxTopKOptions,
) -> (Array, Array) {
    approximately("approx_max_k", x, k, axis, options)
}

/// Returns at least the fraction `recall_target` of the `k` smallest elements of `x` along `axis`,
/// smallest first, and their indices, `i32`. See [`approx_max_k`].
#[track_caller]
pub fn approx_min_k(x: &Array, k: usize, axis: isize, recall_target: f64) -> (Array, Array) {
    let options = ApproxTopKOptions { recall_target, ..ApproxTopKOptions::default() };
    approx_min_k_with(x, k, axis, options)
}

/// Returns the smallest elements approximately, as [`approx_min_k`], of a part of an operand. See
/// [`approx_max_k_with`].
#[track_caller]
pub fn approx_min_k_with(
    x: &Array,
    k: usize,
    axis: isize,
    options: ApproxTopKOptions,
) -> (Array, Array) {
    approximately("approx_min_k", x, k, axis, options)
}

impl Registered for ApproxTopK {
    const NAME: &'static str = "approx_top_k";
    fn exemplars() -> Vec<Exemplar> {
        let search = |k, axis, is_max| ApproxTopK {
            k,
            axis,
            is_max,
            recall_target: Scalar::Float(0.9),
            reduction_input_size: None,
            aggregate_to_topk: true,
        };
        let floats = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -1.0, 1.0);
        vec![
            Exemplar::new(search(2, 1, true), [floats(DType::F32, &[2, 5])]),
            Exemplar::new(search(3, 0, false), [floats(DType::F32, &[4, 2])]),
            Exemplar::new(search(1, 0, true), [floats(DType::BF16, &[3])]),
            Exemplar::new(search(2, 1, false), [floats(DType::F64, &[2, 3, 2])]),
            Exemplar::new(search(1, 0, false), [floats(DType::F32, &[1])]),
            Exemplar::new(search(2, 1, true), [floats(DType::F32, &[0, 3])]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that XLA's function returns for JAX 0.10.2.
    #[test]
    fn candidates_are_those_of_xla() {
        for (size, whole, rank, k, recall, expected) in [
            (1000, 1000, 1, 10, 0.95, 1000),
            (100_000, 100_000, 2, 10, 0.95, 256),
            (100_000, 10_000_000, 2, 10, 0.95, 128),
            (100_000, 100_000, 1, 1, 0.9, 1024),
            (5000, 5000, 2, 3, 0.5, 256),
            (5000, 5000, 2, 3, 1.0, 5000),
            (100, 100, 2, 3, 0.9, 100),
            (1983, 7932, 1, 50, 0.1, 2048),
            (1002, 4008, 2, 30, 0.99, 1002),
            (305, 10_000_000, 2, 178, 0.5, 256),
            (899, 899, 2, 1, 0.8, 128),
        ] {
            assert_eq!(candidates(size, whole, rank, k, recall), expected, "{size} {k} {recall}");
        }
    }
}
