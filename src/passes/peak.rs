//! [`peak`]: an estimate of a program's peak memory.

use crate::core::{Aval, Eqn, Loc, Program, SaveHint, Var};

/// A value in memory at the peak.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Live {
    /// Its type, over all devices together.
    pub aval: Aval,
    /// The primitive that produces it, or `None` for an argument.
    pub produced_by: Option<&'static str>,
    /// The source location of that operation.
    pub loc: Loc,
    /// The path of the leaf, such as `$[0].layers[3].w`, for an argument of a
    /// [`Lowered`](crate::jit::Lowered) or [`Compiled`](crate::jit::Compiled) function.
    pub path: Option<String>,
    /// The index among the inputs of the program.
    input: Option<usize>,
}

/// The peak memory of a program. Returned by [`peak`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Peak {
    /// The total in bytes, over all devices together.
    pub bytes: u64,
    /// The values in memory, largest first.
    pub values: Vec<Live>,
    /// The bytes in memory while each operation runs, in the program's order, over all devices
    /// together. The operations of a program that another one holds, such as the body of a loop,
    /// occur once. Before them, the bytes of the arguments.
    pub timeline: Vec<u64>,
}

/// Estimates the peak memory of a program and the values that it consists of.
///
/// Runs the equations in order. Assumes that arguments are freed after their last use, and that an
/// elementwise result or a copy with a single use is fused into that use. A compiler may do better.
/// Its own figures are exact, but do not name values and source lines.
///
/// ```
/// use oxidax::prelude::*;
/// let f = |x: Array| x.matmul(&x).sum();
/// let program = make_program(f, Aval::new(DType::F32, [64, 64]))?;
/// let peak = oxidax::passes::peak(&program);
/// assert_eq!(peak.bytes, 2 * 64 * 64 * 4); // x and the product
/// assert_eq!(peak.values[1].produced_by, Some("dot_general"));
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn peak(program: &Program) -> Peak {
    let arguments = program.inputs().iter().map(|&var| (var, None));
    peak_from(program, arguments.collect())
}

impl Peak {
    /// Adds the paths of the program's inputs.
    pub(crate) fn with_paths(mut self, paths: &[String]) -> Peak {
        for live in &mut self.values {
            live.path = live.input.and_then(|input| paths.get(input)).cloned();
        }
        self
    }
}

/// A variable with the equation that defines it, `None` for an argument.
type Definition<'a> = (Var, Option<&'a Eqn>);

/// Returns the peak of a program that starts with `live` in memory. Values in host memory do not
/// count.
fn peak_from<'a>(program: &'a Program, mut live: Vec<Definition<'a>>) -> Peak {
    let is_on_device = |var: Var| !program.aval(var).memory.is_host();
    live.retain(|&(var, _)| is_on_device(var));
    let total = |live: &[Definition<'_>]| -> u64 {
        let bytes = live.iter().map(|&(var, _)| program.aval(var).bytes() as u64);
        bytes.fold(0, u64::saturating_add)
    };
    let usage = Usage::of(program);
    let start = total(&live);
    let mut peak = Peak { bytes: start, values: Vec::new(), timeline: vec![start] };
    let mut at_peak = live.clone();
    let mut held_peak = Peak::default();
    for (index, eqn) in program.eqns().iter().enumerate() {
        let stored = eqn
            .results
            .iter()
            .filter(|&&var| is_on_device(var) && !usage.is_fused(program, eqn, var));
        live.extend(stored.map(|&var| (var, Some(eqn))));
        let held = peak_of_held_programs(eqn);
        let outside = total(&live);
        let bytes = outside.saturating_add(held.bytes);
        let inside = if held.timeline.is_empty() { &[0][..] } else { &held.timeline };
        peak.timeline.extend(inside.iter().map(|inside| outside.saturating_add(*inside)));
        if bytes > peak.bytes {
            peak.bytes = bytes;
            at_peak.clone_from(&live);
            held_peak = held;
        }
        live.retain(|&(var, _)| usage.is_needed_after(var, index));
    }
    peak.values = at_peak
        .into_iter()
        .map(|(var, eqn)| Live {
            aval: program.aval(var).clone(),
            produced_by: eqn.map(|eqn| eqn.primitive.name()),
            loc: eqn.map_or(Loc::UNKNOWN, |eqn| eqn.loc),
            path: None,
            input: program.inputs().iter().position(|&input| eqn.is_none() && input == var),
        })
        .chain(held_peak.values)
        .collect();
    peak.values.sort_by_key(|live| std::cmp::Reverse(live.aval.bytes()));
    peak
}

/// Returns the largest peak of the programs that an equation runs. Excludes their inputs, which are
/// counted outside.
fn peak_of_held_programs(eqn: &Eqn) -> Peak {
    let Some(holder) = eqn.primitive.as_higher_order() else { return Peak::default() };
    let peaks = holder.programs().into_iter().map(|(_, program)| peak_from(program, Vec::new()));
    peaks.max_by_key(|peak| peak.bytes).unwrap_or_default()
}

/// The last point at which a variable is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LastUse {
    /// The equation at this index.
    Eqn(usize),
    /// The caller: the variable is an output.
    Caller,
}

