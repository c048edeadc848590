//! Implicit type promotion.
//!
//! Implements the lattice of the "standard" mode of JAX. Two dtypes promote to their least upper
//! bound. Weakly typed operands, such as Rust scalars, are at the bottom of their category, so
//! `x * 2.0` keeps the dtype of `x`.
//!
//! Reference: "Type promotion semantics", JAX documentation.

use crate::core::types::dtype::DType::{self, *};

/// A node of the lattice: a dtype, or one of the three weak categories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    Strong(DType),
    WeakInt,
    WeakFloat,
    WeakComplex,
}

/// The floats below `bf16` and `f16`. No two of them promote to a common dtype.
const SMALL_FLOATS: [DType; 9] =
    [F4E2M1FN, F8E3M4, F8E4M3, F8E4M3B11FNUZ, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU];

/// Returns the nodes directly above `node`.
fn parents(node: Node) -> Vec<Node> {
    use Node::*;
    let strong = |dtypes: &[DType]| dtypes.iter().map(|&dtype| Strong(dtype)).collect::<Vec<_>>();
    match node {
        WeakInt => strong(&[U2, U4, U8, I2, I4, I8]),
        WeakFloat => {
            let mut above = strong(&SMALL_FLOATS);
            above.extend([Strong(BF16), Strong(F16), WeakComplex]);
            above
        }
        WeakComplex => strong(&[C64]),
        Strong(dtype) => match dtype {
            Bool => vec![WeakInt],
            U8 => strong(&[I16, U16]),
            U16 => strong(&[I32, U32]),
            U32 => strong(&[I64, U64]),
            I8 => strong(&[I16]),
            I16 => strong(&[I32]),
            I32 => strong(&[I64]),
            U64 | I64 => vec![WeakFloat],
            BF16 | F16 => strong(&[F32]),
            F32 => strong(&[F64, C64]),
            F64 | C64 => strong(&[C128]),
            _ => vec![],
        },
    }
}

fn index(node: Node) -> usize {
    match node {
        Node::Strong(dtype) => dtype as usize,
        Node::WeakInt => 28,
        Node::WeakFloat => 29,
        Node::WeakComplex => 30,
    }
}

fn upper_bounds(node: Node) -> u64 {
    parents(node).into_iter().fold(1 << index(node), |set, parent| set | upper_bounds(parent))
}

fn all_nodes() -> impl Iterator<Item = Node> {
    DType::all().map(Node::Strong).chain([Node::WeakInt, Node::WeakFloat, Node::WeakComplex])
}

/// Returns the least upper bound of two nodes, if they have one.
fn join(a: Node, b: Node) -> Option<Node> {
    let common = upper_bounds(a) & upper_bounds(b);
    all_nodes().find(|&node| common & (1 << index(node)) != 0 && upper_bounds(node) == common)
}

fn node(dtype: DType, weak: bool) -> Node {
    match dtype {
        _ if !weak || dtype == Bool => Node::Strong(dtype),
        _ if dtype.is_integer() => Node::WeakInt,
        _ if dtype.is_float() => Node::WeakFloat,
        _ => Node::WeakComplex,
    }
}

/// Returns the dtype and weakness that two operands, each a dtype and its weakness, promote to.
///
/// Returns `None` where JAX raises an error: an 8-bit float with another float, or `i4` with
/// another narrow integer. A result in a weak category has 32 bits (64 for complex numbers), unless
/// an operand has the wider dtype of that category.
pub fn promote(a: (DType, bool), b: (DType, bool)) -> Option<(DType, bool)> {
    if a.0 == b.0 {
        return Some((a.0, a.1 && b.1 && a.0 != Bool));
    }
    if a.1 && b.1 {
        let joined = join(Node::Strong(a.0), Node::Strong(b.0))?;
        let named = |dtype: DType| a.0 == dtype || b.0 == dtype;
        let dtype = match dtype_of(joined, a.0, b.0) {
            I64 if !named(I64) => I32,
            F64 if !named(F64) => F32,
            C128 if !named(C128) => C64,
            dtype => dtype,
        };
        return Some((dtype, true));
    }
    let joined = join(node(a.0, a.1), node(b.0, b.1))?;
    let weak = !matches!(joined, Node::Strong(_));
    Some((dtype_of(joined, a.0, b.0), weak))
}

fn dtype_of(node: Node, a: DType, b: DType) -> DType {
    let either = |wide: DType, narrow: DType| if a == wide || b == wide { wide } else { narrow };
    match node {
        Node::Strong(dtype) => dtype,
        Node::WeakInt => either(I64, I32),
        Node::WeakFloat => either(F64, F32),
        Node::WeakComplex => either(C128, C64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_matches_the_table_of_jax() {
        assert_eq!(promote((I32, false), (F32, true)), Some((F32, true)));
        assert_eq!(promote((BF16, false), (F32, true)), Some((BF16, false)));
        assert_eq!(promote((BF16, false), (F16, false)), Some((F32, false)));
        assert_eq!(promote((U32, false), (I32, false)), Some((I64, false)));
        assert_eq!(promote((U64, false), (I64, false)), Some((F32, true)));
        assert_eq!(promote((F8E5M2, false), (BF16, false)), None);
        assert_eq!(promote((I64, false), (BF16, false)), Some((BF16, false)));
        assert_eq!(promote((F32, false), (C64, true)), Some((C64, false)));
    }

    #[test]
    fn promotion_commutes() {
        for a in DType::all() {
            for b in DType::all() {
                for (weak_a, weak_b) in [(true, true), (true, false), (false, true), (false, false)]
                {
                    assert_eq!(
                        promote((a, weak_a), (b, weak_b)),
                        promote((b, weak_b), (a, weak_a))
                    );
                }
            }
        }
    }
}
