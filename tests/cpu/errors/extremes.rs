//! No number in a parameter or a shape ends the process: each case is tried in a child process.

use oxidax::primitives::PRIMITIVES;
use oxidax::testing::{ExtremeCase, extreme_cases};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// Environment variable of the child process: the index of its first case.
const FIRST: &str = "OXIDAX_TEST_FIRST_EXTREME";
/// Environment variable of the child process: the distance between its cases.
const STEP: &str = "OXIDAX_TEST_EXTREMES_STEP";
/// Environment variable that selects one primitive.
const ONLY: &str = "OXIDAX_EXTREMES";
/// Environment variable with the number of exemplars of each primitive.
const EXEMPLARS: &str = "OXIDAX_EXTREMES_EXEMPLARS";

fn cases() -> Vec<ExtremeCase> {
    let only = std::env::var(ONLY).ok();
    let exemplars = std::env::var(EXEMPLARS).map_or(1, |n| n.parse().unwrap());
    let entries = PRIMITIVES.iter().filter(|entry| only.as_deref().is_none_or(|x| x == entry.name));
    entries.flat_map(|entry| extreme_cases(entry, exemplars)).collect()
}

mod on_cpu {
    use super::*;

    /// Does nothing unless another test runs it in a child process.
    #[test]
    fn child_process_with_extremes() {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<usize>().unwrap());
        let (Some(first), Some(step)) = (number(FIRST), number(STEP)) else { return };
        for (index, case) in cases().iter().enumerate().skip(first).step_by(step) {
            eprintln!("<<<{index} {}", case.label);
            match catch_unwind(AssertUnwindSafe(|| case.attempt())) {
                Ok(Ok(())) => eprintln!("WORKS"),
                Ok(Err(error)) => eprintln!("REFUSED {}", error.to_string().replace('\n', " | ")),
                Err(payload) => {
                    let message = payload.downcast_ref::<String>().map(String::as_str);
                    let message = message.or(payload.downcast_ref::<&str>().copied());
                    eprintln!("PANICKED {}", message.unwrap_or_default());
                }
            }
        }
    }

    /// Tries every `step`th case. A case that ends the process is reported, and the next child
    /// process continues after it.
    fn expect_no_failures(step: usize) {
        let (mut first, mut tried) = (0, 0);
        let mut failures = Vec::new();
        loop {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "errors::extremes::on_cpu::child_process_with_extremes"])
                .arg("--nocapture")
                .env(FIRST, first.to_string())
                .env(STEP, step.to_string())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let reports: Vec<&str> = text.split("<<<").skip(1).collect();
            failures
                .extend(reports.iter().filter(|r| r.contains("PANICKED")).map(|r| r.to_string()));
            tried += reports.len();
            if output.status.success() {
                break;
            }
            failures.push(format!("{}: {}", output.status, reports.last().unwrap_or(&&*text)));
            assert!(!reports.is_empty(), "{}", failures.join("\n"));
            first += reports.len() * step;
        }
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
        assert_eq!(tried, cases().len().div_ceil(step));
    }

    #[test]
    fn every_seventh_extreme_number_is_refused_or_works() {
        expect_no_failures(7);
    }

    #[test]
    #[ignore = "takes minutes: run it after a change of a rule or of the CPU plugin"]
    fn extreme_numbers_are_refused_or_work() {
        expect_no_failures(1);
    }
}
