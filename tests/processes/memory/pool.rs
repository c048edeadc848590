//! The pool of CPU memory: page faults, equal results, and returned memory.

use super::on_cpu::resident;
use crate::alone::alone;
use oxidax::config::{self, CpuMalloc, ProcessConfig};
use oxidax::prelude::*;
use std::time::{Duration, Instant};

/// Returns the page faults of this process that needed no disk.
fn faults() -> usize {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Field 3 follows the name in brackets; field 10 counts the faults.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(7).unwrap().parse().unwrap()
}

fn set(malloc: CpuMalloc) {
    config::update(ProcessConfig::new().cpu_malloc(malloc)).unwrap();
    assert_eq!(config::current().unwrap().cpu_malloc, malloc);
}

/// A result of 64 MiB from a product with temporary memory of the same size.
fn step(x: Array) -> Array {
    x.t().matmul(&x).tanh().matmul(&x.t())
}

/// Returns the page faults of ten calls after two, and the last result.
fn ten_calls(step: &impl Fn() -> Array) -> (usize, Vec<f32>) {
    for _ in 0..2 {
        step().block_until_ready().unwrap();
    }
    let before = faults();
    for _ in 0..10 {
        step().block_until_ready().unwrap();
    }
    (faults() - before, step().to_vec().unwrap())
}

/// Calls `measure` until it returns more than `least` or the time is over, and returns its result.
fn within_seconds(seconds: u64, measure: impl Fn() -> usize, least: usize) -> usize {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let found = measure();
        if found > least || Instant::now() > end {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

mod on_cpu {
    use super::*;

    /// The setting is changed while programs and arrays exist, from a thread that is not the first.
    #[test]
    fn steps_cause_no_page_faults() {
        alone("memory::pool::on_cpu::steps_cause_no_page_faults", || {
            let x = random::normal(random::key(0), [32, 4096]);
            let compiled = jit(step);
            let call = || compiled.call(&x).unwrap();
            set(CpuMalloc::System);
            let kept = call();
            let (by_system, expected) = ten_calls(&call);
            set(CpuMalloc::Pool);
            let (by_pool, found) = ten_calls(&call);
            // 64 MiB are 16,384 pages. Some kernels use huge pages unasked, which are fewer.
            assert!(by_system > 10 * 100, "{by_system} page faults without the pool");
            assert!(
                by_pool * 10 < by_system,
                "{by_pool} page faults, {by_system} without the pool"
            );
            assert_eq!(found, expected);

            // Blocks of each allocator are freed while the other one is in use.
            let pooled = call();
            pooled.block_until_ready().unwrap();
            drop(kept);
            let before = resident();
            set(CpuMalloc::System);
            // The runtime may free its temporary memory after the result is ready.
            let returned = within_seconds(10, || before.saturating_sub(resident()), 32 << 20);
            assert!(returned > 32 << 20, "{returned} bytes were returned of {before}");
            assert_eq!(pooled.to_vec::<f32>().unwrap(), expected);
            drop(pooled);
            set(CpuMalloc::Pool);
            assert_eq!(call().to_vec::<f32>().unwrap(), expected);
        });
    }

    /// Batch sizes without a pattern, in an order that a heap would fragment under.
    #[test]
    fn memory_stays_at_its_peak_when_shapes_change() {
        alone("memory::pool::on_cpu::memory_stays_at_its_peak_when_shapes_change", || {
            let compiled = jit(|x: Array| x.matmul(&x.t()).tanh().sum());
            let mut kept: Vec<Array> = Vec::new();
            let mut run = |calls: usize| {
                for call in 0..calls {
                    let x = full([512 + call * 37 % 50 * 32, 512], 0.01f32);
                    compiled.call(&x).unwrap().block_until_ready().unwrap();
                    kept.push(x);
                    if kept.len() > 8 {
                        kept.remove(call * 5 % 8);
                    }
                }
            };
            run(100);
            let before = resident();
            run(400);
            let growth = resident().saturating_sub(before);
            assert!(growth < 24 << 20, "resident memory grew by {growth} bytes from {before}");
        });
    }
}
