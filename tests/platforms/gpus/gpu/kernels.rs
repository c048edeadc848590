//! Kernels compiled by Triton for several GPUs.

use oxidax::core::DType::{BF16, F32, I8, I32};
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, KernelOptions, Output, Ref, Scratch};
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
