//! Exemplars of scatter.

use super::{Combiner, Scatter, ScatterDimensionNumbers};
use crate::core::{DType, Exemplar, Registered, Sample};
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

impl Registered for Scatter {
    const NAME: &'static str = "scatter";
    fn exemplars() -> Vec<Exemplar> {
        let floats = |shape: &[usize]| Sample::uniform(DType::F32, shape, -1.0, 1.0);
        let indices = |shape: &[usize]| Sample::uniform(DType::I32, shape, -2.0, 6.0);
        let distinct = Sample::listed(DType::I32, [4, 1], &[3.0, -1.0, 0.0, 5.0]);
        let case = |combiner, mode, numbers| Case { combiner, mode, numbers, unique: false };
        let mut all = Vec::new();
        for (combiner, mode) in
            [(Combiner::Update, CLIP), (Combiner::Add, FILL), (Combiner::Max, FILL)]
        {
            let operands = [floats(&[4, 3]), indices(&[5, 1]), floats(&[5, 3])];
            all.push(case(combiner, mode, rows()).on(operands));
        }
        let operands = [floats(&[4, 3]), indices(&[5, 2]), floats(&[2, 5, 1])];
        all.push(case(Combiner::Update, FILL, blocks()).on(operands));
        for combiner in [Combiner::Add, Combiner::Min] {
            let operands = [floats(&[3, 4]), indices(&[2, 3, 1]), floats(&[2, 3])];
            all.push(case(combiner, CLIP, along_axis()).on(operands));
        }
        let operands = [floats(&[3]), indices(&[0, 1]), floats(&[0])];
        all.push(case(Combiner::Add, FILL, elements()).on(operands));
        let operands = [floats(&[3]), indices(&[1]), floats(&[])];
        all.push(case(Combiner::Update, CLIP, elements()).on(operands));
        // Narrow and unsigned indices, beyond the last index and beyond their own range.
        let bytes = Sample::listed(DType::I8, [3, 1], &[-128.0, 2.0, 127.0]);
        all.push(case(Combiner::Add, CLIP, elements()).on([floats(&[300]), bytes, floats(&[3])]));
        let unsigned = Sample::listed(DType::U64, [3, 1], &[0.0, 4.0, 1e19]);
        all.push(case(Combiner::Add, CLIP, elements()).on([floats(&[5]), unsigned, floats(&[3])]));
        for combiner in [Combiner::Update, Combiner::Add, Combiner::Mul] {
            let promised = Case { combiner, mode: FILL, numbers: elements(), unique: true };
            let operands = [DType::F32, DType::C64]
                .map(|dtype| [5, 4].map(|size| Sample::uniform(dtype, [size], -1.0, 1.0)));
            let [[x, updates], [z, complex]] = operands;
            match combiner {
                Combiner::Add => all.push(promised.on([z, distinct.clone(), complex])),
                _ => all.push(promised.on([x, distinct.clone(), updates])),
            }
        }
        let inside = Sample::listed(DType::I32, [4, 1], &[3.0, 1.0, 0.0, 4.0]);
        let promised =
            Case { combiner: Combiner::Mul, mode: PROMISE, numbers: elements(), unique: true };
        let complex = |size: usize| Sample::uniform(DType::C64, [size], -1.0, 1.0);
        all.push(promised.on([complex(5), inside, complex(4)]));
        // Integers: without unique indices a product has no derivative in its updates.
        let integers = |shape: &[usize]| Sample::uniform(DType::I32, shape, -9.0, 9.0);
        let product = case(Combiner::Mul, CLIP, rows());
        all.push(product.on([integers(&[4, 3]), indices(&[5, 1]), integers(&[5, 3])]));
        for (combiner, dtype) in [
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
}
