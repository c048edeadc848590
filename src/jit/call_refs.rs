//! [`CallRefs`]: the references that a compiled function reads and writes at each call.

use crate::core::trace::{RefSource, RefUse, RefUses, aliased, refs_exist};
use crate::core::{Array, ArrayRef, Buffer, Error, Kind, Loc, catch, trace};
use crate::runtime::{Executable, transfer};
use crate::tree::{Walk, refs_of};
use std::sync::Arc;

/// A reference of a compiled function.
enum CallRef {
    /// A reference that the function captured.
    Captured(ArrayRef),
    /// The reference at this position among those of the arguments.
    Argument(usize),
}

/// The references that a compiled function reads and writes at each call.
pub(super) struct CallRefs {
    /// Captured references whose values are inputs of the program, in order. True for those that
    /// the program writes.
    operands: Vec<(ArrayRef, bool)>,
    /// The leaves of the arguments that are references. True for those that the program writes.
    leaves: Vec<(usize, bool)>,
    /// References whose final values are the last results of the program, in order.
    written: Vec<CallRef>,
}

impl CallRefs {
    /// Collects the references of a traced function.
    pub(super) fn new(uses: &RefUses) -> CallRefs {
        let leaf = |used: &RefUse| argument(used).map(|leaf| (leaf, used.written.is_some()));
        let mut leaves: Vec<(usize, bool)> = uses.iter().filter_map(leaf).collect();
        leaves.sort_unstable();
        let written = uses.written().map(|used| match argument(used) {
            Some(leaf) => {
                let position = leaves.iter().position(|&(other, _)| other == leaf);
                CallRef::Argument(position.expect("the list has all arguments"))
            }
            None => CallRef::Captured(used.target.clone()),
        });
        let written = written.collect();
        let operands = operands(uses).map(|used| (used.target.clone(), used.written.is_some()));
        CallRefs { written, operands: operands.collect(), leaves }
    }

    /// Returns true if the program writes a reference, whose buffer it may then reuse.
    pub(super) fn any_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns true if the program writes the captured reference at this position.
    pub(super) fn is_operand_written(&self, position: usize) -> bool {
        self.operands[position].1
    }

    /// Returns true if this leaf of the arguments is a reference that the program writes, and
    /// `None` if it is not a reference.
    pub(super) fn is_leaf_written(&self, leaf: usize) -> Option<bool> {
        self.leaves.iter().find(|(other, _)| *other == leaf).map(|(_, is_written)| *is_written)
    }

    /// Returns the number of inputs of the program that are values of references.
    pub(super) fn n_operands(&self) -> usize {
        self.operands.len()
    }

    /// Returns the present values of the captured references, where the program expects them.
    /// `first` is the position of the first among the inputs of the program.
    ///
    /// # Errors
    /// `Op` (value) for a reference that has ended, or that is an argument too; `Runtime`.
    pub(super) fn values(
        &self,
        executable: &Executable,
        first: usize,
        arguments: &[ArrayRef],
    ) -> Result<Vec<Arc<dyn Buffer>>, Error> {
        let mut buffers = Vec::with_capacity(self.operands.len());
        for (index, (target, _)) in (first..).zip(&self.operands) {
            if arguments.iter().any(|other| other.same_ref(target)) {
                return Err(aliased(target));
            }
            let value = catch(|| target.read("get", Loc::scoped()))?;
            let value = match &value.kind {
                Kind::Concrete(buffer) if executable.accepts(index, buffer) => value,
                _ => transfer(&value, &executable.inputs()[index], value.aval().memory)?,
            };
            match value.kind {
                Kind::Concrete(buffer) => buffers.push(buffer),
                Kind::Traced { .. } => return Err(trace::escaped_error(&value)),
            }
        }
        Ok(buffers)
    }

    /// Writes the last results of the program to the references.
    pub(super) fn write(&self, arguments: &[ArrayRef], values: Vec<Array>) {
        for (target, value) in self.written.iter().zip(values) {
            let target = match target {
                CallRef::Captured(target) => target,
                CallRef::Argument(position) => &arguments[*position],
            };
            target.write(value, "set", Loc::scoped());
        }
    }
}

fn argument(used: &RefUse) -> Option<usize> {
    match used.source {
        RefSource::Argument(leaf) => Some(leaf),
        _ => None,
    }
}

/// Returns the captured references whose values are inputs of the program, in order.
fn operands(uses: &RefUses) -> impl Iterator<Item = &RefUse> {
    uses.iter().filter(|used| matches!(used.source, RefSource::Input(_)))
}

/// Returns the present values of the captured references of a traced function.
pub(super) fn ref_operands(uses: &RefUses) -> impl Iterator<Item = Array> {
    operands(uses).map(|used| used.target.read("get", Loc::scoped()))
}

/// Returns the references among the arguments of a call.
///
/// # Errors
/// `Op` (value) for a reference that has ended, and for one that is passed twice.
pub(super) fn argument_refs(arguments: &impl Walk) -> Result<Vec<ArrayRef>, Error> {
    if !refs_exist() {
        return Ok(Vec::new());
    }
    let refs = catch(|| refs_of(arguments))?;
    for (index, target) in refs.iter().enumerate() {
        if refs[..index].iter().any(|other| other.same_ref(target)) {
            return Err(aliased(target));
        }
    }
    Ok(refs)
}
