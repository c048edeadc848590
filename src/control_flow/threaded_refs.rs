//! References in the bodies of loops and branches: their values become carries, constants and
//! results.

use super::closure::{CallSite, Closure};
use crate::core::trace::{RefSource, RefUse, RefUses, same_value};
use crate::core::{Array, ArrayRef, Loc, OpErrorKind, Program, ProgramInput, Var, Varying, trace};
use crate::primitives::vary;

/// The references that the body of a loop writes: their values are carried from step to step.
pub(super) struct CarriedRefs {
    uses: RefUses,
    /// The values before the loop.
    pub(super) values: Vec<Array>,
}

impl CarriedRefs {
    /// Returns the references that a body writes. Returns `None` if the values before the loop were
    /// made to vary over more axes of the mesh, and the body must be traced again.
    ///
    /// Throws `Op` (value) if a value changes its type.
    pub(super) fn of<O>(body: &Closure<O>, site: &CallSite) -> Option<CarriedRefs> {
        let mut values = Vec::with_capacity(body.refs.n_written());
        for used in body.refs.written() {
            let value = present(used, site.loc);
            if value.aval().varying.covers(&used.aval.varying) {
                expect_same_type(used, &value, site);
                values.push(value);
                continue;
            }
            let varied = site.loc.scope(|| vary(&value, &used.aval.varying));
            used.target.write(varied, "set", site.loc);
            return None;
        }
        Some(CarriedRefs { uses: body.refs.clone(), values })
    }

    /// Makes the carried values vary over axes of the mesh.
    pub(super) fn vary(&mut self, axes: &Varying, site: &CallSite) {
        for value in &mut self.values {
            *value = site.loc.scope(|| vary(value, axes));
        }
    }

    /// Returns the number of carried values.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    fn position(&self, target: &ArrayRef) -> Option<usize> {
        self.uses.written().position(|used| used.target.same_ref(target))
    }

    /// Returns a body or a condition that takes captures, the values of references that the loop
    /// only reads, `n_carry` carried values, the carried values of references, then the remaining
    /// inputs. Its captures include the values that are only read.
    pub(super) fn thread<O>(
        &self,
        closure: Closure<O>,
        n_carry: usize,
        site: &CallSite,
    ) -> Closure<O> {
        if self.len() == 0 && closure.refs.is_empty() {
            return closure;
        }
        let mut captures = closure.captures;
        let n_captures = captures.len();
        let n_inputs = closure.program.inputs().len();
        let n_declared = n_inputs - n_captures - closure.refs.n_inputs();
        let mut inputs: Vec<ProgramInput> = (0..n_captures).map(ProgramInput::Existing).collect();
        let mut carried: Vec<Option<usize>> = vec![None; self.len()];
        for used in closure.refs.iter() {
            let RefSource::Input(position) = used.source else { continue };
            match self.position(&used.target) {
                Some(index) => carried[index] = Some(n_captures + position),
                None => {
                    inputs.push(ProgramInput::Existing(n_captures + position));
                    captures.push(present(used, site.loc));
                }
            }
        }
        inputs.extend((0..n_carry).map(|index| ProgramInput::Existing(n_captures + index)));
        for (input, value) in carried.iter().zip(&self.values) {
            inputs.push(match input {
                Some(position) => ProgramInput::Existing(*position),
                None => ProgramInput::Unused(value.aval().clone()),
            });
        }
        let rest = n_captures + n_carry..n_captures + n_declared;
        inputs.extend(rest.map(ProgramInput::Existing));
        Closure { program: closure.program.with_inputs(&inputs), captures, ..closure }
    }

    /// Returns a body whose outputs are the carry, the carried values of references, then the
    /// others.
    pub(super) fn with_carry_outputs(&self, program: Program, n_carry: usize) -> Program {
        if self.len() == 0 {
            return program;
        }
        let mut outputs = program.outputs().to_vec();
        let finals = outputs.split_off(outputs.len() - self.len());
        outputs.splice(n_carry..n_carry, finals);
        program.with_outputs(&outputs)
    }

    /// Removes the final values, which are after the carry, from the results of the loop, and
    /// writes them to the references.
    pub(super) fn write_back(&self, results: &mut Vec<Array>, n_carry: usize) {
        let values = results.drain(n_carry..n_carry + self.len()).collect();
        self.uses.write_values(values);
    }
}

