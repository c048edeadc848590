//! Block sizes: the model's order, and the table of measurements.

use oxidax::block_sizes::{
    BlockEntry, BlockTable, KernelEstimate, TimeSource, TuneOptions, choose_blocks, estimate,
};
use oxidax::kernel::{
    self, BlockSpec, Grid, Kernel, KernelOptions, KernelTarget, Output, Ref, Scratch,
};
use oxidax::prelude::*;
use oxidax::roofline::DeviceSpec;
use std::cell::RefCell;
use std::path::PathBuf;

const SIZE: usize = 2048;

/// A product of matrices `bf16[2048,2048]` with blocks of `[m, n, k]`.
fn matmul(blocks: &[usize]) -> Kernel {
    let [m, n, k] = blocks.try_into().expect("three sizes");
    kernel::call(
        |[a, b, product, sum]: [Ref; 4]| {
            let k = kernel::program_id(2);
            kernel::when(eq(&k, 0), || sum.store(0.0));
            let preferred_element_type = Some(DType::F32);
            let options = MatmulOptions { preferred_element_type, ..MatmulOptions::default() };
            sum.add_assign(matmul_with(&a.load(), &b.load(), options));
            let is_last = eq(&k, kernel::num_programs(2) as i32 - 1);
            kernel::when(is_last, || product.store(sum.load().astype(DType::BF16)));
        },
        Grid::new([SIZE / m, SIZE / n, SIZE / k]).sequential(1),
        [BlockSpec::new([m, k], |[i, _, k]| (i, k)), BlockSpec::new([k, n], |[_, j, k]| (k, j))],
        [Output::new(DType::BF16, [SIZE, SIZE], BlockSpec::new([m, n], |[i, j, _]| (i, j)))],
    )
    .name("matmul")
    .targets([])
    .scratch([Scratch::vmem(DType::F32, [m, n])])
}

fn device(name: &str) -> DeviceSpec {
    DeviceSpec::named(name).expect("it is in the table")
}

/// Runs `f` with an operand of a kernel, which is not computed.
fn with_operand<R>(aval: Aval, f: impl Fn(&Array) -> R) -> R {
    let result = RefCell::new(None);
    let run = |x: Array| {
        result.replace(Some(f(&x)));
        x
    };
    eval_shape(run, aval).unwrap();
    result.into_inner().expect("the function runs")
}

fn matmul_estimate(blocks: [usize; 3], device_name: &str) -> KernelEstimate {
    with_operand(Aval::new(DType::BF16, [SIZE, SIZE]), |x| {
        estimate(&matmul(&blocks).trace(&[x, x]), &device(device_name))
    })
}

fn cube(size: usize) -> [usize; 3] {
    [size; 3]
}

#[test]
fn the_model_prefers_larger_blocks_until_they_exceed_vmem() {
    let sizes = [128, 256, 512, 1024];
    let estimates = sizes.map(|size| matmul_estimate(cube(size), "v5e"));
    for pair in estimates.windows(2) {
        assert!(pair[1].memory < pair[0].memory, "{pair:?}");
        assert!(pair[1].fast_memory > pair[0].fast_memory, "{pair:?}");
    }
    for pair in estimates[..3].windows(2) {
        assert!(pair[1].seconds < pair[0].seconds, "{pair:?}");
    }
    assert!(estimates[..3].iter().all(|estimate| estimate.excess.is_none()), "{estimates:?}");
    let excess = estimates[3].excess.as_deref().unwrap();
    assert!(excess.contains("of VMEM, of 16384 KiB"), "{excess}");
}

