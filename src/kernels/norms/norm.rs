//! The kernels of norms.

use crate::control_flow::custom_vjp;
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, ds};
use crate::kernels::parts::powers_of_two;
use crate::kernels::scoped::{ScopedBlocks, combinations};
use crate::ops::axes;
use crate::primitives::{broadcasted_iota, convert_element_type, lt, reshape, rsqrt, where_};
use crate::{Array, DType};
use std::ops::Range;

/// The number of elements of a block on TPUs and GPUs.
const BLOCK_ELEMENTS: usize = 1 << 15;
/// The number of features that are loaded at once on TPUs and GPUs.
const PART: usize = 512;

/// Sizes and options of one application.
#[derive(Clone, Debug)]
pub(super) struct Norm {
    pub(super) name: &'static str,
    pub(super) rows: usize,
    pub(super) features: usize,
    pub(super) dtype: DType,
    pub(super) is_centred: bool,
    pub(super) has_residual: bool,
    pub(super) has_bias: bool,
    pub(super) epsilon: f64,
    pub(super) block_rows: Option<usize>,
    /// The number of rows of a block by the table in scope.
    pub(super) scoped_rows: Option<usize>,
}

/// The numbers of rows of a block that a table in scope chooses from.
const CANDIDATES: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// Features in parts, `f32[rows, …]` each.
type Parts = Vec<Array>;

impl Norm {
    /// Returns the normalized features `[rows, features]`, and with a residual also the sum.
    /// Operands are `x`, the residual, the scale `[1, features]` and the bias.
    #[track_caller]
    pub(super) fn apply(&self, operands: &[Array]) -> Vec<Array> {
        let (plain, with_rule, of_rule) = (self.clone(), self.clone(), self.clone());
        let function = custom_vjp(
            move |operands: &Vec<Array>| plain.forward(operands),
            move |operands: &Vec<Array>| {
                let outputs = with_rule.forward(operands);
                let sum = outputs.get(1).unwrap_or(&operands[0]).clone();
                (outputs, (sum, operands[with_rule.n_matrices()..].to_vec()))
            },
            move |(sum, vectors): &(Array, Vec<Array>), cts: &Vec<Array>| {
                of_rule.backward(sum, vectors, cts)
            },
        );
        function(&operands.to_vec())
    }

    fn n_matrices(&self) -> usize {
        1 + usize::from(self.has_residual)
    }

    fn n_vectors(&self) -> usize {
        1 + usize::from(self.has_bias)
    }

    /// Returns the number of rows of a block.
    fn block_rows(&self) -> usize {
        let chosen = (BLOCK_ELEMENTS / self.features).clamp(8, 64);
        // The largest power of two up to the number.
        let chosen = 1 << chosen.ilog2();
        self.block_rows.or(self.scoped_rows).unwrap_or(chosen).min(self.rows)
    }

    fn n_blocks(&self) -> usize {
        self.rows.div_ceil(self.block_rows())
    }

    fn parts(&self, is_whole: bool) -> Vec<Range<usize>> {
        let whole = 0..self.features;
        if is_whole { vec![whole] } else { powers_of_two(self.features, PART) }
    }

    fn matrix_spec(&self) -> BlockSpec {
        BlockSpec::new([self.block_rows(), self.features], |[row]| (row, 0))
    }

    /// Returns the blocks of scale and bias: all programs see the whole vector.
    fn vector_spec(&self) -> BlockSpec {
        BlockSpec::new([1, self.features], |[_]| (0, 0))
    }

    /// Returns a kernel of blocks, which CPUs run with whole arrays unless blocks were chosen.
    fn on_platforms(&self, kernel: impl Fn(bool) -> Kernel) -> Kernel {
        let blocked = kernel(false);
        if self.block_rows.is_some() { blocked } else { blocked.on_cpu(kernel(true)) }
    }

    /// Returns the norm with the rows of a block by the table in scope, for the kernel `name` that
    /// is called with these operands. Both kinds of devices have these blocks, because the number
    /// of blocks is an axis of results.
    #[track_caller]
    fn scoped(&self, name: &str, operands: &[&Array], kernel: impl Fn(&Norm) -> Kernel) -> Norm {
        if self.block_rows.is_some() {
            return self.clone();
        }
        let of_rows = |rows: usize| Norm { scoped_rows: Some(rows), ..self.clone() };
        let candidates = combinations([(self.rows, &CANDIDATES)]);
        let build = |_, blocks: &[usize]| kernel(&of_rows(blocks[0]));
        match ScopedBlocks::of(name, operands, &candidates, build).either() {
            Some(blocks) => of_rows(blocks[0]),
            None => self.clone(),
        }
    }

