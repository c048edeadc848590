//! Products of matrices and convolutions.

use super::{Operands, Translated, Translator};
use crate::core::{Array, Precision, bind1};
use crate::primitives::{ConvDimensionNumbers, ConvGeneralDilated, DotGeneral, Padding, Rev};
use oxidax_vhlo::AttributeValue;

impl<'m> Translator<'m> {
    /// Returns the precision of both operands.
    fn precision(&self, operands: &Operands<'m>) -> Translated<[Precision; 2]> {
        let mut precision = [Precision::Default; 2];
        if let Some(AttributeValue::List(cases)) =
            self.vhlo(operands.operation.attribute("precision_config"))?
        {
            for (precision, case) in precision.iter_mut().zip(cases) {
                *precision = match case {
                    AttributeValue::Text("HIGHEST") => Precision::Highest,
                    AttributeValue::Text("HIGH") => Precision::High,
                    _ => Precision::Default,
                };
            }
        }
        // An algorithm is one product, or several of parts of the operands. Of those with one
        // product, whatever its type, the highest precision is at least as precise.
        if let Some(AttributeValue::Other | AttributeValue::Text(_)) =
            self.vhlo(operands.operation.attribute("accumulation_type"))?
        {
            let components = self.vhlo(operands.operation.attribute("num_primitive_operations"))?;
            if let Some(AttributeValue::Integer(count)) = components {
                precision = match count {
                    1 => [Precision::Highest; 2],
                    2 | 3 => [Precision::High; 2],
                    _ => [Precision::Highest; 2],
                };
            }
        }
        Ok(precision)
    }

    pub(super) fn product(&self, operands: &Operands<'m>) -> Translated<Array> {
        let [x, y] = self.exactly(operands)?;
        let list = |name| self.sizes(operands, name);
        let mut how = DotGeneral {
            lhs_contracting: list("lhs_contracting_dimensions")?,
            rhs_contracting: list("rhs_contracting_dimensions")?,
            lhs_batch: list("lhs_batching_dimensions")?,
            rhs_batch: list("rhs_batching_dimensions")?,
            precision: self.precision(operands)?,
            preferred_element_type: Some(self.result_dtype(operands)?),
            algorithm: None,
            out_sharding: None,
        };
        if operands.operation.name() == "dot" {
            how.lhs_contracting = vec![x.rank().saturating_sub(1)];
            how.rhs_contracting = vec![0];
        }
        Ok(bind1(how, [&x, &y]))
    }

    pub(super) fn dynamic_convolution(&self, operands: &Operands<'m>) -> Translated<Array> {
        self.expect(operands, 3)?;
        let padding = self.known_numbers(operands, 2)?;
        self.convolution(operands, Some(padding))
    }

    /// Translates a convolution. Its padding is an attribute or was computed from sizes.
    pub(super) fn convolution(
        &self,
        operands: &Operands<'m>,
        padding: Option<Vec<i64>>,
    ) -> Translated<Array> {
        let list = |name| self.sizes(operands, name);
        let number = |name| self.number(operands, name);
        let [x, mut kernel] = match &operands.values[..] {
            [x, kernel, ..] => [self.array(x)?, self.array(kernel)?],
            _ => return Err(self.unsupported(operands.operation, "it has too few operands")),
        };
        let padding = match padding {
            Some(padding) => padding,
            None => self.vhlo(operands.operation.numbers("padding"))?,
        };
        let joined = |first: usize, second: usize, space: Vec<usize>| -> Vec<usize> {
            [first, second].into_iter().chain(space).collect()
        };
        let kernel_space = list("kernel_spatial_dimensions")?;
        let dimension_numbers = ConvDimensionNumbers {
            lhs_spec: joined(
                number("input_batch_dimension")?,
                number("input_feature_dimension")?,
                list("input_spatial_dimensions")?,
            ),
            rhs_spec: joined(
                number("kernel_output_feature_dimension")?,
                number("kernel_input_feature_dimension")?,
                kernel_space.clone(),
            ),
            out_spec: joined(
                number("output_batch_dimension")?,
                number("output_feature_dimension")?,
                list("output_spatial_dimensions")?,
            ),
        };
        let reversal = self.vhlo(operands.operation.numbers("window_reversal"))?;
        let reversed = kernel_space.iter().zip(&reversal).filter(|(_, flag)| **flag != 0);
        let dimensions: Vec<usize> = reversed.map(|(axis, _)| *axis).collect();
        if !dimensions.is_empty() {
            kernel = bind1(Rev { dimensions }, [&kernel]);
        }
        let ones = |list: Vec<usize>| match list.is_empty() {
            true => vec![1; kernel_space.len()],
            false => list,
        };
        let pairs = padding.chunks_exact(2).map(|pair| (pair[0] as isize, pair[1] as isize));
        let mut pairs: Vec<(isize, isize)> = pairs.collect();
        if pairs.is_empty() {
            pairs = vec![(0, 0); kernel_space.len()];
        }
        let how = ConvGeneralDilated {
            window_strides: ones(list("window_strides")?),
            padding: Padding::Explicit(pairs),
            lhs_dilation: ones(list("lhs_dilation")?),
            rhs_dilation: ones(list("rhs_dilation")?),
            dimension_numbers,
            feature_group_count: number("feature_group_count")?,
            batch_group_count: number("batch_group_count")?,
            precision: self.precision(operands)?,
            preferred_element_type: Some(self.result_dtype(operands)?),
        };
        Ok(bind1(how, [&x, &kernel]))
    }
}
