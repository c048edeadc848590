//! Counts of the cache of eager operations, which the whole process shares.

use crate::alone::alone;
use oxidax::jit::{cache, disable_most_optimizations};
use oxidax::prelude::*;

mod on_cpu {
    use super::*;

    #[test]
    fn operations_with_and_without_optimizations_are_cached_separately() {
        let test = "eager::on_cpu::operations_with_and_without_optimizations_are_cached_separately";
        alone(test, || {
            let x = zeros([3], DType::F32);
            let misses = || cache::stats().operations.misses;
            let before = misses();
            for _ in 0..2 {
                sin(&x);
                disable_most_optimizations(|| sin(&x));
            }
            assert_eq!(misses(), before + 2);
        });
    }
}
