//! The largest elements along an axis.

use super::gather::elements_along;
use super::rules::{arity, element_dtype, move_axis, resolve_axis};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, Loc, LowerCtx,
    Primitive, Registered, RuleResult, Sample, Tangent, bind, trace,
};
use crate::stablehlo::Value;
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// The `k` largest elements along an axis, largest first, and their indices.
///
/// The order is NaN > ∞ > … > 0 > -0 > … > -∞, and a NaN with its sign bit set comes last. Among
/// equal elements the first one is chosen.
///
/// | | |
/// |-|-|
/// | operand    | `x: {bool, int, float}[…]` |
/// | results    | values, dtype of `x`, and positions, `i32`; axis `axis` has size `k` |
/// | lowering   | [`chlo.top_k`](https://openxla.org/stablehlo/generated/chlo) along the last axis |
/// | derivative | the tangents of the chosen elements |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopK {
    /// The number of elements, at most the size of the axis.
    pub k: usize,
    /// The axis of the search.
    pub axis: usize,
}

impl Primitive for TopK {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let (k, axis) = (self.k, self.axis);
        ensure_dtype!(x.dtype.is_real(), "needs an operand with an order, got {}", x.dtype);
        ensure_shape!(
            axis < x.rank(),
            "axis {axis} must be less than the rank {} of {x}",
            x.rank()
        );
        ensure_shape!(
            k <= x.shape[axis],
            "k must be at most {}, the size of axis {axis} of {x}, got {k}",
            x.shape[axis]
        );
        let mut shape = x.shape.to_vec();
        shape[axis] = k;
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
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        let outputs = bind(TopK { k: self.k, axis: self.axis + 1 }, &[&x]);
        Ok(Batched { outputs, axes: vec![Some(0), Some(0)] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let rank = results[0].rank();
        let mut order: Vec<usize> = (0..rank).filter(|&axis| axis != self.axis).collect();
        order.push(self.axis);
        let mut x = ctx.transposed(&operands[0], &order);
        // The expansion into a sort supports neither booleans nor sub-byte elements.
        let dtype = element_dtype(&x);
        let sorted = match dtype {
            DType::I2 | DType::I4 => DType::I8,
            DType::Bool | DType::U2 | DType::U4 => DType::U8,
            DType::F4E2M1FN => DType::F32,
            other => other,
        };
        if sorted != dtype {
            let wide = x.ty().with_element(sorted.stablehlo());
            x = ctx.op_as("convert", &[x], "", &wide);
        }
        let mut dims = x.ty().dims().to_vec();
        dims[rank - 1] = self.k;
        let values = x.ty().with_dims(&dims);
        let types = [values.clone(), values.with_element("i32")];
        let attributes = format!("k = {} : i64", self.k);
        let chosen = ctx.op_full("chlo.top_k", &[x], &attributes, Vec::new(), &types);
        let mut back = vec![0; rank];
        for (position, &axis) in order.iter().enumerate() {
            back[axis] = position;
        }
        let mut chosen: Vec<Value> =
            chosen.iter().map(|value| ctx.transposed(value, &back)).collect();
        if sorted != dtype {
            chosen[0] = ctx.op_as("convert", &chosen[..1], "", &results[0].stablehlo());
        }
        Ok(chosen)
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        search_cost(self.k, operands, results)
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for TopK {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a library")
    }
}

/// Returns values and positions that were chosen along an axis with their tangents: the elements of
/// the operand's tangent at these positions.
pub(super) fn with_chosen_tangents(
    outputs: Vec<Array>,
    tangent: &Tangent,
    axis: usize,
) -> (Vec<Array>, Vec<Tangent>) {
    let positions = &outputs[1];
    let chosen = tangent.map(outputs[0].aval(), |dx| elements_along(dx, positions, axis));
    let tangents = vec![chosen, Tangent::zero_like(positions)];
    (outputs, tangents)
}

/// Returns the cost of a search for `k` elements: a heap of them, compared with every other
/// element.
pub(super) fn search_cost(k: usize, operands: &[Aval], results: &[Aval]) -> Cost {
    let depth = u64::from(k.max(1).next_power_of_two().ilog2()) + 1;
    Cost { flops: operands[0].size() as u64 * depth, ..Cost::whole(operands, results) }
}

fn chosen(name: &str, x: &Array, k: usize, axis: isize) -> (Array, Array) {
    match resolve_axis(axis, x.rank()) {
        Ok(axis) => {
            let mut outputs = bind(TopK { k, axis }, &[x]);
            let positions = outputs.swap_remove(1);
            (outputs.swap_remove(0), positions)
        }
        Err(error) => trace::throw_operands(name, error, &[x]),
    }
}

/// Returns the `k` largest elements of `x` along `axis`, largest first, and their indices, `i32`.
/// Negative axes count from the back. See [`TopK`] for the order and the rules.
///
/// ```
/// use oxidax::prelude::*;
/// let best = |logits: Array| top_k(&logits, 5, -1);
/// let (values, ids) = eval_shape(best, Aval::new(DType::BF16, [8, 1000]))?;
/// assert_eq!(values.aval().to_string(), "bf16[8,5]");
/// assert_eq!(ids.aval().to_string(), "i32[8,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn top_k(x: &Array, k: usize, axis: isize) -> (Array, Array) {
    Loc::caller().scope(|| chosen("top_k", x, k, axis))
}

impl Registered for TopK {
    const NAME: &'static str = "top_k";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |k, axis, x: Sample| Exemplar::new(TopK { k, axis }, [x]);
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        let edges = [f64::NAN, 0.0, -0.0, f64::INFINITY, -1.0, f64::NEG_INFINITY, 1.0, 0.0];
        let mut all = vec![
            exemplar(2, 1, floats(&[2, 5])),
            exemplar(3, 0, floats(&[4, 2])),
            exemplar(2, 1, Sample::uniform(DType::F64, [2, 3, 2], -1.0, 1.0)),
            exemplar(1, 0, floats(&[1])),
            exemplar(0, 1, floats(&[2, 3])),
            exemplar(0, 0, floats(&[0])),
            exemplar(2, 1, floats(&[0, 3])),
            exemplar(3, 0, Sample::listed(DType::I8, [4], &[-128.0, 127.0, 127.0, 0.0])),
            exemplar(2, 0, Sample::listed(DType::U64, [3], &[0.0, 1.8446744073709552e19, 1.0])),
            exemplar(2, 0, Sample::listed(DType::Bool, [3], &[0.0, 1.0, 1.0])),
        ];
        // Ties, where the one-sided derivatives differ, and non-finite values.
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::F8E5M2] {
            all.push(exemplar(6, 0, Sample::listed(dtype, [8], &edges)).without_derivative());
        }
        for dtype in [DType::I4, DType::U4, DType::U8, DType::I32, DType::I64] {
            all.push(exemplar(3, 0, Sample::uniform(dtype, [6], 0.0, 6.0)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{error_of, module_of};
    use super::*;
    use expect_test::expect;

    #[test]
    fn lowering() {
        expect![[r#"
            func.func public @main(%0: tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
            %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>
            %2:2 = "chlo.top_k"(%1) <{k = 2 : i64}> : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
            %3 = "stablehlo.transpose"(%2#0) <{permutation = array<i64: 1, 0>}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
            %4 = "stablehlo.transpose"(%2#1) <{permutation = array<i64: 1, 0>}> : (tensor<3x2xi32>) -> tensor<2x3xi32>
            "func.return"(%3, %4) : (tensor<2x3xf32>, tensor<2x3xi32>) -> ()
            }
        "#]]
        .assert_eq(&module_of(TopK { k: 2, axis: 0 }, [Aval::new(DType::F32, [4, 3])]));
    }

    #[test]
    fn rejects_invalid_operands() {
        expect![[r#"
            error[shape]: top_k: k must be at most 4, the size of axis 1 of f32[3,4], got 5
              operand: f32[3,4]"#]]
        .assert_eq(&error_of(TopK { k: 5, axis: 1 }, [Aval::new(DType::F32, [3, 4])]));
        expect![[r#"
            error[dtype]: top_k: needs an operand with an order, got c64
              operand: c64[4]"#]]
        .assert_eq(&error_of(TopK { k: 1, axis: 0 }, [Aval::new(DType::C64, [4])]));
    }

    mod on_cpu {
        use super::*;

        /// The order recorded from JAX.
        #[test]
        fn the_largest_come_first() {
            let edges =
                [1.0, f32::NAN, f32::INFINITY, -0.0, 0.0, f32::NEG_INFINITY, -f32::NAN, 3.0];
            let x = Array::from_slice(&edges, [8]).unwrap();
            let (_, order) = top_k(&x, 8, 0);
            assert_eq!(order.to_vec::<i32>().unwrap(), [1, 2, 7, 0, 4, 3, 5, 6]);
            let (smallest, order) = crate::primitives::approx_min_k(&x, 2, -1, 0.9);
            assert_eq!(order.to_vec::<i32>().unwrap(), [6, 5]);
            assert!(smallest.to_vec::<f32>().unwrap()[0].is_nan());
        }
    }
}