/// The uses of a program's variables.
struct Usage {
    /// The number of uses by equations.
    counts: Vec<usize>,
    outputs: Vec<bool>,
    last: Vec<LastUse>,
}

impl Usage {
    fn of(program: &Program) -> Usage {
        let n = program.avals().len();
        let (counts, outputs) = (vec![0; n], vec![false; n]);
        let mut usage = Usage { counts, outputs, last: vec![LastUse::Eqn(0); n] };
        for &var in program.eqns().iter().flat_map(|eqn| &eqn.operands) {
            usage.counts[var as usize] += 1;
        }
        for &var in program.outputs() {
            usage.outputs[var as usize] = true;
            usage.last[var as usize] = LastUse::Caller;
        }
        // A fused equation needs its operands when its result is needed.
        for (index, eqn) in program.eqns().iter().enumerate().rev() {
            let fused = eqn.results.iter().filter(|&&var| usage.is_fused(program, eqn, var));
            let last_fused = fused.map(|&var| usage.last[var as usize]).max();
            let last = last_fused.unwrap_or(LastUse::Eqn(index)).max(LastUse::Eqn(index));
            for &var in &eqn.operands {
                usage.last[var as usize] = usage.last[var as usize].max(last);
            }
        }
        usage
    }

    /// Returns true if a result is never stored: it is fused into its only use, or it is a constant
    /// or broadcast that is recomputed for each use.
    fn is_fused(&self, program: &Program, eqn: &Eqn, result: Var) -> bool {
        let is_contraction = matches!(eqn.primitive.save_hint(), SaveHint::Contraction { .. });
        if self.outputs[result as usize]
            || is_contraction
            || eqn.primitive.as_higher_order().is_some()
        {
            return false;
        }
        self.counts[result as usize] <= 1 || is_recomputed(program, eqn)
    }

    fn is_needed_after(&self, var: Var, index: usize) -> bool {
        self.last[var as usize] > LastUse::Eqn(index)
    }
}

fn is_recomputed(program: &Program, eqn: &Eqn) -> bool {
    let (operands, results) = (program.avals_of(&eqn.operands), program.avals_of(&eqn.results));
    eqn.primitive.cost(&operands, &results).is_remade(&operands, &results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    fn peak_of(f: fn(Array) -> Array, shape: [usize; 2]) -> Peak {
        peak(&make_program(f, Aval::new(DType::F32, shape)).unwrap())
    }

    #[test]
    fn fused_values_take_no_memory() {
        // Only the result of `sin(x) * cos(x)` is stored.
        assert_eq!(peak_of(|x| sin(&x) * cos(&x), [8, 8]).bytes, 512);
        // A value that is used twice is stored.
        assert_eq!(
            peak_of(
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
    fn constants_and_broadcasts_are_recomputed() {
        let filled = |x: Array| {
            let ones = broadcast_to(&x.sum(), [64, 64]);
            &ones.matmul(&x) + &ones
        };
        let peak = peak_of(filled, [64, 64]);
        assert!(
            peak.values.iter().all(|live| live.produced_by != Some("broadcast_in_dim")),
            "{peak:?}"
        );
        let returned = |x: Array| broadcast_to(&x.sum(), [64, 64]);
        assert_eq!(peak_of(returned, [2, 2]).values[0].produced_by, Some("broadcast_in_dim"));
    }

    #[test]
    fn derivatives_store_residuals() {
        let chain = |x: Array| {
            let deep = |x: &Array| {
                let layers = (0..4).fold(x.clone(), |y, _| tanh(y.matmul(&y)));
                layers.sum()
            };
            grad(deep)(&x)
        };
        let peak = peak_of(chain, [64, 64]);
        assert!(peak.bytes > 5 * 64 * 64 * 4, "{peak:?}");
        let first = &peak.values[0];
        assert_eq!(first.aval.bytes(), 64 * 64 * 4);
        assert!(peak.values.iter().any(|live| live.loc.get().is_some()), "{peak:?}");
        let sum: usize = peak.values.iter().map(|live| live.aval.bytes()).sum();
        assert_eq!(sum as u64, peak.bytes);
    }

    #[test]
    fn timeline_has_each_operation_and_reaches_the_peak() {
        let peak = peak_of(|x| x.matmul(&x).matmul(&x).sum(), [8, 8]);
        assert_eq!(peak.timeline, [256, 512, 768, 260]);
        let looped = |x: Array| {
            let step = |y: Array, _: Array| (y.matmul(&y.t()).matmul(&y), y.sum());
            scan(step, x, zeros([10])).0
        };
        let peak = peak_of(looped, [32, 32]);
        assert_eq!(peak.timeline.iter().max(), Some(&peak.bytes));
        assert!(peak.timeline.len() > 3, "{:?}", peak.timeline);
    }

    #[test]
    fn loops_hold_the_memory_of_one_step() {
        let looped = |x: Array| {
            let step = |y: Array, _: Array| (y.matmul(&y.t()).matmul(&y), y.sum());
            scan(step, x, zeros([10])).0
        };
        let peak = peak_of(looped, [32, 32]);
        assert!(peak.values.iter().any(|live| live.produced_by == Some("dot_general")), "{peak:?}");
    }
}