    #[track_caller]
    fn forward(&self, operands: &[Array]) -> Vec<Array> {
        let operands: Vec<&Array> = operands.iter().collect();
        let norm = self.scoped(self.name, &operands, |norm| norm.forward_kernel(false));
        norm.on_platforms(|is_whole| norm.forward_kernel(is_whole)).apply_list(&operands)
    }

    /// Blocks of rows, or one program with whole arrays.
    fn forward_kernel(&self, is_whole: bool) -> Kernel {
        let matrix = || if is_whole { BlockSpec::whole() } else { self.matrix_spec() };
        let vector = || if is_whole { BlockSpec::whole() } else { self.vector_spec() };
        let mut inputs: Vec<BlockSpec> = (0..self.n_matrices()).map(|_| matrix()).collect();
        inputs.extend((0..self.n_vectors()).map(|_| vector()));
        let n_inputs = inputs.len();
        let output = |_| Output::new(self.dtype, [self.rows, self.features], matrix());
        let outputs: Vec<Output> = (0..self.n_matrices()).map(output).collect();
        let norm = self.clone();
        let body = move |refs: Vec<Ref>| {
            let (inputs, outputs) = refs.split_at(n_inputs);
            norm.forward_block(inputs, outputs, &norm.parts(is_whole));
        };
        let n_programs = if is_whole { 1 } else { self.n_blocks() };
        kernel::call(body, Grid::new([n_programs]), inputs, outputs).name(self.name)
    }

    fn forward_block(&self, inputs: &[Ref], outputs: &[Ref], parts: &[Range<usize>]) {
        let (matrices, vectors) = inputs.split_at(self.n_matrices());
        let mut features = load(&matrices[0], parts);
        if let [_, residual] = matrices {
            let sums = features.iter().zip(load(residual, parts)).map(|(x, y)| x + y);
            let sums: Parts = sums.map(|sum| sum.astype(self.dtype)).collect();
            store(&outputs[1], parts, &sums);
            features = sums.iter().map(|sum| sum.astype(DType::F32)).collect();
        }
        let (unit, _) = self.unit(&features);
        let scale = load(&vectors[0], parts);
        let bias = vectors.get(1).map(|bias| load(bias, parts));
        let result = |index: usize| {
            let y = &unit[index] * &scale[index];
            let y = bias.as_ref().map_or(y.clone(), |bias| y + &bias[index]);
            y.astype(self.dtype)
        };
        store(&outputs[0], parts, &(0..parts.len()).map(result).collect::<Parts>());
    }

    /// Returns the normalized features without the scale, and the factor `f32[rows, 1]` that they
    /// were multiplied by.
    fn unit(&self, features: &Parts) -> (Parts, Array) {
        let centred = if self.is_centred {
            let mean = self.mean(features.iter().cloned());
            features.iter().map(|x| x - &mean).collect()
        } else {
            features.clone()
        };
        let variance = self.mean(centred.iter().map(|x| x * x));
        let factor = rsqrt(&(variance + self.epsilon));
        (centred.iter().map(|x| x * &factor).collect(), factor)
    }

    /// Returns the mean over all features, `f32[rows, 1]`.
    fn mean(&self, parts: impl Iterator<Item = Array>) -> Array {
        let sums = parts.map(|part| part.sum_axes(axes(1).keepdims()));
        let sum = sums.reduce(|a, b| a + b).expect("there are features");
        sum * (1.0 / self.features as f64)
    }

    /// Returns the cotangents of the operands. `vectors` are scale and bias, and `cts` those of the
    /// result and of the sum.
    #[track_caller]
    fn backward(&self, sum: &Array, vectors: &[Array], cts: &[Array]) -> Vec<Array> {
        let operands: Vec<&Array> = [sum, &vectors[0]].into_iter().chain(cts).collect();
        let name = format!("{}_gradient", self.name);
        let norm = self.scoped(&name, &operands, |norm| norm.backward_kernel(false, vectors));
        let kernel = norm.on_platforms(|is_whole| norm.backward_kernel(is_whole, vectors));
        let outputs = kernel.apply_list(&operands);
        let mut gradients = vec![outputs[0].clone(); self.n_matrices()];
        for (vector, sums) in vectors.iter().zip(&outputs[1..]) {
            let gradient = sums.sum_axes(0).astype(vector.dtype());
            gradients.push(reshape(&gradient, [1, self.features]));
        }
        gradients
    }

