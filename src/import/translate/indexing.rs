//! Slices at positions that arrays give: gather, scatter, dynamic slices.

use super::{Operands, Scope, Traced, Translated, Translator};
use crate::core::{Array, DType, bind, bind1};
use crate::primitives::{
    Combiner, DynamicSlice, DynamicUpdateSlice, Gather, GatherDimensionNumbers, GatherScatterMode,
    RandomAlgorithm, Scatter, ScatterDimensionNumbers, convert_element_type, expand_dims, moveaxis,
    rng_bit_generator,
};

impl<'m> Translator<'m> {
    /// Translates an operation that reads or replaces slices; `None` for another one.
    pub(super) fn indexing(&self, operands: &Operands<'m>) -> Translated<Option<Array>> {
        Ok(Some(match operands.operation.name() {
            "dynamic_slice" => {
                let arrays = self.arrays(operands)?;
                let slice = DynamicSlice { slice_sizes: self.sizes(operands, "slice_sizes")? };
                bind(slice, &arrays.iter().collect::<Vec<_>>()).swap_remove(0)
            }
            "dynamic_update_slice" => {
                let arrays = self.arrays(operands)?;
                bind(DynamicUpdateSlice, &arrays.iter().collect::<Vec<_>>()).swap_remove(0)
            }
            "gather" => {
                let [x, indices] = self.exactly(operands)?;
                let sizes = self.sizes(operands, "slice_sizes")?;
                self.gather(operands, &x, &indices, sizes)?
            }
            "dynamic_gather" => {
                self.expect(operands, 3)?;
                let [x, indices] =
                    [self.array(&operands.values[0])?, self.array(&operands.values[1])?];
                let sizes = self.known_sizes(operands, 2)?.dims().to_vec();
                self.gather(operands, &x, &indices, sizes)?
            }
            "torch_index_select" => self.index_select(operands)?,
            _ => return Ok(None),
        }))
    }

    /// Returns indices with the index vectors along the last axis.
    fn index_vectors(&self, operands: &Operands<'m>, indices: &Array) -> Translated<Array> {
        let axis = self.number(operands, "index_vector_dim")?;
        let indices = match indices.dtype() {
            dtype if dtype.bits() >= 32 => indices.clone(),
            _ => convert_element_type(indices, DType::I32),
        };
        if axis == indices.rank() {
            return Ok(expand_dims(&indices, &[-1]));
        }
        Ok(moveaxis(&indices, axis as isize, -1))
    }

    fn gather(
        &self,
        operands: &Operands<'m>,
        x: &Array,
        indices: &Array,
        slice_sizes: Vec<usize>,
    ) -> Translated<Array> {
        let indices = self.index_vectors(operands, indices)?;
        let list = |name| self.sizes(operands, name);
        let gather = Gather {
            dimension_numbers: GatherDimensionNumbers {
                offset_dims: list("offset_dims")?,
                collapsed_slice_dims: list("collapsed_slice_dims")?,
                start_index_map: list("start_index_map")?,
                operand_batching_dims: list("operand_batching_dims")?,
                start_indices_batching_dims: list("start_indices_batching_dims")?,
            },
            slice_sizes,
            unique_indices: false,
            indices_are_sorted: operands.operation.flag("indices_are_sorted"),
            // StableHLO moves slices out of range to the nearest position.
            mode: GatherScatterMode::Clip,
            fill_value: None,
        };
        Ok(bind1(gather, [x, &indices]))
    }

    fn index_select(&self, operands: &Operands<'m>) -> Translated<Array> {
        let [x, indices] = self.exactly(operands)?;
        let [axis, batch] = [self.number(operands, "dim")?, self.number(operands, "batch_dims")?];
        if batch != 0 || axis >= x.rank() {
            return Err(self.unsupported(operands.operation, "batches of it are not supported"));
        }
        let offsets = (0..axis).chain(axis + indices.rank()..x.rank() - 1 + indices.rank());
        let sizes = x.shape().iter().enumerate();
        let gather = Gather {
            dimension_numbers: GatherDimensionNumbers {
                offset_dims: offsets.collect(),
                collapsed_slice_dims: vec![axis],
                start_index_map: vec![axis],
                ..GatherDimensionNumbers::default()
            },
            slice_sizes: sizes.map(|(at, size)| if at == axis { 1 } else { *size }).collect(),
            unique_indices: false,
            indices_are_sorted: false,
            mode: GatherScatterMode::Clip,
            fill_value: None,
        };
        Ok(bind1(gather, [&x, &expand_dims(&indices, &[-1])]))
    }

    pub(super) fn scatter(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let [x, indices, updates] = self.exactly(operands).map_err(|_| {
            self.unsupported(operands.operation, "several operands are not supported together")
        })?;
        let combiner = match self.reducer(operands, 0, scope)? {
            Some("second") => Combiner::Update,
            Some("add") => Combiner::Add,
            Some("multiply") => Combiner::Mul,
            Some("minimum") => Combiner::Min,
            Some("maximum") => Combiner::Max,
            // Flags are combined as numbers of one bit.
            Some("or") if x.dtype() == DType::Bool => Combiner::Max,
            Some("and") if x.dtype() == DType::Bool => Combiner::Min,
            other => {
                let name = other.unwrap_or("a function");
                let message = format!("updates by {name} are not supported");
                return Err(self.unsupported(operands.operation, &message));
            }
        };
        let indices = self.index_vectors(operands, &indices)?;
        let list = |name| self.sizes(operands, name);
        let scatter = Scatter {
            combiner,
            dimension_numbers: ScatterDimensionNumbers {
                update_window_dims: list("update_window_dims")?,
                inserted_window_dims: list("inserted_window_dims")?,
                scatter_dims_to_operand_dims: list("scatter_dims_to_operand_dims")?,
                operand_batching_dims: list("input_batching_dims")?,
                scatter_indices_batching_dims: list("scatter_indices_batching_dims")?,
            },
            indices_are_sorted: operands.operation.flag("indices_are_sorted"),
            unique_indices: operands.operation.flag("unique_indices"),
            mode: GatherScatterMode::FillOrDrop,
        };
        let as_numbers = x.dtype() == DType::Bool && combiner != Combiner::Update;
        let numbers = |x: &Array| match as_numbers {
            true => convert_element_type(x, DType::U8),
            false => x.clone(),
        };
        let y = bind1(scatter, [&numbers(&x), &indices, &numbers(&updates)]);
        let y = if as_numbers { convert_element_type(&y, DType::Bool) } else { y };
        Ok(vec![Traced::Array(y)])
    }

    pub(super) fn random_bits(&self, operands: &Operands<'m>) -> Translated<Vec<Traced>> {
        let [state] = self.exactly(operands)?;
        let algorithm = match operands.operation.text("rng_algorithm") {
            Some("THREE_FRY") => RandomAlgorithm::ThreeFry,
            Some("PHILOX") => RandomAlgorithm::Philox,
            _ => RandomAlgorithm::Default,
        };
        let (dtype, sizes) = self.result_type(operands, 1)?;
        let sizes: Option<Vec<usize>> = sizes.into_iter().collect();
        let sizes = sizes.ok_or_else(|| {
            self.unsupported(operands.operation, "the module does not state the result's shape")
        })?;
        // The bits of signed and unsigned integers are the same.
        let unsigned = DType::all().find(|d| d.is_unsigned() && d.bits() == dtype.bits());
        let (state, bits) = rng_bit_generator(&state, sizes, unsigned.unwrap_or(dtype), algorithm);
        let bits = convert_element_type(&bits, dtype);
        Ok(vec![Traced::Array(state), Traced::Array(bits)])
    }
}
