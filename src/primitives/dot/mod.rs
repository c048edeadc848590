//! `dot_general`, the general product that matrix products and `einsum` are built on.

mod algorithm;
mod along_rows;
mod as_sum;
mod bf16_on_cpu;
mod integers_on_gpu;
mod over_steps;

pub use algorithm::{DotAlgorithm, DotAlgorithmPreset, DotPrecisionType};
pub(super) use bf16_on_cpu::multiplied;
use integers_on_gpu::integer_of;

use super::composite::lower_by;
use super::convert::convert_to;
use super::rules::{arity, element_dtype, one_cotangent};
use super::shape::transpose;
use crate::core::explicit::{axes_along, quoted, stated_sharding};
use crate::core::{
    Analysis, Array, Aval, AxisSpec, BatchAxis, Batched, Contraction, Cost, DType, Exemplar,
    JvpResult, Loc, LowerCtx, NamedSharding, Operand, Precision, Primitive, Registered, RuleError,
    RuleResult, Sample, SaveHint, Shape, ShardingRule, Spmd, Tangent, bind1, promote, trace,
};
use crate::stablehlo::{TensorType, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Sums products over contracting axes, for each combination of the other axes. Batch axes of both
/// operands are paired.
///
/// | | |
/// |-|-|
/// | operands   | `lhs, rhs: any[…]`; of one dtype, or, with `preferred_element_type`, of one category (`bf16` with `f32`, `f8_e4m3fn` with `f8_e5m2`) |
/// | result     | `[batch…, lhs free…, rhs free…]`, batch axes in the order named, free axes in the order of the operand; of dtype `preferred_element_type` if given, else of the operands' |
/// | lowering   | [`stablehlo.dot_general`](https://openxla.org/stablehlo/spec#dot_general) |
/// | derivative | `dot(dlhs, rhs) + dot(lhs, drhs)` |
///
/// Products are accumulated in `preferred_element_type`, which may not be narrower than the
/// operands: `bf16` products in `f32`, `i8` products in `i32`. Where a plugin does not multiply the
/// dtypes of the operands, they are converted first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DotGeneral {
    /// Axes of `lhs` that are summed over, paired by index with `rhs_contracting`.
    pub lhs_contracting: Vec<usize>,
    /// Axes of `rhs` that are summed over.
    pub rhs_contracting: Vec<usize>,
    /// Batch axes of `lhs`, paired by index with `rhs_batch`.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of `rhs`, paired by index with `lhs_batch`.
    pub rhs_batch: Vec<usize>,
    /// The precision of `lhs` and of `rhs`.
    pub precision: [Precision; 2],
    /// The dtype of sums and result; `None` for the dtype of the operands.
    pub preferred_element_type: Option<DType>,
    /// The algorithm; `None` lets the compiler choose one by the precision, which is ignored
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<DotAlgorithm>,
    /// The sharding of the result over explicit axes of a mesh. By default that of the batch and
    /// free axes of the operands, which is ambiguous if contracting axes are sharded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_sharding: Option<NamedSharding>,
}

/// Returns the axes that are neither contracted nor batched.
fn free(rank: usize, contracting: &[usize], batch: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !contracting.contains(axis) && !batch.contains(axis)).collect()
}

/// The category of a dtype. Dtypes of one category may be multiplied.
fn category(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        _ if dtype.is_integer() => "integer",
        _ if dtype.is_float() => "float",
        _ => "complex",
    }
}

/// Returns the dtype of products of these dtypes.
pub(super) fn product_dtype(lhs: DType, rhs: DType, preferred: Option<DType>) -> RuleResult<DType> {
    let Some(preferred) = preferred else {
        return if lhs == rhs {
            Ok(lhs)
        } else {
            Err(RuleError::dtype(format!(
                "operands must have one dtype unless preferred_element_type is set, got {lhs} and {rhs}"
            )))
        };
    };
    if category(lhs) != category(rhs) {
        return Err(RuleError::dtype(format!(
            "operands must be of one category, got {lhs} ({}) and {rhs} ({})",
            category(lhs),
            category(rhs)
        ))
        .help("convert one of them with `astype`"));
    }
    let reachable = category(preferred) == category(lhs)
        || lhs.is_bool()
        || lhs.is_integer() && preferred.is_float();
    if !reachable || preferred.bits() < lhs.bits().max(rhs.bits()) {
        return Err(RuleError::dtype(format!(
            "preferred_element_type {preferred} cannot hold products of {lhs} and {rhs}: it must be of their category (or float for integers) and not narrower"
        )));
    }
    Ok(preferred)
}

