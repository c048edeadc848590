//! Exemplars of scatter.

use super::{Combiner, Scatter, ScatterDimensionNumbers};
use crate::core::{DType, Exemplar, Sample};
use crate::primitives::gather::GatherScatterMode;

const CLIP: GatherScatterMode = GatherScatterMode::Clip;
const FILL: GatherScatterMode = GatherScatterMode::FillOrDrop;
const PROMISE: GatherScatterMode = GatherScatterMode::PromiseInBounds;

/// Whole rows: `x[i, :]`.
fn rows() -> ScatterDimensionNumbers {
    ScatterDimensionNumbers {
        update_window_dims: vec![1],
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..ScatterDimensionNumbers::default()
    }
}

/// Blocks at `[i, j]`.
fn blocks() -> ScatterDimensionNumbers {
    ScatterDimensionNumbers {
        update_window_dims: vec![0, 2],
        scatter_dims_to_operand_dims: vec![1, 0],
        ..ScatterDimensionNumbers::default()
    }
}

/// One element of each row.
fn along_axis() -> ScatterDimensionNumbers {
    ScatterDimensionNumbers {
        inserted_window_dims: vec![1],
        scatter_dims_to_operand_dims: vec![1],
        operand_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![1],
        ..ScatterDimensionNumbers::default()
    }
}

/// Elements of a vector.
fn elements() -> ScatterDimensionNumbers {
    ScatterDimensionNumbers {
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        ..ScatterDimensionNumbers::default()
    }
}

struct Case {
    combiner: Combiner,
    mode: GatherScatterMode,
    numbers: ScatterDimensionNumbers,
    unique: bool,
}

impl Case {
    fn on(self, operands: [Sample; 3]) -> Exemplar {
        let scatter = Scatter {
            combiner: self.combiner,
            dimension_numbers: self.numbers,
            indices_are_sorted: false,
            unique_indices: self.unique,
            mode: self.mode,
        };
        Exemplar::new(scatter, operands)
    }
}

pub(in crate::primitives) fn exemplars_scatter() -> Vec<Exemplar> {
    let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
    let places = |shape: &[usize]| Sample::uniform(DType::I32, shape, -2.0, 6.0);
    let distinct = Sample::listed(DType::I32, [4, 1], &[3.0, -1.0, 0.0, 5.0]);
    let case = |combiner, mode, numbers| Case { combiner, mode, numbers, unique: false };
    let mut all = Vec::new();
    for combiner in [Combiner::Update, Combiner::Add, Combiner::Min, Combiner::Max] {
        for mode in [CLIP, FILL] {
            let [a, b, c] =
                [rows(), blocks(), along_axis()].map(|numbers| case(combiner, mode, numbers));
            all.push(a.on([floats(&[4, 3]), places(&[5, 1]), floats(&[5, 3])]));
            all.push(b.on([floats(&[4, 3]), places(&[5, 2]), floats(&[2, 5, 1])]));
            all.push(c.on([floats(&[3, 4]), places(&[2, 3, 1]), floats(&[2, 3])]));
        }
        let empty = case(combiner, FILL, elements());
        all.push(empty.on([floats(&[3]), places(&[0, 1]), floats(&[0])]));
        let one = case(combiner, CLIP, elements());
        all.push(one.on([floats(&[3]), places(&[1]), floats(&[])]));
        // Out of range of the index dtype, narrow and unsigned.
        let bytes = Sample::listed(DType::I8, [3, 1], &[-128.0, 2.0, 127.0]);
        let narrow = case(combiner, CLIP, elements());
        all.push(narrow.on([floats(&[300]), bytes, floats(&[3])]));
        let unsigned = Sample::listed(DType::U64, [3, 1], &[0.0, 4.0, 1e19]);
        let wide = case(combiner, FILL, elements());
        all.push(wide.on([floats(&[5]), unsigned, floats(&[3])]));
    }
    for combiner in [Combiner::Update, Combiner::Add, Combiner::Mul] {
        for mode in [FILL, PROMISE] {
            let indices = match mode {
                PROMISE => Sample::listed(DType::I32, [4, 1], &[3.0, 1.0, 0.0, 4.0]),
                _ => distinct.clone(),
            };
            let promised = Case { combiner, mode, numbers: elements(), unique: true };
            all.push(promised.on([floats(&[5]), indices, floats(&[4])]));
        }
        let complex = |shape: &[usize]| Sample::uniform(DType::C64, shape, -1.0, 1.0);
        let unique = Case { combiner, mode: FILL, numbers: elements(), unique: true };
        all.push(unique.on([complex(&[5]), distinct.clone(), complex(&[4])]));
    }
    // Without unique indices a product has no derivative in its updates, as in JAX.
    let product = case(Combiner::Mul, CLIP, rows());
    let operands = [floats(&[4, 3]), places(&[5, 1]), floats(&[5, 3])];
    all.push(product.on(operands).without_derivative());
    for (combiner, dtype) in [
        (Combiner::Add, DType::I8),
        (Combiner::Mul, DType::U32),
        (Combiner::Min, DType::I64),
        (Combiner::Max, DType::BF16),
        (Combiner::Add, DType::Bool),
        (Combiner::Update, DType::F8E5M2),
    ] {
        let sample = |shape: &[usize]| Sample::uniform(dtype, shape, 0.0, 2.0);
        let operands = [sample(&[5]), distinct.clone(), sample(&[4])];
        all.push(case(combiner, FILL, elements()).on(operands).without_derivative());
    }
    all
}
