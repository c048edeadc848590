//! Remembering what was derived from a program: an inner `jit` that is called twelve times is
//! differentiated once.

use crate::core::{Cache, Precision, Primitive, Program, matmul_precision};
use rustc_hash::FxHasher;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// How many answers each rule keeps.
const ANSWERS: usize = 256;

/// What one rule made of programs, by program and by what it was asked.
pub(super) struct Memo<Q, A> {
    answers: OnceLock<Cache<Key<Q>, A>>,
}

struct Key<Q> {
    program: Arc<Program>,
    question: Q,
    /// The scope that rules were traced under.
    precision: Precision,
}

impl<Q: Clone + Eq + Hash, A: Clone> Memo<Q, A> {
    pub(super) const fn new() -> Memo<Q, A> {
        Memo { answers: OnceLock::new() }
    }

    /// The answer to `question` about `program`, made by `derive` if it is not there. Answers about
    /// programs that hold closures are not kept: they would keep what the closures captured.
    pub(super) fn get_or_derive(
        &self,
        program: &Arc<Program>,
        question: Q,
        derive: impl FnOnce(&Program, &Q) -> A,
    ) -> A {
        if program.is_opaque() {
            return derive(program, &question);
        }
        let mut hasher = FxHasher::default();
        program.hash(&mut hasher);
        question.hash(&mut hasher);
        let precision = matmul_precision();
        precision.hash(&mut hasher);
        let answers = self.answers.get_or_init(|| Cache::new(ANSWERS));
        let made = answers.get_or_make::<Infallible>(
            hasher.finish(),
            |key| {
                key.question == question
                    && key.precision == precision
                    && alike(&key.program, program)
            },
            || Key { program: program.clone(), question: question.clone(), precision },
            |key| Ok(derive(&key.program, &key.question)),
        );
        match made {
            Ok(answer) => answer.value().clone(),
        }
    }
}

/// Whether two programs are equal down to the user's lines: what is derived names them.
fn alike(a: &Program, b: &Program) -> bool {
    std::ptr::eq(a, b)
        || (a == b
            && a.eqns()
                .iter()
                .zip(b.eqns())
                .all(|(a, b)| a.loc == b.loc && holds_alike(&a.primitive, &b.primitive)))
}

/// Whether the programs that two equal primitives hold are alike.
fn holds_alike(a: &Arc<dyn Primitive>, b: &Arc<dyn Primitive>) -> bool {
    Arc::ptr_eq(a, b)
        || match (a.as_higher_order(), b.as_higher_order()) {
            (Some(a), Some(b)) => {
                let (a, b) = (a.programs(), b.programs());
                a.iter().zip(&b).all(|((_, a), (_, b))| alike(a, b))
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
    fn programs_of_other_lines_have_answers_of_their_own() {
        let memo = Memo::new();
        let made = Cell::new(0);
        let ask = |program: &Arc<Program>, question: u8| {
            memo.get_or_derive(program, question, |program, question| {
                made.set(made.get() + 1);
                (program.eqns()[0].loc, *question)
            })
        };
        let here: fn(&Array) -> Array = |x| sin(x);
        let (one, again) = (program(here), program(here));
        let other = program(|x| sin(x));
        assert_eq!(*one, *other, "structure alone does not tell them apart");
        assert_eq!(ask(&one, 1), ask(&again, 1));
        assert_eq!(made.get(), 1);
        assert_ne!(ask(&one, 1).0, ask(&other, 1).0);
        assert_eq!(made.get(), 2);
        assert_eq!(ask(&again, 2).1, 2);
        assert_eq!(made.get(), 3);
    }
}