/// Returns the value of a reference where a function is called that uses it.
fn present(used: &RefUse, loc: Loc) -> Array {
    used.target.read("get", loc)
}

fn expect_same_type(used: &RefUse, value: &Array, site: &CallSite) {
    let mut last = used.aval.clone();
    last.varying = value.aval().varying.clone();
    if value.aval().fits(&last) {
        return;
    }
    let &CallSite { name, loc, .. } = site;
    let message = format!(
        "a reference changes its type: the body takes {} and writes {}",
        value.aval(),
        used.aval
    );
    let error = trace::op_error(OpErrorKind::Value, name, message, loc);
    trace::throw(error.with_help("write a value with the sharding and memory of the first one"));
}

/// The references that one of several branches writes.
#[derive(Default)]
pub(super) struct BranchRefs {
    targets: Vec<RefUse>,
}

impl BranchRefs {
    /// Collects the references that the branches write.
    pub(super) fn of<O>(branches: &[Closure<O>]) -> BranchRefs {
        let mut targets: Vec<RefUse> = Vec::new();
        for used in branches.iter().flat_map(|branch| branch.refs.written()) {
            if !targets.iter().any(|other| other.target.same_ref(&used.target)) {
                targets.push(used.clone());
            }
        }
        BranchRefs { targets }
    }

    /// Returns a branch whose last outputs are the values of all references that some branch
    /// writes.
    pub(super) fn complete<O>(&self, branch: Closure<O>, loc: Loc) -> Closure<O> {
        if self.targets.is_empty() {
            return branch;
        }
        let Closure { program, mut captures, template, refs } = branch;
        let n_inputs = program.inputs().len();
        let n_own = captures.len();
        // The present values of references that this branch does not write are captures, after its
        // own ones unless it captures them already.
        let mut unwritten: Vec<Option<usize>> = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            let is_target = |used: &RefUse| used.target.same_ref(&target.target);
            if refs.written().any(is_target) {
                unwritten.push(None);
                continue;
            }
            let value = present(target, loc);
            let captured = captures.iter().position(|capture| same_value(capture, &value));
            unwritten.push(Some(captured.unwrap_or_else(|| {
                captures.push(value);
                captures.len() - 1
            })));
        }
        let mut inputs: Vec<ProgramInput> = (0..n_own).map(ProgramInput::Existing).collect();
        let added = captures[n_own..].iter();
        inputs.extend(added.map(|value| ProgramInput::Unused(value.aval().clone())));
        inputs.extend((n_own..n_inputs).map(ProgramInput::Existing));
        let program = program.with_inputs(&inputs);
        let mut outputs: Vec<Var> = program.outputs().to_vec();
        let finals = outputs.split_off(outputs.len() - refs.n_written());
        for (target, unwritten) in self.targets.iter().zip(unwritten) {
            let position = refs.written().position(|used| used.target.same_ref(&target.target));
            outputs.push(match (position, unwritten) {
                (Some(position), _) => finals[position],
                (None, Some(capture)) => program.inputs()[capture],
                (None, None) => unreachable!("a reference is written or not"),
            });
        }
        Closure { program: program.with_outputs(&outputs), captures, template, refs }
    }

    /// Removes the final values from the results and writes them to the references.
    pub(super) fn write_back(&self, results: &mut Vec<Array>) {
        let values = results.split_off(results.len() - self.targets.len());
        for (used, value) in self.targets.iter().zip(values) {
            used.target.write(value, "set", used.written.unwrap_or_default());
        }
    }
}
