//! Shapes: broadcasting, reshaping, transposing, slicing, joining.

use crate::error::Obstacle;
use crate::ir::{Atom, Aval, Dtype, Eqn, Literal, Number};

use super::scope::{Scope, Value};
use super::text::{Text, list, number};

/// A broadcast that no operation does by itself.
pub(crate) fn broadcast(
    scope: &Scope,
    avals: &[Aval],
    operand: Atom,
    dims: &[usize],
    shape: &[usize],
) -> Text {
    if let Atom::Lit(literal) = operand {
        return filled(&literal, shape);
    }
    let from = shape_of(operand, avals);
    let inserted: Vec<usize> = (0..shape.len()).filter(|axis| !dims.contains(axis)).collect();
    let keeps = dims.len() == from.len()
        && dims.iter().zip(&from).all(|(&axis, size)| shape.get(axis) == Some(size))
        && inserted.iter().all(|&axis| shape[axis] == 1);
    if keeps {
        let receiver = scope.receiver(operand, avals);
        return Text::atom(match inserted.as_slice() {
            [axis] if axis.checked_add(1) == Some(shape.len()) => {
                format!("{receiver}.expand_dims(-1)")
            }
            [axis] => format!("{receiver}.expand_dims({axis})"),
            _ => format!("{receiver}.reshape({})", list(shape)),
        });
    }
    if is_trailing(dims, shape.len()) {
        let receiver = scope.receiver(operand, avals);
        return Text::atom(format!("{receiver}.broadcast_to({})", list(shape)));
    }
    let operand = scope.reference(operand, avals);
    Text::atom(format!("broadcast_in_dim({operand}, {}, &{})", list(shape), list(dims)))
}

/// True if the axes are the last ones, in order.
pub(crate) fn is_trailing(dims: &[usize], rank: usize) -> bool {
    dims.len() <= rank
        && dims.iter().enumerate().all(|(index, &axis)| axis == rank - dims.len() + index)
}

/// An array of one number.
pub(crate) fn filled(literal: &Literal, shape: &[usize]) -> Text {
    let default = matches!(literal.dtype, Dtype::F32);
    let aval = match (default, literal.dtype) {
        (true, _) => list(shape),
        (false, dtype) => format!("({}, {})", list(shape), dtype.rust()),
    };
    let text = match literal.value.as_f64() {
        Some(value) if value == 0.0 && value.is_sign_positive() => format!("zeros({aval})"),
        Some(1.0) => format!("ones({aval})"),
        _ if literal.value == Number::Bool(true) => format!("ones({aval})"),
        _ if literal.value == Number::Bool(false) => format!("zeros({aval})"),
        _ => format!("full({aval}, {})", number(literal)),
    };
    Text::atom(text)
}

pub(crate) fn shape_of(atom: Atom, avals: &[Aval]) -> Vec<usize> {
    match atom {
        Atom::Var(var) => avals.get(var).map(|aval| aval.shape.clone()).unwrap_or_default(),
        Atom::Lit(_) => Vec::new(),
    }
}

