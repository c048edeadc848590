//! The forward pass: loss and logsumexp of each row.

use super::arithmetic::Statistics;
use super::problem::{Problem, Span};
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, RefIndex, Scratch, ds};
use crate::primitives::{eq, full, maximum};
use crate::{Array, DType};

impl Problem {
    /// Returns loss and logsumexp, `f32[1, rows]` each, of `x`, `w`, labels and bias.
    #[track_caller]
    pub(super) fn forward(&self, operands: &[Array]) -> (Array, Array) {
        let operands: Vec<&Array> = operands.iter().collect();
        let of_blocks = Problem::blocked_forward;
        let [on_tpu, on_gpu] = self.on_accelerators("linear_cross_entropy", &operands, of_blocks);
        let mut kernel = on_tpu.blocked_forward();
        if !self.has_fixed_blocks {
            kernel = kernel.on_cpu(self.forward_on_cpu()).on_gpu(on_gpu.blocked_forward());
        }
        let [loss, lse] = kernel.apply(&operands);
        (loss, lse)
    }

    /// Blocks of rows in parallel, and for each of them blocks of classes one after the other.
    fn blocked_forward(&self) -> Kernel {
        let (n_rows, n_classes) = self.n_blocks();
        let mut inputs = vec![self.x_spec(0), self.w_spec(1), self.row_spec(0)];
        if self.has_bias {
            inputs.push(self.bias_spec(1));
        }
        let output = || Output::new(DType::F32, [1, self.rows], self.row_spec(0));
        let problem = self.clone();
        let body = move |refs: Vec<Ref>| {
            let (inputs, rest) = refs.split_at(refs.len() - 6);
            let (outputs, scratch) = rest.split_at(2);
            problem.forward_block(inputs, outputs, scratch);
        };
        kernel::call(
            body,
            Grid::new([n_rows, n_classes]).sequential(1),
            inputs,
            [output(), output()],
        )
        .scratch(vec![Scratch::vmem(DType::F32, [1, self.block.0]); 4])
        .name("linear_cross_entropy")
    }

    fn forward_block(&self, inputs: &[Ref], outputs: &[Ref], scratch: &[Ref]) {
        let (x, w) = (&inputs[0], &inputs[1]);
        let block = kernel::program_id(1);
        kernel::when(eq(&block, 0), || {
            for (of, value) in scratch.iter().zip(Problem::no_statistics()) {
                of.store(value);
            }
        });
        let labels = inputs[2].load();
        let bias = inputs.get(3).map(Ref::load);
        let logits = self.logits_of(w, x, bias.as_ref());
        let before = [0, 1, 2, 3].map(|index: usize| scratch[index].load());
        let after = self.add_block(before, &logits, Some(&labels), &self.classes(block.clone()));
        for (of, value) in scratch.iter().zip(&after) {
            of.store(value);
        }
        let last = kernel::num_programs(1) as i32 - 1;
        kernel::when(eq(&block, last), || {
            let statistics = [0, 1, 2, 3].map(|index: usize| scratch[index].load());
            let lse = Problem::lse(&statistics);
            for (output, value) in outputs.iter().zip(self.loss(lse, &statistics, &labels)) {
                output.store(value);
            }
        });
    }

    /// One program with all rows and a loop over blocks of classes.
    fn forward_on_cpu(&self) -> Kernel {
        let inputs = vec![BlockSpec::whole(); if self.has_bias { 4 } else { 3 }];
        let output = || Output::new(DType::F32, [1, self.rows], BlockSpec::whole());
        let problem = self.clone();
        let body = move |refs: Vec<Ref>| {
            let (inputs, outputs) = refs.split_at(refs.len() - 2);
            let (x, labels) = (inputs[0].load(), inputs[2].load());
            let add = |statistics: Statistics, classes: &Span| {
                let (w, bias) = problem.classes_of(inputs, classes);
                let logits = problem.logits(&[(w, x.clone())], bias.as_ref());
                problem.add_block(statistics, &logits, None, classes)
            };
            let none =
                Problem::no_statistics().map(|value| full(([1, problem.rows], DType::F32), value));
            let mut statistics = problem.fold_classes(add, none);
            statistics[2] = problem.label_logits(inputs);
            // No logit is larger, except by rounding. So the backward pass depends on the logits of
            // the labels. Otherwise XLA could read their classes after an optimizer has stored its
            // result in the memory of `w`, and copies `w` before.
            let lse = maximum(Problem::lse(&statistics), &statistics[2]);
            for (output, value) in outputs.iter().zip(problem.loss(lse, &statistics, &labels)) {
                output.store(value);
            }
        };
        kernel::call(body, Grid::new([1]), inputs, [output(), output()])
            .name("linear_cross_entropy")
    }

    /// Folds over blocks of classes of all rows: a loop over whole blocks, and the rest.
    pub(super) fn fold_classes<const N: usize>(
        &self,
        step: impl Fn([Array; N], &Span) -> [Array; N],
        init: [Array; N],
    ) -> [Array; N] {
        let size = self.cpu_classes();
        let (n_blocks, rest) = (self.vocabulary / size, self.vocabulary % size);
        let of_block = |index: Array, value: [Array; N]| {
            step(value, &Span { start: index * size as i32, size, end: None })
        };
        let value = kernel::fori_loop(0, n_blocks as i32, of_block, init);
        if rest == 0 {
            return value;
        }
        let start = full(([], DType::I32), (self.vocabulary - rest) as i32);
        step(value, &Span { start, size: rest, end: None })
    }

    /// Loads classes of `w` and of the bias, from references to whole arrays.
    pub(super) fn classes_of(&self, inputs: &[Ref], classes: &Span) -> (Array, Option<Array>) {
        let span = || -> RefIndex { ds(&classes.start, classes.size) };
        let w = inputs[1].at(self.w_index(span(), 0..self.features)).load();
        let bias = self.has_bias.then(|| inputs[3].at((span(), ..)).load());
        (w, bias)
    }
}
