//! Blocks of the library's kernels by a table in scope, or else by the model.

use oxidax::block_sizes::{
    BlockEntry, BlockTable, ChosenBlocks, TimeSource, chosen_blocks, with_block_table,
};
use oxidax::core::Program;
use oxidax::kernel::{KernelCall, KernelPlatform};
use oxidax::kernels::{
    self, FlashAttentionOptions, GluOptions, GroupedMatmulOptions, LinearCrossEntropyOptions,
    LinearGluOptions, PagedAttentionOptions, Quantization, QuantizedMatmulOptions, QuantizedWeight,
    RmsNormOptions,
};
use oxidax::prelude::*;
use oxidax::roofline::DeviceSpec;

fn device(name: &str) -> DeviceSpec {
    DeviceSpec::named(name).expect("it is in the table")
}

fn bf16<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::BF16, shape)
}

fn i32s<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::I32, shape)
}

/// A function of the library, its operands, and its kernels, with their gradients.
struct Case {
    function: fn(&[Array]) -> Array,
    /// The function with blocks in its options.
    explicit: fn(&[Array]) -> Array,
    operands: Vec<Aval>,
    /// Operands with a derivative come first.
    n_differentiable: usize,
    kernels: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            function: |x| kernels::flash_attention(&x[0], &x[1], &x[2]),
            explicit: |x| {
                let options = FlashAttentionOptions {
                    block_q: Some(128),
                    block_kv: Some(128),
                    ..FlashAttentionOptions::default()
                };
                kernels::flash_attention_with(&x[0], &x[1], &x[2], &options)
            },
            operands: vec![bf16([1, 1024, 2, 64]); 3],
            n_differentiable: 3,
            kernels: &[
                "flash_attention",
                "flash_attention_keys_and_values",
                "flash_attention_queries",
            ],
        },
        Case {
            function: |x| kernels::linear_cross_entropy(&x[0], &x[1], &x[2]),
            explicit: |x| {
                let options = LinearCrossEntropyOptions {
                    block_sizes: Some((128, 128)),
                    ..LinearCrossEntropyOptions::default()
                };
                kernels::linear_cross_entropy_with(&x[0], &x[1], &x[2], &options)
            },
            operands: vec![bf16([512, 256]), bf16([2048, 256]), i32s([512])],
            n_differentiable: 2,
            kernels: &[
                "linear_cross_entropy",
                "linear_cross_entropy_dx",
                "linear_cross_entropy_dw",
            ],
        },
        Case {
            function: |x| kernels::rms_norm(&x[0], &x[1]),
            explicit: |x| {
                let options = RmsNormOptions { block_rows: Some(64), ..RmsNormOptions::default() };
                kernels::rms_norm_with(&x[0], &x[1], &options)
            },
            operands: vec![bf16([2048, 512]), bf16([512])],
            n_differentiable: 2,
            kernels: &["rms_norm", "rms_norm_gradient"],
        },
        Case {
            function: |x| kernels::silu_and_mul(&x[0], &x[1]),
            explicit: |x| {
                let options = GluOptions { block_sizes: Some((64, 128)) };
                kernels::silu_and_mul_with(&x[0], &x[1], &options)
            },
            operands: vec![bf16([2048, 512]); 2],
            n_differentiable: 2,
            kernels: &["silu_and_mul", "silu_and_mul"],
        },
        Case {
            function: |x| kernels::linear_glu(&x[0], &x[1], &x[2]),
            explicit: |x| {
                let options = LinearGluOptions {
                    block_sizes: Some((128, 128)),
                    ..LinearGluOptions::default()
                };
                kernels::linear_glu_with(&x[0], &x[1], &x[2], &options)
            },
            operands: vec![bf16([512, 256]), bf16([256, 1024]), bf16([256, 1024])],
            n_differentiable: 3,
            kernels: &["linear_glu", "linear_glu_gradient"],
        },
        Case {
            function: |x| kernels::grouped_matmul(&x[0], &x[1], &x[2]),
            explicit: |x| {
                let options =
                    GroupedMatmulOptions { block_n: Some(128), ..GroupedMatmulOptions::default() };
                kernels::grouped_matmul_with(&x[0], &x[1], &x[2], &options)
            },
            operands: vec![bf16([512, 256]), bf16([4, 256, 512]), i32s([4])],
            n_differentiable: 2,
            kernels: &["grouped_matmul", "grouped_matmul", "grouped_matmul_of_groups"],
        },
        Case {
            function: |x| quantized(x, Quantization::Int8 { group_size: None }, None),
            explicit: |x| quantized(x, Quantization::Int8 { group_size: None }, Some(256)),
            operands: vec![bf16([256, 512]), Aval::new(DType::F32, [512, 512])],
            n_differentiable: 1,
            kernels: &["quantized_matmul", "quantized_matmul_transposed"],
        },
        Case {
            function: |x| quantized(x, Quantization::Int4 { group_size: 128 }, None),
            explicit: |x| quantized(x, Quantization::Int4 { group_size: 128 }, Some(256)),
            operands: vec![bf16([256, 512]), Aval::new(DType::F32, [512, 512])],
            n_differentiable: 1,
            kernels: &["quantized_matmul_of_groups", "quantized_matmul_of_groups_transposed"],
        },
        Case {
            function: |x| kernels::paged_attention(&x[0], &x[1], &x[2], &x[3], &x[4]),
            explicit: |x| {
                let options = PagedAttentionOptions {
                    pages_per_block: Some(2),
                    ..PagedAttentionOptions::default()
                };
                kernels::paged_attention_with(&x[0], &x[1], &x[2], &x[3], &x[4], &options)
            },
            operands: vec![
                bf16([4, 16, 128]),
                bf16([2, 64, 16, 128]),
                bf16([2, 64, 16, 128]),
                i32s([4]),
                i32s([4, 16]),
            ],
            n_differentiable: 0,
            kernels: &["paged_attention"],
        },
    ]
}

