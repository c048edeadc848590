//! Kernels that violate a rule. Each is refused while it is traced, at the line of the
//! specification or operation, with a remedy.

use oxidax::kernel::{
    self, BlockSpec, Grid, Kernel, KernelMemory, KernelOptions, KernelTarget, Output, Ref, Scratch,
    ds, ds_strided,
};
use oxidax::prelude::*;

/// Checks that tracing the kernel fails at the line that ends with the comment `violation: NAME`,
/// and that the message contains the parts, the last of which is from the remedy.
#[track_caller]
fn refused<const N: usize>(name: &str, kernel: &Kernel, operands: &[Aval], parts: [&str; N]) {
    let operands: Vec<Array> = operands.iter().cloned().map(Array::of_type).collect();
    let traced = oxidax::catch(|| kernel.trace(&operands.iter().collect::<Vec<_>>()));
    let error = traced.map(drop).expect_err(name).to_string();
    let marker = format!("// violation: {name}");
    let lines = include_str!("block_rules.rs").lines();
    let line = lines.enumerate().find(|(_, line)| line.trim_end().ends_with(&marker));
    let line = line.expect(name).0 + 1;
    assert!(
        error.contains(&format!("kernels/block_rules.rs:{line}:")),
        "{name}, line {line}: {error}"
    );
    let (message, help) = error.split_once("help:").expect(&error);
    for part in &parts[..N - 1] {
        assert!(message.contains(part), "{name}: `{part}` in {error}");
    }
    assert!(help.contains(parts[N - 1]), "{name}: {error}");
}

fn aval<const N: usize>(dtype: DType, shape: [usize; N]) -> Aval {
    Aval::new(dtype, shape)
}

fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
    aval(DType::F32, shape)
}

/// Returns a kernel of one program that has these operands and this output as a whole.
fn whole<const N: usize>(body: fn([Ref; N]), output: Aval) -> Kernel {
    let inputs: Vec<BlockSpec> = (1..N).map(|_| BlockSpec::whole()).collect();
    let (dtype, shape) = (output.dtype, output.shape.clone());
    kernel::call(body, Grid::new([1]), inputs, [Output::new(dtype, shape, BlockSpec::whole())])
}

/// Returns a kernel of an input and an output of one type with these blocks.
fn blocks(array: &Aval, input: BlockSpec, output: BlockSpec, steps: usize) -> Kernel {
    let (dtype, shape) = (array.dtype, array.shape.clone());
    let body = |[_, y]: [Ref; 2]| y.store(y.load());
    kernel::call(body, Grid::new([steps]), [input], [Output::new(dtype, shape, output)])
}

#[test]
fn blocks_of_parts_of_tiles() {
    let x = f32s([64, 256]);
    let rows = || BlockSpec::new([8, 256], |[i]| (i, 0));
    let bad = BlockSpec::new([12, 256], |[i]| (i, 0)); // violation: rows
    let kernel = blocks(&x, bad, rows(), 8);
    refused(
        "rows",
        &kernel,
        std::slice::from_ref(&x),
        ["12 along axis 0 of f32[64,256]", "multiple of 8", "8 x 128"],
    );
    let bad = BlockSpec::new([64, 96], |[i]| (0, i)); // violation: lanes
    let kernel = blocks(&x, rows(), bad, 8);
    refused(
        "lanes",
        &kernel,
        std::slice::from_ref(&x),
        ["output 0", "96 along axis 1", "multiple of 128", "tiles"],
    );
    let bad = BlockSpec::new([None, Some(256)], |[i]| (i, 0)); // violation: squeezed
    let kernel = blocks(&x, bad, rows(), 8);
    refused("squeezed", &kernel, &[x], ["a squeezed block of 1 along axis 0", "8 x 128"]);
}

#[test]
fn blocks_of_one_axis() {
    let x = f32s([4096]);
    let bad = BlockSpec::new([100], |[i]| (i,)); // violation: vector f32
    let kernel = blocks(&x, bad, BlockSpec::new([128], |[i]| (i,)), 32);
    refused("vector f32", &kernel, &[x], ["100 along axis 0", "multiple of 128", "128 elements"]);
    let x = aval(DType::BF16, [4096]);
    let bad = BlockSpec::new([128], |[i]| (i,)); // violation: vector bf16
    let kernel = blocks(&x, bad, BlockSpec::new([256], |[i]| (i,)), 16);
    refused("vector bf16", &kernel, &[x], ["multiple of 256", "256 elements of bf16"]);
    let x = aval(DType::I8, [4096]);
    let bad = BlockSpec::new([256], |[i]| (i,)); // violation: vector i8
    let kernel = blocks(&x, bad, BlockSpec::new([512], |[i]| (i,)), 8);
    refused("vector i8", &kernel, &[x], ["multiple of 512", "512 elements of i8"]);
}

