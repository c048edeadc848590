//! What a program holds in memory at its fullest moment.

use crate::core::{Aval, Eqn, Loc, Program, SaveHint, Var};

/// A value that is in memory at a program's fullest moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Live {
    /// Its type, of all devices together.
    pub aval: Aval,
    /// The primitive that made it, or `None` for an argument.
    pub made_by: Option<&'static str>,
    /// Where the user wrote that.
    pub location: Loc,
}

/// What a program holds in memory at its fullest moment. Made by [`peak`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Peak {
    /// All of it, in bytes, of all devices together.
    pub bytes: u64,
    /// What is there, the largest first.
    pub values: Vec<Live>,
}

/// An estimate of the most that a program holds in memory at one time, and of what that is. It takes the equations in their order, as if
/// arguments were given up after their last use, and as if what is computed element by element, or moved, for one equation
/// alone were fused into that equation. A compiler may do better, and its own answer counts
/// ([`CompilerReport::memory_analysis`](crate::jit::CompilerReport::memory_analysis)); what fills the memory, and which line made it, it does not
/// say.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: Array| x.matmul(&x).sum();
/// let program = make_program(f, Aval::new(DType::F32, [64, 64]))?;
/// let peak = oxidax::passes::peak(&program);
/// assert_eq!(peak.bytes, 2 * 64 * 64 * 4); // x and the product
/// assert_eq!(peak.values[1].made_by, Some("dot_general"));
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn peak(program: &Program) -> Peak {
    let arguments = program.inputs().iter().map(|&var| (var, None));
    fullest(program, arguments.collect())
}

/// Who made a variable.
type Made<'a> = (Var, Option<&'a Eqn>);

/// The fullest moment of a program that begins with `held` in memory.
fn fullest<'a>(program: &'a Program, mut held: Vec<Made<'a>>) -> Peak {
    let bytes = |var: Var| program.aval(var).bytes() as u64;
    let (uses, last) = uses(program);
    let mut now: u64 = held.iter().map(|&(var, _)| bytes(var)).sum();
    let mut peak = Peak { bytes: now, values: Vec::new() };
    let mut moment = held.clone();
    let mut inside = Peak::default();
    for (at, eqn) in program.eqns().iter().enumerate() {
        let lasting =
            eqn.results.iter().filter(|&&var| !is_fused(program, eqn, var, uses[var as usize]));
        held.extend(lasting.map(|&var| (var, Some(eqn))));
        now = held.iter().map(|&(var, _)| bytes(var)).sum();
        let within = body(eqn);
        if now + within.bytes > peak.bytes {
            peak.bytes = now + within.bytes;
            moment.clone_from(&held);
            inside = within;
        }
        held.retain(|&(var, _)| last[var as usize] > at);
    }
    peak.values = moment
        .into_iter()
        .map(|(var, maker)| Live {
            aval: program.aval(var).clone(),
            made_by: maker.map(|eqn| eqn.primitive.name()),
            location: maker.and_then(|eqn| eqn.location),
        })
        .chain(inside.values)
        .collect();
    peak.values.sort_by_key(|live| std::cmp::Reverse(live.aval.bytes()));
    peak
}

/// The fullest of the programs that an equation runs, without what goes into them, which is there already.
fn body(eqn: &Eqn) -> Peak {
    let Some(holder) = eqn.primitive.as_higher_order() else { return Peak::default() };
    let peaks = holder.programs().into_iter().map(|(_, program)| fullest(program, Vec::new()));
    peaks.max_by_key(|peak| peak.bytes).unwrap_or_default()
}

/// How many equations use each variable, and after which it is needed no more; what the program returns always is.
/// What is fused needs its operands when it is needed itself.
fn uses(program: &Program) -> (Vec<usize>, Vec<usize>) {
    let count = program.avals().len();
    let (mut uses, mut last) = (vec![0; count], vec![0; count]);
    for &var in program.eqns().iter().flat_map(|eqn| &eqn.operands) {
        uses[var as usize] += 1;
    }
    for &var in program.outputs() {
        uses[var as usize] += 2;
        last[var as usize] = usize::MAX;
    }
    for (at, eqn) in program.eqns().iter().enumerate().rev() {
        let fused =
            eqn.results.iter().filter(|&&var| is_fused(program, eqn, var, uses[var as usize]));
        let until = fused.map(|&var| last[var as usize]).max().unwrap_or(at).max(at);
        for &var in &eqn.operands {
            last[var as usize] = last[var as usize].max(until);
        }
    }
    (uses, last)
}

/// Whether a result with so many uses never is in memory: it is fused into its only use, or, a constant or a broadcast, made
/// again for each.
fn is_fused(program: &Program, eqn: &Eqn, result: Var, uses: usize) -> bool {
    let dear = matches!(eqn.primitive.save_hint(), SaveHint::Contraction { .. });
    if dear || eqn.primitive.as_higher_order().is_some() {
        return false;
    }
    uses <= 1 || is_remade(program, eqn) && !program.outputs().contains(&result)
}

fn is_remade(program: &Program, eqn: &Eqn) -> bool {
    let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
    eqn.primitive.cost(&operands, &results).is_remade(&operands, &results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    fn of(f: fn(Array) -> Array, shape: [usize; 2]) -> Peak {
        peak(&make_program(f, Aval::new(DType::F32, shape)).unwrap())
    }

    #[test]
    fn what_is_fused_takes_no_memory() {
        // `sin(x)`, `cos(x)` and their product exist in no memory but the result's.
        assert_eq!(of(|x| sin(&x) * cos(&x), [8, 8]).bytes, 512);
        // What is used twice does.
        assert_eq!(
            of(
                |x| {
                    let y = sin(&x);
                    y.matmul(&y)
                },
                [8, 8]
            )
            .bytes,
            512
        );
    }

    #[test]
    fn constants_and_broadcasts_are_made_again() {
        let filled = |x: Array| {
            let ones = broadcast_to(&x.sum(), [64, 64]);
            &ones.matmul(&x) + &ones
        };
        let found = of(filled, [64, 64]);
        assert!(
            found.values.iter().all(|live| live.made_by != Some("broadcast_in_dim")),
            "{found:?}"
        );
        let returned = |x: Array| broadcast_to(&x.sum(), [64, 64]);
        assert_eq!(of(returned, [2, 2]).values[0].made_by, Some("broadcast_in_dim"));
    }

    #[test]
    fn derivatives_keep_what_they_need() {
        let chain = |x: Array| {
            let deep = |x: &Array| {
                let layers = (0..4).fold(x.clone(), |y, _| tanh(&y.matmul(&y)));
                layers.sum()
            };
            grad(deep)(&x)
        };
        let found = of(chain, [64, 64]);
        assert!(found.bytes > 5 * 64 * 64 * 4, "{found:?}");
        let first = &found.values[0];
        assert_eq!(first.aval.bytes(), 64 * 64 * 4);
        assert!(found.values.iter().any(|live| live.location.is_some()), "{found:?}");
        let sum: usize = found.values.iter().map(|live| live.aval.bytes()).sum();
        assert_eq!(sum as u64, found.bytes);
    }

    #[test]
    fn a_loop_holds_what_a_step_holds() {
        let looped = |x: Array| {
            let step = |y: Array, _: Array| (y.matmul(&y.t()).matmul(&y), y.sum());
            scan(step, x, zeros([10], DType::F32)).0
        };
        let found = of(looped, [32, 32]);
        assert!(found.values.iter().any(|live| live.made_by == Some("dot_general")), "{found:?}");
    }
}