    /// The gradients of a block of rows, and its part of the gradients of scale and bias.
    ///
    /// The parts are stored, `[blocks, 1, features]`, and summed outside: so programs run in
    /// parallel, and the traffic grows by two rows per block.
    fn backward_kernel(&self, is_whole: bool, vectors: &[Array]) -> Kernel {
        let matrix = || if is_whole { BlockSpec::whole() } else { self.matrix_spec() };
        let vector = if is_whole { BlockSpec::whole() } else { self.vector_spec() };
        let sums = || match is_whole {
            true => BlockSpec::whole(),
            false => {
                let block = [None, Some(1), Some(self.features)];
                BlockSpec::new(block, |[row]| (row, 0, 0))
            }
        };
        let mut inputs = vec![matrix(), vector];
        inputs.extend((0..self.n_matrices()).map(|_| matrix()));
        let n_inputs = inputs.len();
        let mut outputs = vec![Output::new(self.dtype, [self.rows, self.features], matrix())];
        outputs.extend(
            vectors
                .iter()
                .map(|_| Output::new(DType::F32, [self.n_blocks(), 1, self.features], sums())),
        );
        let norm = self.clone();
        let body = move |refs: Vec<Ref>| {
            let (inputs, outputs) = refs.split_at(n_inputs);
            norm.backward_block(inputs, outputs, &norm.parts(is_whole), is_whole);
        };
        let n_programs = if is_whole { 1 } else { self.n_blocks() };
        kernel::call(body, Grid::new([n_programs]), inputs, outputs)
            .name(&format!("{}_gradient", self.name))
    }

    fn backward_block(
        &self,
        inputs: &[Ref],
        outputs: &[Ref],
        parts: &[Range<usize>],
        is_whole: bool,
    ) {
        let (unit, factor) = self.unit(&load(&inputs[0], parts));
        let (scale, ct) = (load(&inputs[1], parts), load(&inputs[2], parts));
        let of_unit: Parts = ct.iter().zip(&scale).map(|(ct, scale)| ct * scale).collect();
        let along = self.mean(of_unit.iter().zip(&unit).map(|(ct, unit)| ct * unit));
        let mean = self.is_centred.then(|| self.mean(of_unit.iter().cloned()));
        let of_sum = inputs.get(3).map(|ct| load(ct, parts));
        let gradient = |index: usize| {
            let mut gradient = &of_unit[index] - &unit[index] * &along;
            if let Some(mean) = &mean {
                gradient -= mean;
            }
            gradient *= &factor;
            if let Some(of_sum) = &of_sum {
                gradient += &of_sum[index];
            }
            gradient.astype(self.dtype)
        };
        store(&outputs[0], parts, &(0..parts.len()).map(gradient).collect::<Parts>());
        if is_whole {
            outputs[1..].iter().for_each(|sums| sums.store(0.0));
        }
        for (index, part) in parts.iter().enumerate() {
            let of_scale = &ct[index] * &unit[index];
            for (sums, values) in outputs[1..].iter().zip([of_scale, ct[index].clone()]) {
                let sum = self.over_rows(values, is_whole);
                let features = ds(part.start, part.len());
                match is_whole {
                    true => sums.at((0, .., features)).store(sum),
                    false => sums.at((.., features)).store(sum),
                }
            }
        }
    }

    /// Sums over the rows of a block that are in the array, `f32[1, …]`.
    fn over_rows(&self, values: Array, is_whole: bool) -> Array {
        let is_ragged = !is_whole && !self.rows.is_multiple_of(self.block_rows());
        let values = if is_ragged {
            let shape = values.dims::<2>();
            let first = kernel::program_id(0) * self.block_rows() as i32;
            let row = broadcasted_iota(DType::I32, shape, 0) + first;
            where_(lt(row, self.rows as i32), values, 0.0)
        } else {
            values
        };
        values.sum_axes(axes(0).keepdims())
    }
}

/// Loads parts of the features of a block, in `f32`.
fn load(of: &Ref, parts: &[Range<usize>]) -> Parts {
    let load = |part: &Range<usize>| {
        convert_element_type(&of.at((.., ds(part.start, part.len()))).load(), DType::F32)
    };
    parts.iter().map(load).collect()
}

/// Stores parts of the features of a block.
fn store(of: &Ref, parts: &[Range<usize>], values: &Parts) {
    for (part, value) in parts.iter().zip(values) {
        of.at((.., ds(part.start, part.len()))).store(value);
    }
}
