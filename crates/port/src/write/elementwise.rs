//! Elementwise operations: operators, methods and functions.

use crate::error::Obstacle;
use crate::ir::{Atom, Aval, Dtype, Eqn};

use super::scope::Scope;
use super::shaping::without_broadcasts;
use super::text::{Precedence, Text};

/// Primitives and library functions of one array that are methods.
const METHODS: &[(&str, &str)] = &[
    ("exp", "exp"),
    ("exp2", "exp2"),
    ("expm1", "expm1"),
    ("log", "log"),
    ("log1p", "log1p"),
    ("tanh", "tanh"),
    ("sin", "sin"),
    ("cos", "cos"),
    ("tan", "tan"),
    ("asin", "asin"),
    ("acos", "acos"),
    ("atan", "atan"),
    ("sinh", "sinh"),
    ("cosh", "cosh"),
    ("asinh", "asinh"),
    ("acosh", "acosh"),
    ("atanh", "atanh"),
    ("logistic", "sigmoid"),
    ("abs", "abs"),
    ("sign", "sign"),
    ("floor", "floor"),
    ("ceil", "ceil"),
    ("sqrt", "sqrt"),
    ("rsqrt", "rsqrt"),
    ("cbrt", "cbrt"),
    ("erf", "erf"),
    ("erfc", "erfc"),
    ("erf_inv", "erf_inv"),
    ("lgamma", "lgamma"),
    ("digamma", "digamma"),
    ("bessel_i0e", "bessel_i0e"),
    ("bessel_i1e", "bessel_i1e"),
    ("square", "square"),
    ("is_finite", "isfinite"),
    ("stop_gradient", "stop_gradient"),
    ("real", "real"),
    ("imag", "imag"),
    ("conj", "conj"),
    ("population_count", "population_count"),
    ("clz", "count_leading_zeros"),
    ("lib.relu", "relu"),
    ("lib.silu", "silu"),
    ("lib.softplus", "softplus"),
    ("lib.log_sigmoid", "log_sigmoid"),
    ("lib.sigmoid", "sigmoid"),
    ("lib.selu", "selu"),
    ("lib.relu6", "relu6"),
    ("lib.hard_tanh", "hard_tanh"),
    ("lib.soft_sign", "soft_sign"),
    ("lib.isnan", "isnan"),
];

/// Primitives and library functions of several arrays that are functions of `impl ArrayLike`.
const FUNCTIONS: &[(&str, &str)] = &[
    ("eq", "eq"),
    ("ne", "ne"),
    ("lt", "lt"),
    // Total order: it differs for NaN and for zeros of different sign.
    ("lt_to", "lt"),
    ("le_to", "le"),
    ("eq_to", "eq"),
    ("le", "le"),
    ("gt", "gt"),
    ("ge", "ge"),
    ("pow", "pow"),
    ("rem", "rem"),
    ("atan2", "atan2"),
    ("nextafter", "nextafter"),
    ("max", "maximum"),
    ("min", "minimum"),
    ("shift_left", "shift_left"),
    ("shift_right_logical", "shift_right_logical"),
    ("shift_right_arithmetic", "shift_right_arithmetic"),
    ("clamp", "clamp"),
    ("igamma", "igamma"),
    ("igammac", "igammac"),
    ("polygamma", "polygamma"),
    ("regularized_incomplete_beta", "betainc"),
    ("zeta", "zeta"),
    ("complex", "complex"),
    ("lib.where", "where_"),
    ("lib.maximum", "maximum"),
    ("lib.minimum", "minimum"),
    ("lib.logaddexp", "logaddexp"),
    ("lib.floor_divide", "floor_divide"),
    ("lib.remainder", "remainder"),
];

const OPERATORS: &[(&str, &str, Precedence)] = &[
    ("add", "+", Precedence::Sum),
    ("add_any", "+", Precedence::Sum),
    ("sub", "-", Precedence::Sum),
    ("mul", "*", Precedence::Product),
    ("div", "/", Precedence::Product),
    ("and", "&", Precedence::Other),
    ("or", "|", Precedence::Other),
    ("xor", "^", Precedence::Other),
];

