//! Layouts of arrays in `HloModuleProto`, which compilers expect and some builders leave out.
//!
//! Source of the field numbers: `hlo.proto` and `xla_data.proto` of XLA.

use oxidax_proto::{DecodeError, WireValue, put_bytes, raw_fields};

/// Nesting of tuples at which a module is refused.
const MAX_DEPTH: usize = 64;

/// The kind of a message, which tells the fields with shapes.
#[derive(Clone, Copy)]
enum Kind {
    Module,
    Computation,
    Instruction,
    Literal,
    ProgramShape,
    Shape,
}

impl Kind {
    /// Returns the kind of the message in a field, if shapes are below it.
    fn of_field(self, number: u32) -> Option<Kind> {
        Some(match (self, number) {
            (Kind::Module, 3) => Kind::Computation,
            (Kind::Module | Kind::Computation, 4) => Kind::ProgramShape,
            (Kind::Computation, 2) => Kind::Instruction,
            (Kind::Instruction, 8) => Kind::Literal,
            (Kind::Instruction, 3) | (Kind::Literal, 1) | (Kind::ProgramShape, 1 | 2) => {
                Kind::Shape
            }
            (Kind::Shape, 4) => Kind::Shape,
            _ => return None,
        })
    }
}

/// Values of `xla.PrimitiveType` without a layout: none, tuples, opaque values and tokens.
const WITHOUT_LAYOUT: [u64; 4] = [0, 13, 14, 17];

/// The field of `HloInstructionProto` with the sharding.
const SHARDING: u32 = 40;

/// The fields of `HloModuleProto` with the shardings of the result and the parameters.
const MODULE_SHARDINGS: [u32; 2] = [12, 14];

/// Returns the module with a row-major layout for each array that has none, and with or without the
/// shardings of operations.
pub(crate) fn with_layouts(module: &[u8], keeps_shardings: bool) -> Result<Vec<u8>, DecodeError> {
    rewritten(Kind::Module, module, keeps_shardings, MAX_DEPTH)
}

fn rewritten(
    kind: Kind,
    message: &[u8],
    keeps_shardings: bool,
    depth: usize,
) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(message.len());
    let (mut element, mut rank, mut has_layout) = (0, 0, false);
    for field in raw_fields(message)? {
        if let Kind::Shape = kind {
            match (field.number, field.value) {
                (2, WireValue::Varint(ty)) => element = ty,
                (3, WireValue::Varint(_)) => rank += 1,
                // Packed numbers: each one ends with a byte below 128.
                (3, WireValue::Bytes(sizes)) => {
                    rank += sizes.iter().filter(|byte| **byte < 0x80).count();
                }
                (5, _) => has_layout = true,
                _ => {}
            }
        }
        let is_sharding = match kind {
            Kind::Module => MODULE_SHARDINGS.contains(&field.number),
            Kind::Instruction => field.number == SHARDING,
            _ => false,
        };
        if is_sharding && !keeps_shardings {
            continue;
        }
        match (kind.of_field(field.number), field.value, depth.checked_sub(1)) {
            (Some(inner), WireValue::Bytes(bytes), Some(depth)) => {
                let inner = rewritten(inner, bytes, keeps_shardings, depth)?;
                put_bytes(field.number, &inner, &mut out);
            }
            _ => out.extend_from_slice(field.encoded),
        }
    }
    if matches!(kind, Kind::Shape) && !has_layout && !WITHOUT_LAYOUT.contains(&element) {
        // Ranks of arrays are below 128, so each axis is one byte.
        let minor_to_major: Vec<u8> =
            (0..rank).rev().filter_map(|axis| u8::try_from(axis).ok()).collect();
        let mut layout = Vec::new();
        if !minor_to_major.is_empty() {
            put_bytes(1, &minor_to_major, &mut layout);
        }
        put_bytes(5, &layout, &mut out);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a module whose first parameter has this shape.
    fn module(shape: &[u8]) -> Vec<u8> {
        let mut program_shape = Vec::new();
        put_bytes(1, shape, &mut program_shape);
        let mut module = Vec::new();
        put_bytes(4, &program_shape, &mut module);
        module
    }

    #[test]
    fn arrays_without_a_layout_are_row_major() {
        let shape = [0x10, 11, 0x1a, 2, 3, 4];
        let with_layout = [&shape[..], &[0x2a, 4, 0x0a, 2, 1, 0]].concat();
        assert_eq!(with_layouts(&module(&shape), true).unwrap(), module(&with_layout));
        assert_eq!(with_layouts(&module(&with_layout), true).unwrap(), module(&with_layout));
    }

    #[test]
    fn shardings_are_left_out_on_request() {
        let of = |instruction: &[u8]| {
            let (mut computation, mut module) = (Vec::new(), Vec::new());
            put_bytes(2, instruction, &mut computation);
            put_bytes(3, &computation, &mut module);
            module
        };
        let name = [0x0a, 1, b'a'];
        let mut sharded = name.to_vec();
        put_bytes(SHARDING, &[8, 0], &mut sharded);
        assert_eq!(with_layouts(&of(&sharded), true).unwrap(), of(&sharded));
        assert_eq!(with_layouts(&of(&sharded), false).unwrap(), of(&name));
    }

    #[test]
    fn scalars_have_an_empty_layout_and_tuples_none() {
        let scalar = [0x10, 11];
        let expected = [&scalar[..], &[0x2a, 0]].concat();
        assert_eq!(with_layouts(&module(&scalar), true).unwrap(), module(&expected));
        let tuple = |inner: &[u8]| {
            let mut tuple = vec![0x10, 13];
            put_bytes(4, inner, &mut tuple);
            tuple
        };
        let found = with_layouts(&module(&tuple(&scalar)), true).unwrap();
        assert_eq!(found, module(&tuple(&expected)));
    }
}
