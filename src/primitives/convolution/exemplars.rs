//! Exemplars of convolution.

use super::general::ConvGeneralDilated;
use super::numbers::ConvDimensionNumbers;
use crate::core::Precision;
use crate::core::{DType, Exemplar, Registered, Sample};
use crate::primitives::window::Padding;

impl Registered for ConvGeneralDilated {
    const NAME: &'static str = "conv_general_dilated";
    fn exemplars() -> Vec<Exemplar> {
        let sample = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
        let exemplar = |how: ConvGeneralDilated, lhs: &[usize], rhs: &[usize]| {
            Exemplar::new(how, [sample(DType::F32, lhs), sample(DType::F32, rhs)])
        };
        let plain = ConvGeneralDilated::default;
        let nhwc = || ConvGeneralDilated {
            dimension_numbers: ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC"),
            ..plain()
        };
        let everything = ConvGeneralDilated {
            window_strides: vec![2, 1],
            padding: Padding::Explicit(vec![(1, 2), (-1, 3)]),
            lhs_dilation: vec![1, 2],
            rhs_dilation: vec![2, 1],
            ..plain()
        };
        let by_feature = |groups| ConvGeneralDilated { feature_group_count: groups, ..nhwc() };
        let by_batch = |groups| ConvGeneralDilated { batch_group_count: groups, ..nhwc() };
        let strided = |of: ConvGeneralDilated| ConvGeneralDilated {
            window_strides: vec![2, 1],
            padding: Padding::Same,
            ..of
        };
        let mixed = ConvGeneralDilated {
            dimension_numbers: ConvDimensionNumbers::of("WNHC", "OHIW", "CHNW"),
            padding: Padding::SameLower,
            precision: [Precision::Highest, Precision::High],
            ..plain()
        };
        let cut = |low, high, lhs_dilation| ConvGeneralDilated {
            padding: Padding::Explicit(vec![(low, high)]),
            lhs_dilation: vec![lhs_dilation],
            ..plain()
        };
        let wide = |dtype| ConvGeneralDilated { preferred_element_type: Some(dtype), ..plain() };
        let typed = |dtype, preferred: Option<DType>| {
            let how = preferred.map_or(plain(), wide);
            Exemplar::new(how, [sample(dtype, &[1, 2, 4]), sample(dtype, &[2, 2, 2])])
        };
        let edges = [1.0, f64::INFINITY, -0.0, f64::NAN, 2.0, 3.0];
        let mut all = vec![
            exemplar(nhwc(), &[2, 4, 3, 2], &[2, 3, 2, 3]),
            exemplar(everything, &[2, 2, 4, 3], &[3, 2, 2, 2]),
            exemplar(mixed, &[4, 2, 3, 2], &[3, 2, 2, 3]),
            exemplar(by_feature(2), &[2, 3, 3, 4], &[2, 2, 2, 4]),
            exemplar(strided(by_feature(2)), &[1, 4, 3, 2], &[3, 2, 1, 4]),
            exemplar(by_batch(2), &[4, 3, 3, 2], &[2, 2, 2, 4]),
            exemplar(strided(by_batch(2)), &[2, 4, 3, 1], &[2, 2, 1, 2]),
            // One and three spatial axes, and none at all.
            exemplar(plain(), &[2, 3, 5], &[2, 3, 3]),
            exemplar(plain(), &[1, 1, 2, 3, 2], &[2, 1, 2, 2, 1]),
            exemplar(plain(), &[3, 2], &[4, 2]),
            exemplar(plain(), &[1, 1, 1], &[1, 1, 1]),
            // Operands cropped to nothing, and dilated operands that are cropped.
            exemplar(cut(-1, 1, 1), &[1, 2, 5], &[2, 2, 2]),
            exemplar(cut(3, -5, 1), &[1, 1, 3], &[1, 1, 1]),
            exemplar(cut(-3, -1, 3), &[1, 1, 3], &[1, 1, 2]),
            // Empty operands, and kernels larger than the operand.
            exemplar(plain(), &[0, 2, 4], &[3, 2, 2]),
            exemplar(plain(), &[2, 0, 4], &[3, 0, 2]),
            exemplar(plain(), &[2, 1, 2], &[1, 1, 3]),
            Exemplar::new(
                plain(),
                [Sample::listed(DType::F32, [1, 1, 6], &edges), sample(DType::F32, &[1, 1, 2])],
            )
            // Infinities have no finite differences.
            .without_derivative(),
            typed(DType::C64, None),
            typed(DType::C64, Some(DType::C128)),
            typed(DType::F64, None),
            typed(DType::BF16, None),
            typed(DType::F16, None),
            typed(DType::BF16, Some(DType::F32)),
            typed(DType::I32, None),
            typed(DType::I8, Some(DType::I32)),
            typed(DType::U8, None),
            typed(DType::I64, None),
            typed(DType::I4, Some(DType::I8)),
        ];
        // With eight bits, differences in the operands are indistinguishable from rounding.
        all.push(typed(DType::F8E4M3FN, Some(DType::F32)).without_derivative());
        all.push(typed(DType::F8E5M2, None).without_derivative());
        all
    }
}
