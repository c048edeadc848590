//! Programs whose loop kernels the compiler refused. They are compiled without kernels.

use crate::core::Program;
use rustc_hash::FxHashSet;
use std::sync::{Mutex, PoisonError};

/// The number of programs that are remembered.
const CAPACITY: usize = 4096;

/// The structural hashes of the programs. A program of an equal hash only loses its kernels.
static REFUSED: Mutex<Option<FxHashSet<u64>>> = Mutex::new(None);

/// Returns true if the compiler refused a kernel of the program.
pub(super) fn contains(program: &Program) -> bool {
    let refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    refused.as_ref().is_some_and(|refused| refused.contains(&program.structural_hash()))
}

/// Remembers a program with a kernel that the compiler refused, and logs its message.
pub(super) fn insert(program: &Program, name: &str, error: &oxidax_pjrt::Error) {
    tracing::warn!(
        target: "oxidax::jit",
        function = name,
        %error,
        "the compiler refused the program; it is compiled again with its loops operation by \
         operation"
    );
    let mut refused = REFUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let refused = refused.get_or_insert_default();
    if refused.len() >= CAPACITY {
        refused.clear();
    }
    refused.insert(program.structural_hash());
}