fn quantized(x: &[Array], quantization: Quantization, block_k: Option<usize>) -> Array {
    let weight = QuantizedWeight::quantize(&x[1], quantization);
    let options = QuantizedMatmulOptions { block_k, ..QuantizedMatmulOptions::default() };
    kernels::quantized_matmul_with(&x[0], &weight, &options)
}

/// Traces a function and its gradients.
fn trace(case: &Case, function: fn(&[Array]) -> Array) -> Program {
    let n = case.n_differentiable;
    let run = move |operands: Vec<Array>| {
        if n == 0 {
            return vec![function(&operands)];
        }
        let rest = operands[n..].to_vec();
        let loss = |first: &Vec<Array>| {
            let operands: Vec<Array> = first.iter().chain(&rest).cloned().collect();
            function(&operands).astype(DType::F32).sum()
        };
        grad(loss)(&operands[..n].to_vec())
    };
    let operands: Vec<Array> = case.operands.iter().cloned().map(Array::of_type).collect();
    make_program(run, &operands).unwrap()
}

fn choices(case: &Case, table: &BlockTable, name: &str) -> Vec<ChosenBlocks> {
    chosen_blocks(table, &device(name), || trace(case, case.function)).1
}

/// Adds the kernels of a program.
fn kernel_calls(program: &Program, calls: &mut Vec<KernelCall>) {
    for eqn in program.eqns() {
        if let Some(call) = eqn.primitive.as_any().downcast_ref::<KernelCall>() {
            calls.push(call.clone());
        } else if let Some(holder) = eqn.primitive.as_higher_order() {
            holder.programs().into_iter().for_each(|(_, inner)| kernel_calls(inner, calls));
        }
    }
}

/// Returns the sizes of the first input's block that has axes, on a kind of device.
fn blocks_on(program: &Program, kernel: &str, is_gpu: bool) -> Vec<Vec<Vec<usize>>> {
    let mut calls = Vec::new();
    kernel_calls(program, &mut calls);
    let of = |call: &KernelCall| {
        let gpu = call.variant(KernelPlatform::Gpu).filter(|_| is_gpu);
        let inputs = &gpu.unwrap_or(call).inputs;
        inputs.iter().map(|window| window.block_sizes()).collect()
    };
    calls.iter().filter(|call| call.name == kernel).map(of).collect()
}

fn entry(chosen: &ChosenBlocks, chip: &str, blocks: Vec<usize>) -> BlockEntry {
    BlockEntry {
        chip: chip.into(),
        kernel: chosen.kernel.clone(),
        operands: chosen.operands.clone(),
        blocks,
        seconds: 1e-5,
    }
}

#[test]
fn the_model_chooses_blocks_of_each_kernel() {
    for case in cases() {
        let chosen = choices(&case, &BlockTable::default(), "v5e");
        let names: Vec<&str> = chosen.iter().map(|of| of.kernel.as_str()).collect();
        for name in case.kernels {
            assert!(names.contains(name), "{name} in {names:?}");
        }
        assert!(chosen.iter().all(|of| of.choice.source == TimeSource::Model), "{chosen:?}");
    }
}

