//! Equations whose result is known: identities, and arithmetic of literals.

use crate::ir::{Atom, Aval, Dtype, Eqn, Literal, Number};
use crate::load::{Builder, Loader};

/// The result of an equation that need not be written.
pub(crate) fn simplify(
    loader: &Loader<'_>,
    builder: &Builder,
    eqn: &Eqn,
    avals: &[Aval],
) -> Option<Atom> {
    let [out] = avals else { return None };
    let first = eqn.ins.first().copied();
    match eqn.prim.as_str() {
        "copy"
        | "copy_p"
        | "device_put"
        | "pvary"
        | "sharding_constraint"
        | "name"
        | "reduce_precision_none" => {
            return first;
        }
        "convert_element_type" | "reshape" | "broadcast_in_dim" | "squeeze" | "expand_dims" => {
            let operand = first?;
            if loader.aval(operand) == *out && eqn.text("dimensions").is_none() {
                return Some(operand);
            }
        }
        "transpose" => {
            let permutation = eqn.sizes("permutation")?;
            if permutation.iter().enumerate().all(|(index, &axis)| index == axis) {
                return first;
            }
        }
        "max" => {
            let [a, b] = eqn.ins[..] else { return None };
            for (bound, other) in [(a, b), (b, a)] {
                if bound.number() == Some(f64::NEG_INFINITY) && loader.aval(other) == *out {
                    return Some(other);
                }
            }
        }
        "add" if out.dtype.is_integer() => {
            let [a, b] = eqn.ins[..] else { return None };
            for (zero, other) in [(a, b), (b, a)] {
                if zero.number() == Some(0.0) && loader.aval(other) == *out {
                    return Some(other);
                }
            }
        }
        // A key of which only the numbers were looked at.
        "random_wrap" => {
            let data = builder.def(first?)?;
            if data.prim == "random_unwrap" {
                return Some(data.ins[0]);
            }
        }
        _ => {}
    }
    let literals: Option<Vec<Literal>> = eqn
        .ins
        .iter()
        .map(|atom| match atom {
            Atom::Lit(literal) => Some(*literal),
            Atom::Var(_) => None,
        })
        .collect();
    let literals = literals?;
    if !out.shape.is_empty() || literals.is_empty() {
        return None;
    }
    let value = evaluate(&eqn.prim, eqn, &literals)?;
    let value = round(value, out.dtype)?;
    Some(Atom::Lit(Literal { value, dtype: out.dtype, weak: literals.iter().all(|l| l.weak) }))
}

fn evaluate(prim: &str, eqn: &Eqn, literals: &[Literal]) -> Option<Number> {
    if prim == "convert_element_type" {
        return Some(literals[0].value);
    }
    if prim == "select_n" {
        let [Literal { value: Number::Bool(which), .. }, no, yes] = literals else { return None };
        return Some(if *which { yes.value } else { no.value });
    }
    if literals.iter().all(|literal| literal.dtype.is_integer()) {
        let value = |index: usize| match literals.get(index)?.value {
            Number::Int(value) => Some(value),
            _ => None,
        };
        let a = value(0)?;
        return Some(match (prim, value(1)) {
            ("add", Some(b)) => Number::Int(a.checked_add(b)?),
            ("sub", Some(b)) => Number::Int(a.checked_sub(b)?),
            ("mul", Some(b)) => Number::Int(a.checked_mul(b)?),
            ("max", Some(b)) => Number::Int(a.max(b)),
            ("min", Some(b)) => Number::Int(a.min(b)),
            ("gt", Some(b)) => Number::Bool(a > b),
            ("ge", Some(b)) => Number::Bool(a >= b),
            ("lt", Some(b)) => Number::Bool(a < b),
            ("le", Some(b)) => Number::Bool(a <= b),
            ("eq", Some(b)) => Number::Bool(a == b),
            ("ne", Some(b)) => Number::Bool(a != b),
            _ => return None,
        });
    }
    if !literals.iter().all(|literal| matches!(literal.dtype, Dtype::F32 | Dtype::F64)) {
        return None;
    }
    let a = literals[0].value.as_f64()?;
    let b = literals.get(1).and_then(|literal| literal.value.as_f64());
    Some(match (prim, b) {
        ("neg", None) => Number::Float(-a),
        ("sqrt", None) => Number::Float(a.sqrt()),
        ("square", None) => Number::Float(a * a),
        ("integer_pow", None) => Number::Float(a.powi(i32::try_from(eqn.integer("y")?).ok()?)),
        ("add", Some(b)) => Number::Float(a + b),
        ("sub", Some(b)) => Number::Float(a - b),
        ("mul", Some(b)) => Number::Float(a * b),
        ("div", Some(b)) => Number::Float(a / b),
        ("max", Some(b)) if !a.is_nan() && !b.is_nan() => Number::Float(a.max(b)),
        ("min", Some(b)) if !a.is_nan() && !b.is_nan() => Number::Float(a.min(b)),
        ("gt", Some(b)) => Number::Bool(a > b),
        ("ge", Some(b)) => Number::Bool(a >= b),
        ("lt", Some(b)) => Number::Bool(a < b),
        ("le", Some(b)) => Number::Bool(a <= b),
        ("eq", Some(b)) => Number::Bool(a == b),
        ("ne", Some(b)) => Number::Bool(a != b),
        _ => return None,
    })
}

/// Rounds a value as its dtype does, or returns `None` if that is not sure.
fn round(value: Number, dtype: Dtype) -> Option<Number> {
    match (value.of(dtype), dtype) {
        (Number::Float(value), Dtype::F32) => Some(Number::Float(f64::from(value as f32))),
        (Number::Float(value), Dtype::F64) => Some(Number::Float(value)),
        (Number::Bool(value), Dtype::Bool) => Some(Number::Bool(value)),
        (Number::Int(value), Dtype::Int(bits)) => {
            let limit = 1i128 << (bits - 1);
            (-limit..limit).contains(&value).then_some(Number::Int(value))
        }
        (Number::Int(value), Dtype::Uint(bits)) => {
            (0..1i128 << bits).contains(&value).then_some(Number::Int(value))
        }
        _ => None,
    }
}
