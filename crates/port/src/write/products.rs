//! Products, convolutions, attention and linear algebra.

use serde_json::Value;

use crate::error::Obstacle;
use crate::ir::{Atom, Aval, Eqn, integers, sizes};

use super::scope::Scope;
use super::shaping::shape_of;
use super::text::{Text, list};

/// Writes a product, a convolution, or a decomposition with one result.
pub(crate) fn write(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
    let out = avals.get(*eqn.outs.first()?)?;
    let reference = |index: usize| {
        let atom = eqn.ins.get(index).copied().unwrap_or(Atom::Var(usize::MAX));
        scope.reference(atom, avals)
    };
    Some(match eqn.prim.as_str() {
        "dot_general" => dot_general(scope, avals, eqn, out),
        "lib.einsum" => {
            let spec = eqn.text("spec").unwrap_or_default();
            let operands = super::shaping::arrays(scope, avals, &eqn.ins);
            Ok(Text::atom(format!("einsum(\"{spec}\", {operands})")))
        }
        "conv_general_dilated" => convolution(scope, avals, eqn),
        "lib.dot_product_attention" => {
            let operands: Vec<String> = (0..3).map(reference).collect();
            let mut options = Vec::new();
            if eqn.ins.len() > 3 {
                let mask = scope.text(eqn.ins[3], avals).text;
                let clone = if scope.place(eqn.ins[3]).is_some() { ".clone()" } else { "" };
                options.push(format!("mask: Some({mask}{clone})"));
            }
            if eqn.flag("causal") {
                options.push("is_causal: true".into());
            }
            if let Some(scale) = eqn.params.get("scale").and_then(Value::as_f64) {
                let scale = crate::patterns::shortest(scale);
                options.push(format!("scale: Some({scale:?})"));
            }
            let operands = operands.join(", ");
            Ok(Text::atom(match options.as_slice() {
                [] => format!("dot_product_attention({operands})"),
                options => format!(
                    "dot_product_attention_with({operands}, &AttentionOptions {{ {}, \
                     ..Default::default() }})",
                    options.join(", ")
                ),
            }))
        }
        "lib.solve" => Ok(Text::atom(format!("linalg::solve({}, {})", reference(0), reference(1)))),
        "svd" if eqn.outs.len() == 1 => {
            Ok(Text::atom(format!("linalg::svdvals({})", reference(0))))
        }
        "lib.inv" => Ok(Text::atom(format!("linalg::inv({})", reference(0)))),
        "cholesky" => Ok(Text::atom(format!("cholesky({})", reference(0)))),
        "triangular_solve" => triangular_solve(scope, avals, eqn),
        "fft" => fft(scope, avals, eqn),
        _ => return None,
    })
}

type Numbers = [Vec<usize>; 4];

fn dot_numbers(eqn: &Eqn) -> Option<Numbers> {
    let numbers = eqn.params.get("dimension_numbers")?.as_array()?;
    let [contract, batch] = numbers.as_slice() else { return None };
    let pair = |value: &Value| {
        let [left, right] = value.as_array()?.as_slice() else { return None };
        Some((sizes(left)?, sizes(right)?))
    };
    let ((lc, rc), (lb, rb)) = (pair(contract)?, pair(batch)?);
    (lc.len() == rc.len() && lb.len() == rb.len()).then_some([lc, rc, lb, rb])
}

/// The subscripts of a product: `bqhd,bkhd->bhqk`.
pub(crate) fn einsum_spec(
    eqn: &Eqn,
    lhs: usize,
    rhs: usize,
    permutation: Option<&[usize]>,
) -> Option<String> {
    let [lc, rc, lb, rb] = dot_numbers(eqn)?;
    let mut letters = (b'a'..=b'z').map(char::from);
    let mut left = Vec::new();
    for _ in 0..lhs {
        left.push(letters.next()?);
    }
    let mut right = Vec::new();
    for axis in 0..rhs {
        let shared = rc.iter().zip(&lc).chain(rb.iter().zip(&lb)).find(|(r, _)| **r == axis);
        right.push(match shared {
            Some((_, &other)) => *left.get(other)?,
            None => letters.next()?,
        });
    }
    let mut out: Vec<char> =
        lb.iter().map(|&axis| left.get(axis).copied()).collect::<Option<_>>()?;
    out.extend((0..lhs).filter(|axis| !lb.contains(axis) && !lc.contains(axis)).map(|a| left[a]));
    out.extend((0..rhs).filter(|axis| !rb.contains(axis) && !rc.contains(axis)).map(|a| right[a]));
    if let Some(permutation) = permutation {
        out = permutation.iter().map(|&axis| out.get(axis).copied()).collect::<Option<_>>()?;
    }
    let text = |letters: Vec<char>| letters.into_iter().collect::<String>();
    Some(format!("{},{}->{}", text(left), text(right), text(out)))
}

