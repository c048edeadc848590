//! Allocations that calls of compiled functions reuse.

mod on_cpu {
    use super::super::*;
    use crate::core::{ArrayRef, RefKind};
    use crate::i;
    use crate::primitives::{ones, zeros};
    use crate::runtime::is_deleted;

    /// Takes the lists that the previous call left behind.
    fn scratch(f: &Jit<'_, (Array, Array), Array>) -> Box<crate::runtime::Scratch> {
        let recent = f.cache.get_recent(|slot| Some(slot.value().take_scratch()));
        recent.unwrap().1
    }

    #[test]
    fn only_donated_allocations_outlive_a_call() {
        let f = jit(|x: Array, y: Array| &x + &y.sum());
        let ones = || ones([64, 64]);
        let held = ones();
        for round in 0..3 {
            // No result can use the memory of `y`, so the plugin does not consume it.
            let y = f.call(ones(), if round == 1 { held.clone() } else { ones() }).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap()[0], 4097.0);
            if round == 0 {
                continue; // The call that compiles leaves no lists.
            }
            let left = scratch(&f);
            assert!(left.arguments.is_empty() && left.non_donatable.is_empty());
            assert_eq!(left.spare().len(), 1, "one argument shares its memory with the result");
            assert!(left.spare().iter().all(is_deleted));
        }
        assert_eq!(f.stats().not_donated, 1);
        assert_eq!(held.to_vec::<f32>().unwrap()[0], 1.0);
    }

    #[test]
    fn written_references_are_updated_in_place() {
        let zeroed = || ArrayRef::create(zeros([64]), RefKind::default(), Loc::UNKNOWN);
        let (captured, argument) = (zeroed(), zeroed());
        let held = captured.clone();
        let f = jit(move |r: ArrayRef| {
            r.addupdate(i![], 1.0);
            held.addupdate(i![], r.get(i![]));
        });
        let mut kept = None;
        for round in 0..4 {
            if round == 3 {
                kept = Some(captured.get(i![]));
            }
            f.call(&argument).unwrap();
            if round == 0 {
                continue; // The call that compiles leaves no lists.
            }
            let recent = f.cache.get_recent(|slot| Some(slot.value().take_scratch()));
            let spare = if round == 3 { 1 } else { 2 };
            assert_eq!(recent.unwrap().1.spare().len(), spare, "round {round}");
        }
        assert_eq!(argument.get(i![]).to_vec::<f32>().unwrap()[0], 4.0);
        assert_eq!(captured.get(i![]).to_vec::<f32>().unwrap()[0], 10.0);
        assert_eq!(kept.unwrap().to_vec::<f32>().unwrap()[0], 6.0);
    }

    #[test]
    fn reused_allocations_are_independent() {
        let f = jit(|x: Array, y: Array| &x + &y);
        let y = ones([2]);
        let mut x = zeros([2]);
        let mut seen = Vec::new();
        for _ in 0..5 {
            let next = f.call(x, &y).unwrap();
            seen.push(next.clone());
            x = &next * 1.0;
        }
        let seen: Vec<f32> = seen.iter().map(|x| x.to_vec::<f32>().unwrap()[1]).collect();
        assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(f.stats().not_donated, 0);
    }
}