#[test]
fn blocks_of_scalars() {
    let x = f32s([64]);
    let bad = BlockSpec::new([16], |[i]| (i,)); // violation: smem block
    let bad = bad.memory(KernelMemory::Smem);
    let kernel = blocks(&x, bad, BlockSpec::new([64], |[_]| (0,)), 1);
    refused("smem block", &kernel, &[x], ["16 along axis 0 of f32[64]", "prefetched operand"]);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let scalars = x.load(); // violation: smem vector
            y.store(scalars.sum());
        },
        Grid::new([1]),
        [BlockSpec::whole().memory(KernelMemory::Smem)],
        [Output::new(DType::F32, [8, 128], BlockSpec::whole())],
    );
    let parts = ["`ref_get`: [64] elements of f32[64] in SMEM at once", "one element at a time"];
    refused("smem vector", &kernel, &[f32s([64])], parts);
}

#[test]
fn dtypes_without_blocks() {
    let cases = [
        (DType::F64, "convert to f32"),
        (DType::F16, "convert to bf16 or f32"),
        (DType::Bool, "compare with 0 inside"),
        (DType::I64, "convert to i32"),
        (DType::C64, "the real and the imaginary part"),
    ];
    for (dtype, help) in cases {
        let x = aval(dtype, [8, 128]);
        let bad = BlockSpec::whole(); // violation: dtype
        let kernel = blocks(&x, bad, BlockSpec::whole(), 1);
        let message = format!("input 0: a kernel for TPUs has no blocks of {dtype}");
        refused("dtype", &kernel, &[x], [&message, help]);
    }
    let kernel = whole(
        |[x, y]| {
            let half = x.load().astype(DType::F16); // violation: f16
            y.store(half.astype(DType::F32));
        },
        f32s([8, 128]),
    );
    let parts = ["`convert_element_type`: a TPU kernel has no f16", "bf16 or f32"];
    refused("f16", &kernel, &[f32s([8, 128])], parts);
}

#[test]
fn blocks_beyond_vmem() {
    let x = f32s([4096, 2048]);
    let bad = || BlockSpec::new([1024, 2048], |[i]| (i, 0)); // violation: vmem
    let kernel = blocks(&x, bad(), bad(), 4);
    let parts = [
        "the blocks need 32.0 MiB of VMEM, the limit is 16.0 MiB",
        "input 0 2 x 8.0 MiB, output 0 2 x 8.0 MiB",
        "KernelOptions::vmem_limit",
    ];
    refused("vmem", &kernel, std::slice::from_ref(&x), parts);
    let x = Array::of_type(x);
    let is_traced = |kernel: &Kernel| oxidax::catch(|| kernel.trace(&[&x])).is_ok();
    let targets = vec![KernelTarget::Tpu];
    let options = KernelOptions { vmem_limit: 64 << 20, targets, ..KernelOptions::default() };
    assert!(is_traced(&kernel.clone().options(options)));
    // Triton takes at most 2^20 elements.
    assert!(!is_traced(&kernel.clone().targets([KernelTarget::Gpu])));
    assert!(is_traced(&kernel.interpret()));
    // A column takes 128 lanes.
    let x = f32s([8, 128]);
    let kernel = kernel::call(
        |[x, y, _]: [Ref; 3]| y.store(x.load()),
        Grid::new([1]),
        [BlockSpec::whole()],
        [Output::new(DType::F32, [8, 128], BlockSpec::whole())],
    );
    let kernel = kernel.scratch([Scratch::vmem(DType::F32, [1 << 16, 1])]);
    let traced = oxidax::catch(|| kernel.trace(&[&Array::of_type(x)]));
    let error = traced.map(drop).unwrap_err().to_string();
    assert!(error.contains("scratch 0 32.0 MiB"), "{error}");
}