fn dot_general(scope: &Scope, avals: &[Aval], eqn: &Eqn, out: &Aval) -> Result<Text, Obstacle> {
    let [a, b] = eqn.ins[..] else { return Err(Obstacle::new("two operands expected")) };
    let Some([lc, rc, lb, rb]) = dot_numbers(eqn) else {
        return Err(Obstacle::new("its dimension numbers are missing"));
    };
    let (lhs, rhs) = (shape_of(a, avals).len(), shape_of(b, avals).len());
    let dtype = |atom: Atom| atom.var().and_then(|var| avals.get(var)).map(|aval| aval.dtype);
    let same_type = dtype(a) == Some(out.dtype) && dtype(b) == Some(out.dtype);
    let precision = match eqn.params.get("precision") {
        Some(Value::Array(items)) => items.first().and_then(Value::as_str),
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let precision = precision.filter(|precision| *precision != "DEFAULT");
    if same_type && precision.is_none() {
        let leading: Vec<usize> = (0..lb.len()).collect();
        let batched = lb == leading && rb == leading;
        let last = |axes: &[usize], rank: usize, from_end: usize| axes == [rank - from_end];
        let by_matrix = lb.is_empty() && rhs == 2 && lhs >= 1 && last(&lc, lhs, 1) && rc == [0];
        let by_vector = lb.is_empty() && rhs == 1 && lhs >= 1 && last(&lc, lhs, 1) && rc == [0];
        let matrices = batched
            && lhs == rhs
            && lhs >= 2
            && lhs == lb.len() + 2
            && last(&lc, lhs, 1)
            && last(&rc, rhs, 2);
        let (left, right) = (scope.receiver(a, avals), scope.reference(b, avals));
        if by_matrix || by_vector || matrices {
            let method = if lhs == 1 && rhs == 1 { "dot" } else { "matmul" };
            return Ok(Text::atom(format!("{left}.{method}({right})")));
        }
        let transposed = lb.is_empty() && rhs == 2 && lhs >= 1 && last(&lc, lhs, 1) && rc == [1];
        if transposed {
            let right = scope.receiver(b, avals);
            return Ok(Text::atom(format!("{left}.matmul(&{right}.t())")));
        }
        let first = lb.is_empty() && lhs == 2 && lc == [0] && rc == [0] && (rhs == 1 || rhs == 2);
        if first {
            return Ok(Text::atom(format!("{left}.t().matmul({right})")));
        }
    }
    let spec = einsum_spec(eqn, lhs, rhs, None);
    let spec = spec.ok_or_else(|| Obstacle::new("too many axes for einsum"))?;
    let operands = super::shaping::arrays(scope, avals, &[a, b]);
    if same_type && precision.is_none() {
        return Ok(Text::atom(format!("einsum(\"{spec}\", {operands})")));
    }
    let mut options = Vec::new();
    if let Some(precision) = precision {
        let variant = if precision == "HIGHEST" { "Highest" } else { "High" };
        options.push(format!("precision: Precision::{variant}"));
    }
    if !same_type {
        options.push(format!("preferred_element_type: Some({})", out.dtype.rust()));
    }
    let options = format!("MatmulOptions {{ {}, ..Default::default() }}", options.join(", "));
    Ok(Text::atom(format!("einsum_with(\"{spec}\", {operands}, {options})")))
}

/// A padding such as `Padding::Explicit(vec![(1, 1), (0, 1)])`.
pub(crate) fn padding_text(value: Option<&Value>) -> Result<String, Obstacle> {
    let missing = || Obstacle::new("its padding is missing");
    let pairs = value.and_then(Value::as_array).ok_or_else(missing)?;
    let mut items = Vec::new();
    for pair in pairs {
        let pair = integers(pair).filter(|pair| pair.len() == 2).ok_or_else(missing)?;
        items.push((pair[0], pair[1]));
    }
    if items.iter().all(|&pair| pair == (0, 0)) {
        return Ok("Padding::Valid".into());
    }
    let items: Vec<String> = items.iter().map(|(low, high)| format!("({low}, {high})")).collect();
    Ok(format!("Padding::Explicit(vec![{}])", items.join(", ")))
}

fn convolution(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let [lhs, rhs] = eqn.ins[..] else { return Err(Obstacle::new("two operands expected")) };
    let missing = |name: &str| Obstacle::new(format!("the parameter `{name}` is missing"));
    let numbers =
        eqn.params.get("dimension_numbers").ok_or_else(|| missing("dimension_numbers"))?;
    let rank = shape_of(lhs, avals).len();
    let spec = |name: &str| {
        let axes = numbers.get(name).and_then(sizes).ok_or_else(|| missing(name))?;
        let fits = axes.len() == rank && axes.iter().all(|&axis| axis < rank);
        if fits && rank >= 2 {
            Ok(axes)
        } else {
            Err(Obstacle::new(format!("{name} {axes:?} for {rank} axes")))
        }
    };
    // JAX lists batch, features and spatial axes; text names them in the order of the array.
    let named = |axes: Vec<usize>, first: char, second: char| {
        let mut letters = vec![' '; axes.len()];
        let spatial = "HWDTUVXYZ".chars().chain("ABCEFGJKLMPQRS".chars());
        let rank_one = axes.len() == 3;
        let spatial: Vec<char> =
            if rank_one { vec!['W'] } else { spatial.take(axes.len() - 2).collect() };
        for (index, &axis) in axes.iter().enumerate() {
            letters[axis] = match index {
                0 => first,
                1 => second,
                _ => spatial.get(index - 2).copied().unwrap_or('Z'),
            };
        }
        letters.into_iter().collect::<String>()
    };
    let specs = [
        named(spec("lhs_spec")?, 'N', 'C'),
        named(spec("rhs_spec")?, 'O', 'I'),
        named(spec("out_spec")?, 'N', 'C'),
    ];
    let mut fields = Vec::new();
    let strides = eqn.sizes("window_strides").ok_or_else(|| missing("window_strides"))?;
    fields.push(format!("window_strides: vec!{}", list(&strides)));
    fields.push(format!("padding: {}", padding_text(eqn.params.get("padding"))?));
    for name in ["lhs_dilation", "rhs_dilation"] {
        let dilation = eqn.sizes(name).unwrap_or_default();
        if dilation.iter().any(|&step| step != 1) {
            fields.push(format!("{name}: vec!{}", list(&dilation)));
        }
    }
    for name in ["feature_group_count", "batch_group_count"] {
        match eqn.size(name) {
            None | Some(1) => {}
            Some(count) => fields.push(format!("{name}: {count}")),
        }
    }
    let [lhs_spec, rhs_spec, out_spec] = specs;
    fields.push(format!(
        "dimension_numbers: ConvDimensionNumbers::of(\"{lhs_spec}\", \"{rhs_spec}\", \
         \"{out_spec}\")"
    ));
    let (lhs, rhs) = (scope.reference(lhs, avals), scope.reference(rhs, avals));
    Ok(Text::atom(format!(
        "conv_general_dilated({lhs}, {rhs}, ConvGeneralDilated {{ {}, ..Default::default() }})",
        fields.join(", ")
    )))
}

fn triangular_solve(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let [a, b] = eqn.ins[..] else { return Err(Obstacle::new("two operands expected")) };
    let transpose = match (eqn.flag("transpose_a"), eqn.flag("conjugate_a")) {
        (false, _) => "NoTranspose",
        (true, false) => "Transpose",
        (true, true) => "Adjoint",
    };
    let [left, lower, unit] =
        ["left_side", "lower", "unit_diagonal"].map(|name| eqn.flag(name).to_string());
    let (a, b) = (scope.reference(a, avals), scope.reference(b, avals));
    Ok(Text::atom(format!(
        "triangular_solve({a}, {b}, TriangularSolve {{ left_side: {left}, lower: {lower}, \
         transpose_a: TransposeA::{transpose}, unit_diagonal: {unit} }})"
    )))
}

fn fft(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let kind = match (eqn.text("fft_type"), eqn.integer("fft_type")) {
        (Some("FFT"), _) | (_, Some(0)) => "Fft",
        (Some("IFFT"), _) | (_, Some(1)) => "Ifft",
        (Some("RFFT"), _) | (_, Some(2)) => "Rfft",
        (Some("IRFFT"), _) | (_, Some(3)) => "Irfft",
        _ => return Err(Obstacle::new("its kind is unknown")),
    };
    let lengths = eqn.sizes("fft_lengths").unwrap_or_default();
    let operand = scope.reference(eqn.ins[0], avals);
    Ok(Text::atom(format!("fft({operand}, FftType::{kind}, &{})", list(&lengths))))
}