/// Returns true if these are the last axes of an array of this rank, in any order.
fn are_last(axes: &[usize], rank: usize) -> bool {
    axes.iter().all(|&axis| axis + axes.len() >= rank)
}

impl DotGeneral {
    fn describe(&self) -> String {
        let pair = |lhs: &[usize], rhs: &[usize]| {
            if lhs.is_empty() && rhs.is_empty() {
                "none".to_string()
            } else {
                format!("lhs {lhs:?} with rhs {rhs:?}")
            }
        };
        let contract = pair(&self.lhs_contracting, &self.rhs_contracting);
        format!("contract: {contract}; batch: {}", pair(&self.lhs_batch, &self.rhs_batch))
    }

    fn free(&self, lhs_rank: usize, rhs_rank: usize) -> (Vec<usize>, Vec<usize>) {
        (
            free(lhs_rank, &self.lhs_contracting, &self.lhs_batch),
            free(rhs_rank, &self.rhs_contracting, &self.rhs_batch),
        )
    }

    /// Refuses products of integers whose free axes have 2^31 elements or more. XLA's CPU compiler
    /// counts them in 32 bits and ends the process if a count overflows.
    fn refuse_wide_integers(&self, operands: &[Value]) -> RuleResult<()> {
        let [lhs, rhs] = [0, 1].map(|side| operands[side].ty().dims());
        let (lhs_free, rhs_free) = self.free(lhs.len(), rhs.len());
        for (side, dims, free) in [("lhs", lhs, lhs_free), ("rhs", rhs, rhs_free)] {
            let count = free.iter().fold(1u64, |n, &axis| n.saturating_mul(dims[axis] as u64));
            if count > i32::MAX as u64 {
                return Err(RuleError::unsupported(format!(
                    "a CPU multiplies integers with less than 2^31 elements along the free axes, \
                     {side} has {count}"
                ))
                .help("split the product along a free axis, or multiply floats"));
            }
        }
        Ok(())
    }

    /// Returns true if the contracted axes of `lhs` are its last axes.
    fn sums_along_rows(&self, lhs_rank: usize) -> bool {
        are_last(&self.lhs_contracting, lhs_rank)
    }