#[test]
fn entries_of_the_table_change_the_blocks() {
    for case in cases() {
        for chip in ["v5e", "h100"] {
            let (before, chosen) = chosen_blocks(&BlockTable::default(), &device(chip), || {
                trace(&case, case.function)
            });
            // Smaller blocks, which fit, but for tiles of TPUs and one page.
            let mut table = BlockTable::default();
            let mut changed = Vec::new();
            for of in &chosen {
                let smaller = |&size: &usize| match size {
                    256.. => size / 2,
                    1 => 2,
                    _ => size,
                };
                let blocks: Vec<usize> = of.choice.blocks.iter().map(smaller).collect();
                if blocks != of.choice.blocks {
                    table.insert(entry(of, chip, blocks.clone()));
                    changed.push((of, blocks));
                }
            }
            let (after, with_entries) =
                chosen_blocks(&table, &device(chip), || trace(&case, case.function));
            for (of, blocks) in changed {
                let is_same = |other: &&ChosenBlocks| {
                    (&other.kernel, &other.operands) == (&of.kernel, &of.operands)
                };
                let found = with_entries.iter().find(is_same).expect("it is traced again");
                assert_eq!(found.choice.source, TimeSource::Measured);
                assert_eq!(found.choice.blocks, blocks, "{} on {chip}", of.kernel);
                let [before, after] =
                    [&before, &after].map(|program| blocks_on(program, &of.kernel, chip == "h100"));
                assert_ne!(before, after, "{} on {chip}", of.kernel);
            }
        }
    }
}

#[test]
fn blocks_in_options_come_first() {
    for case in cases() {
        let (program, chosen) =
            chosen_blocks(&BlockTable::default(), &device("v5e"), || trace(&case, case.explicit));
        assert_eq!(chosen, [], "{}", case.kernels[0]);
        let outside = trace(&case, case.explicit);
        for name in case.kernels {
            let [found, expected] = [&program, &outside].map(|of| blocks_on(of, name, false));
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn kernels_of_other_devices_keep_their_blocks() {
    for case in cases().into_iter().filter(|case| case.kernels[0] == "flash_attention") {
        let plain = trace(&case, case.function);
        let on_tpu = with_block_table(&BlockTable::default(), &device("v5e"), || {
            trace(&case, case.function)
        });
        let of = |program, is_gpu| blocks_on(program, "flash_attention", is_gpu);
        assert_ne!(of(&plain, false), of(&on_tpu, false));
        assert_eq!(of(&plain, true), of(&on_tpu, true));
    }
}

#[test]
fn unusable_entries_are_errors() {
    let norm = |x: Array, scale: Array| kernels::rms_norm(&x, &scale);
    let run = |blocks: Vec<usize>| {
        let mut table = BlockTable::default();
        table.insert(BlockEntry {
            chip: "v5e".into(),
            kernel: "rms_norm".into(),
            operands: "bf16[8192,4096] bf16[1,4096]".into(),
            blocks,
            seconds: 1e-3,
        });
        let operands = (bf16([8192, 4096]), bf16([4096]));
        with_block_table(&table, &device("v5e"), || eval_shape(norm, operands))
    };
    assert!(run(vec![64]).is_ok());
    let parts = [
        (vec![64, 128], "the kernel has 1 block sizes, not 2"),
        (vec![0], "a block size is 0"),
        (vec![4096], "the blocks need 128.1 MiB of VMEM"),
        (vec![7], "rms_norm"),
    ];
    for (blocks, part) in parts {
        let error = run(blocks.clone()).unwrap_err().to_string();
        let start = format!("blocks {blocks:?} of the table's entry for rms_norm");
        assert!(error.contains(&start), "{error}");
        assert!(error.contains(part), "{part}: {error}");
        assert!(error.contains("remove the entry"), "{error}");
        assert!(error.contains(file!()), "{error}");
    }
}

#[test]
fn a_function_is_traced_again_for_another_table() {
    let norm = jit(|x: Array, scale: Array| kernels::rms_norm(&x, &scale));
    let operands = || (bf16([2048, 512]), bf16([512]));
    let rows = |table: &BlockTable| {
        with_block_table(table, &device("v5e"), || {
            let (x, scale) = operands();
            let lowered = norm.lower(x, scale).unwrap();
            blocks_on(lowered.program(), "rms_norm", false)
        })
    };
    let [first, second] = [16, 128].map(|rows_of_block| {
        let mut table = BlockTable::default();
        table.insert(BlockEntry {
            chip: "v5e".into(),
            kernel: "rms_norm".into(),
            operands: "bf16[2048,512] bf16[1,512]".into(),
            blocks: vec![rows_of_block],
            seconds: 1e-5,
        });
        rows(&table)
    });
    assert_eq!(first[0][0], [16, 512]);
    assert_eq!(second[0][0], [128, 512]);
}
