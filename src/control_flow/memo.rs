//! Caching of derived programs: an inner `jit` that is called twelve times is differentiated once.

use crate::core::trace::TraceScope;
use crate::core::{Cache, Primitive, Program};
use rustc_hash::FxHasher;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The number of results that each rule caches.
const CAPACITY: usize = 256;

/// The cache of one rule: results of type `R`, by program and by the rule's parameters `K`.
pub(super) struct Memo<K, R> {
    results: OnceLock<Cache<Key<K>, R>>,
}

struct Key<K> {
    program: Arc<Program>,
    parameters: K,
    /// The settings under which the rule was traced.
    scope: TraceScope,
}

impl<K: Clone + Eq + Hash, R: Clone> Memo<K, R> {
    pub(super) const fn new() -> Memo<K, R> {
        Memo { results: OnceLock::new() }
    }

    /// Returns the cached result for `program` and `parameters`, or computes it with `derive`.
    ///
    /// Results for programs that hold closures are not cached, because they would keep the captured
    /// arrays alive.
    pub(super) fn get_or_derive(
        &self,
        program: &Arc<Program>,
        parameters: K,
        derive: impl FnOnce(&Program, &K) -> R,
    ) -> R {
        if program.is_opaque() {
            return derive(program, &parameters);
        }
        let mut hasher = FxHasher::default();
        program.hash(&mut hasher);
        parameters.hash(&mut hasher);
        let scope = TraceScope::current();
        scope.hash(&mut hasher);
        let results = self.results.get_or_init(|| Cache::new(CAPACITY));
        let slot = results.get_or_make::<Infallible>(
            hasher.finish(),
            |key| {
                key.parameters == parameters
                    && key.scope == scope
                    && is_same_program(&key.program, program)
            },
            || Key { program: program.clone(), parameters: parameters.clone(), scope },
            |key| Ok(derive(&key.program, &key.parameters)),
        );
        match slot {
            Ok(slot) => slot.value().clone(),
        }
    }
}

/// Returns true if two programs are equal including source locations, which derived programs name.
fn is_same_program(a: &Program, b: &Program) -> bool {
    std::ptr::eq(a, b)
        || (a == b
            && a.eqns()
                .iter()
                .zip(b.eqns())
                .all(|(a, b)| a.loc == b.loc && holds_same_programs(&a.primitive, &b.primitive)))
}

/// Returns true if the programs that two equal primitives hold are equal including locations.
fn holds_same_programs(a: &Arc<dyn Primitive>, b: &Arc<dyn Primitive>) -> bool {
    Arc::ptr_eq(a, b)
        || match (a.as_higher_order(), b.as_higher_order()) {
            (Some(a), Some(b)) => {
                let (a, b) = (a.programs(), b.programs());
                a.iter().zip(&b).all(|((_, a), (_, b))| is_same_program(a, b))
            }
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Array, Aval, DType};
    use crate::primitives::sin;
    use crate::transforms::staging::trace_rules;
    use std::cell::Cell;

    fn program(f: fn(&Array) -> Array) -> Arc<Program> {
        Arc::new(trace_rules([Aval::new(DType::F32, [2])], |inputs| vec![f(&inputs[0])]))
    }

    #[test]
    fn results_are_cached_by_program_location_and_parameters() {
        let memo = Memo::new();
        let computed = Cell::new(0);
        let derive = |program: &Arc<Program>, parameter: u8| {
            memo.get_or_derive(program, parameter, |program, parameter| {
                computed.set(computed.get() + 1);
                (program.eqns()[0].loc, *parameter)
            })
        };
        let sine: fn(&Array) -> Array = |x| sin(x);
        let (first, second) = (program(sine), program(sine));
        let other_line = program(|x| sin(x));
        assert_eq!(*first, *other_line, "programs are equal without their locations");
        assert_eq!(derive(&first, 1), derive(&second, 1));
        assert_eq!(computed.get(), 1);
        assert_ne!(derive(&first, 1).0, derive(&other_line, 1).0);
        assert_eq!(computed.get(), 2);
        assert_eq!(derive(&second, 2).1, 2);
        assert_eq!(computed.get(), 3);
    }
}