#[test]
fn starts_that_may_split_tiles() {
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let rows = x.at((ds(kernel::program_id(0) * 4, 8), ..)).load(); // violation: start
            y.store(rows);
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::whole()],
        [Output::new(DType::F32, [8, 128], BlockSpec::whole())],
    );
    let parts = ["axis 0 of f32[64,128]", "known to be a multiple of 8", "multiple_of(&start, 8)"];
    refused("start", &kernel, &[f32s([64, 128])], parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let row = x.at((ds(kernel::program_id(0), 1), ..)).load(); // violation: bf16 row
            y.store(row);
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::whole()],
        [Output::new(DType::BF16, [1, 128], BlockSpec::whole())],
    );
    let parts = ["axis 0 of bf16[64,128]", "a multiple of 8", "a single row of 32-bit elements"];
    refused("bf16 row", &kernel, &[aval(DType::BF16, [64, 128])], parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let rows = x.at((ds(kernel::program_id(0) * 8, 8), ..)).load(); // violation: i8 rows
            y.store(rows);
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::whole()],
        [Output::new(DType::I8, [8, 128], BlockSpec::whole())],
    );
    let parts = ["axis 0 of i8[64,128]", "a multiple of 32", "multiple_of(&start, 32)"];
    refused("i8 rows", &kernel, &[aval(DType::I8, [64, 128])], parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let lanes = x.at((.., ds(kernel::program_id(0) * 64, 128))).load(); // violation: lane
            y.store(lanes);
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::whole()],
        [Output::new(DType::F32, [8, 128], BlockSpec::whole())],
    );
    let parts = ["axis 1 of f32[8,512]", "a multiple of 128", "multiple_of(&start, 128)"];
    refused("lane", &kernel, &[f32s([8, 512])], parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            y.at((ds(kernel::program_id(0), 1),)).store(x.load()); // violation: element
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::new([1], |[_]| (0,))],
        [Output::new(DType::F32, [512], BlockSpec::whole())],
    );
    refused("element", &kernel, &[f32s([1])], ["axis 0 of f32[512]", "a number times 128"]);
}

#[test]
fn strides_along_lanes() {
    let kernel = whole(
        |[x, y]| {
            y.store(x.at((.., ds_strided(0, 64, 2))).load()); // violation: stride
        },
        f32s([8, 64]),
    );
    let parts = ["64 indices 2 apart along axis 1 of f32[8,128]", "not the last"];
    refused("stride", &kernel, &[f32s([8, 128])], parts);
    let kernel = whole(
        |[x, y]| {
            let half = x.load().index(i![.., ::2]); // violation: value stride
            y.store(half);
        },
        f32s([8, 64]),
    );
    let parts = ["a stride of 2 along axis 1 of f32[8,128]", "ds_strided"];
    refused("value stride", &kernel, &[f32s([8, 128])], parts);
}

#[test]
fn arithmetic_of_narrow_integers() {
    let kernel = whole(
        |[x, y]| {
            y.store(x.load() + x.load()); // violation: i8 add
        },
        aval(DType::I8, [32, 128]),
    );
    let parts = ["`add`", "16 bits or more, not for i8[32,128]", "convert to i32"];
    refused("i8 add", &kernel, &[aval(DType::I8, [32, 128])], parts);
    let kernel = whole(
        |[x, y]| {
            y.store(maximum(x.load(), 3)); // violation: i16 max
        },
        aval(DType::I16, [32, 128]),
    );
    let parts = ["`max`", "32 bits or more, not for i16[32,128]", "convert to i32"];
    refused("i16 max", &kernel, &[aval(DType::I16, [32, 128])], parts);
}

#[test]
fn products() {
    let kernel = whole(
        |[x, w, y]| {
            y.store(x.load().matmul(&w.load())); // violation: i8 sums
        },
        aval(DType::I8, [32, 128]),
    );
    let x = aval(DType::I8, [32, 128]);
    let w = aval(DType::I8, [128, 128]);
    let parts = ["summed in 32 bits, the result is i8", "preferred_element_type"];
    refused("i8 sums", &kernel, &[x, w], parts);
    let kernel = whole(
        |[x, w, y]| {
            y.store(x.load().matmul(&w.load())); // violation: i32 product
        },
        aval(DType::I32, [32, 128]),
    );
    let operands = [aval(DType::I32, [32, 128]), aval(DType::I32, [128, 128])];
    let parts = ["i8, bf16 and f32, not of i32", "astype"];
    refused("i32 product", &kernel, &operands, parts);
    let kernel = whole(
        |[x, w, y]| {
            let product = einsum("abc,bcd->ad", [&x.load(), &w.load()]); // violation: two axes
            y.store(product);
        },
        f32s([8, 128]),
    );
    let operands = [f32s([8, 8, 128]), f32s([8, 128, 128])];
    refused("two axes", &kernel, &operands, ["summed over 2 axes", "reshape"]);
}