    /// Returns the attribute of the dimension numbers.
    fn dimension_attribute(&self) -> String {
        let list =
            |axes: &[usize]| axes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], \
            rhs_batching_dimensions = [{}], lhs_contracting_dimensions = [{}], \
            rhs_contracting_dimensions = [{}]>",
            list(&self.lhs_batch),
            list(&self.rhs_batch),
            list(&self.lhs_contracting),
            list(&self.rhs_contracting),
        )
    }

    /// Returns all problems with the shapes, not only the first.
    fn shape_mistakes(&self, lhs: &Aval, rhs: &Aval) -> Vec<String> {
        let mut mistakes = Vec::new();
        for (role, l, r) in [
            ("contracting", &self.lhs_contracting, &self.rhs_contracting),
            ("batch", &self.lhs_batch, &self.rhs_batch),
        ] {
            if l.len() != r.len() {
                let (l, r) = (l.len(), r.len());
                mistakes.push(format!("{role} axes differ in number: lhs has {l}, rhs has {r}"));
            }
        }
        for (side, aval, contracting, batch) in [
            ("lhs", lhs, &self.lhs_contracting, &self.lhs_batch),
            ("rhs", rhs, &self.rhs_contracting, &self.rhs_batch),
        ] {
            let named: Vec<usize> = contracting.iter().chain(batch).copied().collect();
            for (position, &axis) in named.iter().enumerate() {
                if axis >= aval.rank() {
                    let rank = aval.rank();
                    mistakes.push(format!("{side} has no axis {axis}: its rank is {rank}"));
                } else if named[..position].contains(&axis) {
                    mistakes.push(format!("{side} axis {axis} is named twice"));
                }
            }
        }
        if !mistakes.is_empty() {
            return mistakes;
        }
        for (role, l, r) in [
            ("contracting", &self.lhs_contracting, &self.rhs_contracting),
            ("batch", &self.lhs_batch, &self.rhs_batch),
        ] {
            for (&l, &r) in l.iter().zip(r) {
                let (n, m) = (lhs.shape[l], rhs.shape[r]);
                if n != m {
                    mistakes.push(format!(
                        "{role} sizes differ: lhs axis {l} is {n}, rhs axis {r} is {m}"
                    ));
                }
            }
        }
        mistakes
    }

    fn shape(&self, lhs: &Shape, rhs: &Shape) -> Shape {
        let (lhs_free, rhs_free) = self.free(lhs.rank(), rhs.rank());
        let lhs_axes = self.lhs_batch.iter().chain(&lhs_free).map(|&axis| lhs[axis]);
        lhs_axes.chain(rhs_free.iter().map(|&axis| rhs[axis])).collect()
    }

    /// Returns the cotangent of one side: `ct` contracted with `other` over the free axes of
    /// `other`. The fields of `self` describe that side as `lhs`; `ct_other` are the axes of `ct`
    /// that come from `other`.
    ///
    /// The operands are in the order that gives the axes of that side their order, if there is one:
    /// a product whose result is transposed is slow on CPUs.
    fn transpose_lhs(&self, ct: &Array, lhs: &Aval, rhs: &Array, ct_other: Vec<usize>) -> Array {
        let (lhs_free, rhs_free) = self.free(lhs.rank(), rhs.rank());
        // The remaining axes of `rhs` are its contracted axes, in their order.
        let mut contracted: Vec<(usize, usize)> = self
            .rhs_contracting
            .iter()
            .copied()
            .zip(self.lhs_contracting.iter().copied())
            .collect();
        contracted.sort_unstable();
        let contracted: Vec<usize> = contracted.into_iter().map(|(_, lhs_axis)| lhs_axis).collect();
        // The axes of `lhs` in the order of the result, if `ct` or if `rhs` is multiplied first.
        let [of_ct, of_rhs] = [[&lhs_free, &contracted], [&contracted, &lhs_free]]
            .map(|[first, second]| [&self.lhs_batch[..], first, second].concat());
        let rhs_is_first = !of_ct.is_sorted() && of_rhs.is_sorted();
        let came_from = if rhs_is_first { of_rhs } else { of_ct };
        let mut order = vec![0; came_from.len()];
        for (position, &axis) in came_from.iter().enumerate() {
            order[axis] = position;
        }
        // The cotangent is sharded as the operand.
        let out_sharding = match &lhs.sharding {
            Some(sharding) => Some(sharding.permuted(&came_from)),
            None => [ct, rhs]
                .iter()
                .find_map(|x| x.aval().sharding.as_ref())
                .map(|sharding| sharding.mesh().replicated()),
        };
        let product = DotGeneral {
            lhs_contracting: ct_other,
            rhs_contracting: rhs_free,
            lhs_batch: (0..self.lhs_batch.len()).collect(),
            rhs_batch: self.rhs_batch.clone(),
            precision: self.precision,
            preferred_element_type: self.preferred_element_type,
            algorithm: self.algorithm,
            out_sharding,
        };
        let product = match rhs_is_first {
            true => bind1(product.swapped(), [rhs, ct]),
            false => bind1(product, [ct, rhs]),
        };
        convert_to(&transpose(&product, &order), lhs.dtype, lhs.weak)
    }

    /// Returns the product with the operands exchanged. The axes of the result are in another
    /// order.
    fn swapped(&self) -> DotGeneral {
        DotGeneral {
            lhs_contracting: self.rhs_contracting.clone(),
            rhs_contracting: self.lhs_contracting.clone(),
            lhs_batch: self.rhs_batch.clone(),
            rhs_batch: self.lhs_batch.clone(),
            precision: [self.precision[1], self.precision[0]],
            ..self.clone()
        }
    }
}