/// The shape of NumPy's broadcasting.
fn joined(shapes: &[Vec<usize>]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (axis, &size) in shape.iter().enumerate() {
            let place = &mut out[rank - shape.len() + axis];
            match (*place, size) {
                (same, size) if same == size => {}
                (1, size) => *place = size,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(out)
}

/// Replaces operands by what they were broadcast from, where the result has the same shape.
pub(crate) fn without_broadcasts(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Vec<Atom> {
    let mut ins = eqn.ins.clone();
    let Some(out) = eqn.outs.first().and_then(|&var| avals.get(var)) else { return ins };
    for index in 0..ins.len() {
        while let Some(var) = ins[index].var() {
            let Some(Value::Broadcast { operand, dims, shape }) = scope.values.get(&var) else {
                break;
            };
            let rank = out.shape.len();
            if shape.len() != rank || !is_trailing(dims, rank) {
                break;
            }
            let mut trial = ins.clone();
            trial[index] = *operand;
            let all_literals = trial.iter().all(|atom| matches!(atom, Atom::Lit(_)));
            let shapes: Vec<Vec<usize>> = trial.iter().map(|&atom| shape_of(atom, avals)).collect();
            if all_literals || joined(&shapes).as_ref() != Some(&out.shape) {
                break;
            }
            ins = trial;
        }
    }
    ins
}

/// An axis, from the end if it is the last of several.
pub(crate) fn axis_text(axis: usize, rank: usize) -> String {
    if rank > 1 && axis == rank - 1 { "-1".into() } else { axis.to_string() }
}

/// Writes an equation about shapes.
pub(crate) fn write(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
    let out = avals.get(*eqn.outs.first()?)?;
    let first = || eqn.ins.first().copied().unwrap_or(Atom::Var(usize::MAX));
    let rank = shape_of(first(), avals).len();
    let receiver = || scope.receiver(first(), avals);
    let missing = |name: &str| Obstacle::new(format!("the parameter `{name}` is missing"));
    Some(match eqn.prim.as_str() {
        "reshape" => Ok(Text::atom(reshape(&receiver(), &shape_of(first(), avals), &out.shape))),
        "squeeze" => eqn.sizes("dimensions").ok_or_else(|| missing("dimensions")).map(|axes| {
            Text::atom(if rank == axes.len() {
                format!("{}.reshape(())", receiver())
            } else {
                format!("{}.squeeze_axes({})", receiver(), axes_list(&axes, rank))
            })
        }),
        "expand_dims" => Ok(Text::atom(format!("{}.reshape({})", receiver(), list(&out.shape)))),
        "transpose" => eqn.sizes("permutation").ok_or_else(|| missing("permutation")).map(|axes| {
            let receiver = receiver();
            Text::atom(if axes == [1, 0] {
                format!("{receiver}.t()")
            } else if let Some((a, b)) = swapped(&axes) {
                format!("{receiver}.swapaxes({a}, {b})")
            } else {
                format!("{receiver}.transpose_axes({})", list(&axes))
            })
        }),
        "rev" => eqn.sizes("dimensions").ok_or_else(|| missing("dimensions")).map(|axes| {
            Text::atom(match axes.as_slice() {
                [axis] => format!("{}.flip({})", receiver(), axis_text(*axis, rank)),
                axes => format!("{}.flip({})", receiver(), list(axes)),
            })
        }),
        "concatenate" => eqn.size("dimension").ok_or_else(|| missing("dimension")).map(|axis| {
            let axis = axis_text(axis, rank);
            Text::atom(format!("concatenate({}, {axis})", arrays(scope, avals, &eqn.ins)))
        }),
        "iota" => {
            let dimension = eqn.size("dimension").unwrap_or(0);
            let dtype = out.dtype.rust();
            Ok(Text::atom(match out.shape.as_slice() {
                [size] if out.dtype == Dtype::Int(32) => format!("arange({size})"),
                [size] => format!("iota({dtype}, {size})"),
                shape => {
                    format!("broadcasted_iota({dtype}, {}, {dimension})", list(shape))
                }
            }))
        }
        "slice" => slice(scope, avals, eqn, rank),
        "pad" => pad(scope, avals, eqn),
        _ => return None,
    })
}

fn reshape(receiver: &str, from: &[usize], to: &[usize]) -> String {
    match to {
        [] => format!("{receiver}.reshape(())"),
        [_] if from.len() > 1 => format!("{receiver}.flatten()"),
        _ => format!("{receiver}.reshape({})", list(to)),
    }
}

/// Axes as a list, from the end if there is one and it is the last.
fn axes_list(axes: &[usize], rank: usize) -> String {
    match axes {
        [axis] => format!("[{}]", axis_text(*axis, rank)),
        axes => list(axes),
    }
}

/// The two axes that a permutation exchanges.
fn swapped(permutation: &[usize]) -> Option<(usize, usize)> {
    let moved: Vec<usize> =
        (0..permutation.len()).filter(|&index| permutation[index] != index).collect();
    match moved.as_slice() {
        &[a, b] => Some((a, b)),
        _ => None,
    }
}

/// `(&a, &b)`, or a list of more than eight arrays.
pub(crate) fn arrays(scope: &Scope, avals: &[Aval], ins: &[Atom]) -> String {
    let items: Vec<String> = ins
        .iter()
        .map(|&atom| match ins.len() > 8 {
            true => format!("{}.to_array()", scope.receiver(atom, avals)),
            false => match atom {
                Atom::Lit(_) => scope.reference(atom, avals)[1..].to_string(),
                Atom::Var(_) => scope.like(atom, avals),
            },
        })
        .collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        items if items.len() > 8 => format!("[{}]", items.join(", ")),
        items => format!("({})", items.join(", ")),
    }
}

fn slice(scope: &Scope, avals: &[Aval], eqn: &Eqn, rank: usize) -> Result<Text, Obstacle> {
    let missing = || Obstacle::new("a limit is missing");
    let starts = eqn.sizes("start_indices").ok_or_else(missing)?;
    let limits = eqn.sizes("limit_indices").ok_or_else(missing)?;
    let strides = eqn.sizes("strides").unwrap_or_else(|| vec![1; rank]);
    let shape = shape_of(eqn.ins[0], avals);
    let lengths = [starts.len(), limits.len(), strides.len(), shape.len()];
    if lengths.iter().any(|&length| length != rank) {
        return Err(Obstacle::new(format!("{lengths:?} limits for {rank} axes")));
    }
    let operand = scope.receiver(eqn.ins[0], avals);
    let mut parts = Vec::new();
    for axis in 0..rank {
        let (start, limit, stride) = (starts[axis], limits[axis], strides[axis]);
        parts.push(match (start, limit == shape[axis], stride) {
            (0, true, 1) => "..".to_string(),
            (0, false, 1) => format!("..{limit}"),
            (start, true, 1) => format!("{start}.."),
            (start, false, 1) => format!("{start}..{limit}"),
            _ => {
                let operand = scope.reference(eqn.ins[0], avals);
                let lists = [&starts, &limits, &strides].map(|items| format!("&{}", list(items)));
                return Ok(Text::atom(format!("slice({operand}, {})", lists.join(", "))));
            }
        });
    }
    while parts.len() > 1 && parts.last().is_some_and(|part| part == "..") {
        parts.pop();
    }
    Ok(Text::atom(format!("{operand}.index(i![{}])", parts.join(", "))))
}

fn pad(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let [operand, value] = eqn.ins[..] else { return Err(Obstacle::new("it has two operands")) };
    let config = eqn.params.get("padding_config").and_then(|value| value.as_array());
    let config = config.ok_or_else(|| Obstacle::new("the padding is missing"))?;
    let mut dims = Vec::new();
    for entry in config {
        let entry = crate::ir::integers(entry).filter(|entry| entry.len() == 3);
        let entry = entry.ok_or_else(|| Obstacle::new("a padding has three numbers"))?;
        let [low, high, interior] = [entry[0], entry[1], entry[2]];
        dims.push(format!("PaddingDim {{ low: {low}, high: {high}, interior: {interior} }}"));
    }
    let (operand, value) = (scope.reference(operand, avals), scope.like(value, avals));
    Ok(Text::atom(format!("lax_pad({operand}, {value}, &[{}])", dims.join(", "))))
}
