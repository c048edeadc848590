//! Text of shapes, constants and shardings.

use super::proto::{Literal, Shape, Sharding};
use crate::types::ElementType;
use std::fmt::Display;

/// Values of `xla.PrimitiveType` that are not array types.
const TUPLE: i32 = 13;
const OPAQUE: i32 = 14;
const TOKEN: i32 = 17;

/// Constants with more elements than this are abridged.
const MAX_ELEMENTS: usize = 8;

/// Joins the texts of numbers.
pub(super) fn list<T: Display>(values: &[T], separator: &str) -> String {
    let texts: Vec<String> = values.iter().map(T::to_string).collect();
    texts.join(separator)
}

/// Returns the text of a shape: `f32[4,8]{1,0:T(8,128)}`.
pub(super) fn shape(shape: &Shape) -> String {
    match shape.element_type {
        TUPLE => {
            let parts: Vec<String> = shape.tuple_shapes.iter().map(self::shape).collect();
            return format!("({})", parts.join(", "));
        }
        TOKEN => return "token[]".into(),
        OPAQUE => return "opaque[]".into(),
        _ => {}
    }
    let element = u32::try_from(shape.element_type).ok().and_then(ElementType::from_primitive);
    let element = match element {
        Some(element) => element_name(element),
        None => format!("type{}", shape.element_type),
    };
    let mut text = format!("{element}[{}]", list(&shape.dimensions, ","));
    let Some(layout) = shape.layout.as_ref().filter(|_| !shape.dimensions.is_empty()) else {
        return text;
    };
    text.push_str(&format!("{{{}", list(&layout.minor_to_major, ",")));
    if !layout.tiles.is_empty() || layout.memory_space != 0 {
        text.push(':');
    }
    if !layout.tiles.is_empty() {
        text.push('T');
        for tile in &layout.tiles {
            // The smallest number stands for a tile that combines dimensions.
            let dims = tile.dimensions.iter();
            let dims = dims.map(|&dim| if dim == i64::MIN { "*".into() } else { dim.to_string() });
            text.push_str(&format!("({})", dims.collect::<Vec<String>>().join(",")));
        }
    }
    if layout.memory_space != 0 {
        text.push_str(&format!("S({})", layout.memory_space));
    }
    text.push('}');
    text
}

/// Returns XLA's name of an element type: `f32`, `pred`, `bf16`.
fn element_name(element: ElementType) -> String {
    format!("{element:?}").to_ascii_lowercase()
}

/// Returns the text of a constant; `{...}` for a large one, and for types that are not shown.
pub(super) fn literal(literal: &Literal, shape: &Shape) -> String {
    let Literal { preds, s32s, s64s, u32s, u64s, f32s, f64s, .. } = literal;
    let halves = |bytes: &[u8], convert: fn(u16) -> f32| -> Vec<f32> {
        let pairs = bytes.chunks_exact(2);
        pairs.map(|pair| convert(u16::from_le_bytes([pair[0], pair[1]]))).collect()
    };
    let texts: Vec<String> = if !preds.is_empty() {
        limited(preds)
    } else if !s32s.is_empty() {
        limited(s32s)
    } else if !s64s.is_empty() {
        limited(s64s)
    } else if !u32s.is_empty() {
        limited(u32s)
    } else if !u64s.is_empty() {
        limited(&u64s.iter().map(|&value| value as u64).collect::<Vec<u64>>())
    } else if !f32s.is_empty() {
        limited(f32s)
    } else if !f64s.is_empty() {
        limited(f64s)
    } else if !literal.u8s.is_empty() {
        limited(&literal.u8s)
    } else if !literal.s8s.is_empty() {
        limited(&literal.s8s.iter().map(|&byte| byte as i8).collect::<Vec<i8>>())
    } else if !literal.bf16s.is_empty() {
        limited(&halves(&literal.bf16s, |bits| f32::from_bits(u32::from(bits) << 16)))
    } else if !literal.f16s.is_empty() {
        limited(&halves(&literal.f16s, half_to_f32))
    } else {
        Vec::new()
    };
    match texts.as_slice() {
        [] => "{...}".into(),
        [one] if shape.dimensions.is_empty() => one.clone(),
        some => format!("{{{}}}", some.join(", ")),
    }
}