impl Primitive for DotGeneral {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [lhs, rhs] = arity(operands)?;
        let mistakes = self.shape_mistakes(lhs, rhs);
        if !mistakes.is_empty() {
            return Err(RuleError::shape(mistakes.join("; ")).note(self.describe()));
        }
        let dtype = product_dtype(lhs.dtype, rhs.dtype, self.preferred_element_type)
            .map_err(|error| error.note(self.describe()))?;
        if self.algorithm.is_some() && !(lhs.dtype.is_float() && rhs.dtype.is_float()) {
            return Err(RuleError::dtype(format!(
                "an algorithm multiplies floats, got {} and {}",
                lhs.dtype, rhs.dtype
            )));
        }
        let weak = lhs.weak && rhs.weak && self.preferred_element_type.is_none();
        Ok(vec![Aval { weak, ..Aval::new(dtype, self.shape(&lhs.shape, &rhs.shape)) }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let (lhs, rhs) = (&primals[0], &primals[1]);
        let product = bind1(self.clone(), [lhs, rhs]);
        let left = tangents[0].map(product.aval(), |dlhs| bind1(self.clone(), [dlhs, rhs]));
        let right = tangents[1].map(product.aval(), |drhs| bind1(self.clone(), [lhs, drhs]));
        Ok((vec![product], vec![left.add(&right)]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let shift = |axes: &[usize], batch_axis: Option<usize>| -> Vec<usize> {
            let past = |axis: usize| batch_axis.is_some_and(|batch_axis| axis >= batch_axis);
            axes.iter().map(|&axis| axis + usize::from(past(axis))).collect()
        };
        let mut dot = DotGeneral {
            lhs_contracting: shift(&self.lhs_contracting, axes[0]),
            rhs_contracting: shift(&self.rhs_contracting, axes[1]),
            lhs_batch: shift(&self.lhs_batch, axes[0]),
            rhs_batch: shift(&self.rhs_batch, axes[1]),
            ..self.clone()
        };
        let (lhs, rhs) = (&operands[0], &operands[1]);
        let n_batch = self.lhs_batch.len();
        let (lhs_free, rhs_free) = dot.free(lhs.rank(), rhs.rank());
        let before = |free: &[usize], end: usize| free.iter().filter(|&&axis| axis < end).count();
        // The axis of one mapped operand becomes a free axis; the axes of two become a batch axis.
        let axis = match (axes[0], axes[1]) {
            (Some(l), Some(r)) => {
                dot.lhs_batch.insert(0, l);
                dot.rhs_batch.insert(0, r);
                Some(0)
            }
            (Some(l), None) => Some(n_batch + before(&lhs_free, l)),
            (None, Some(r)) => Some(n_batch + lhs_free.len() + before(&rhs_free, r)),
            (None, None) => None,
        };
        if let (Some(sharding), Some(axis)) = (&self.out_sharding, axis) {
            let of_batch = |side: usize| axes_along(operands[side].aval(), axes[side]?);
            let over = AxisSpec::from(of_batch(0).or(of_batch(1)).unwrap_or_default().to_vec());
            dot.out_sharding = Some(sharding.with_axis_over(axis, &over)?);
        }
        Ok(Batched { outputs: vec![bind1(dot, [lhs, rhs])], axes: vec![axis] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if ctx.is_in_kernel() && self.is_sum_in_kernel(operands, &results[0]) {
            return lower_by(ctx, operands, |x| vec![self.as_sum(&x[0], &x[1])]);
        }
        if let Some(algorithm) = &self.algorithm {
            return self.lower_by_algorithm(algorithm, ctx, operands, &results[0]);
        }
        if self.gains_from_rows(ctx, operands) {
            let (product, lhs) = self.along_rows(ctx, &operands[0])?;
            return product.lower(ctx, &[lhs, operands[1].clone()], results);
        }
        let result = results[0].stablehlo();
        let [lhs, rhs] = [0, 1].map(|side| element_dtype(&operands[side]));
        let along_rows = self.sums_along_rows(operands[0].ty().dims().len());
        let exact = self.exact_float_on_gpu(ctx, operands, results[0].dtype);
        let (operand, product) = match exact {
            Some(float) => (Some(float), float),
            None => multiplied(ctx.target(), along_rows, lhs, rhs, results[0].dtype),
        };
        if ctx.platform() == "cpu" && !product.is_inexact() {
            self.refuse_wide_integers(operands)?;
        }
        let convert = |ctx: &mut LowerCtx<'_>, x: &Value, ty: TensorType| {
            if *x.ty() == ty {
                x.clone()
            } else {
                ctx.op_as("convert", std::slice::from_ref(x), "", &ty)
            }
        };
        let mut factors = operands.to_vec();
        if let Some(dtype) = operand {
            for factor in &mut factors {
                let ty = factor.ty().with_element(dtype.stablehlo());
                *factor = convert(ctx, factor, ty);
            }
        }
        let attributes = format!(
            "{}, precision_config = [#stablehlo<precision {}>, #stablehlo<precision {}>]",
            self.dimension_attribute(),
            self.precision[0].stablehlo(),
            self.precision[1].stablehlo(),
        );
        let ty = result.with_element(product.stablehlo());
        let mut dot = ctx.op_as("dot_general", &factors, &attributes, &ty);
        if self.must_not_be_swapped(ctx, &factors) {
            dot = ctx.op_as("optimization_barrier", &[dot], "", &ty);
        }
        if let Some(float) = exact {
            dot = convert(ctx, &dot, result.with_element(integer_of(float).stablehlo()));
        }
        Ok(vec![convert(ctx, &dot, result)])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let contracted: usize =
            self.lhs_contracting.iter().map(|&axis| operands[0].shape[axis]).product();
        let products = results[0].size() as u64 * contracted as u64;
        // A complex product takes four real ones and two sums, and its sum two.
        let flops = if results[0].dtype.is_complex() { 8 } else { 2 } * products;
        Cost { flops, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let (lhs_free, _) = self.free(operands[0].aval().rank(), operands[1].aval().rank());
        let n_batch = self.lhs_batch.len();
        match operands {
            [Operand::Linear(lhs), Operand::Known(rhs)] => {
                let from_rhs = (n_batch + lhs_free.len()..ct.rank()).collect();
                Ok(vec![Some(self.transpose_lhs(ct, lhs, rhs, from_rhs).into()), None])
            }
            [Operand::Known(lhs), Operand::Linear(rhs)] => {
                let from_lhs = (n_batch..n_batch + lhs_free.len()).collect();
                let ct = self.swapped().transpose_lhs(ct, rhs, lhs, from_lhs);
                Ok(vec![None, Some(ct.into())])
            }
            _ => Err(RuleError::not_linear("dot_general")),
        }
    }
    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Spmd for DotGeneral {
    fn sharding_rule(&self, operands: &[Aval], _: &[Aval]) -> Option<ShardingRule> {
        let (lhs_free, rhs_free) = self.free(operands[0].rank(), operands[1].rank());
        let both = self.lhs_batch.iter().zip(&self.rhs_batch).map(|(&l, &r)| vec![(0, l), (1, r)]);
        let rows = lhs_free.into_iter().map(|axis| vec![(0, axis)]);
        Some(
            ShardingRule::one(
                both.chain(rows).chain(rhs_free.into_iter().map(|axis| vec![(1, axis)])),
            )
            .combining(),
        )
    }

    fn result_shardings(
        &self,
        operands: &[Aval],
        results: &[Aval],
    ) -> RuleResult<Option<Vec<Option<NamedSharding>>>> {
        if let Some(sharding) = &self.out_sharding {
            return Ok(Some(vec![stated_sharding(sharding, operands, &results[0])?]));
        }
        for (&l, &r) in self.lhs_contracting.iter().zip(&self.rhs_contracting) {
            let both = (axes_along(&operands[0], l), axes_along(&operands[1], r));
            let (Some(lhs), Some(rhs)) = both else { continue };
            let (lhs_axes, rhs_axes) = (quoted(lhs), quoted(rhs));
            if lhs != rhs {
                return Err(RuleError::sharding(format!(
                    "contracting axes are sharded differently: lhs axis {l} over {lhs_axes}, rhs \
                     axis {r} over {rhs_axes}"
                ))
                .note(self.describe())
                .help("`reshard` one of them"));
            }
            return Err(RuleError::sharding(format!(
                "lhs axis {l} and rhs axis {r}, which are contracted, are sharded over {lhs_axes}, so \
                 the sharding of the result is ambiguous"
            ))
            .note(self.describe())
            .help("state it with `out_sharding`, for example in `MatmulOptions`"));
        }
        Ok(None)
    }
}

impl Analysis for DotGeneral {
    fn contraction(&self, operands: &[Aval], _: &[Aval]) -> Option<Contraction> {
        let [lhs, rhs] = [&operands[0], &operands[1]];
        let size =
            |aval: &Aval, axes: &[usize]| axes.iter().map(|&axis| aval.shape[axis]).product();
        let rows = free(lhs.rank(), &self.lhs_contracting, &self.lhs_batch);
        let columns = free(rhs.rank(), &self.rhs_contracting, &self.rhs_batch);
        Some(Contraction {
            batch: size(lhs, &self.lhs_batch),
            m: size(lhs, &rows),
            n: size(rhs, &columns),
            k: size(lhs, &self.lhs_contracting),
            passes: Contraction::passes(lhs, self.precision),
        })
    }
    fn sum_over_steps(&self, stacked: &[Array]) -> Option<Array> {
        self.sum_of_steps(stacked)
    }
    fn save_hint(&self) -> SaveHint<'_> {
        SaveHint::Contraction { batched: !self.lhs_batch.is_empty() }
    }
    /// Free axes are in the order of the operand, so a permutation that exchanges two of them
    /// stays.
    fn with_permuted_operand(
        &self,
        _: &[Aval],
        index: usize,
        permutation: &[usize],
    ) -> Option<Arc<dyn Primitive>> {
        let mut dot = self.clone();
        let (contracting, batch) = match index {
            0 => (&mut dot.lhs_contracting, &mut dot.lhs_batch),
            _ => (&mut dot.rhs_contracting, &mut dot.rhs_batch),
        };
        let rank = permutation.len();
        let free = free(rank, contracting, batch).into_iter().map(|axis| permutation[axis]);
        if !free.is_sorted() {
            return None;
        }
        for axis in contracting.iter_mut().chain(batch) {
            *axis = permutation[*axis];
        }
        Some(Arc::new(dot))
    }
}

/// Computes the product of `lhs` and `rhs` that `how` describes. Operands of different dtype are
/// promoted unless `how.preferred_element_type` is set; they are never broadcast. See
/// [`DotGeneral`] for its rules. [`matmul`](crate::ops::matmul) and [`einsum`](crate::ops::einsum)
/// are built on it.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// let x = Aval::new(DType::BF16, [8, 32, 64]);
/// let y = Aval::new(DType::BF16, [8, 64, 16]);
/// let how = DotGeneral {
///     lhs_contracting: vec![2],
///     rhs_contracting: vec![1],
///     lhs_batch: vec![0],
///     rhs_batch: vec![0],
///     preferred_element_type: Some(DType::F32),
///     ..Default::default()
/// };
/// let z = eval_shape(move |x: Array, y: Array| dot_general(&x, &y, how.clone()), (x, y))?;
/// assert_eq!(z.aval().to_string(), "f32[8,32,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn dot_general(lhs: &Array, rhs: &Array, how: DotGeneral) -> Array {
    Loc::caller().scope(|| {
        let how = DotGeneral { precision: Precision::or_scoped(how.precision), ..how };
        match how.preferred_element_type {
            Some(_) => bind1(how, [lhs, rhs]),
            None => bind_promoted("dot_general", how, lhs, rhs),
        }
    })
}

/// Applies a product to operands converted to their common dtype. Errors name the function `name`.
///
/// Throws `Op` (dtype) if the dtypes have no implicit promotion.
#[track_caller]
pub(in crate::primitives) fn bind_promoted(
    name: &str,
    product: impl Primitive,
    lhs: &Array,
    rhs: &Array,
) -> Array {
    if lhs.dtype() == rhs.dtype() {
        return bind1(product, [lhs, rhs]);
    }
    match promote((lhs.dtype(), lhs.aval().weak), (rhs.dtype(), rhs.aval().weak)) {
        Some((dtype, weak)) => {
            bind1(product, [&convert_to(lhs, dtype, weak), &convert_to(rhs, dtype, weak)])
        }
        None => {
            let message = format!("{} and {} have no implicit promotion", lhs.dtype(), rhs.dtype());
            let error = RuleError::dtype(message)
                .help("set preferred_element_type, or convert one of them with `astype`");
            trace::throw_operands(name, error, &[lhs, rhs])
        }
    }
}

impl Registered for DotGeneral {
    const NAME: &'static str = "dot_general";
    fn exemplars() -> Vec<Exemplar> {
        let sample = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
        let exemplar = |contract: [&[usize]; 2], batch: [&[usize]; 2], lhs: Sample, rhs: Sample| {
            let dot = DotGeneral {
                lhs_contracting: contract[0].to_vec(),
                rhs_contracting: contract[1].to_vec(),
                lhs_batch: batch[0].to_vec(),
                rhs_batch: batch[1].to_vec(),
                ..Default::default()
            };
            Exemplar::new(dot, [lhs, rhs])
        };
        let matrix = |lhs: DType, rhs: DType, preferred: DType| {
            let dot = DotGeneral {
                lhs_contracting: vec![1],
                rhs_contracting: vec![0],
                preferred_element_type: Some(preferred),
                ..Default::default()
            };
            Exemplar::new(dot, [sample(lhs, &[2, 3]), sample(rhs, &[3, 4])])
        };
        use DType::*;
        let exact = DotGeneral {
            lhs_contracting: vec![0],
            rhs_contracting: vec![0],
            precision: [Precision::Highest, Precision::High],
            ..Default::default()
        };
        vec![
            exemplar([&[1], &[0]], [&[], &[]], sample(F32, &[2, 3]), sample(F32, &[3, 4])),
            exemplar([&[2], &[0]], [&[0], &[2]], sample(F32, &[2, 3, 4]), sample(F32, &[4, 5, 2])),
            // Contracting and batch axes out of order, on both sides.
            exemplar(
                [&[3, 1], &[0, 2]],
                [&[2, 0], &[1, 3]],
                sample(F64, &[2, 3, 4, 5, 2]),
                sample(F64, &[5, 4, 3, 2]),
            ),
            exemplar([&[], &[]], [&[], &[]], sample(F32, &[2]), sample(F32, &[3])),
            exemplar([&[], &[]], [&[], &[]], sample(F32, &[]), sample(F32, &[])),
            exemplar([&[0], &[0]], [&[], &[]], sample(C64, &[3]), sample(C64, &[3])),
            exemplar([&[1], &[0]], [&[], &[]], sample(F32, &[2, 0]), sample(F32, &[0, 3])),
            exemplar([&[0], &[0]], [&[], &[]], sample(I32, &[3]), sample(I32, &[3, 1])),
            exemplar([&[0], &[0]], [&[], &[]], sample(Bool, &[3]), sample(Bool, &[3, 2])),
            Exemplar::new(exact, [sample(F32, &[3]), sample(F32, &[3])]),
            matrix(BF16, BF16, F32),
            matrix(BF16, F32, F32),
            matrix(I8, I8, I32),
            matrix(U8, U8, F32),
            matrix(U8, U8, I32),
            matrix(U8, I8, I32),
            matrix(I4, I4, I32),
            // With eight bits, differences in the operands are indistinguishable from rounding.
            matrix(F8E4M3FN, F8E4M3FN, F32).without_derivative(),
            matrix(F8E5M2, F8E4M3FN, F32).without_derivative(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catch;
    use crate::core::trace::{Mode, Tracing};
    use expect_test::expect;

    fn lowered(platform: &str, lhs: Aval, rhs: Aval, how: &DotGeneral) -> String {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let (lhs, rhs) = (tracing.input(lhs), tracing.input(rhs));
        let product = dot_general(&lhs, &rhs, how.clone());
        let (program, _) = tracing.finish(&[product]);
        let mut ctx = LowerCtx::new(platform);
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        let ops = text.lines().filter(|line| line.contains("\"stablehlo."));
        ops.map(|line| line.trim().split(" loc(#").next().unwrap_or(line).to_string() + "\n")
            .collect()
    }

    #[test]
    fn lowering() {
        let how = DotGeneral {
            lhs_contracting: vec![2],
            rhs_contracting: vec![0],
            lhs_batch: vec![0],
            rhs_batch: vec![1],
            precision: [Precision::Default, Precision::Highest],
            preferred_element_type: Some(DType::F32),
            ..DotGeneral::default()
        };
        let (lhs, rhs) = (Aval::new(DType::BF16, [2, 3, 4]), Aval::new(DType::BF16, [4, 2]));
        expect![[r#"
            %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3x4xbf16>, tensor<4x2xbf16>) -> tensor<2x3xf32>
        "#]].assert_eq(&lowered("cuda", lhs, rhs, &how));
        let (lhs, rhs) = (Aval::new(DType::BF16, [2, 3, 4]), Aval::new(DType::F32, [4, 2]));
        expect![[r#"
            %2 = "stablehlo.convert"(%0) : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
            %3 = "stablehlo.dot_general"(%2, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3x4xf32>, tensor<4x2xf32>) -> tensor<2x3xf32>
        "#]].assert_eq(&lowered("cpu", lhs.clone(), rhs.clone(), &how));
        expect![[r#"
            %2 = "stablehlo.dot_general"(%0, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x3x4xbf16>, tensor<4x2xf32>) -> tensor<2x3xf32>
        "#]].assert_eq(&lowered("tpu", lhs, rhs, &how));
    }

    #[test]
    fn bytes_are_multiplied_in_floats_on_gpus() {
        let of = |platform: &str, summed: usize, result: DType| {
            let how = DotGeneral {
                lhs_contracting: vec![1],
                rhs_contracting: vec![0],
                preferred_element_type: Some(result),
                ..DotGeneral::default()
            };
            let [lhs, rhs] = [[2, summed], [summed, 3]].map(|shape| Aval::new(DType::I8, shape));
            let text = lowered(platform, lhs, rhs, &how);
            let types = text.lines().filter_map(|line| line.split(" -> ").nth(1));
            types.map(|ty| ty.split('x').next_back().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("cuda", 1024, DType::I32), ["f32>", "f32>", "f32>", "i32>"]);
        assert_eq!(of("cuda", 1025, DType::I32), ["f64>", "f64>", "f64>", "i64>", "i32>"]);
        assert_eq!(of("cuda", 1025, DType::I64), ["f64>", "f64>", "f64>", "i64>"]);
        assert_eq!(of("cuda", 8, DType::I8), ["i8>"]);
        assert_eq!(of("tpu", 8, DType::I32), ["i32>"]);
        assert_eq!(of("cpu", 8, DType::I32), ["i32>"]);
    }

    fn error(lhs: Aval, rhs: Aval, how: DotGeneral) -> String {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let (lhs, rhs) = (tracing.input(lhs), tracing.input(rhs));
        let text = catch(|| dot_general(&lhs, &rhs, how)).unwrap_err().to_string();
        text.lines().filter(|line| !line.contains("-->")).map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn errors() {
        let how = |contract: [&[usize]; 2], batch: [&[usize]; 2]| DotGeneral {
            lhs_contracting: contract[0].to_vec(),
            rhs_contracting: contract[1].to_vec(),
            lhs_batch: batch[0].to_vec(),
            rhs_batch: batch[1].to_vec(),
            ..Default::default()
        };
        let f32 = |shape: &[usize]| Aval::new(DType::F32, shape);
        let matrix = how([&[1], &[0]], [&[], &[]]);
        expect![[r#"
            error[shape]: dot_general: contracting sizes differ: lhs axis 1 is 784, rhs axis 0 is 512
              lhs: f32[32,784]
              rhs: f32[512,10]
              contract: lhs [1] with rhs [0]; batch: none
              while tracing: test
        "#]].assert_eq(&error(f32(&[32, 784]), f32(&[512, 10]), matrix.clone()));
        let both = how([&[2], &[1]], [&[0], &[0]]);
        expect![[r#"
            error[shape]: dot_general: contracting sizes differ: lhs axis 2 is 4, rhs axis 1 is 6; batch sizes differ: lhs axis 0 is 2, rhs axis 0 is 5
              lhs: f32[2,3,4]
              rhs: f32[5,6]
              contract: lhs [2] with rhs [1]; batch: lhs [0] with rhs [0]
              while tracing: test
        "#]].assert_eq(&error(f32(&[2, 3, 4]), f32(&[5, 6]), both.clone()));
        let wrong = how([&[1, 1], &[7]], [&[], &[]]);
        expect![[r#"
            error[shape]: dot_general: contracting axes differ in number: lhs has 2, rhs has 1; lhs axis 1 is named twice; rhs has no axis 7: its rank is 1
              lhs: f32[2,3]
              rhs: f32[3]
              contract: lhs [1, 1] with rhs [7]; batch: none
              while tracing: test
        "#]].assert_eq(&error(f32(&[2, 3]), f32(&[3]), wrong));
        let bytes = |dtype| Aval::new(dtype, [2, 2]);
        expect![[r#"
            error[dtype]: dot_general: f8_e5m2 and bf16 have no implicit promotion
              lhs: f8_e5m2[2,2]
              rhs: bf16[2,2]
              while tracing: test
              help: set preferred_element_type, or convert one of them with `astype`
        "#]]
        .assert_eq(&error(bytes(DType::F8E5M2), bytes(DType::BF16), matrix.clone()));
        let narrow = DotGeneral { preferred_element_type: Some(DType::I8), ..matrix };
        expect![[r#"
            error[dtype]: dot_general: preferred_element_type i8 cannot hold products of i32 and i8: it must be of their category (or float for integers) and not narrower
              lhs: i32[2,2]
              rhs: i8[2,2]
              contract: lhs [1] with rhs [0]; batch: none
              while tracing: test
        "#]].assert_eq(&error(bytes(DType::I32), bytes(DType::I8), narrow));
    }
}
