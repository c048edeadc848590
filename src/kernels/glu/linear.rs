//! Gated linear units of two products.

use super::GluActivation;
use crate::control_flow::custom_vjp;
use crate::kernel::{self, BlockSpec, Grid, Kernel, KernelTarget, Output, Ref, RefIndex};
use crate::kernels::parts::{fold_parts, powers_of_two, product};
use crate::kernels::scoped::{ScopedBlocks, combinations};
use crate::primitives::full;
use crate::{Array, DType};
use std::ops::Range;

/// The number of rows and of results of a block on TPUs and GPUs.
const BLOCK: usize = 128;
/// The rows and results of a block that a table in scope chooses from.
const CANDIDATES: [usize; 4] = [64, 128, 256, 512];
/// The features that a GPU multiplies at a time, in bits: its shared memory holds a few such parts.
const GPU_FEATURE_BITS: usize = 64 * 16;

/// The loads of operands in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loads {
    /// Whole arrays, for CPUs.
    Whole,
    /// Parts of the features one after the other, without a loop, for TPUs.
    Parts,
    /// Small parts of the features in a loop, for GPUs.
    Loop,
}

/// Sizes and options of one application.
#[derive(Clone, Debug)]
pub(super) struct LinearGlu {
    pub(super) activation: GluActivation,
    pub(super) rows: usize,
    pub(super) features: usize,
    pub(super) results: usize,
    pub(super) dtype: DType,
    pub(super) block_sizes: Option<(usize, usize)>,
}

/// `x`, the weights of the gate, and the others.
type Operands = (Array, Array, Array);

impl LinearGlu {
    #[track_caller]
    pub(super) fn apply(&self, x: &Array, w_gate: &Array, w_up: &Array) -> Array {
        let (plain, with_rule, of_rule) = (self.clone(), self.clone(), self.clone());
        let function = custom_vjp(
            move |operands: &Operands| plain.forward(operands),
            move |operands: &Operands| (with_rule.forward(operands), operands.clone()),
            move |operands: &Operands, ct: &Array| of_rule.backward(operands, ct),
        );
        function(&(x.clone(), w_gate.clone(), w_up.clone()))
    }

    fn forward(&self, (x, w_gate, w_up): &Operands) -> Array {
        let operands = [x, w_gate, w_up];
        self.on_platforms(false, &operands).apply1(&operands)
    }

    /// Computes the gradients of both products by a kernel, and multiplies them with the operands.
    fn backward(&self, (x, w_gate, w_up): &Operands, ct: &Array) -> Operands {
        let operands = [x, w_gate, w_up, ct];
        let [of_gate, of_up] = self.on_platforms(true, &operands).apply(&operands);
        let of_x = product(&of_gate, w_gate, (1, 1)) + product(&of_up, w_up, (1, 1));
        let of_weight = |gradient: &Array| product(x, gradient, (0, 0)).astype(self.dtype);
        (of_x.astype(self.dtype), of_weight(&of_gate), of_weight(&of_up))
    }

    /// Returns a kernel of blocks, which CPUs run with whole arrays unless blocks were chosen.
    #[track_caller]
    fn on_platforms(&self, is_gradient: bool, operands: &[&Array]) -> Kernel {
        let kernel = |loads, block| self.kernel(is_gradient, loads, block);
        if let Some(block) = self.block_sizes {
            return kernel(Loads::Parts, block).on_gpu(kernel(Loads::Loop, block));
        }
        let candidates = combinations([(self.rows, &CANDIDATES), (self.results, &CANDIDATES)]);
        let build = |target, blocks: &[usize]| {
            let loads = match target {
                KernelTarget::Tpu => Loads::Parts,
                KernelTarget::Gpu => Loads::Loop,
            };
            kernel(loads, (blocks[0], blocks[1]))
        };
        let scoped = ScopedBlocks::of(name(is_gradient), operands, &candidates, build);
        let block = |scoped: Option<Vec<usize>>| {
            scoped.map_or((BLOCK, BLOCK), |blocks| (blocks[0], blocks[1]))
        };
        let whole = kernel(Loads::Whole, (self.rows, self.results));
        let on_gpu = kernel(Loads::Loop, block(scoped.gpu));
        kernel(Loads::Parts, block(scoped.tpu)).on_gpu(on_gpu).on_cpu(whole)
    }

    /// Returns the kernel of the result, or of the gradients of both products, with these rows and
    /// results in a block.
    fn kernel(&self, is_gradient: bool, loads: Loads, (rows, results): (usize, usize)) -> Kernel {
        let (rows, results) = (rows.min(self.rows), results.min(self.results));
        let weight = || BlockSpec::new([self.features, results], |[_, result]| (0, result));
        let of_result = || BlockSpec::new([rows, results], |[row, result]| (row, result));
        let x = BlockSpec::new([rows, self.features], |[row, _]| (row, 0));
        let mut inputs = vec![x, weight(), weight()];
        if is_gradient {
            inputs.push(of_result());
        }
        let output = |_| Output::new(self.dtype, [self.rows, self.results], of_result());
        let outputs: Vec<Output> = (0..if is_gradient { 2 } else { 1 }).map(output).collect();
        let parts: Vec<Range<usize>> = match loads {
            Loads::Whole => std::iter::once(0..self.features).collect(),
            _ => powers_of_two(self.features, BLOCK.max(self.features / 16)),
        };
        let (activation, dtype, features) = (self.activation, self.dtype, self.features);
        let body = move |refs: Vec<Ref>| {
            let of_part = |w: &Ref, part: RefIndex| {
                let x = refs[0].at((.., part.clone())).load();
                product(&x, &w.at((part, ..)).load(), (1, 0))
            };
            let products = |w: &Ref| {
                let product = |part: &Range<usize>| of_part(w, part.clone().into());
                let sum = parts.iter().map(product).reduce(|sum, part| sum + part);
                sum.expect("there are features")
            };
            let [gate, up] = match loads {
                Loads::Whole | Loads::Parts => [products(&refs[1]), products(&refs[2])],
                Loads::Loop => {
                    let zero = full(([rows, results], DType::F32), 0.0);
                    let add = |part: RefIndex, _: usize, [gate, up]: [Array; 2]| {
                        let of_gate = of_part(&refs[1], part.clone());
                        [gate + of_gate, up + of_part(&refs[2], part)]
                    };
                    let size = GPU_FEATURE_BITS / dtype.bits();
                    fold_parts(features, size, add, [zero.clone(), zero])
                }
            };
            if is_gradient {
                let ct = refs[3].load().astype(DType::F32);
                let (value, slope) = activation.value_and_slope(&gate);
                refs[4].store((&ct * up * slope).astype(dtype));
                refs[5].store((ct * value).astype(dtype));
            } else {
                refs[3].store((activation.value(&gate) * up).astype(dtype));
            }
        };
        let grid = Grid::new([self.rows.div_ceil(rows), self.results.div_ceil(results)]);
        kernel::call(body, grid, inputs, outputs).name(name(is_gradient))
    }
}

fn name(is_gradient: bool) -> &'static str {
    if is_gradient { "linear_glu_gradient" } else { "linear_glu" }
}