/// Returns the texts of at most eight values; none of more.
fn limited<T: Display>(values: &[T]) -> Vec<String> {
    if values.len() > MAX_ELEMENTS {
        return Vec::new();
    }
    values.iter().map(T::to_string).collect()
}

/// Converts an IEEE number of 16 bits.
fn half_to_f32(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

/// Returns the text of a sharding: `{devices=[2,1]<=[2]}`.
pub(super) fn sharding(sharding: &Sharding) -> String {
    let Sharding { kind, tile_dims, devices, tuple, iota_dims, iota_permutation, .. } = sharding;
    match kind {
        0 => "{replicated}".into(),
        1 => format!("{{maximal device={}}}", devices.first().copied().unwrap_or_default()),
        2 => {
            let parts: Vec<String> = tuple.iter().map(self::sharding).collect();
            format!("{{{}}}", parts.join(", "))
        }
        4 => "{manual}".into(),
        5 => "{unknown}".into(),
        6 => "{unreduced}".into(),
        _ => {
            let order = match (iota_dims.is_empty(), iota_permutation.len()) {
                (true, _) => list(devices, ","),
                (false, 0 | 1) => format!("<=[{}]", list(iota_dims, ",")),
                (false, _) => {
                    let permutation = list(iota_permutation, ",");
                    format!("<=[{}]T({permutation})", list(iota_dims, ","))
                }
            };
            let last = if sharding.replicate_on_last { " last_tile_dim_replicate" } else { "" };
            format!("{{devices=[{}]{order}{last}}}", list(tile_dims, ","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::{Layout, Tile};
    use super::*;

    #[test]
    fn shapes_show_layouts_and_tiles() {
        let layout = Layout {
            minor_to_major: vec![1, 0],
            tiles: vec![Tile { dimensions: vec![8, 128] }, Tile { dimensions: vec![2, 1] }],
            memory_space: 1,
        };
        let matrix = Shape {
            element_type: 16,
            dimensions: vec![4, 8],
            layout: Some(layout),
            ..Shape::default()
        };
        assert_eq!(shape(&matrix), "bf16[4,8]{1,0:T(8,128)(2,1)S(1)}");
        let tuple = Shape {
            element_type: TUPLE,
            tuple_shapes: vec![
                Shape { element_type: 1, ..Shape::default() },
                Shape { element_type: TOKEN, ..Shape::default() },
            ],
            ..Shape::default()
        };
        assert_eq!(shape(&tuple), "(pred[], token[])");
    }

    #[test]
    fn small_constants_are_written_and_large_ones_abridged() {
        let scalar = Shape { element_type: 11, ..Shape::default() };
        let vector = Shape { element_type: 11, dimensions: vec![2], ..Shape::default() };
        let of = |f32s: &[f32]| Literal { f32s: f32s.to_vec(), ..Literal::default() };
        assert_eq!(literal(&of(&[0.5]), &scalar), "0.5");
        assert_eq!(literal(&of(&[0.5, -1.0]), &vector), "{0.5, -1}");
        assert_eq!(literal(&of(&[0.0; 9]), &vector), "{...}");
        let half = Literal { f16s: 0xc100_u16.to_le_bytes().to_vec(), ..Literal::default() };
        assert_eq!(literal(&half, &scalar), "-2.5");
        let half = Literal { bf16s: 0x3fc0_u16.to_le_bytes().to_vec(), ..Literal::default() };
        assert_eq!(literal(&half, &scalar), "1.5");
    }

    #[test]
    fn shardings_have_xlas_notation() {
        let tiled = Sharding {
            kind: 3,
            tile_dims: vec![2, 1, 4],
            replicate_on_last: true,
            iota_dims: vec![8],
            ..Sharding::default()
        };
        assert_eq!(sharding(&tiled), "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
        assert_eq!(sharding(&Sharding::default()), "{replicated}");
    }
}
