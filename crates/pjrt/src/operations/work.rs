//! Work of instructions: floating-point operations and bytes.

use crate::hlo_text::proto::{Computation, Instruction, Shape};
use crate::types::{ArrayType, ElementType};

/// `xla.PrimitiveType.TUPLE`.
pub(super) const TUPLE: i32 = 13;

/// Returns true for an operation that only names or selects values.
pub(super) fn is_free(opcode: &str) -> bool {
    matches!(
        opcode,
        "parameter"
            | "constant"
            | "tuple"
            | "get-tuple-element"
            | "bitcast"
            | "after-all"
            | "add-dependency"
            | "opt-barrier"
            | "partition-id"
            | "replica-id"
    )
}

/// Returns true for a call that XLA compiles as one kernel.
pub(super) fn is_kernel(instruction: &Instruction) -> bool {
    instruction.opcode == "call"
        && instruction.frontend_attributes.as_ref().is_some_and(|attributes| {
            attributes.entries.iter().any(|entry| entry.key == "xla_cpu_small_call")
        })
}

/// Returns a loop's trip count if the compiler determined it. The compiler writes
/// `"known_trip_count":{"n":"10"}`.
pub(super) fn known_trips(instruction: &Instruction) -> Option<f64> {
    crate::hlo::known_trips(&instruction.backend_config).map(|trips| trips as f64)
}

/// Returns the number of elements of a shape, of a tuple's arrays together.
pub(super) fn elements(shape: &Shape) -> f64 {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().map(elements).sum(),
        _ => shape.dimensions.iter().map(|&size| size.max(0) as f64).product(),
    }
}

/// Returns the bytes of a shape, of a tuple's arrays together.
pub(super) fn shape_bytes(shape: &Shape) -> f64 {
    if shape.element_type == TUPLE {
        return shape.tuple_shapes.iter().map(shape_bytes).sum();
    }
    let element = u32::try_from(shape.element_type).ok().and_then(ElementType::from_primitive);
    elements(shape) * element.map_or(0, ElementType::bits) as f64 / 8.0
}

/// Returns the type of an array, such as `f32[64,512]`.
pub(super) fn array_type(shape: &Shape) -> String {
    let element = u32::try_from(shape.element_type).ok().and_then(ElementType::from_primitive);
    let array = element.and_then(|element| ArrayType::new(element, &shape.dimensions).ok());
    array.map_or_else(|| "unknown".to_owned(), |array| array.to_string())
}

/// Returns the instruction with this id.
pub(super) fn instruction_of(computation: &Computation, id: i64) -> Option<&Instruction> {
    computation.instructions.iter().find(|other| other.id == id)
}

/// Returns the shape of an operand.
pub(super) fn operand_shape<'a>(
    computation: &'a Computation,
    instruction: &Instruction,
    index: usize,
) -> Option<&'a Shape> {
    let id = *instruction.operand_ids.get(index)?;
    instruction_of(computation, id)?.shape.as_ref()
}

/// Returns the bytes of the operands and results.
pub(super) fn bytes(computation: &Computation, instruction: &Instruction) -> f64 {
    let operands = 0..instruction.operand_ids.len();
    let operands = operands.filter_map(|index| operand_shape(computation, instruction, index));
    operands.chain(&instruction.shape).map(shape_bytes).sum()
}

/// Returns the sizes of a product: products, rows, columns and terms.
pub(super) fn product(computation: &Computation, instruction: &Instruction) -> Option<[u64; 4]> {
    let dot = instruction.dot.as_ref().filter(|_| instruction.opcode == "dot")?;
    let shapes = [0, 1].map(|index| operand_shape(computation, instruction, index));
    let [Some(lhs), Some(rhs)] = shapes else { return None };
    let size = |shape: &Shape, axes: &[i64]| -> u64 {
        let sizes = axes.iter().filter_map(|&axis| {
            let size = shape.dimensions.get(usize::try_from(axis).ok()?)?;
            u64::try_from(*size).ok()
        });
        sizes.product()
    };
    let all = |shape: &Shape| -> u64 { elements(shape) as u64 };
    let (batch, terms) = (size(lhs, &dot.lhs_batch), size(lhs, &dot.lhs_contracting));
    let free = |shape: &Shape| all(shape).checked_div(batch.saturating_mul(terms)).unwrap_or(0);
    Some([batch, free(lhs), free(rhs), terms])
}

/// The work of one element, for dividing the time of a fusion among its lines.
const TRANSCENDENTAL: f64 = 10.0;

/// Returns the floating-point operations of an instruction that calls no computation, and its
/// weight among those of a fusion.
pub(super) fn flops_and_weight(computation: &Computation, instruction: &Instruction) -> (f64, f64) {
    let results = instruction.shape.as_ref().map_or(0.0, elements);
    let first = || operand_shape(computation, instruction, 0).map_or(0.0, elements);
    match instruction.opcode.as_str() {
        opcode if is_free(opcode) => (0.0, 0.0),
        "dot" => {
            let [batch, rows, columns, terms] =
                product(computation, instruction).unwrap_or_default().map(|n| n as f64);
            let flops = 2.0 * batch * rows * columns * terms;
            (flops, flops)
        }
        "convolution" => {
            // Each element of the result sums over the kernel's window and input features.
            let kernel = operand_shape(computation, instruction, 1);
            let features =
                instruction.convolution.as_ref().zip(kernel).and_then(|(dims, kernel)| {
                    kernel
                        .dimensions
                        .get(usize::try_from(dims.kernel_output_feature).ok()?)
                        .copied()
                });
            let taps = kernel.map_or(0.0, elements) / features.unwrap_or(1).max(1) as f64;
            (2.0 * results * taps, 2.0 * results * taps)
        }
        "exponential"
        | "exponential-minus-one"
        | "log"
        | "log-plus-one"
        | "logistic"
        | "tanh"
        | "power"
        | "sine"
        | "cosine"
        | "tan"
        | "atan2"
        | "erf"
        | "cbrt"
        | "sqrt"
        | "rsqrt"
        | "divide"
        | "remainder" => (results, TRANSCENDENTAL * results),
        "reduce" | "reduce-window" | "select-and-scatter" => {
            (first().max(results), first().max(results))
        }
        "sort" => (0.0, first() * first().max(2.0).log2()),
        "add" | "subtract" | "multiply" | "maximum" | "minimum" | "negate" | "abs" | "sign"
        | "floor" | "ceil" | "round-nearest-even" | "round-nearest-afz" | "clamp" => {
            (results, results)
        }
        "scatter" => {
            let updates = operand_shape(computation, instruction, 2).map_or(0.0, elements);
            (updates, updates)
        }
        _ => (0.0, results),
    }
}