#[test]
fn operations_without_a_form() {
    let x = f32s([8, 128]);
    let kernel = whole(
        |[x, y]| {
            y.store(x.load().prod()); // violation: product
        },
        x.clone(),
    );
    let parts = ["`reduce_prod`", "sum, maximum and minimum", "logarithms"];
    refused("product", &kernel, std::slice::from_ref(&x), parts);
    let kernel = whole(
        |[x, y]| {
            y.store(sort(&x.load(), 1)); // violation: sort
        },
        x.clone(),
    );
    let parts = ["`sort` has no form in a TPU kernel", "outside of the kernel"];
    refused("sort", &kernel, std::slice::from_ref(&x), parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| {
            let start = kernel::program_id(0);
            let row = dynamic_slice_in_dim(&x.load(), &start, 1, 0); // violation: dynamic slice
            y.store(row);
        },
        Grid::new([4]).sequential(1),
        [BlockSpec::whole()],
        [Output::new(DType::F32, [1, 128], BlockSpec::whole())],
    );
    let parts = ["`dynamic_slice`", "no indices that the kernel computes", "scratch memory"];
    refused("dynamic slice", &kernel, std::slice::from_ref(&x), parts);
    let kernel = whole(
        |[x, y]| {
            let rows = |sum: Array, row: Array| (sum + row, ());
            let (sum, ()) = scan(rows, zeros([128]), x.load()); // violation: scan
            y.store(sum);
        },
        x.clone(),
    );
    refused("scan", &kernel, &[x], ["`scan`", "slices of arrays", "kernel::fori_loop"]);
    let kernel = whole(
        |[x, y]| {
            let index = argmax(&x.load(), 1); // violation: argmax
            y.store(index.reshape([8, 1]));
        },
        aval(DType::I32, [8, 1]),
    );
    let parts = ["`argmax`", "f32, not i32[8,128]", "astype"];
    refused("argmax", &kernel, &[aval(DType::I32, [8, 128])], parts);
}

#[test]
fn programs_that_share_a_block() {
    let x = f32s([32, 128]);
    let bad = BlockSpec::whole(); // violation: shared
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| y.add_assign(x.load()),
        Grid::new([4]),
        [BlockSpec::new([8, 128], |[i]| (i, 0))],
        [Output::new(DType::F32, [8, 128], bad)],
    );
    let parts = ["output 0: 4 programs along axis 0", "parallel", "Grid::sequential"];
    refused("shared", &kernel, std::slice::from_ref(&x), parts);
    let kernel = kernel::call(
        |[x, y]: [Ref; 2]| y.add_assign(x.load()),
        Grid::new([4]),
        [BlockSpec::new([8, 128], |[i]| (i, 0))],
        [Output::new(DType::F32, [32, 128], BlockSpec::new([8, 128], |[i]| (3 - i, 0)))],
    );
    let kernel = kernel.alias(0, 0);
    let x = Array::of_type(x);
    let error = oxidax::catch(|| kernel.trace(&[&x])).map(drop).unwrap_err().to_string();
    assert!(error.contains("different index maps"), "{error}");
    assert!(error.contains("give both the same index map"), "{error}");
}

#[test]
fn operands_that_exceed_shared_memory() {
    let kernel = |block_k: usize, num_stages: u32| {
        kernel::call(
            |[x, y, sum, total]: [Ref; 4]| {
                let step = kernel::program_id(0);
                kernel::when(eq(&step, 0), || total.store(0.0));
                let (x, y) = (x.load(), y.load());
                total.add_assign(x.matmul(&y)); // violation: shared memory
                kernel::when(eq(&step, kernel::num_programs(0) as i32 - 1), || {
                    sum.store(total.load());
                });
            },
            Grid::new([4096 / block_k]).sequential(1),
            [
                BlockSpec::new([128, block_k], |[k]| (0, k)),
                BlockSpec::new([block_k, 128], |[k]| (k, 0)),
            ],
            [Output::new(DType::F32, [128, 128], BlockSpec::whole())],
        )
        .scratch([Scratch::vmem(DType::F32, [128, 128])])
        .options(KernelOptions { num_stages: Some(num_stages), ..KernelOptions::default() })
    };
    let types = [f32s([128, 4096]), f32s([4096, 128])];
    let parts = ["operands of products take 262144 bytes", "524288", "Kernel::on_gpu"];
    refused("shared memory", &kernel(256, 3), &types, parts);
    // A kernel for GPUs replaces the blocks, and TPUs alone have no such limit.
    let operands = types.map(Array::of_type);
    let small = kernel(64, 3).targets([KernelTarget::Gpu]);
    for accepted in [small.clone(), kernel(256, 3).on_gpu(small), kernel(256, 1)] {
        accepted.trace(&[&operands[0], &operands[1]]);
    }
}

#[test]
fn a_kernel_for_gpus_with_other_outputs() {
    let kernel = |size: usize| {
        kernel::call(
            move |[x, y]: [Ref; 2]| y.store(x.at((.., ..)).load().sum_axes(0) * size as f32),
            Grid::new([1]),
            [BlockSpec::whole()],
            [Output::new(DType::F32, [size], BlockSpec::whole())],
        )
    };
    let x = Array::of_type(f32s([8, 128]));
    let error = oxidax::catch(|| kernel(128).on_gpu(kernel(256).targets([])).trace(&[&x]));
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.contains("256") || error.contains("the kernel for GPUs"), "{error}");
}
