//! The default precision of matrix products, set by a variable.

use crate::alone::alone_with;
use oxidax::config::{self, ProcessConfig};
use oxidax::prelude::*;

const VARIABLE: &str = "OXIDAX_DEFAULT_MATMUL_PRECISION";

fn lowered() -> String {
    let square = jit(|x: Array| x.matmul(&x)).lower(Aval::new(DType::F32, [3, 3])).unwrap();
    square.as_text("cuda").unwrap()
}

mod on_cpu {
    use super::*;

    #[test]
    fn the_variable_sets_the_precision_of_products() {
        let test = "precision::on_cpu::the_variable_sets_the_precision_of_products";
        alone_with(test, &[(VARIABLE, "highest")], || {
            assert_eq!(config::current().unwrap().default_matmul_precision, Precision::Highest);
            assert!(lowered().contains("HIGHEST"));
            let scoped = with_matmul_precision(Precision::High, lowered);
            assert!(scoped.contains("precision HIGH>") && !scoped.contains("HIGHEST"), "{scoped}");
            let plain = ProcessConfig::new().default_matmul_precision(Precision::Default);
            config::update(plain).unwrap();
            assert!(!lowered().contains("HIGH"));
        });
    }

    #[test]
    fn products_are_fast_by_default() {
        assert!(!lowered().contains("HIGH"));
    }

    #[test]
    fn an_invalid_variable_is_an_error() {
        let test = "precision::on_cpu::an_invalid_variable_is_an_error";
        alone_with(test, &[(VARIABLE, "max")], || {
            let error = Array::from_slice(&[1.0f32], [1]).unwrap_err().to_string();
            let expected =
                "OXIDAX_DEFAULT_MATMUL_PRECISION is `max`; it must be `default`, `high` or";
            assert!(error.contains(expected), "{error}");
        });
    }
}
