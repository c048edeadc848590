//! The default precision of matrix products, set by a variable.

use oxidax::config::{self, ProcessConfig};
use oxidax::prelude::*;
use std::process::Command;

const CHILD: &str = "OXIDAX_TEST_PRECISION";
const VARIABLE: &str = "OXIDAX_DEFAULT_MATMUL_PRECISION";

/// Runs the test again in a process with the variable, and returns whether it passed, and what it
/// printed.
fn in_child(test: &str, value: &str) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .env(VARIABLE, value)
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|x| String::from_utf8(x).unwrap());
    (output.status.success(), out + &err)
}

fn lowered() -> String {
    let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::F32, [3, 3])).unwrap();
    square.as_text("cuda").unwrap()
}

mod on_cpu {
    use super::*;

    #[test]
    fn the_variable_sets_the_precision_of_products() {
        if std::env::var_os(CHILD).is_some() {
            assert_eq!(config::current().unwrap().default_matmul_precision, Precision::Highest);
            assert!(lowered().contains("HIGHEST"));
            let scoped = with_matmul_precision(Precision::High, lowered);
            assert!(scoped.contains("precision HIGH>") && !scoped.contains("HIGHEST"), "{scoped}");
            let plain = ProcessConfig::new().default_matmul_precision(Precision::Default);
            config::update(plain).unwrap();
            assert!(!lowered().contains("HIGH"));
            return;
        }
        let test = "precision::on_cpu::the_variable_sets_the_precision_of_products";
        let (passed, text) = in_child(test, "highest");
        assert!(passed && text.contains("1 passed"), "{text}");
        assert!(!lowered().contains("HIGH"));
    }

    #[test]
    fn an_invalid_variable_is_an_error() {
        if std::env::var_os(CHILD).is_some() {
            let error = Array::from_slice(&[1.0f32], [1]).unwrap_err();
            println!("{error}");
            return;
        }
        let (passed, text) = in_child("precision::on_cpu::an_invalid_variable_is_an_error", "max");
        let expected = "OXIDAX_DEFAULT_MATMUL_PRECISION is `max`; it must be `default`, `high` or";
        assert!(passed && text.contains(expected), "{text}");
    }
}
