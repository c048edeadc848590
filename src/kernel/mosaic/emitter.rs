//! [`Emitter`]: writes the equations of a program as Mosaic operations.

use super::text::{Text, Val, check_dtype};
use super::{control, convert, dot, elementwise, reduction, ref_access, structure};
use crate::core::{Aval, DType, Loc, Program, RuleError, RuleResult};
use crate::kernel::spec::KernelMemory;
use std::any::Any;
use std::collections::BTreeSet;

/// A reference of a kernel: memory that its states share.
#[derive(Clone, Debug)]
pub(super) struct MemRef {
    pub(super) name: String,
    pub(super) dtype: DType,
    /// The sizes, 1 for squeezed axes.
    pub(super) shape: Vec<usize>,
    pub(super) is_squeezed: Vec<bool>,
    pub(super) memory: KernelMemory,
    pub(super) is_scratch: bool,
}

impl MemRef {
    pub(super) fn ty(&self) -> String {
        let space = match self.memory {
            KernelMemory::Vmem => "vmem",
            KernelMemory::Smem => "smem",
        };
        let (dims, element) = (super::text::dims(&self.shape), super::text::element(self.dtype));
        format!("memref<{dims}{element}, #tpu.memory_space<{space}>>")
    }

    /// Returns the bytes, in whole tiles of registers.
    pub(super) fn tiled_bytes(&self) -> usize {
        let mut shape = self.shape.clone();
        let packing = (32 / self.dtype.bits()).max(1);
        match shape.as_mut_slice() {
            [] => {}
            [size] => *size = size.next_multiple_of(128 * packing),
            [.., rows, lanes] => {
                *rows = rows.next_multiple_of(8 * packing);
                *lanes = lanes.next_multiple_of(128);
            }
        }
        shape.iter().product::<usize>() * self.dtype.bits() / 8
    }
}

/// The meaning of a variable: a value, or a state of a reference.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Value(Val),
    /// The index of a [`MemRef`].
    Memory(usize),
}

/// An equation that is being written.
pub(super) struct Op<'a> {
    pub(super) name: &'static str,
    pub(super) primitive: &'a dyn Any,
    pub(super) operands: &'a [&'a Item],
    pub(super) results: &'a [Aval],
}

impl<'a> Op<'a> {
    /// Returns the primitive, if it has this type.
    pub(super) fn get<T: Any>(&self) -> Option<&'a T> {
        self.primitive.downcast_ref()
    }

    pub(super) fn is<T: Any>(&self) -> bool {
        self.primitive.is::<T>()
    }

    /// Returns an operand that is a value.
    pub(super) fn value(&self, index: usize) -> RuleResult<&'a Val> {
        match self.operands.get(index) {
            Some(Item::Value(value)) => Ok(value),
            _ => Err(RuleError::unsupported(format!(
                "operand {index} is the memory of a reference, not a value"
            ))
            .help("read the reference with `Ref::load`")),
        }
    }

    /// Returns the operands, which are values.
    pub(super) fn values(&self) -> RuleResult<Vec<&'a Val>> {
        (0..self.operands.len()).map(|index| self.value(index)).collect()
    }
}

/// Writes a family of primitives. Returns `None` for others.
type Family = fn(&mut Emitter, &Op<'_>) -> RuleResult<Option<Vec<Item>>>;

/// The families, in the order in which they are tried.
const FAMILIES: [Family; 7] = [
    ref_access::emit,
    control::emit,
    elementwise::emit,
    convert::emit,
    structure::emit,
    reduction::emit,
    dot::emit,
];

/// Writes the functions of a kernel.
#[derive(Debug, Default)]
pub(super) struct Emitter {
    pub(super) text: Text,
    pub(super) memories: Vec<MemRef>,
    /// The memories that the kernel writes.
    pub(super) written: BTreeSet<usize>,
    /// The location of the operation that was refused.
    pub(super) failed_at: Loc,
}

impl Emitter {
    /// Writes the equations of a program. Returns the outputs.
    pub(super) fn program(
        &mut self,
        program: &Program,
        inputs: impl IntoIterator<Item = Item>,
    ) -> RuleResult<Vec<Item>> {
        program.try_interpret(inputs, |eqn, operands| {
            let outer = self.text.set_loc(eqn.loc);
            let op = Op {
                name: eqn.primitive.name(),
                primitive: (*eqn.primitive).as_any(),
                operands,
                results: &program.avals_of(&eqn.results),
            };
            let results = self.eqn(&op);
            self.text.restore_loc(outer);
            results.inspect_err(|_| self.failed_at = self.failed_at.or(eqn.loc))
        })
    }

    fn eqn(&mut self, op: &Op<'_>) -> RuleResult<Vec<Item>> {
        let is_value = |item: &&&Item| matches!(item, Item::Value(_));
        if op.operands.iter().filter(is_value).count() == op.operands.len() {
            for aval in op.results {
                check_dtype(aval.dtype).map_err(|error| named(op.name, error))?;
                if aval.size() == 0 {
                    let message = format!("`{}` has an empty result, {aval}", op.name);
                    return Err(RuleError::unsupported(message).help("drop the operation"));
                }
            }
        }
        for family in FAMILIES {
            let results = family(self, op).map_err(|error| named(op.name, error))?;
            if let Some(results) = results {
                return Ok(results);
            }
        }
        Err(RuleError::unsupported(format!("`{}` has no form in a TPU kernel", op.name)).help(
            "compute it outside of the kernel, or express it by arithmetic, reductions and \
             products; for other platforms alone, set `Kernel::targets`",
        ))
    }
}

/// Adds the name of the operation to a message.
fn named(name: &str, error: RuleError) -> RuleError {
    let prefix = format!("`{name}`");
    if error.message.starts_with('`') {
        return error;
    }
    RuleError { message: format!("{prefix}: {}", error.message), ..error }
}
