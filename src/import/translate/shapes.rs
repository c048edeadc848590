//! Operations that move elements without computing: shapes, slices, joins.

use super::{Operands, Translated, Translator};
use crate::core::{Array, Shape, bind1};
use crate::primitives::{
    Iota, Pad, PaddingDim, Rev, Slice, Transpose, broadcast_in_dim, concatenate, reshape,
};

impl<'m> Translator<'m> {
    /// Translates an operation that moves elements; `None` for another one.
    pub(super) fn shape_operation(&self, operands: &Operands<'m>) -> Translated<Option<Array>> {
        let operation = operands.operation;
        Ok(Some(match operation.name() {
            "broadcast_in_dim" => {
                let [x] = self.exactly(operands)?;
                let axes = self.sizes(operands, "broadcast_dimensions")?;
                broadcast_in_dim(&x, self.static_shape(operands)?, &axes)
            }
            "dynamic_broadcast_in_dim" => {
                self.expect(operands, 2)?;
                let x = self.array(&operands.values[0])?;
                let axes = self.sizes(operands, "broadcast_dimensions")?;
                broadcast_in_dim(&x, self.known_sizes(operands, 1)?, &axes)
            }
            "broadcast" => {
                let [x] = self.exactly(operands)?;
                let mut shape = self.sizes(operands, "broadcast_sizes")?;
                let axes: Vec<usize> = (shape.len()..shape.len() + x.rank()).collect();
                shape.extend(x.shape().iter());
                broadcast_in_dim(&x, shape, &axes)
            }
            "reshape" => {
                let [x] = self.exactly(operands)?;
                reshape(&x, self.static_shape(operands)?)
            }
            "dynamic_reshape" => {
                self.expect(operands, 2)?;
                reshape(&self.array(&operands.values[0])?, self.known_sizes(operands, 1)?)
            }
            "set_dimension_size" => return self.set_size(operands).map(Some),
            "iota" => self.iota(operands, self.static_shape(operands)?)?,
            "dynamic_iota" => self.iota(operands, self.known_sizes(operands, 0)?)?,
            "transpose" => {
                let [x] = self.exactly(operands)?;
                bind1(Transpose { permutation: self.sizes(operands, "permutation")? }, [&x])
            }
            "reverse" => {
                let [x] = self.exactly(operands)?;
                bind1(Rev { dimensions: self.sizes(operands, "dimensions")? }, [&x])
            }
            "concatenate" => {
                let axis = self.number(operands, "dimension")?;
                concatenate(&self.arrays(operands)?, axis as isize)
            }
            "slice" => {
                let [x] = self.exactly(operands)?;
                let slice = Slice {
                    start_indices: self.sizes(operands, "start_indices")?,
                    limit_indices: self.sizes(operands, "limit_indices")?,
                    strides: self.sizes(operands, "strides")?,
                };
                bind1(slice, [&x])
            }
            "real_dynamic_slice" => {
                self.expect(operands, 4)?;
                let x = self.array(&operands.values[0])?;
                let list = |index| self.known_sizes(operands, index).map(|s| s.dims().to_vec());
                let (start_indices, limit_indices) = (list(1)?, list(2)?);
                bind1(Slice { start_indices, limit_indices, strides: list(3)? }, [&x])
            }
            "pad" => {
                let [x, value] = self.exactly(operands)?;
                let numbers = |name| self.vhlo(operation.numbers(name));
                let (low, high) = (numbers("edge_padding_low")?, numbers("edge_padding_high")?);
                self.pad(operands, [&x, &value], &low, &high, &numbers("interior_padding")?)?
            }
            "dynamic_pad" => {
                self.expect(operands, 5)?;
                let [x, value] =
                    [self.array(&operands.values[0])?, self.array(&operands.values[1])?];
                let list = |index| self.known_numbers(operands, index);
                self.pad(operands, [&x, &value], &list(2)?, &list(3)?, &list(4)?)?
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the numbers of an operand that are known while the module is translated.
    pub(super) fn known_numbers(
        &self,
        operands: &Operands<'m>,
        index: usize,
    ) -> Translated<Vec<i64>> {
        let known = operands.values.get(index).and_then(super::Traced::known);
        let numbers = known.map(|known| {
            known.elements.iter().filter_map(|number| i64::try_from(*number).ok()).collect()
        });
        numbers.ok_or_else(|| {
            let message = "its sizes depend on the contents of arrays, and not on shapes alone";
            self.unsupported(operands.operation, message)
        })
    }

    /// Returns an operand that is a list of sizes.
    pub(super) fn known_sizes(&self, operands: &Operands<'m>, index: usize) -> Translated<Shape> {
        let numbers = self.known_numbers(operands, index)?;
        let sizes = numbers.iter().map(|number| usize::try_from(*number).ok());
        let sizes: Option<Vec<usize>> = sizes.collect();
        sizes.map(Shape::from).ok_or_else(|| {
            self.unsupported(operands.operation, &format!("{numbers:?} has a negative size"))
        })
    }

    fn iota(&self, operands: &Operands<'m>, shape: Shape) -> Translated<Array> {
        let dimension = self.number(operands, "iota_dimension")?;
        let dtype = self.result_dtype(operands)?;
        Ok(bind1(Iota { dtype, shape: shape.dims().to_vec(), dimension }, []))
    }

    fn pad(
        &self,
        operands: &Operands<'m>,
        [x, value]: [&Array; 2],
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Translated<Array> {
        if [low.len(), high.len(), interior.len()] != [x.rank(); 3] {
            return Err(self.unsupported(operands.operation, "its padding is for another rank"));
        }
        let dims = low.iter().zip(high).zip(interior).map(|((&low, &high), &interior)| {
            let negative = || self.unsupported(operands.operation, "interior padding is negative");
            let interior = usize::try_from(interior).map_err(|_| negative())?;
            Ok(PaddingDim { low: low as isize, high: high as isize, interior })
        });
        let padding_config = dims.collect::<Translated<Vec<_>>>()?;
        Ok(bind1(Pad { padding_config }, [x, value]))
    }

    /// Translates the operation that states the size of an axis, if it is known.
    fn set_size(&self, operands: &Operands<'m>) -> Translated<Array> {
        self.expect(operands, 2)?;
        let x = self.array(&operands.values[0])?;
        let axis = self.number(operands, "dimension")?;
        let size = self.known_sizes(operands, 1)?;
        let (Some(&size), Some(&old)) = (size.dims().first(), x.shape().get(axis)) else {
            return Err(self.unsupported(operands.operation, "there is no such axis"));
        };
        if size > old {
            let message = format!("the size {size} is larger than {old}");
            return Err(self.unsupported(operands.operation, &message));
        }
        let mut limit_indices = x.shape().dims().to_vec();
        limit_indices[axis] = size;
        let slice =
            Slice { start_indices: vec![0; x.rank()], limit_indices, strides: vec![1; x.rank()] };
        Ok(bind1(slice, [&x]))
    }
}
