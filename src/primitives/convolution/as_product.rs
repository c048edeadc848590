//! Convolutions that are products of matrices, on CPUs.
//!
//! A kernel of one element multiplies the features of every pixel by one matrix. The gradient of
//! this kernel is a convolution again, whose window is the whole image: one product that sums over
//! all pixels. XLA's CPU compiler calls its routines for convolutions in both cases, which take up
//! to five times as long as the product (docs/benchmarks.md has the figures).

use super::general::ConvGeneralDilated;
use super::geometry::{Geometry, Spatial};
use crate::core::{Array, LowerCtx, Shape};
use crate::primitives::dot::{DotGeneral, dot_general};
use crate::primitives::rules::element_dtype;
use crate::primitives::shape::{reshape_to, transpose};
use crate::primitives::slicing::slice;
use crate::primitives::structural::{PaddingDim, lax_pad};
use crate::stablehlo::Value;

/// The part of a spatial axis in a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Each element of the operand is multiplied. The result is padded.
    Kept,
    /// Every `stride`-th element of the operand is multiplied.
    Strided,
    /// The product sums over the axis.
    Summed,
}

/// Returns the part of an axis in a product, `None` if there is not one.
fn role(axis: &Spatial) -> Option<Role> {
    let is_inside = axis.low <= 0 && axis.high <= 0;
    let last = (axis.rhs - 1) * axis.rhs_dilation + axis.low.unsigned_abs();
    match axis.rhs {
        1 if axis.stride == 1 => Some(Role::Kept),
        1 if axis.lhs_dilation == 1 && is_inside => Some(Role::Strided),
        _ if axis.out == 1 && axis.lhs_dilation == 1 && axis.low <= 0 && last < axis.lhs => {
            Some(Role::Summed)
        }
        _ => None,
    }
}

impl ConvGeneralDilated {
    /// Returns true if the convolution is a product that XLA's CPU compiler computes faster.
    pub(super) fn is_product(
        &self,
        ctx: &LowerCtx<'_>,
        operands: &[Value],
        geometry: &Geometry,
    ) -> bool {
        let [lhs, rhs] = [0, 1].map(|side| element_dtype(&operands[side]));
        ctx.platform() == "cpu"
            && ctx.target().rewrites()
            && !ctx.is_partitioned()
            && (self.feature_group_count, self.batch_group_count) == (1, 1)
            && lhs == rhs
            && lhs.is_float()
            && geometry.space.iter().all(|axis| role(axis).is_some())
    }

    /// Computes the convolution as a product, if [`is_product`](Self::is_product) holds.
    pub(super) fn as_product(&self, geometry: &Geometry, lhs: &Array, rhs: &Array) -> Array {
        let Geometry { numbers, space, .. } = geometry;
        let roles: Vec<Role> = space.iter().filter_map(role).collect();
        let axes_of = |spec: &[usize], role: Role| -> Vec<usize> {
            let along = roles.iter().zip(&spec[2..]).filter(|(other, _)| **other == role);
            along.map(|(_, &axis)| axis).collect()
        };
        let lhs = selected(lhs, geometry, &roles);
        // Axes of one element are not part of the kernel's matrix.
        let summed = axes_of(&numbers.rhs_spec, Role::Summed);
        let stays = |axis: &usize| numbers.rhs_spec[..2].contains(axis) || summed.contains(axis);
        let kept: Vec<usize> = (0..rhs.rank()).filter(stays).collect();
        let dims: Vec<usize> = kept.iter().map(|&axis| rhs.shape()[axis]).collect();
        let rhs = reshape_to(rhs, &Shape::from(dims));
        let in_matrix = |axis: &usize| kept.iter().position(|other| other == axis);
        let lhs_contracting: Vec<usize> = std::iter::once(numbers.lhs_spec[1])
            .chain(axes_of(&numbers.lhs_spec, Role::Summed))
            .collect();
        let rhs_contracting: Vec<usize> =
            std::iter::once(&numbers.rhs_spec[1]).chain(&summed).filter_map(in_matrix).collect();
        let free: Vec<usize> =
            (0..lhs.rank()).filter(|axis| !lhs_contracting.contains(axis)).collect();
        let product = dot_general(
            &lhs,
            &rhs,
            DotGeneral {
                lhs_contracting,
                rhs_contracting,
                precision: self.precision,
                preferred_element_type: self.preferred_element_type,
                ..DotGeneral::default()
            },
        );
        // The axis of the product that an axis of the result is, and the missing axes of size 1.
        let mut origins = vec![None; numbers.out_spec.len()];
        origins[numbers.out_spec[1]] = Some(free.len());
        for (position, &axis) in numbers.out_spec.iter().enumerate() {
            if position != 1 {
                origins[axis] = free.iter().position(|&free| free == numbers.lhs_spec[position]);
            }
        }
        let order: Vec<usize> = origins.iter().flatten().copied().collect();
        let product = transpose(&product, &order);
        let mut sizes = product.shape().iter();
        let dims: Vec<usize> = origins
            .iter()
            .map(|origin| origin.and_then(|_| sizes.next().copied()).unwrap_or(1))
            .collect();
        padded(&reshape_to(&product, &Shape::from(dims)), geometry, &roles)
    }
}

/// Returns the elements of the operand that are multiplied.
fn selected(lhs: &Array, geometry: &Geometry, roles: &[Role]) -> Array {
    let mut limits = lhs.shape().to_vec();
    let (mut starts, mut strides) = (vec![0; limits.len()], vec![1; limits.len()]);
    let along = geometry.space.iter().zip(&geometry.numbers.lhs_spec[2..]);
    for ((axis, &dim), role) in along.zip(roles) {
        let (size, stride) = match role {
            Role::Kept => continue,
            Role::Strided => (axis.out, axis.stride),
            Role::Summed => (axis.rhs, axis.rhs_dilation),
        };
        starts[dim] = axis.low.unsigned_abs();
        limits[dim] = starts[dim] + (size * stride).saturating_sub(stride - 1);
        strides[dim] = stride;
    }
    slice(lhs, &starts, &limits, &strides)
}

/// Returns the product with the zeros that padding and dilation of the operand cause.
fn padded(product: &Array, geometry: &Geometry, roles: &[Role]) -> Array {
    let mut padding = vec![PaddingDim::default(); product.rank()];
    let along = geometry.space.iter().zip(&geometry.numbers.out_spec[2..]);
    for ((axis, &dim), role) in along.zip(roles) {
        if *role == Role::Kept {
            let interior = axis.lhs_dilation - 1;
            padding[dim] = PaddingDim { low: axis.low, high: axis.high, interior };
        }
    }
    if padding.iter().all(|axis| *axis == PaddingDim::default()) {
        return product.clone();
    }
    lax_pad(product, 0.0, &padding)
}
