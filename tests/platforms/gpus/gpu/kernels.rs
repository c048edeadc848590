//! Kernels compiled by Triton and Mosaic GPU for several GPUs.

use oxidax::core::DType::{BF16, F32, I8, I32};
use oxidax::kernel::{
    self, BlockSpec, GpuBackend, Grid, Kernel, KernelOptions, KernelTarget, Output, Ref, Scratch,
    ds,
};
use oxidax::prelude::*;
use oxidax::primitives::{DotGeneral, dot_general};

/// A product of matrices of 512 rows and columns, in blocks of 128 x 128 and 64 steps.
fn product(out: DType) -> Kernel {
    kernel::call(
        move |[a, b, o, sum]: [Ref; 4]| {
            let k = kernel::program_id(2);
            kernel::when(eq(&k, 0), || sum.store(0.0));
            let how = DotGeneral {
                lhs_contracting: vec![1],
                rhs_contracting: vec![0],
                preferred_element_type: Some(out),
                ..DotGeneral::default()
            };
            sum.add_assign(dot_general(&a.load(), &b.load(), how));
            kernel::when(eq(&k, 3), || o.store(sum.load()));
        },
        Grid::new([4, 4, 4]).sequential(1),
        [
            BlockSpec::new([128, 128], |[i, _, k]| (i, k)),
            BlockSpec::new([128, 128], |[_, j, k]| (k, j)),
        ],
        [Output::new(out, [512, 512], BlockSpec::new([128, 128], |[i, j, _]| (i, j)))],
    )
    .scratch([Scratch::vmem(out, [128, 128])])
}

fn rows() -> BlockSpec {
    BlockSpec::new([8, 128], |[i]| (i, 0))
}

/// A softmax of rows, which starts with the memory of its operand.
fn softmax_in_place() -> Kernel {
    let body = |[x, o]: [Ref; 2]| o.store(softmax(x.load(), [1]));
    let output = Output::new(F32, [32, 128], rows());
    kernel::call(body, Grid::new([4]), [rows()], [output]).alias(0, 0)
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn kernels_compile_for_each_gpu() {
    for name in ["a100", "h100", "h200", "b200"] {
        let topology = Topology::named(&format!("{name}:1")).unwrap();
        for (operands, out) in [(BF16, F32), (F32, F32), (I8, I32)] {
            let run = jit(move |a: Array, b: Array| product(out).apply1(&[&a, &b]));
            let aval = || Aval::new(operands, [512, 512]);
            let compiled = run.lower(aval(), aval()).unwrap().compile_for(&topology).unwrap();
            // The code of the kernel is in it: the program without it takes 4 kB.
            let size = compiled.serialize().unwrap().len();
            assert!(size > 9000, "{name} {operands}: {size} bytes");
        }
        let run = jit(|x: Array| softmax_in_place().apply1(&[&x]));
        run.lower(Aval::new(F32, [32, 128])).unwrap().compile_for(&topology).unwrap();
    }
}

#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn kernels_that_need_too_much_shared_memory_are_refused() {
    let run = jit(|a: Array, b: Array| {
        let options = KernelOptions { num_stages: Some(8), ..KernelOptions::default() };
        product(F32).options(options).apply1(&[&a, &b])
    });
    let aval = || Aval::new(F32, [512, 512]);
    let error = run.lower(aval(), aval()).map(drop).unwrap_err().to_string();
    assert!(error.contains("in the 7 buffers of 8 stages"), "{error}");
}

