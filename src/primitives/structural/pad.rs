//! Padding, cropping and dilation.

use super::Concatenate;
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    PartOfArray, Primitive, Registered, RuleError, RuleResult, Sample, Shape, Tangent, bind1,
    trace,
};
use crate::primitives::arithmetic::sub;
use crate::primitives::constant::{fill_of, zeros_of};
use crate::primitives::convert::convert_to;
use crate::primitives::promote::{ArrayLike, Like};
use crate::primitives::reduce::reduce_sum;
use crate::primitives::rules::{arity, batch_at, batched, one_cotangent};
use crate::primitives::select::select;
use crate::primitives::slicing::slice;
use crate::stablehlo::{Value, i64_array};
use crate::{ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Padding of one axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PaddingDim {
    /// Elements in front; negative numbers crop.
    pub low: isize,
    /// Elements behind; negative numbers crop.
    pub high: isize,
    /// Elements between neighbours.
    pub interior: usize,
}

impl PaddingDim {
    /// Returns the padded size of an axis of size `size`; `None` if it is negative.
    fn padded(self, size: usize) -> Option<usize> {
        let dilated = size.saturating_add(size.saturating_sub(1).saturating_mul(self.interior));
        usize::try_from(dilated as i128 + self.low as i128 + self.high as i128).ok()
    }
}

/// Pads an array around and between its elements with one value, or crops it.
///
/// | | |
/// |-|-|
/// | operands   | `x: any[…]`, `padding_value`: a scalar of the same dtype |
/// | result     | dtype of `x`; axis sizes `low + high + size + (size - 1)·interior` |
/// | lowering   | [`stablehlo.pad`](https://openxla.org/stablehlo/spec#pad) |
/// | derivative | linear in both; transposes to a crop with strides, and to the sum of what is left out |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pad {
    /// One entry per axis.
    pub padding_config: Vec<PaddingDim>,
}