/// Writes an elementwise equation.
pub(crate) fn write(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
    let out = avals.get(*eqn.outs.first()?)?;
    let prim = eqn.prim.as_str();
    if let Some((_, method)) = METHODS.iter().find(|(name, _)| *name == prim) {
        let receiver = scope.receiver(*eqn.ins.first()?, avals);
        return Some(Ok(Text::atom(format!("{receiver}.{method}()"))));
    }
    if let Some((_, sign, precedence)) = OPERATORS.iter().find(|(name, ..)| *name == prim) {
        if prim == "div" && out.dtype.is_integer() {
            let [a, b] = eqn.ins[..] else { return None };
            let operand = |atom: Atom| match atom {
                Atom::Lit(literal) => {
                    format!("&{}", super::shaping::filled(&literal, &out.shape).text)
                }
                Atom::Var(_) => scope.reference(atom, avals),
            };
            let operands = [a, b].map(operand).join(", ");
            let bound = format!("oxidax::core::bind1(oxidax::primitives::Div, [{operands}])");
            return Some(Ok(Text::atom(bound)));
        }
        return Some(operator(scope, avals, eqn, sign, *precedence));
    }
    if let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == prim) {
        let mut ins = without_broadcasts(scope, avals, eqn);
        if prim == "lib.where" {
            let wanted = out.dtype;
            let literal = |atom: &Atom| matches!(atom, Atom::Lit(_));
            if ins[1..].iter().all(literal) && wanted != Dtype::F32 {
                let values: Vec<String> =
                    ins[1..].iter().map(|&atom| scope.reference(atom, avals)).collect();
                let mask = scope.like(ins[0], avals);
                return Some(Ok(Text::atom(format!("where_({mask}, {})", values.join(", ")))));
            }
        }
        if ins.iter().all(|atom| matches!(atom, Atom::Lit(_))) {
            ins = eqn.ins.clone();
        }
        let operands: Vec<String> = ins.iter().map(|&atom| scope.like(atom, avals)).collect();
        return Some(Ok(Text::atom(format!("{function}({})", operands.join(", ")))));
    }
    let receiver = || scope.receiver(eqn.ins[0], avals);
    Some(match prim {
        "neg" => {
            let operand = match scope.place(eqn.ins[0]) {
                Some(_) => scope.like(eqn.ins[0], avals),
                None => scope.receiver(eqn.ins[0], avals),
            };
            Ok(Text { text: format!("-{operand}"), precedence: Precedence::Unary })
        }
        "not" if out.dtype == Dtype::Bool => {
            Ok(Text::atom(format!("{}.logical_not()", receiver())))
        }
        "not" => Ok(Text::atom(format!("{}.bitwise_not()", receiver()))),
        "integer_pow" => {
            Ok(Text::atom(format!("{}.powi({})", receiver(), eqn.integer("y").unwrap_or(1))))
        }
        "round" => Ok(Text::atom(match eqn.text("rounding_method") {
            Some("TO_NEAREST_EVEN") => format!("{}.round()", receiver()),
            _ if eqn.integer("rounding_method") == Some(1) => format!("{}.round()", receiver()),
            _ => format!("{}.round_half_away()", receiver()),
        })),
        "convert_element_type" => {
            Ok(Text::atom(format!("{}.astype({})", receiver(), out.dtype.rust())))
        }
        "bitcast_convert_type" => {
            let operand = scope.reference(eqn.ins[0], avals);
            Ok(Text::atom(format!("bitcast_convert_type({operand}, {})", out.dtype.rust())))
        }
        "reduce_precision" => {
            let operand = scope.reference(eqn.ins[0], avals);
            let bits = |name| eqn.integer(name).unwrap_or(0);
            let (exponent, mantissa) = (bits("exponent_bits"), bits("mantissa_bits"));
            Ok(Text::atom(format!("reduce_precision({operand}, {exponent}, {mantissa})")))
        }
        "select_n" => {
            let ins = without_broadcasts(scope, avals, eqn);
            let boolean = match ins[0] {
                Atom::Var(var) => avals[var].dtype == Dtype::Bool,
                Atom::Lit(_) => true,
            };
            match ins[..] {
                [mask, no, yes] if boolean => {
                    let strong = [no, yes].iter().all(|atom| matches!(atom, Atom::Lit(_)));
                    let value = |atom| match strong && out.dtype != Dtype::F32 {
                        true => scope.reference(atom, avals),
                        false => scope.like(atom, avals),
                    };
                    let mask = scope.like(mask, avals);
                    Ok(Text::atom(format!("where_({mask}, {}, {})", value(yes), value(no))))
                }
                [which, ref cases @ ..] => {
                    let cases = super::shaping::arrays(scope, avals, cases);
                    Ok(Text::atom(format!("select_n({}, {cases})", scope.like(which, avals))))
                }
                _ => Err(Obstacle::new("it has no operands")),
            }
        }
        "lib.clip" => {
            let ins = without_broadcasts(scope, avals, eqn);
            let bounds: Vec<String> =
                ins[1..].iter().map(|&atom| scope.like(atom, avals)).collect();
            let receiver = scope.receiver(ins[0], avals);
            Ok(Text::atom(format!("{receiver}.clip({})", bounds.join(", "))))
        }
        "lib.gelu" => Ok(Text::atom(if eqn.flag("approximate") {
            format!("{}.gelu()", receiver())
        } else {
            let operand = scope.like(eqn.ins[0], avals);
            format!("gelu_with({operand}, GeluOptions {{ approximate: false }})")
        })),
        "lib.elu" | "lib.celu" | "lib.leaky_relu" => {
            let alpha = eqn.params.get("alpha").and_then(|value| value.as_f64()).unwrap_or(1.0);
            let operand = scope.like(eqn.ins[0], avals);
            Ok(Text::atom(format!("{}({operand}, {alpha:?})", &prim[4..])))
        }
        _ => return None,
    })
}

fn operator(
    scope: &Scope,
    avals: &[Aval],
    eqn: &Eqn,
    sign: &str,
    precedence: Precedence,
) -> Result<Text, Obstacle> {
    let ins = without_broadcasts(scope, avals, eqn);
    let [a, b] = ins[..] else {
        return Err(Obstacle::new(format!("{} operands, 2 expected", ins.len())));
    };
    let side = |atom: Atom, right: bool| match (atom, scope.place(atom)) {
        (_, Some(_)) => scope.like(atom, avals),
        // Numbers on the left are `f64` or `i32`.
        (Atom::Lit(_), None) => scope.text(atom, avals).text,
        (Atom::Var(_), None) => scope.text(atom, avals).operand(precedence, right),
    };
    let left = match a {
        Atom::Lit(literal) if precedence == Precedence::Other || matches!(b, Atom::Lit(_)) => {
            super::scope::full_scalar(&literal)
        }
        Atom::Lit(literal) if literal.dtype == Dtype::Uint(32) => {
            super::scope::full_scalar(&literal)
        }
        a => side(a, false),
    };
    Ok(Text { text: format!("{left} {sign} {}", side(b, true)), precedence })
}
