//! Random compositions of primitives and transforms, checked against general properties.
//!
//! Every program is generated from a seed. `cargo test` runs a fixed list of seeds, then all
//! programs that failed in the past (`found.jsonl`, one per line). `cargo xtask fuzz` runs new
//! seeds.

mod interpret;
mod passes;
mod properties;
mod recipe;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use recipe::{Recipe, recipes};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seeds that CI runs.
const SEEDS: Range<u64> = 0..120;

/// The seeds of the programs that are compiled with and without passes. CI runs 2,000.
const SEEDS_OF_PASSES: Range<u64> = 10_000..10_100;

/// The number of threads that check programs.
const THREADS: usize = 2;

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A check of a program, with the reason why it failed.
type Verdict = fn(&Recipe) -> Result<(), String>;

/// Checks every property of a program.
fn verdict(recipe: &Recipe) -> Result<(), String> {
    caught(|| properties::check(recipe))
}

/// Checks that passes do not change the results of a program.
fn verdict_on_passes(recipe: &Recipe) -> Result<(), String> {
    caught(|| passes::check(recipe))
}

/// Converts a panic to a failure message.
fn caught(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let checked = std::panic::AssertUnwindSafe(check);
    std::panic::catch_unwind(checked).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panicked: {}", text.unwrap_or_default()))
    })
}

/// Checks the program of a seed and shrinks it if it fails.
fn failure(seed: u64, verdict: Verdict) -> Option<String> {
    let mut runner = runner(seed);
    let tree = recipes().new_tree(&mut runner).unwrap();
    let check = |recipe| verdict(&recipe).map_err(proptest::test_runner::TestCaseError::fail);
    match runner.run_one(tree, check) {
        Ok(_) => None,
        Err(TestError::Fail(why, recipe)) => {
            let line = serde_json::to_string(&recipe).unwrap();
            Some(format!(
                "seed {seed}: {why}\nline for tests/cpu/random_programs/found.jsonl:\n{line}"
            ))
        }
        Err(TestError::Abort(why)) => Some(format!("seed {seed}: {why}")),
    }
}

/// Checks all seeds of a range and returns the failures.
fn failures(seeds: Range<u64>, verdict: Verdict) -> Vec<String> {
    let next = AtomicU64::new(seeds.start);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if let Some(failure) = failure(seed, verdict) {
                        eprintln!("{failure}");
                        failures.lock().unwrap().push(failure);
                    }
                    if (seed - seeds.start) % 500 == 499 {
                        eprintln!("{} programs", seed - seeds.start + 1);
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

#[test]
fn recipes_roundtrip_through_json() {
    let mut runner = runner(1);
    for _ in 0..100 {
        let recipe = recipes().new_tree(&mut runner).unwrap().current();
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
    }
}

/// Returns the range `first..end` in a variable, or `default` if it is not set.
fn seeds(variable: &str, default: Range<u64>) -> Range<u64> {
    std::env::var(variable).map_or(default, |range| {
        let (first, end) = range.split_once("..").unwrap();
        first.parse().unwrap()..end.parse().unwrap()
    })
}

mod on_cpu {
    use super::*;

    /// Checks the fixed list, or the range in `OXIDAX_FUZZ=first..end`.
    #[test]
    fn properties_hold_for_random_programs() {
        let seeds = seeds("OXIDAX_FUZZ", SEEDS);
        let failures = failures(seeds, verdict);
        assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n\n"));
    }

    /// Most programs are not changed by a pass, and only those that are get compiled. Checks the
    /// fixed list, or the range in `OXIDAX_FUZZ_PASSES=first..end`.
    #[test]
    fn passes_do_not_change_results() {
        let failures = failures(seeds("OXIDAX_FUZZ_PASSES", SEEDS_OF_PASSES), verdict_on_passes);
        assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n\n"));
        let compiled = passes::compared();
        println!("{compiled:?} programs were compiled with and without each pass");
        assert!(compiled.iter().all(|&n| n > 0), "{compiled:?}");
    }

    #[test]
    fn properties_hold_for_past_failures() {
        let found = include_str!("found.jsonl").lines().filter(|line| !line.is_empty());
        for line in found {
            let recipe: Recipe = serde_json::from_str(line).unwrap();
            verdict(&recipe).unwrap_or_else(|why| panic!("{why}\n{line}"));
        }
    }
}
