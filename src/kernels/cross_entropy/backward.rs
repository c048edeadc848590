//! The backward pass: gradients of features, head and bias.

use super::problem::{Problem, Span};
use crate::kernel::{self, BlockSpec, Grid, Kernel, KernelOptions, Output, Ref, Scratch, ds};
use crate::kernels::parts::product;
use crate::ops::axes;
use crate::primitives::{convert_element_type, eq};
use crate::{Array, DType};

/// The inputs that both kernels begin with: `x`, `w`, labels, and the bias if there is one, then
/// the logsumexp and the two factors of each row.
struct Inputs<'a> {
    first: &'a [Ref],
    rows: &'a [Ref],
}

/// The name of a kernel, its form of blocks and its form for CPUs.
type Forms = (&'static str, fn(&Problem) -> Kernel, fn(&Problem) -> Kernel);

impl Problem {
    /// Returns the cotangents of `x`, `w` and the bias.
    ///
    /// On TPUs and GPUs, one kernel computes the gradient of `x` and another one those of `w` and
    /// the bias, and both recompute the logits: each sums over the axis that the other has in
    /// parallel. On CPUs the first kernel computes all gradients from one block of logits, and the
    /// second one returns what it gets. So the first one has outputs for all gradients, of which it
    /// writes one on TPUs and GPUs, and the second one writes to the memory of the others.
    #[track_caller]
    pub(super) fn backward(
        &self,
        operands: &[Array],
        lse: &Array,
        loss_ct: &Array,
        lse_ct: &Array,
    ) -> Vec<Array> {
        let [of_lse, of_label] = self.factors(&operands[2], lse, loss_ct, lse_ct);
        let mut inputs: Vec<&Array> = operands.iter().collect();
        inputs.extend([lse, &of_lse, &of_label]);
        let of_x = self.on_platforms(
            ("linear_cross_entropy_dx", Problem::blocked_dx, Problem::gradients_on_cpu),
            &inputs,
        );
        let partial = of_x.apply_list(&inputs);
        inputs.extend(&partial[1..]);
        let of_w = self.on_platforms(
            ("linear_cross_entropy_dw", Problem::blocked_dw, Problem::pass_on_cpu),
            &inputs,
        );
        let rest = of_w.apply_list(&inputs);
        std::iter::once(partial[0].clone()).chain(rest).collect()
    }

    /// Returns the kernel of this name that is called with these operands, from its form of blocks
    /// and its form for CPUs.
    #[track_caller]
    fn on_platforms(&self, (name, blocked, on_cpu): Forms, operands: &[&Array]) -> Kernel {
        let [on_tpu, on_gpu] = self.on_accelerators(name, operands, blocked);
        match self.has_fixed_blocks {
            true => blocked(self),
            false => blocked(&on_tpu).on_cpu(on_cpu(self)).on_gpu(blocked(&on_gpu)),
        }
    }

    fn n_gradients(&self) -> usize {
        if self.has_bias { 3 } else { 2 }
    }

    /// Returns the blocks of the inputs, with the grid axes of rows and of classes.
    fn backward_specs(&self, rows: usize, classes: usize) -> Vec<BlockSpec> {
        let mut specs = vec![self.x_spec(rows), self.w_spec(classes), self.row_spec(rows)];
        if self.has_bias {
            specs.push(self.bias_spec(classes));
        }
        specs.extend([self.row_spec(rows), self.row_spec(rows), self.row_spec(rows)]);
        specs
    }

    fn inputs<'a>(&self, refs: &'a [Ref]) -> Inputs<'a> {
        let n_first = if self.has_bias { 4 } else { 3 };
        Inputs { first: &refs[..n_first], rows: &refs[n_first..n_first + 3] }
    }

    /// Returns the scratch memory for sums, unless they are stored in an output of `f32`.
    fn sums(&self, shape: [usize; 2]) -> Option<Scratch> {
        (self.dtype != DType::F32).then(|| Scratch::vmem(DType::F32, shape))
    }

    /// Returns the gradient of a block of logits.
    fn gradient_of_block(&self, inputs: &Inputs<'_>, rows: &Span, classes: &Span) -> Array {
        let (x, w) = (&inputs.first[0], &inputs.first[1]);
        let bias = inputs.first.get(3).map(Ref::load);
        let logits = self.logits_of(w, x, bias.as_ref());
        self.logits_gradient(&logits, &row_values(inputs), classes, Some(rows))
    }

    /// Blocks of rows in parallel, and for each of them blocks of classes one after the other.
    fn blocked_dx(&self) -> Kernel {
        let (n_rows, n_classes) = self.n_blocks();
        let x_block = [self.block.0, self.features];
        let mut outputs = vec![Output::new(self.dtype, [self.rows, self.features], self.x_spec(0))];
        // Memory for the other gradients, which this kernel does not write.
        outputs.extend(self.other_gradients().map(|shape| {
            let tile = [shape[0].min(8), shape[1].min(128)];
            Output::new(self.dtype, shape, BlockSpec::new(tile, |_: [Array; 2]| (0, 0)))
        }));
        let sums = self.sums(x_block);
        let has_sums = sums.is_some();
        let problem = self.clone();
        let body = move |refs: Vec<Ref>| {
            let inputs = problem.inputs(&refs);
            let dx = &refs[refs.len() - problem.n_gradients() - usize::from(has_sums)];
            let sum = if has_sums { &refs[refs.len() - 1] } else { dx };
            let (row, class) = (kernel::program_id(0), kernel::program_id(1));
            let classes = problem.classes(class.clone());
            kernel::when(eq(&class, 0), || {
                problem.for_features(|features, _| sum.at((.., features)).store(0.0));
            });
            let gradient = problem.gradient_of_block(&inputs, &problem.row_span(row), &classes);
            problem.for_features(|features, count| {
                let w = problem.load_w(&inputs.first[1], (features.clone(), count), &classes);
                let product = product(&gradient, &w, (0, problem.class_axis()));
                sum.at((.., features)).add_assign(product);
            });
            if has_sums {
                kernel::when(eq(&class, kernel::num_programs(1) as i32 - 1), || {
                    problem.for_features(|features, _| {
                        let total = sum.at((.., features.clone())).load();
                        dx.at((.., features)).store(total.astype(problem.dtype));
                    });
                });
            }
        };
        kernel::call(
            body,
            Grid::new([n_rows, n_classes]).sequential(1),
            self.backward_specs(0, 1),
            outputs,
        )
        .scratch(Vec::from_iter(sums))
        .options(KernelOptions {
            unwritten: (1..self.n_gradients()).collect(),
            ..KernelOptions::default()
        })
        .name("linear_cross_entropy_dx")
    }

    /// Blocks of classes in parallel, and for each of them blocks of rows one after the other.
    fn blocked_dw(&self) -> Kernel {
        let (n_rows, n_classes) = self.n_blocks();
        let mut gradient_specs = vec![self.w_spec(0)];
        if self.has_bias {
            gradient_specs.push(self.bias_spec(0));
        }
        let mut specs = self.backward_specs(1, 0);
        let n_inputs = specs.len();
        specs.extend(gradient_specs.iter().cloned());
        let outputs: Vec<Output> = self
            .other_gradients()
            .zip(gradient_specs)
            .map(|(shape, spec)| Output::new(self.dtype, shape, spec))
            .collect();
        let n_outputs = outputs.len();
        let mut scratch = Vec::from_iter(self.sums(self.w_shape(self.block.1)));
        if self.has_bias {
            scratch.extend(self.sums([self.block.1, 1]));
        }
        let problem = self.clone();
        let body = move |refs: Vec<Ref>| {
            let inputs = problem.inputs(&refs);
            let outputs = &refs[n_inputs + n_outputs..n_inputs + 2 * n_outputs];
            let scratch = &refs[n_inputs + 2 * n_outputs..];
            let sums = if scratch.is_empty() { outputs } else { scratch };
            let (class, row) = (kernel::program_id(0), kernel::program_id(1));
            let rows = problem.row_span(row.clone());
            kernel::when(eq(&row, 0), || {
                problem.for_features(|features, _| {
                    sums[0].at(problem.w_index(.., features)).store(0.0);
                });
                sums[1..].iter().for_each(|sum| sum.store(0.0));
            });
            let gradient = problem.gradient_of_block(&inputs, &rows, &problem.classes(class));
            problem.for_features(|features, count| {
                let x = problem.load_x(&inputs.first[0], (features.clone(), count), &rows);
                let product = problem.dw(&gradient, &x);
                sums[0].at(problem.w_index(.., features)).add_assign(product);
            });
            if let Some(sum) = sums.get(1) {
                sum.add_assign(over_rows(&gradient));
            }
            if !scratch.is_empty() {
                kernel::when(eq(&row, kernel::num_programs(1) as i32 - 1), || {
                    problem.for_features(|features, _| {
                        let part = problem.w_index(.., features);
                        let total = sums[0].at(part.clone()).load();
                        outputs[0].at(part).store(total.astype(problem.dtype));
                    });
                    for (sum, output) in sums.iter().zip(outputs).skip(1) {
                        output.store(sum.load().astype(problem.dtype));
                    }
                });
            }
        };
        let grid = Grid::new([n_classes, n_rows]).sequential(1);
        let kernel = kernel::call(body, grid, specs, outputs)
            .scratch(scratch)
            .name("linear_cross_entropy_dw");
        (0..n_outputs).fold(kernel, |kernel, output| kernel.alias(n_inputs + output, output))
    }

    /// Returns the shapes of the gradients of `w` and the bias.
    fn other_gradients(&self) -> impl Iterator<Item = [usize; 2]> {
        let of_bias = self.has_bias.then_some([self.vocabulary, 1]);
        std::iter::once(self.w_shape(self.vocabulary)).chain(of_bias)
    }

    /// Returns the product that is added to the gradient of a block of `w`.
    fn dw(&self, gradient: &Array, x: &Array) -> Array {
        match self.class_axis() {
            0 => product(gradient, x, (1, 0)),
            _ => product(x, gradient, (0, 1)),
        }
    }

    /// All gradients in one program, with a loop over blocks of classes.
    fn gradients_on_cpu(&self) -> Kernel {
        let n_inputs = if self.has_bias { 7 } else { 6 };
        let whole = |shape| Output::new(self.dtype, shape, BlockSpec::whole());
        let mut outputs = vec![whole([self.rows, self.features])];
        outputs.extend(self.other_gradients().map(whole));
        let sums = self.sums([self.rows, self.features]);
        let has_sums = sums.is_some();
        let n_outputs = outputs.len();
        let problem = self.clone();
        let body = move |refs: Vec<Ref>| {
            let inputs = problem.inputs(&refs);
            let (outputs, scratch) = refs[n_inputs..].split_at(n_outputs);
            let sum = scratch.first().unwrap_or(&outputs[0]);
            sum.store(0.0);
            let (x, rows) = (inputs.first[0].load(), row_values(&inputs));
            let add = |none: [Array; 0], classes: &Span| {
                let (w, bias) = problem.classes_of(inputs.first, classes);
                let logits = problem.logits(&[(w.clone(), x.clone())], bias.as_ref());
                let gradient = problem.logits_gradient(&logits, &rows, classes, None);
                sum.add_assign(product(&gradient, &w, (0, problem.class_axis())));
                let span = || ds(&classes.start, classes.size);
                let dw = problem.dw(&gradient, &x).astype(problem.dtype);
                outputs[1].at(problem.w_index(span(), 0..problem.features)).store(dw);
                if problem.has_bias {
                    let db = over_rows(&gradient).astype(problem.dtype);
                    outputs[2].at((span(), ..)).store(db);
                }
                none
            };
            let [] = problem.fold_classes(add, []);
            if has_sums {
                outputs[0].store(sum.load().astype(problem.dtype));
            }
        };
        kernel::call(body, Grid::new([1]), vec![BlockSpec::whole(); n_inputs], outputs)
            .scratch(Vec::from_iter(sums))
            .name("linear_cross_entropy_gradients")
    }

    /// Returns the gradients of `w` and the bias, which the other kernel has written.
    fn pass_on_cpu(&self) -> Kernel {
        let n_inputs = if self.has_bias { 7 } else { 6 };
        let whole = |shape| Output::new(self.dtype, shape, BlockSpec::whole());
        let outputs: Vec<Output> = self.other_gradients().map(whole).collect();
        let n_outputs = outputs.len();
        let specs = vec![BlockSpec::whole(); n_inputs + n_outputs];
        let kernel = kernel::call(|_: Vec<Ref>| (), Grid::new([1]), specs, outputs)
            .name("linear_cross_entropy_dw");
        (0..n_outputs).fold(kernel, |kernel, output| kernel.alias(n_inputs + output, output))
    }
}

/// Loads labels, logsumexp and factors of a block of rows.
fn row_values(inputs: &Inputs<'_>) -> [Array; 4] {
    let [lse, of_lse, of_label] = [0, 1, 2].map(|index: usize| inputs.rows[index].load());
    [inputs.first[2].load(), lse, of_lse, of_label]
}

/// Sums the gradient of logits over rows, in `f32`.
fn over_rows(gradient: &Array) -> Array {
    convert_element_type(gradient, DType::F32).sum_axes(axes(1).keepdims())
}
