//! Kernels of Mosaic GPU, whose text runs in an evaluator here, against the loop over their grids.

mod machine;
mod operations;

mod on_cpu {
    use super::machine::Machine;
    use oxidax::core::DType::{BF16, Bool, F32, F64, I8, I32};
    use oxidax::kernel::{
        self, BlockSpec, GpuBackend, Grid, Kernel, KernelOptions, KernelTarget, Output, Ref,
        Scratch, ds,
    };
    use oxidax::prelude::*;
    use oxidax::primitives::{argmax, argmin, concatenate, rev, round};

    fn mosaic(kernel: Kernel) -> Kernel {
        kernel.targets([KernelTarget::Gpu]).gpu_backend(GpuBackend::MosaicGpu)
    }

    /// Returns the text of the only kernel of a module.
    fn kernel_text(module: &str) -> String {
        let escaped = module.split("module = \"").nth(1).unwrap().split('"').next().unwrap();
        let mut parts = escaped.split('\\');
        let mut text = parts.next().unwrap().to_string();
        for part in parts {
            text.push(char::from(u8::from_str_radix(&part[..2], 16).unwrap()));
            text.push_str(&part[2..]);
        }
        text
    }

    fn lowered(kernel: fn() -> Kernel, operands: &[Array]) -> Result<String, Error> {
        let run = jit(move |operands: Vec<Array>| {
            let operands: Vec<&Array> = operands.iter().collect();
            kernel().apply_list(&operands)
        });
        run.lower(operands.to_vec())?.as_text("cuda")
    }

    /// Compares the outputs of a kernel with those of the loop on the CPU.
    fn check(kernel: fn() -> Kernel, operands: &[Array]) {
        let text = kernel_text(&lowered(kernel, operands).unwrap());
        let references: Vec<&Array> = operands.iter().collect();
        let expected = kernel().apply_list(&references);
        let mut arrays: Vec<Vec<u8>> = operands.iter().map(|x| x.to_bytes().unwrap()).collect();
        let aliases = kernel().trace(&references).aliases;
        for (index, output) in expected.iter().enumerate() {
            let alias = aliases.iter().find(|(_, of)| *of == index);
            arrays.push(match alias {
                Some(&(input, _)) => arrays[input].clone(),
                // Large numbers, or NaN.
                None => vec![0x7F; output.aval().bytes()],
            });
        }
        let computed = Machine::run(&text, arrays);
        for (output, bytes) in expected.iter().zip(&computed[operands.len()..]) {
            let aval = output.aval();
            let computed = Array::from_bytes(bytes, aval.dtype, aval.shape.clone()).unwrap();
            let [x, y] = [&computed, output].map(|x| x.astype(F64).to_vec::<f64>().unwrap());
            let largest = y.iter().fold(0.0f64, |largest, y| largest.max(y.abs()));
            let tolerance = if aval.dtype == BF16 { 1e-2 } else { 1e-5 };
            for (index, (x, y)) in x.iter().zip(&y).enumerate() {
                let is_close = (x - y).abs() <= tolerance * largest;
                assert!(is_close, "element {index} of {aval}: {x}, expected {y}");
            }
        }
    }

    fn normal<const N: usize>(seed: i64, dtype: DType, shape: [usize; N]) -> Array {
        random::normal(random::key(seed), shape).astype(dtype)
    }

    fn rows(n: usize, size: usize) -> BlockSpec {
        BlockSpec::new([n, size], |[i]| (i, 0))
    }

    fn line() -> BlockSpec {
        BlockSpec::new([256], |[i]| (i,))
    }

