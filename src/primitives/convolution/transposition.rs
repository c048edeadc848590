//! Transpose rules of convolution.

use super::general::ConvGeneralDilated;
use super::geometry::Spatial;
use super::numbers::ConvDimensionNumbers;
use crate::core::{Array, Aval, RuleResult, Shape, Tangent, bind1};
use crate::primitives::convert::{convert_element_type, convert_to};
use crate::primitives::rules::move_axis;
use crate::primitives::shape::reshape_to;
use crate::primitives::structural::rev;
use crate::primitives::window::Padding;

/// Moves axis `from` in front of axis `into` (counted without `from`) and merges both.
pub(super) fn merged(x: &Array, from: usize, into: usize) -> Array {
    let size = x.shape()[from];
    let mut dims = x.shape().remove(from).to_vec();
    dims[into] *= size;
    reshape_to(&move_axis(x, from, into), &Shape::from(dims))
}

/// Splits an axis in two, of which the first has size `outer`.
pub(super) fn divided(x: &Array, axis: usize, outer: usize) -> Array {
    let mut dims = x.shape().to_vec();
    dims[axis] /= outer.max(1);
    reshape_to(x, &Shape::from(dims).insert(axis, outer))
}

/// Returns the indices with the first two exchanged.
fn exchanged(spec: &[usize]) -> Vec<usize> {
    let mut spec = spec.to_vec();
    spec.swap(0, 1);
    spec
}

fn list(space: &[Spatial], entry: fn(&Spatial) -> usize) -> Vec<usize> {
    space.iter().map(entry).collect()
}

impl ConvGeneralDilated {
    /// Returns the cotangent of `lhs`: the cotangent of the result convolved with the flipped
    /// kernel, with strides and dilation of `lhs` exchanged.
    pub(super) fn transposed_lhs(
        &self,
        ct: &Array,
        lhs: &Aval,
        rhs: &Array,
    ) -> RuleResult<Tangent> {
        if ct.size() == 0 || lhs.size() == 0 {
            return Ok(Tangent::Zero(lhs.clone()));
        }
        let geometry = self.geometry(&lhs.shape, rhs.shape())?;
        let numbers = &geometry.numbers;
        let groups = self.feature_group_count.max(self.batch_group_count);
        // Groups move from the kernel's output features to its input features, which become
        // outputs.
        let (outputs, inputs) = (numbers.rhs_spec[0], numbers.rhs_spec[1]);
        let kernel = match groups {
            1 => rhs.clone(),
            _ => merged(&divided(rhs, outputs, groups), outputs, inputs),
        };
        let turned: Vec<isize> = numbers.rhs_spec[2..].iter().map(|&axis| axis as isize).collect();
        let kernel = convert_element_type(&rev(&kernel, &turned), ct.dtype());
        let pads = geometry.space.iter().map(|axis| {
            let [lhs, rhs, out] = axis.spans();
            let low = rhs - 1 - axis.low;
            (low, lhs + rhs - 1 - out - low)
        });
        let back = ConvGeneralDilated {
            window_strides: list(&geometry.space, |axis| axis.lhs_dilation),
            padding: Padding::Explicit(pads.collect()),
            lhs_dilation: list(&geometry.space, |axis| axis.stride),
            rhs_dilation: list(&geometry.space, |axis| axis.rhs_dilation),
            dimension_numbers: ConvDimensionNumbers {
                lhs_spec: numbers.out_spec.clone(),
                rhs_spec: exchanged(&numbers.rhs_spec),
                out_spec: numbers.lhs_spec.clone(),
            },
            feature_group_count: groups,
            batch_group_count: 1,
            ..self.clone()
        };
        let result = bind1(back, [ct, &kernel]);
        let (batch, features) = (numbers.lhs_spec[0], numbers.lhs_spec[1]);
        let result = match self.batch_group_count {
            1 => result,
            groups => {
                // The new axis is in front of the features and shifts the axes behind it.
                let divided = divided(&result, features, groups);
                merged(&divided, features, batch)
            }
        };
        Ok(convert_to(&result, lhs.dtype, lhs.weak).into())
    }

    /// Returns the cotangent of `rhs`: `lhs` convolved with the cotangent of the result, with batch
    /// and features exchanged, and with strides and dilation of `rhs` exchanged.
    pub(super) fn transposed_rhs(
        &self,
        ct: &Array,
        lhs: &Array,
        rhs: &Aval,
    ) -> RuleResult<Tangent> {
        if ct.size() == 0 || lhs.size() == 0 || rhs.size() == 0 {
            return Ok(Tangent::Zero(rhs.clone()));
        }
        let geometry = self.geometry(lhs.shape(), &rhs.shape)?;
        let numbers = &geometry.numbers;
        let pads = geometry.space.iter().map(|axis| {
            let [lhs, rhs, out] = axis.spans();
            (axis.low, out - lhs + rhs - axis.low - 1)
        });
        let back = ConvGeneralDilated {
            window_strides: list(&geometry.space, |axis| axis.rhs_dilation),
            padding: Padding::Explicit(pads.collect()),
            lhs_dilation: list(&geometry.space, |axis| axis.lhs_dilation),
            rhs_dilation: list(&geometry.space, |axis| axis.stride),
            dimension_numbers: ConvDimensionNumbers {
                lhs_spec: exchanged(&numbers.lhs_spec),
                rhs_spec: exchanged(&numbers.out_spec),
                out_spec: exchanged(&numbers.rhs_spec),
            },
            feature_group_count: self.batch_group_count,
            batch_group_count: self.feature_group_count,
            ..self.clone()
        };
        let lhs = convert_element_type(lhs, ct.dtype());
        let result = bind1(back, [&lhs, ct]);
        Ok(convert_to(&result, rhs.dtype, rhs.weak).into())
    }
}
