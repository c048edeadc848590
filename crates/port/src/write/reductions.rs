//! Reductions, sorting, softmax, normalization and losses.

use serde_json::Value;

use crate::error::Obstacle;
use crate::ir::{Atom, Aval, Dtype, Eqn};

use super::scope::Scope;
use super::shaping::{axis_text, shape_of};
use super::text::{Text, list};

/// Reductions with the name of the method over all axes.
const REDUCTIONS: &[(&str, &str)] = &[
    ("reduce_sum", "sum"),
    ("reduce_max", "max"),
    ("reduce_min", "min"),
    ("reduce_prod", "prod"),
    ("reduce_and", "all"),
    ("reduce_or", "any"),
    ("lib.mean", "mean"),
    ("lib.var", "var"),
    ("lib.std", "std"),
];

/// Axes as an argument: `-1`, `[0, 2]`, or `axes(-1).keepdims()`.
fn axes_argument(axes: &[usize], rank: usize, keepdims: bool) -> String {
    let plain = match axes {
        [axis] => axis_text(*axis, rank),
        axes => list(axes),
    };
    if !keepdims {
        return plain;
    }
    if axes.len() == rank {
        "Axes::all().keepdims()".into()
    } else {
        format!("axes({plain}).keepdims()")
    }
}

/// Writes a reduction, a sort, or a function over axes.
pub(crate) fn write(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
    let out = avals.get(*eqn.outs.first()?)?;
    let first = *eqn.ins.first()?;
    let rank = shape_of(first, avals).len();
    let prim = eqn.prim.as_str();
    let receiver = || scope.receiver(first, avals);
    let reference = || scope.reference(first, avals);
    let axes = eqn.sizes("axes").filter(|axes| axes.iter().all(|&axis| axis < rank));
    let keepdims = eqn.flag("keepdims");
    if let Some((_, method)) = REDUCTIONS.iter().find(|(name, _)| *name == prim) {
        let Some(axes) = axes else { return Some(Err(Obstacle::new("its axes are missing"))) };
        let ddof = eqn.params.get("ddof").and_then(Value::as_f64).unwrap_or(0.0);
        let all = axes.len() == rank && !keepdims;
        return Some(Ok(Text::atom(if ddof != 0.0 {
            let axes = match all {
                true => "Axes::all()".to_string(),
                false => format!("axes({})", axes_argument(&axes, rank, false)),
            };
            let keepdims = if keepdims { ".keepdims()" } else { "" };
            format!("{}.{method}_axes({axes}{keepdims}.ddof({ddof:?}))", receiver())
        } else if all {
            format!("{}.{method}()", receiver())
        } else {
            format!("{}.{method}_axes({})", receiver(), axes_argument(&axes, rank, keepdims))
        })));
    }
    let over = |axes: Option<Vec<usize>>| axes.ok_or_else(|| Obstacle::new("its axes are missing"));
    Some(match prim {
        "reduce_xor" => over(axes)
            .map(|axes| Text::atom(format!("reduce_xor({}, &{})", reference(), list(&axes)))),
        "argmax" | "argmin" => over(axes).and_then(|axes| match axes.as_slice() {
            [axis] => {
                let text = format!("{}.{prim}_axis({})", receiver(), axis_text(*axis, rank));
                Ok(Text::atom(match out.dtype {
                    Dtype::Int(32) => text,
                    dtype => format!("{text}.astype({})", dtype.rust()),
                }))
            }
            axes => Err(Obstacle::new(format!("over the axes {axes:?}; one axis is supported"))),
        }),
        "cumsum" | "cumprod" | "cummax" | "cummin" | "cumlogsumexp" => {
            let axis = axis_text(eqn.size("axis").unwrap_or(0), rank);
            Ok(Text::atom(if eqn.flag("reverse") {
                let options = "RunningTotalOptions { reverse: true }";
                format!("{prim}_with({}, {axis}, {options})", reference())
            } else {
                format!("{prim}({}, {axis})", reference())
            }))
        }
        "sort" if eqn.ins.len() == 1 => {
            let axis = axis_text(eqn.size("dimension").unwrap_or(0), rank);
            Ok(Text::atom(format!("{}.sort({axis})", receiver())))
        }
        "lib.softmax" | "lib.log_softmax" => over(axes).map(|axes| {
            Text::atom(format!(
                "{}.{}({})",
                receiver(),
                &prim[4..],
                axes_argument(&axes, rank, false)
            ))
        }),
        "lib.logsumexp" => over(axes).map(|axes| {
            let axes = axes_argument(&axes, rank, keepdims);
            Text::atom(format!("{}.logsumexp({axes})", receiver()))
        }),
        "lib.standardize" => over(axes).map(|axes| {
            let epsilon = eqn.params.get("epsilon").and_then(Value::as_f64).unwrap_or(1e-5);
            let axes = axes_argument(&axes, rank, false);
            Text::atom(format!("standardize({}, {axes}, {epsilon:?})", scope.like(first, avals)))
        }),
        "lib.layer_norm" => {
            let [x, scale, bias] = eqn.ins[..] else {
                return Some(Err(Obstacle::new("three operands expected")));
            };
            let epsilon = eqn.params.get("epsilon").and_then(Value::as_f64).unwrap_or(1e-6);
            let part = |atom: Atom| {
                let text = scope.text(atom, avals);
                match scope.place(atom) {
                    Some(_) => format!("{}.clone()", text.text),
                    None => text.text,
                }
            };
            let (scale, bias) = (part(scale), part(bias));
            let x = scope.reference(x, avals);
            Ok(Text::atom(format!(
                "nn::LayerNorm {{ scale: Some({scale}), bias: Some({bias}), \
                 epsilon: {epsilon:?}.into() }}.forward({x})"
            )))
        }
        "lib.one_hot" => {
            let count = eqn.size("count").unwrap_or(0);
            Ok(Text::atom(format!("{}.one_hot({count})", receiver())))
        }
        "lib.mean_squared_error" => {
            let operands: Vec<String> =
                eqn.ins.iter().map(|&atom| scope.reference(atom, avals)).collect();
            Ok(Text::atom(format!("nn::squared_error({}).mean()", operands.join(", "))))
        }
        "lib.mean_cross_entropy" => {
            let operands: Vec<String> =
                eqn.ins.iter().map(|&atom| scope.reference(atom, avals)).collect();
            let function = "nn::softmax_cross_entropy_with_integer_labels";
            Ok(Text::atom(format!("{function}({}).mean()", operands.join(", "))))
        }
        "lib.tril" | "lib.triu" => {
            let k = eqn.integer("k").unwrap_or(0);
            Ok(Text::atom(format!("{}({}, {k})", &prim[4..], reference())))
        }
        _ => return None,
    })
}
