//! Sizes of a convolution along each axis.

use super::general::ConvGeneralDilated;
use super::numbers::ConvDimensionNumbers;
use crate::core::{RuleError, RuleResult, Shape};
use crate::primitives::window::{WindowAxis, check_extents, count_windows, dilated, overlaps};
use crate::{ensure, ensure_shape};

/// One spatial axis of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spatial {
    /// Sizes of operand, kernel and result.
    pub(super) lhs: usize,
    pub(super) rhs: usize,
    pub(super) out: usize,
    pub(super) stride: usize,
    pub(super) low: isize,
    pub(super) high: isize,
    pub(super) lhs_dilation: usize,
    pub(super) rhs_dilation: usize,
}

impl Spatial {
    /// Sizes with dilation of operand, kernel and, by the stride, result.
    pub(super) fn spans(&self) -> [isize; 3] {
        let span = |size, dilation| dilated(size, dilation) as isize;
        [
            span(self.lhs, self.lhs_dilation),
            span(self.rhs, self.rhs_dilation),
            span(self.out, self.stride),
        ]
    }

    /// Returns the number of products of an operand element and a kernel element along the axis.
    pub(super) fn products(&self) -> u64 {
        overlaps(&WindowAxis {
            size: self.lhs,
            window: self.rhs,
            stride: self.stride,
            low: self.low,
            high: self.high,
            base_dilation: self.lhs_dilation,
            window_dilation: self.rhs_dilation,
            windows: self.out,
        })
    }
}

/// The sizes of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) numbers: ConvDimensionNumbers,
    pub(super) space: Vec<Spatial>,
    /// Batch and features of the result.
    pub(super) batch: usize,
    pub(super) features: usize,
    /// The number of input features per output feature.
    pub(super) inputs: usize,
}

impl Geometry {
    /// Returns the shape of the result.
    pub(super) fn shape(&self) -> Shape {
        let mut dims = vec![0; self.space.len() + 2];
        let sizes = [self.batch, self.features].into_iter();
        let sizes = sizes.chain(self.space.iter().map(|axis| axis.out));
        for (&axis, size) in self.numbers.out_spec.iter().zip(sizes) {
            dims[axis] = size;
        }
        Shape::from(dims)
    }
}

impl ConvGeneralDilated {
    /// Returns the sizes for operands of these shapes.
    pub(super) fn geometry(&self, lhs: &Shape, rhs: &Shape) -> RuleResult<Geometry> {
        let rank = lhs.rank();
        ensure_shape!(
            rank == rhs.rank(),
            "operands must have one rank, got {rank} and {}",
            rhs.rank()
        );
        let numbers = self.dimension_numbers.resolved(rank)?;
        let (lhs_spec, rhs_spec) = (&numbers.lhs_spec, &numbers.rhs_spec);
        let (batch, lhs_features) = (lhs[lhs_spec[0]], lhs[lhs_spec[1]]);
        let (features, inputs) = (rhs[rhs_spec[0]], rhs[rhs_spec[1]]);
        let (by_feature, by_batch) = (self.feature_group_count, self.batch_group_count);
        ensure!(
            by_feature > 0 && by_batch > 0 && (by_feature == 1 || by_batch == 1),
            "feature_group_count and batch_group_count must be positive and one of them 1, got {by_feature} and {by_batch}"
        );
        ensure_shape!(
            lhs_features == inputs.saturating_mul(by_feature),
            "lhs has {lhs_features} features, rhs takes {inputs} in each of {by_feature} groups"
        );
        ensure_shape!(
            features % by_feature == 0 && features % by_batch == 0,
            "the {features} output features do not divide into {} groups",
            by_feature.max(by_batch)
        );
        ensure_shape!(
            batch % by_batch == 0,
            "the batch of {batch} does not divide into {by_batch} groups"
        );
        let space = self.space(lhs, rhs, &numbers)?;
        Ok(Geometry { numbers, space, batch: batch / by_batch, features, inputs })
    }

    fn space(
        &self,
        lhs: &Shape,
        rhs: &Shape,
        numbers: &ConvDimensionNumbers,
    ) -> RuleResult<Vec<Spatial>> {
        let n = lhs.rank() - 2;
        let list = |name: &str, list: &[usize]| -> RuleResult<Vec<usize>> {
            if list.is_empty() {
                return Ok(vec![1; n]);
            }
            let len = list.len();
            ensure_shape!(len == n, "{name} has {len} entries, there are {n} spatial axes");
            ensure_shape!(list.iter().all(|&entry| entry > 0), "{name} {list:?} must be positive");
            Ok(list.to_vec())
        };
        let strides = list("window_strides", &self.window_strides)?;
        let lhs_dilation = list("lhs_dilation", &self.lhs_dilation)?;
        let rhs_dilation = list("rhs_dilation", &self.rhs_dilation)?;
        let sizes: Vec<usize> = numbers.lhs_spec[2..].iter().map(|&axis| lhs[axis]).collect();
        let kernel: Vec<usize> = numbers.rhs_spec[2..].iter().map(|&axis| rhs[axis]).collect();
        ensure_shape!(
            kernel.iter().all(|&size| size > 0),
            "a kernel needs at least one element along each spatial axis, rhs has {kernel:?}"
        );
        let spans: Vec<usize> =
            kernel.iter().zip(&rhs_dilation).map(|(&size, &by)| dilated(size, by)).collect();
        let pads = self.padding.resolve(&sizes, &spans, &strides)?;
        (0..n)
            .map(|index| {
                let (low, high) = pads[index];
                let bare = dilated(sizes[index], lhs_dilation[index]);
                let padded = usize::try_from(bare as i128 + low as i128 + high as i128);
                let padded = padded.map_err(|_| {
                    RuleError::shape(format!(
                        "spatial axis {index} of size {bare} padded by {low} and {high} has a negative size"
                    ))
                })?;
                check_extents(
                    index,
                    &[
                        ("the size of lhs with dilation", bare),
                        ("the size of lhs with padding", padded),
                        ("the padding in front", low.unsigned_abs()),
                        ("the padding behind", high.unsigned_abs()),
                        ("the size of rhs with dilation", spans[index]),
                        ("the stride", strides[index]),
                        ("the dilation of lhs", lhs_dilation[index]),
                        ("the dilation of rhs", rhs_dilation[index]),
                    ],
                )?;
                Ok(Spatial {
                    lhs: sizes[index],
                    rhs: kernel[index],
                    out: count_windows(padded, spans[index], strides[index]),
                    stride: strides[index],
                    low,
                    high,
                    lhs_dilation: lhs_dilation[index],
                    rhs_dilation: rhs_dilation[index],
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flops_exclude_padding_and_dilation() {
        let axis = |lhs, rhs, stride, low, high, lhs_dilation| {
            let bare = dilated(lhs, lhs_dilation) as isize;
            let out = count_windows((bare + low + high) as usize, rhs, stride);
            Spatial { lhs, rhs, out, stride, low, high, lhs_dilation, rhs_dilation: 1 }.products()
        };
        assert_eq!(axis(5, 3, 1, 0, 0, 1), 9);
        assert_eq!(axis(5, 3, 1, 1, 1, 1), 13);
        assert_eq!(axis(5, 3, 2, 0, 0, 1), 6);
        assert_eq!(axis(3, 3, 1, 1, 1, 2), 7);
        assert_eq!(axis(4, 2, 1, -1, -1, 1), 2);
    }
}