impl Primitive for Pad {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x, value] = arity(operands)?;
        ensure_dtype!(
            x.dtype == value.dtype,
            "the operand is {} and the padding value {}",
            x.dtype,
            value.dtype
        );
        ensure_shape!(value.rank() == 0, "the padding value must be a scalar, got {value}");
        let config = &self.padding_config;
        ensure_shape!(
            config.len() == x.rank(),
            "{} axes are padded, the operand has {}",
            config.len(),
            x.rank()
        );
        let sizes = config.iter().zip(x.shape.iter()).enumerate().map(|(axis, (dim, &size))| {
            dim.padded(size).ok_or_else(|| {
                RuleError::shape(format!(
                    "axis {axis} of size {size} padded by {} and {} has a negative size",
                    dim.low, dim.high
                ))
            })
        });
        let shape = sizes.collect::<RuleResult<Vec<usize>>>()?;
        Ok(vec![Aval { weak: x.weak && value.weak, ..x.with_shape(shape) }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let y = bind1(self.clone(), [&primals[0], &primals[1]]);
        let dy = bind1(self.clone(), [&tangents[0].to_dense(), &tangents[1].to_dense()]);
        Ok((vec![y], vec![dy.into()]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let index = axes[0].unwrap_or(0);
        let x = batch_at(&operands[0], axes[0], index, axis);
        let mut padding_config = self.padding_config.clone();
        padding_config.insert(index, PaddingDim::default());
        let pad = Pad { padding_config };
        let value = &operands[1];
        if axes[1].is_none() {
            return Ok(batched(bind1(pad, [&x, value]), index));
        }
        // Each example has its own padding value, so a mask selects the padding.
        let scalar = value.aval().with_shape(Shape::scalar());
        let inside = fill_of(true.into(), &x.aval().with_dtype(DType::Bool));
        let outside = fill_of(false.into(), &Aval::new(DType::Bool, []));
        let mask = bind1(pad.clone(), [&inside, &outside]);
        let padded = bind1(pad, [&x, &zeros_of(&scalar)]);
        let values = crate::primitives::shape::broadcast_in_dim(value, padded.shape(), &[index]);
        Ok(batched(select(&mask, &padded, &values), index))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let config = &self.padding_config;
        let attributes = format!(
            "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
            i64_array(config.iter().map(|dim| dim.low)),
            i64_array(config.iter().map(|dim| dim.high)),
            i64_array(config.iter().map(|dim| dim.interior)),
        );
        Ok(vec![ctx.op_as("pad", operands, &attributes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let remaining = self.unpad(ct);
        let value = operands[1].is_linear().then(|| {
            let total = |x: &Array| reduce_sum(x, &(0..x.rank() as isize).collect::<Vec<_>>());
            sub(total(ct), total(&remaining)).into()
        });
        Ok(vec![operands[0].is_linear().then(|| remaining.into()), value])
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Pad {
    fn embedding(&self, _operands: &[Aval]) -> Option<PartOfArray> {
        let mut padded = self
            .padding_config
            .iter()
            .enumerate()
            .filter(|(_, dim)| **dim != PaddingDim::default());
        let (axis, dim) = padded.next()?;
        let is_single = padded.next().is_none() && dim.interior == 0 && dim.high >= 0;
        let start = usize::try_from(dim.low).ok().filter(|_| is_single)?;
        let concatenation = Arc::new(Concatenate { dimension: axis });
        Some(PartOfArray { axis, start, concatenation })
    }
}

impl Pad {
    /// Returns the elements of the cotangent that come from the operand; zero where the operand was
    /// cropped.
    fn unpad(&self, ct: &Array) -> Array {
        let config = &self.padding_config;
        let edges =
            config.iter().map(|dim| PaddingDim { low: -dim.low, high: -dim.high, interior: 0 });
        let zero = zeros_of(&ct.aval().with_shape(Shape::scalar()));
        let dilated = bind1(Pad { padding_config: edges.collect() }, [ct, &zero]);
        if config.iter().all(|dim| dim.interior == 0) {
            return dilated;
        }
        let strides: Vec<usize> = config.iter().map(|dim| dim.interior + 1).collect();
        slice(&dilated, &vec![0; strides.len()], dilated.shape(), &strides)
    }
}

/// Resizes axis `axis` of `x` to `size`: crops it at the end or appends zeros.
#[track_caller]
pub(crate) fn resize_axis(x: &Array, axis: usize, size: usize) -> Array {
    let mut dims = vec![PaddingDim::default(); x.rank()];
    dims[axis].high = size as isize - x.shape()[axis] as isize;
    lax_pad(x, 0, &dims)
}

/// `x` with `padding_value`, a scalar, around and between its elements: one [`PaddingDim`] per
/// axis. A number takes the dtype of `x`. See [`Pad`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::{PaddingDim, lax_pad};
/// let border = PaddingDim { low: 1, high: 1, interior: 0 };
/// let padded = move |x: Array| lax_pad(&x, 0.0, &[border, border]);
/// let y = eval_shape(padded, Aval::new(DType::F32, [2, 3]))?;
/// assert_eq!(y.aval().to_string(), "f32[4,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "lax.pad")]
#[track_caller]
pub fn lax_pad(x: &Array, padding_value: impl ArrayLike, padding_config: &[PaddingDim]) -> Array {
    let value = match padding_value.like() {
        Like::Scalar(number) => {
            let aval = x.aval().with_shape(Shape::scalar());
            if x.dtype().is_integer() && number.default_dtype().is_inexact() {
                let message =
                    format!("{} does not hold the padding value {}", x.dtype(), number.as_f64());
                trace::throw_operands("lax_pad", RuleError::dtype(message), &[x]);
            }
            fill_of(number, &aval)
        }
        Like::Array(value) if value.dtype() == x.dtype() || !value.aval().weak => value.clone(),
        Like::Array(weak) => convert_to(weak, x.dtype(), x.aval().weak),
    };
    bind1(Pad { padding_config: padding_config.to_vec() }, [x, &value])
}

impl Registered for Pad {
    const NAME: &'static str = "pad";
    fn exemplars() -> Vec<Exemplar> {
        let by = |config: &[(isize, isize, usize)], x: Sample| {
            let value = Sample::uniform(x.aval.dtype, [], 1.0, 2.0);
            let dims =
                config.iter().map(|&(low, high, interior)| PaddingDim { low, high, interior });
            Exemplar::new(Pad { padding_config: dims.collect() }, [x, value])
        };
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        vec![
            by(&[(1, 2, 0), (0, 1, 2)], floats(&[2, 3])),
            by(&[(-1, 2, 1), (3, -2, 0)], floats(&[3, 2])),
            by(&[(-2, 2, 0)], floats(&[1])),
            by(&[(-4, 4, 3)], floats(&[3])),
            by(&[(1, 1, 5)], floats(&[0])),
            by(&[(-1, -1, 0)], floats(&[2])),
            by(&[], floats(&[])),
            by(&[(1, 0, 1)], Sample::uniform(DType::I8, [3], -9.0, 9.0)),
            by(&[(0, 1, 0)], Sample::listed(DType::Bool, [2], &[0.0, 1.0])),
            by(&[(1, 1, 1)], Sample::uniform(DType::C64, [2], -1.0, 1.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn sizes_stay_above_zero() {
        let avals = [Aval::new(DType::F32, [3]), Aval::new(DType::F32, [])];
        let cut = |low, high| Pad { padding_config: vec![PaddingDim { low, high, interior: 0 }] };
        assert_eq!(cut(-2, -1).abstract_eval(&avals).unwrap()[0].size(), 0);
        let error = cut(-2, -2).abstract_eval(&avals).unwrap_err();
        expect!["axis 0 of size 3 padded by -2 and -2 has a negative size"]
            .assert_eq(&error.message);
    }

    mod on_cpu {
        use super::*;

        #[test]
        fn padding_crops_and_dilates() {
            let padded = |x: &[f32], low, high, interior| {
                let x = Array::from_slice(x, [x.len()]).unwrap();
                lax_pad(&x, 9.0, &[PaddingDim { low, high, interior }]).to_vec::<f32>().unwrap()
            };
            assert_eq!(padded(&[1.0, 2.0, 3.0], -1, 2, 1), [9.0, 2.0, 9.0, 3.0, 9.0, 9.0]);
            assert_eq!(padded(&[1.0], -2, 2, 0), [9.0]);
            assert_eq!(padded(&[], 1, 1, 5), [9.0, 9.0]);
        }
    }
}