    fn add() -> Kernel {
        let body = |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load());
        let output = Output::new(F32, [1000], line());
        mosaic(kernel::call(body, Grid::new([4]), [line(), line()], [output])).name("add")
    }

    /// Softmax of rows, in blocks that neither axis is a multiple of.
    fn softmax_of_rows() -> Kernel {
        let body = |[x, o]: [Ref; 2]| o.store(softmax(x.load(), [1]));
        let output = Output::new(F32, [18, 300], rows(4, 300));
        mosaic(kernel::call(body, Grid::new([5]), [rows(4, 300)], [output]))
    }

    #[test]
    fn vectors_that_blocks_do_not_divide() {
        check(add, &[0, 1].map(|seed| normal(seed, F32, [1000])));
    }

    #[test]
    fn chains_of_small_floats() {
        let chain = || {
            let body = |[x, y, o]: [Ref; 3]| {
                let x = x.load() * y.load() + 1.0;
                o.store(tanh(&x) * logistic(&x) + round(&x) + log1p(abs(&x)));
            };
            let output = Output::new(BF16, [13, 100], rows(3, 100));
            mosaic(kernel::call(body, Grid::new([5]), [rows(3, 100), rows(3, 100)], [output]))
        };
        check(chain, &[0, 1].map(|seed| normal(seed, BF16, [13, 100])));
    }

    #[test]
    fn statistics_of_rows() {
        check(softmax_of_rows, &[normal(0, F32, [18, 300])]);
        let norm = || {
            let body = |[x, scale, o, best]: [Ref; 4]| {
                let x = x.load();
                let centered = &x - x.mean_axes(axes(1).keepdims());
                let variance = square(&centered).mean_axes(axes(1).keepdims());
                o.store(centered * rsqrt(&(variance + 1e-5)) * scale.load());
                best.store(argmax(&x, 1) - argmin(&x, 1));
            };
            let outputs = [
                Output::new(F32, [18, 300], rows(4, 300)),
                Output::new(I32, [18], BlockSpec::new([4], |[i]| (i,))),
            ];
            mosaic(kernel::call(body, Grid::new([5]), [rows(4, 300), BlockSpec::whole()], outputs))
        };
        check(norm, &[normal(0, F32, [18, 300]), normal(1, F32, [1, 300])]);
    }

    #[test]
    fn reductions_by_threads_warps_and_all() {
        let sums = || {
            let body = |[x, columns, all, any]: [Ref; 4]| {
                let x = x.load();
                columns.store(x.sum_axes(axes(0).keepdims()));
                all.store(x.max_axes(axes(0).keepdims()).min_axes(axes(1).keepdims()));
                any.store(x.greater(2.0).any_axes(axes(1).keepdims()));
            };
            let outputs = [
                Output::new(F64, [1, 700], BlockSpec::whole()),
                Output::new(F64, [1, 1], BlockSpec::whole()),
                Output::new(Bool, [20, 1], BlockSpec::whole()),
            ];
            mosaic(kernel::call(body, Grid::new([1]), [BlockSpec::whole()], outputs))
        };
        check(sums, &[normal(0, F64, [20, 700])]);
    }

    #[test]
    fn sequential_programs_share_memory() {
        let totals = || {
            let body = |[x, o, last, sum]: [Ref; 4]| {
                let is_first = eq(kernel::program_id(0), 0);
                kernel::when(&is_first, || sum.store(0.0));
                kernel::when(&is_first, || o.store(0.0));
                let x = x.load();
                // Each of the two depends on the other's elements before.
                let before = sum.load();
                sum.store(rev(&before, &[1]) + x.sum_axes(axes(0).keepdims()));
                o.store(o.load() + &before);
                last.store(x + sum.load());
            };
            let outputs = [
                Output::new(F32, [1, 128], BlockSpec::whole()),
                Output::new(F32, [8, 128], BlockSpec::whole()),
            ];
            mosaic(kernel::call(body, Grid::new([4]).sequential(1), [rows(8, 128)], outputs))
                .scratch([Scratch::vmem(F32, [1, 128])])
        };
        check(totals, &[normal(0, F32, [32, 128])]);
    }

    #[test]
    fn elements_move_within_values() {
        let moved = || {
            let body = |[x, o]: [Ref; 2]| {
                let x = x.load();
                let twice = transpose(&concatenate([&x, &x], 1), &[1, 0]);
                let halves = rev(&twice.reshape([100, 2, 4]), &[0]).sum_axes([1]);
                let middle = transpose(&halves, &[1, 0]).index(i![.., 25..75]);
                o.store(0.0);
                o.at((ds(2, 4), ..)).store(&middle);
                let row = o.at((3, ..)).load();
                o.at((kernel::program_id(0), ..)).store(row);
            };
            let output = Output::new(F32, [32, 50], rows(8, 50));
            mosaic(kernel::call(body, Grid::new([4]), [rows(8, 50)], [output]))
        };
        check(moved, &[normal(0, F32, [32, 50])]);
    }

    #[test]
    fn operands_share_memory_with_outputs() {
        let reversed = || {
            let body = |[x, o]: [Ref; 2]| o.store(rev(&x.load(), &[1]) + o.load());
            let output = Output::new(F32, [32, 50], rows(8, 50));
            mosaic(kernel::call(body, Grid::new([4]), [rows(8, 50)], [output])).alias(0, 0)
        };
        check(reversed, &[normal(0, F32, [32, 50])]);
    }

    #[test]
    fn prefetched_operands_choose_blocks() {
        let gather = || {
            let body = |[_index, x, o]: [Ref; 3]| o.store(x.load() * 2.0);
            let block = BlockSpec::prefetched([8, 128], |[i], [index]| (index.at((i,)).load(), 0));
            let output = Output::new(F32, [32, 128], rows(8, 128));
            mosaic(kernel::call(body, Grid::new([4]), [block], [output])).prefetch(1)
        };
        let index = Array::from_slice(&[3i32, 0, 2, 2], [4]).unwrap();
        check(gather, &[index, normal(0, F32, [32, 128])]);
    }

    #[test]
    fn integers_of_a_byte() {
        let integers = || {
            let body = |[x, y, o]: [Ref; 3]| {
                let (x, y) = (x.load(), y.load());
                let quotient = floor_divide(&x, &y);
                o.store(quotient + (&x ^ &y) + maximum(&x, &y) + where_(lt(&x, &y), &x, 7));
            };
            let output = Output::new(I8, [32, 128], rows(8, 128));
            mosaic(kernel::call(body, Grid::new([4]), [rows(8, 128), rows(8, 128)], [output]))
        };
        let [x, y] = [0, 1].map(|seed| (normal(seed, F32, [32, 128]) * 5.0).astype(I8));
        check(integers, &[x, y]);
    }

    fn error_of(kernel: fn() -> Kernel, operands: &[Array]) -> String {
        lowered(kernel, operands).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn operations_without_a_form_are_refused_at_their_line() {
        let product = || {
            let body = |[x, y, o]: [Ref; 3]| o.store(x.load().matmul(&y.load()));
            let whole = BlockSpec::whole;
            let output = Output::new(F32, [32, 32], whole());
            mosaic(kernel::call(body, Grid::new([1]), [whole(), whole()], [output]))
        };
        let line = line!() - 5;
        let error = error_of(product, &[0, 1].map(|seed| normal(seed, F32, [32, 32])));
        assert!(error.contains("Mosaic GPU do not have the operation `dot_general`"), "{error}");
        assert!(error.contains(&format!("{}:{line}", file!())), "{error}");
        assert!(error.contains("GpuBackend::Triton"), "{error}");
    }

    #[test]
    fn limits_are_checked_before_the_compiler() {
        let large = || {
            let body = |[x, o, sum]: [Ref; 3]| {
                sum.add_assign(x.load());
                o.store(sum.load());
            };
            let output = Output::new(F32, [256, 256], BlockSpec::whole());
            mosaic(kernel::call(body, Grid::new([2]).sequential(1), [BlockSpec::whole()], [output]))
                .scratch([Scratch::vmem(F32, [256, 256])])
        };
        let error = error_of(large, &[normal(0, F32, [256, 256])]);
        assert!(
            error.contains("165888 bytes of shared memory") && error.contains("A100"),
            "{error}"
        );
        assert!(error.contains("65536 elements of f32") && error.contains(file!()), "{error}");
        let warps = || {
            let options = KernelOptions { num_warps: Some(3), ..KernelOptions::default() };
            mosaic(add().options(options))
        };
        let error = error_of(warps, &[0, 1].map(|seed| normal(seed, F32, [1000])));
        assert!(error.contains("3 warps") && error.contains("num_warps"), "{error}");
    }

    /// The evaluator finds that a thread reads what another one has not written yet.
    #[test]
    fn the_evaluator_finds_missing_barriers() {
        let operands = [normal(0, F32, [18, 300])];
        let text = kernel_text(&lowered(softmax_of_rows, &operands).unwrap());
        let without = text.replacen("\"stable_mosaic_gpu.gpu.barrier\"() : () -> ()", "", 1);
        let blank = |line: &&str| !line.trim().starts_with("loc(") && !line.trim().is_empty();
        let without: Vec<&str> = without.lines().filter(blank).collect();
        let arrays = || vec![operands[0].to_bytes().unwrap(), vec![0; 4 * 18 * 300]];
        Machine::run(&text, arrays());
        let run = std::panic::catch_unwind(|| Machine::run(&without.join("\n"), arrays()));
        let message = run.map(drop).unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("writes what"), "{message}");
    }

    /// The text for a vector addition. `UPDATE_EXPECT=1` accepts a change.
    #[test]
    fn the_text_of_an_addition_is_known() {
        let operands = [0, 1].map(|seed| normal(seed, F32, [1000]));
        let module = lowered(add, &operands).unwrap();
        assert!(module.contains("@mosaic_gpu_v2") || module.contains("\"mosaic_gpu_v2\""));
        let text = kernel_text(&module);
        let without_locs: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("#l"))
            .map(|line| line.split(" loc(").next().unwrap())
            .collect();
        let text = without_locs.join("\n") + "\n";
        expect_test::expect_file!["add.mlir"].assert_eq(&text);
        assert_eq!(module, lowered(add, &operands).unwrap());
    }
}
