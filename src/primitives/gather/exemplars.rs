//! Exemplars of gather.

use super::{Gather, GatherDimensionNumbers, GatherScatterMode};
use crate::core::{DType, Exemplar, Registered, Sample, Scalar};

const CLIP: GatherScatterMode = GatherScatterMode::Clip;
const FILL: GatherScatterMode = GatherScatterMode::FillOrDrop;
const PROMISE: GatherScatterMode = GatherScatterMode::PromiseInBounds;

fn indexed(
    mode: GatherScatterMode,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: &[usize],
    operands: [Sample; 2],
) -> Exemplar {
    let gather = Gather {
        dimension_numbers,
        slice_sizes: slice_sizes.to_vec(),
        unique_indices: false,
        indices_are_sorted: false,
        mode,
        // Differences of the default fill value, NaN, are not defined.
        fill_value: (operands[0].aval.dtype == DType::F32).then_some(Scalar::Float(0.25)),
    };
    Exemplar::new(gather, operands)
}

/// Whole rows: `x[i, :]`.
fn rows() -> GatherDimensionNumbers {
    GatherDimensionNumbers {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        ..GatherDimensionNumbers::default()
    }
}

/// Blocks at `[i, j]`.
fn blocks() -> GatherDimensionNumbers {
    GatherDimensionNumbers {
        offset_dims: vec![0, 2],
        start_index_map: vec![1, 0],
        ..GatherDimensionNumbers::default()
    }
}

/// One element of each row.
fn along_axis() -> GatherDimensionNumbers {
    GatherDimensionNumbers {
        collapsed_slice_dims: vec![1],
        start_index_map: vec![1],
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![1],
        ..GatherDimensionNumbers::default()
    }
}

/// Elements of a vector.
fn elements() -> GatherDimensionNumbers {
    GatherDimensionNumbers {
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        ..GatherDimensionNumbers::default()
    }
}

impl Registered for Gather {
    const NAME: &'static str = "gather";
    fn exemplars() -> Vec<Exemplar> {
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        let indices = |shape: &[usize]| Sample::uniform(DType::I32, shape, -3.0, 7.0);
        let within = |shape: &[usize]| Sample::uniform(DType::I32, shape, 0.0, 2.0);
        let mut all = Vec::new();
        for mode in [CLIP, FILL] {
            all.push(indexed(mode, rows(), &[1, 3], [floats(&[4, 3]), indices(&[4, 1])]));
            all.push(indexed(mode, blocks(), &[2, 1], [floats(&[4, 3]), indices(&[5, 2])]));
            all.push(indexed(mode, along_axis(), &[1, 1], [floats(&[3, 4]), indices(&[2, 3, 1])]));
            all.push(indexed(mode, elements(), &[1], [floats(&[3]), indices(&[0, 1])]));
            all.push(indexed(mode, elements(), &[1], [floats(&[5]), indices(&[1])]));
        }
        all.push(indexed(PROMISE, rows(), &[1, 3], [floats(&[4, 3]), within(&[5, 1])]));
        // Narrow and unsigned indices, beyond the last index and beyond their own range.
        let bytes = Sample::listed(DType::I8, [4, 1], &[-128.0, -1.0, 2.0, 127.0]);
        all.push(indexed(FILL, elements(), &[1], [floats(&[300]), bytes.clone()]));
        all.push(indexed(CLIP, elements(), &[1], [floats(&[5]), bytes]));
        let unsigned = Sample::listed(DType::U64, [3, 1], &[0.0, 4.0, 1e19]);
        all.push(indexed(FILL, elements(), &[1], [floats(&[5]), unsigned]));
        // The fill value of each kind of dtype.
        for dtype in [DType::I8, DType::U16, DType::Bool, DType::BF16, DType::C64, DType::F8E4M3FN]
        {
            let x = Sample::uniform(dtype, [3], 0.0, 2.0);
            let indices = Sample::listed(DType::I64, [3, 1], &[1.0, 3.0, -1.0]);
            all.push(indexed(FILL, elements(), &[1], [x, indices]).without_derivative());
        }
        all
    }
}
