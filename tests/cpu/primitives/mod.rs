//! Tests of primitives: laws, edges, platforms and the support matrix.

mod edges;
mod elementwise;
mod loop_kernels;
mod matrix;
mod narrow;
mod platforms;
mod wrong;

use oxidax::control_flow::HOLDERS;
use oxidax::kernel::KERNEL_PRIMITIVES;
use oxidax::primitives::PRIMITIVES;
use oxidax::testing::check_primitive;

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> =
        PRIMITIVES.iter().chain(HOLDERS).chain(KERNEL_PRIMITIVES).map(|entry| entry.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

mod on_cpu {
    use super::*;
    use std::sync::Mutex;

    /// All primitives, or those whose names `OXIDAX_LAWS` lists, as in `OXIDAX_LAWS=add,scan`.
    #[test]
    fn laws_hold_for_every_primitive() {
        let every = || PRIMITIVES.iter().chain(HOLDERS).chain(KERNEL_PRIMITIVES);
        let entries: Vec<_> = match std::env::var("OXIDAX_LAWS") {
            Ok(wanted) => wanted
                .split(',')
                .map(|name| every().find(|entry| entry.name == name).expect(name))
                .collect(),
            Err(_) => every().collect(),
        };
        let queue = Mutex::new(entries.into_iter());
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let Some(entry) = queue.lock().unwrap().next() else { break };
                        if let Err(failure) = check_primitive(entry) {
                            failures.lock().unwrap().push(failure);
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }
}