/// A kernel may fit one GPU and not another one.
#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn shared_memory_is_that_of_the_gpu() {
    let run = jit(|a: Array, b: Array| {
        let options = KernelOptions { num_stages: Some(7), ..KernelOptions::default() };
        product(I32).options(options).apply1(&[&a, &b])
    });
    let aval = |dtype| Aval::new(dtype, [512, 512]);
    let lowered = run.lower(aval(I8), aval(I8)).unwrap();
    let compile = |name| lowered.compile_for(&Topology::named(name).unwrap()).map(drop);
    for name in ["h100:1", "h200:1", "b200:1"] {
        compile(name).unwrap();
    }
    let expect = |error: String, parts: &[&str]| {
        for part in parts.iter().chain(&["num_stages", file!()]) {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    let on_a100 = "32768 bytes of shared memory on NVIDIA A100-SXM4-80GB, 196608 in the 6 buffers";
    expect(compile("a100:1").unwrap_err().to_string(), &[on_a100, "at most 166912"]);
    // Asynchronous products need one buffer more.
    let run = jit(|a: Array, b: Array| {
        let options = KernelOptions { num_stages: Some(4), ..KernelOptions::default() };
        product(F32).options(options).apply1(&[&a, &b])
    });
    let lowered = run.lower(aval(BF16), aval(BF16)).unwrap();
    for name in ["h100:1", "b200:1"] {
        let error = lowered.compile_for(&Topology::named(name).unwrap()).map(drop).unwrap_err();
        let parts = ["262144 in the 4 buffers of 4 stages", "at most 232448"];
        expect(error.to_string(), &parts);
    }
}

/// The compiler knows what conversions between layouts need.
#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn shared_memory_that_the_compiler_adds_is_an_error_with_the_line() {
    let run = jit(|x: Array| {
        let transposed = |[x, o]: [Ref; 2]| o.store(softmax(x.load(), [0]).t());
        let output = Output::new(F32, [256, 256], BlockSpec::whole());
        let line = kernel::call(transposed, Grid::new([1]), [BlockSpec::whole()], [output]);
        line.targets([KernelTarget::Gpu]).apply1(&[&x])
    });
    let lowered = run.lower(Aval::new(F32, [256, 256])).unwrap();
    let error = lowered.compile_for(&Topology::named("h100:1").unwrap()).map(drop).unwrap_err();
    let error = error.to_string();
    for part in ["requested 262144, available: 232448", "choose smaller blocks for GPUs", file!()] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

type Body = fn(&[Ref]);

/// A kernel of Mosaic GPU over blocks of rows, the last of which reaches beyond the arrays.
fn mosaic(body: Body, dtype: DType, n_inputs: usize) -> Kernel {
    let rows = || BlockSpec::new([4, 300], |[i]| (i, 0));
    let output = Output::new(dtype, [18, 300], rows());
    let inputs: Vec<BlockSpec> = (0..n_inputs).map(|_| rows()).collect();
    kernel::call(move |refs: Vec<Ref>| body(&refs), Grid::new([5]), inputs, [output])
        .targets([KernelTarget::Gpu])
        .gpu_backend(GpuBackend::MosaicGpu)
}

fn added(refs: &[Ref]) {
    refs[2].store(refs[0].load() + refs[1].load());
}

fn gated(refs: &[Ref]) {
    let x = refs[0].load() * 0.5 + 1.0;
    refs[2].store(tanh(&x) * logistic(refs[1].load()));
}

fn softmax_of_rows(refs: &[Ref]) {
    refs[1].store(softmax(refs[0].load(), [1]));
}

fn normalized(refs: &[Ref]) {
    let x = refs[0].load().astype(F32);
    let centered = &x - x.mean_axes(axes(1).keepdims());
    let variance = square(&centered).mean_axes(axes(1).keepdims());
    refs[1].store((centered * rsqrt(&(variance + 1e-5))).astype(BF16));
}

/// Compiles kernels for the GPU of this name, and one of them for another GPU.
fn compile_kernels_of_mosaic_gpu(name: &str) {
    let topology = Topology::named(&format!("{name}:1")).unwrap();
    let kernels: [(Body, DType, usize); 4] =
        [(added, F32, 2), (gated, BF16, 2), (softmax_of_rows, F32, 1), (normalized, BF16, 1)];
    for (index, (body, dtype, n_inputs)) in kernels.into_iter().enumerate() {
        let run = jit(move |operands: Vec<Array>| {
            let operands: Vec<&Array> = operands.iter().collect();
            mosaic(body, dtype, n_inputs).apply1(&operands)
        });
        let operands = vec![zeros([18, 300]).astype(dtype); n_inputs];
        let lowered = run.lower(&operands).unwrap();
        let compiled = lowered.compile_for(&topology).unwrap();
        let size = compiled.serialize().unwrap().len();
        assert!(size > 9000, "{name} {dtype}: {size} bytes");
        if index > 0 {
            continue;
        }
        let other = Topology::named(if name == "a100" { "h100:1" } else { "a100:1" }).unwrap();
        let error = lowered.compile_for(&other).map(drop).unwrap_err().to_string();
        assert!(error.contains("compile this program in another process"), "{error}");
    }
}

/// A process compiles kernels of Mosaic GPU for one architecture, so that each has its process.
#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn kernels_of_mosaic_gpu_compile_for_each_gpu() {
    const VARIABLE: &str = "OXIDAX_TEST_MOSAIC_GPU";
    if let Ok(name) = std::env::var(VARIABLE) {
        return compile_kernels_of_mosaic_gpu(&name);
    }
    for name in ["a100", "h100", "b200"] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["kernels_of_mosaic_gpu_compile_for_each_gpu", "--ignored", "--nocapture"])
            .env(VARIABLE, name)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{name}: {output:?}");
    }
}

/// Triton reports that the operands of products in a loop do not fit, without a location.
#[test]
#[ignore = "needs the CUDA plugin: `cargo xtask gpu` runs it"]
fn errors_of_the_compiler_name_the_call_of_the_kernel() {
    let run = jit(|a: Array, b: Array| {
        let body = |[a, b, o]: [Ref; 3]| {
            let step = |k: Array, sum: Array| {
                let a = a.at((.., ds(&k * 128, 128))).load();
                sum + a.matmul(&b.at((ds(&k * 128, 128), ..)).load())
            };
            o.store(kernel::fori_loop(0, 4, step, zeros([256, 256])));
        };
        let output = Output::new(F32, [256, 256], BlockSpec::whole());
        let whole = [BlockSpec::whole(), BlockSpec::whole()];
        let product = kernel::call(body, Grid::new([1]), whole, [output]);
        product.targets([KernelTarget::Gpu]).apply1(&[&a, &b])
    });
    let line = line!() - 2;
    let lowered = run.lower(Aval::new(F32, [256, 512]), Aval::new(F32, [512, 256])).unwrap();
    for (name, limit) in [("a100", "166912"), ("h100", "232448")] {
        let topology = Topology::named(&format!("{name}:1")).unwrap();
        let error = lowered.compile_for(&topology).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("available: {limit}")), "{error}");
        assert!(error.contains(&format!("--> {}:{line}:", file!())), "{error}");
        assert!(error.contains("`Kernel::on_gpu`") && error.contains(name), "{error}");
    }
}
