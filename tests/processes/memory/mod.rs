//! Memory over many calls. Measures the whole process.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod pool;
#[cfg(target_os = "linux")]
mod products;

use oxidax::prelude::*;

mod on_cpu {
    use super::*;
    use crate::alone::alone;

    fn f32s(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    /// Returns the resident memory of this process in bytes.
    pub(super) fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn memory_does_not_grow_over_many_calls() {
        alone("memory::on_cpu::memory_does_not_grow_over_many_calls", call_many_times);
    }

    fn call_many_times() {
        let step = jit(|w: Array, x: Array| &w + &x);
        let x = f32s(&[1e-6; 256]);
        let mut w = f32s(&[0.0; 256]);
        let elements = vec![1.0f32; 64 * 1024];
        let cycle = || drop(f32s(&elements));
        for _ in 0..1000 {
            w = step.call(w, &x).unwrap();
            cycle();
        }
        w.block_until_ready().unwrap();
        let before = resident();
        for round in 0..100_000 {
            w = step.call(w, &x).unwrap();
            if round % 10 == 0 {
                cycle();
            }
        }
        w.block_until_ready().unwrap();
        let growth = resident().saturating_sub(before);
        // 10,000 arrays of 256 KiB would take 2.5 GiB, 100,000 leaked results 100 MiB.
        assert!(growth < 64 << 20, "resident memory grew by {growth} bytes");
        assert_eq!(step.stats().compiles, 1);
    }
}