#[test]
fn the_model_counts_products_at_the_peak_rate() {
    let estimate = matmul_estimate(cube(512), "v5e");
    let flops = 2.0 * (SIZE as f64).powi(3);
    let ratio = estimate.arithmetic / (flops / device("v5e").peak.bf16);
    assert!((0.99..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn the_best_candidate_that_fits_is_chosen() {
    let sizes = [[128, 128, 64], cube(128), cube(512), cube(256), cube(1024)];
    let candidates: Vec<Vec<usize>> = sizes.map(Vec::from).into();
    with_operand(Aval::new(DType::BF16, [SIZE, SIZE]), |x| {
        let choose = |name| choose_blocks(&candidates, matmul, &[x, x], &device(name)).unwrap();
        for name in ["v4", "v5e", "v5p", "v6e", "7x"] {
            assert_eq!(choose(name).blocks, [512; 3], "{name}");
            assert_eq!(choose(name).source, TimeSource::Model);
        }
        // A GPU has less fast memory.
        for name in ["a100", "h100", "h200", "b200"] {
            let blocks = choose(name).blocks;
            assert!(blocks.iter().all(|&size| size <= 128), "{name}: {blocks:?}");
        }
        assert_eq!(choose("a100").blocks, [128, 128, 64]);
        let large = |blocks: &[usize]| {
            let vmem_limit = 64 << 20;
            let options = KernelOptions { vmem_limit, targets: vec![], ..KernelOptions::default() };
            matmul(blocks).options(options)
        };
        let choice = choose_blocks(&candidates, large, &[x, x], &device("v5e")).unwrap();
        assert!(choice.blocks[0] >= 512, "{choice:?}");
    });
}

#[test]
fn too_large_and_refused_candidates_are_explained() {
    with_operand(Aval::new(DType::BF16, [SIZE, SIZE]), |x| {
        let choose = |candidates: &[Vec<usize>]| {
            let build = |blocks: &[usize]| match blocks[0] {
                64 => matmul(blocks).targets([KernelTarget::Tpu]),
                _ => matmul(blocks),
            };
            let error = choose_blocks(candidates, build, &[x, x], &device("v5e")).unwrap_err();
            error.to_string().lines().next().unwrap().to_string()
        };
        let text = choose(&[vec![2048; 3]]);
        assert!(text.contains("none of 1 candidates fits v5e: [2048, 2048, 2048] needs"), "{text}");
        let text = choose(&[vec![64; 3]]);
        assert!(text.contains("[64, 64, 64]: error[shape]: kernel `matmul`"), "{text}");
        assert!(choose(&[]).contains("there are no candidates"));
    });
}

#[test]
fn a_grid_smaller_than_a_gpu_leaves_multiprocessors_idle() {
    let estimate = matmul_estimate([1024, 1024, 128], "h100");
    assert!(estimate.utilization <= 4.0 / 132.0, "{estimate:?}");
    let estimate = matmul_estimate([128, 128, 64], "h100");
    assert!(estimate.utilization > 0.5, "{estimate:?}");
}

/// A path in the temporary folder, which is removed at the end.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str) -> TestFile {
        let name = format!("oxidax-blocks-{name}-{}.jsonl", std::process::id());
        TestFile(std::env::temp_dir().join(name))
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn entry(chip: &str, blocks: [usize; 3], seconds: f64) -> BlockEntry {
    BlockEntry {
        chip: chip.into(),
        kernel: "matmul".into(),
        operands: "bf16[2048,2048] bf16[2048,2048]".into(),
        blocks: blocks.into(),
        seconds,
    }
}

#[test]
fn a_table_is_saved_sorted_and_merged() {
    let file = TestFile::new("merged");
    let mut first = BlockTable::default();
    first.insert(entry("v5e", cube(256), 2e-4));
    first.insert(entry("h100", cube(128), 1e-4));
    first.save(&file.0).unwrap();
    assert_eq!(BlockTable::load(&file.0).unwrap(), first);
    let mut second = BlockTable::default();
    second.insert(entry("v5e", cube(512), 1e-4));
    second.insert(entry("a100", cube(128), 3e-4));
    second.save(&file.0).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "# Block sizes of kernels, measured.");
    let chips = ["a100", "h100", "v5e"];
    assert_eq!(lines.len(), 1 + chips.len());
    for (line, chip) in lines[1..].iter().zip(chips) {
        assert!(line.starts_with(&format!("{{\"chip\":\"{chip}\"")), "{line}");
    }
    assert!(lines[3].contains("[512,512,512]"), "{text}");
}

#[test]
fn a_damaged_line_is_named() {
    let file = TestFile::new("damaged");
    let mut table = BlockTable::default();
    table.insert(entry("v5e", cube(256), 2e-4));
    table.save(&file.0).unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    for damaged in ["{\"chip\":\"v5e\"", "{\"chip\":\"v5e\"}", "blocks: 3", "{\"chips\":\"v5e\"}"] {
        std::fs::write(&file.0, format!("{text}\n{damaged}\n")).unwrap();
        let error = BlockTable::load(&file.0).unwrap_err();
        assert_eq!(error.code(), "data");
        assert!(error.to_string().contains(".jsonl:4: "), "{error}");
        assert!(table.save(&file.0).is_err(), "a damaged file is not overwritten");
    }
    let missing = std::env::temp_dir().join("oxidax-blocks-that-do-not-exist.jsonl");
    assert_eq!(BlockTable::load(missing).unwrap_err().code(), "io");
}

#[test]
fn measurements_come_before_the_model() {
    let candidates: Vec<Vec<usize>> = [128, 256, 512].map(|size| cube(size).to_vec()).into();
    let mut table = BlockTable::default();
    table.insert(entry("v5e", cube(256), 1e-4));
    table.insert(entry("v5p", cube(64), 1e-4));
    with_operand(Aval::new(DType::BF16, [SIZE, SIZE]), |x| {
        let choose =
            |name| table.choose_blocks(&candidates, matmul, &[x, x], &device(name)).unwrap();
        assert_eq!(choose("v5e").blocks, [256; 3]);
        assert_eq!(choose("v5e").source, TimeSource::Measured);
        // Not measured, and measured with blocks that are not candidates.
        assert_eq!(choose("v6e").source, TimeSource::Model);
        assert_eq!(choose("v5p").source, TimeSource::Model);
    });
}

mod on_cpu {
    use super::*;

    #[test]
    fn candidates_are_measured() {
        let double = |blocks: &[usize]| {
            let rows = blocks[0];
            let block = || BlockSpec::new([rows, 128], |[i]| (i, 0));
            kernel::call(
                |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
                Grid::new([64 / rows]),
                [block()],
                [Output::new(DType::F32, [64, 128], block())],
            )
            .name("double")
        };
        let x = ones([64, 128]);
        let mut table = BlockTable::default();
        let candidates = [vec![8], vec![5], vec![32]];
        let options = TuneOptions { n_runs: 3, ..TuneOptions::default() };
        let measured = table.tune(&candidates, double, &[&x], options).unwrap();
        // Blocks of 5 rows break a rule of TPUs.
        assert_eq!(measured.len(), 2);
        assert!(measured[0].seconds <= measured[1].seconds);
        let entry = table.get("cpu", "double", &[&x]).unwrap();
        assert_eq!(entry.operands, "f32[64,128]");
        assert_eq!(entry.blocks, measured[0].blocks);
        let error = table.tune(&[vec![5]], double, &[&x], options).unwrap_err();
        assert!(error.to_string().contains("none of 1 candidates runs: [5]"), "{error}");
    }
}
