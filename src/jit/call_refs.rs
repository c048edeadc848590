//! [`CallRefs`]: the references that a compiled function reads and writes at each call.

use crate::core::trace::{RefSource, RefUse, RefUses, aliased, refs_exist};
use crate::core::{Array, ArrayRef, Buffer, Error, Kind, Loc, catch, trace};
use crate::runtime::{Executable, placement_of, transfer};
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
    /// Captured references whose values are inputs of the program, in order.
    operands: Vec<ArrayRef>,
    /// References whose final values are the last results of the program, in order.
    written: Vec<CallRef>,
}

impl CallRefs {
    /// Collects the references of a traced function.
    pub(super) fn new(uses: &RefUses) -> CallRefs {
        let mut arguments: Vec<usize> = uses.iter().filter_map(argument).collect();
        arguments.sort_unstable();
        let written = uses.written().map(|used| match argument(used) {
            Some(leaf) => {
                let position = arguments.iter().position(|&other| other == leaf);
                CallRef::Argument(position.expect("the list has all arguments"))
            }
            None => CallRef::Captured(used.target.clone()),
        });
        CallRefs { written: written.collect(), operands: operands(uses).cloned().collect() }
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
        for (target, placement) in self.operands.iter().zip(&executable.inputs()[first..]) {
            if arguments.iter().any(|other| other.same_ref(target)) {
                return Err(aliased(target));
            }
            let value = catch(|| target.read("get", Loc::scoped()))?;
            let value = match placement_of(&value).as_ref() == Some(placement) {
                true => value,
                false => transfer(&value, placement, value.aval().memory)?,
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
fn operands(uses: &RefUses) -> impl Iterator<Item = &ArrayRef> {
    let is_input = |used: &&RefUse| matches!(used.source, RefSource::Input(_));
    uses.iter().filter(is_input).map(|used| &used.target)
}

/// Returns the present values of the captured references of a traced function.
pub(super) fn ref_operands(uses: &RefUses) -> impl Iterator<Item = Array> {
    operands(uses).map(|target| target.read("get", Loc::scoped()))
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
