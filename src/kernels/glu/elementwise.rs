//! Gated linear units of two arrays.

use super::GluActivation;
use crate::control_flow::custom_vjp;
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, ds};
use crate::kernels::parts::powers_of_two;
use crate::kernels::scoped::{ScopedBlocks, combinations};
use crate::{Array, DType};
use std::ops::Range;

/// The largest blocks on TPUs and GPUs.
const BLOCK: (usize, usize) = (64, 512);
/// The rows and features of a block that a table in scope chooses from.
const CANDIDATE_ROWS: [usize; 5] = [8, 16, 32, 64, 128];
const CANDIDATE_FEATURES: [usize; 4] = [128, 256, 512, 1024];

/// Sizes and options of one application.
#[derive(Clone, Debug)]
pub(super) struct Glu {
    pub(super) name: &'static str,
    pub(super) activation: GluActivation,
    pub(super) shape: [usize; 2],
    pub(super) dtype: DType,
    pub(super) block_sizes: Option<(usize, usize)>,
}

impl Glu {
    #[track_caller]
    pub(super) fn apply(&self, gate: &Array, up: &Array) -> Array {
        let (plain, with_rule, of_rule) = (self.clone(), self.clone(), self.clone());
        let function = custom_vjp(
            move |(gate, up): &(Array, Array)| plain.forward(gate, up),
            move |(gate, up): &(Array, Array)| {
                (with_rule.forward(gate, up), (gate.clone(), up.clone()))
            },
            move |(gate, up): &(Array, Array), ct: &Array| of_rule.backward(gate, up, ct),
        );
        function(&(gate.clone(), up.clone()))
    }

    fn forward(&self, gate: &Array, up: &Array) -> Array {
        let activation = self.activation;
        let body = move |[gate, up]: [Array; 2]| vec![activation.value(&gate) * up];
        self.kernel::<2>(1, [gate, up], body).apply1(&[gate, up])
    }

    fn backward(&self, gate: &Array, up: &Array, ct: &Array) -> (Array, Array) {
        let activation = self.activation;
        let body = move |[gate, up, ct]: [Array; 3]| {
            let (value, slope) = activation.value_and_slope(&gate);
            vec![&ct * up * slope, ct * value]
        };
        let operands = [gate, up, ct];
        let [of_gate, of_up] = self.kernel::<3>(2, operands, body).apply(&operands);
        (of_gate, of_up)
    }

    /// Returns the kernel that maps elements of these operands, in `f32`.
    #[track_caller]
    fn kernel<const N: usize>(
        &self,
        n_outputs: usize,
        operands: [&Array; N],
        body: impl Fn([Array; N]) -> Vec<Array> + Clone + Send + Sync + 'static,
    ) -> Kernel {
        let of_blocks = |[rows, features]: [usize; 2]| {
            let block = [rows.min(self.shape[0]), features.min(self.shape[1])];
            self.kernel_with(n_outputs, body.clone(), Some(block))
        };
        if let Some((rows, features)) = self.block_sizes {
            return of_blocks([rows, features]);
        }
        let [rows, features] = self.shape;
        let candidates = combinations([(rows, &CANDIDATE_ROWS), (features, &CANDIDATE_FEATURES)]);
        let of_list = |blocks: &[usize]| of_blocks([blocks[0], blocks[1]]);
        let scoped =
            ScopedBlocks::of(self.name, &operands, &candidates, |_, blocks| of_list(blocks));
        let blocked = match &scoped.tpu {
            Some(blocks) => of_list(blocks),
            None => of_blocks(BLOCK.into()),
        };
        let kernel = blocked.on_cpu(self.kernel_with(n_outputs, body.clone(), None));
        match &scoped.gpu {
            Some(blocks) => kernel.on_gpu(of_list(blocks)),
            None => kernel,
        }
    }

    /// Returns the kernel with these rows and features in a block, or with whole arrays.
    fn kernel_with<const N: usize>(
        &self,
        n_outputs: usize,
        body: impl Fn([Array; N]) -> Vec<Array> + Send + Sync + 'static,
        block: Option<[usize; 2]>,
    ) -> Kernel {
        let is_whole = block.is_none();
        let [rows, features] = block.unwrap_or(self.shape);
        let spec = || match is_whole {
            true => BlockSpec::new(self.shape, |[_, _]| (0, 0)),
            false => BlockSpec::new([rows, features], |[row, feature]| (row, feature)),
        };
        let parts: Vec<Range<usize>> = match is_whole {
            true => std::iter::once(0..self.shape[1]).collect(),
            false => powers_of_two(features, features),
        };
        let dtype = self.dtype;
        let run = move |refs: Vec<Ref>| {
            for part in &parts {
                let of = |index: usize| refs[index].at((.., ds(part.start, part.len())));
                let inputs = std::array::from_fn(|index| of(index).load().astype(DType::F32));
                for (index, value) in body(inputs).into_iter().enumerate() {
                    of(N + index).store(value.astype(dtype));
                }
            }
        };
        let grid = match is_whole {
            true => [1, 1],
            false => [self.shape[0].div_ceil(rows), self.shape[1].div_ceil(features)],
        };
        let inputs: Vec<BlockSpec> = (0..N).map(|_| spec()).collect();
        let output = |_| Output::new(dtype, self.shape, spec());
        let outputs: Vec<Output> = (0..n_outputs).map(output).collect();
        kernel::call(run, Grid::new(grid), inputs, outputs).name(self.name)
    }
}
