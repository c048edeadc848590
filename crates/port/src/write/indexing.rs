//! Gathers, scatters, dynamic slices, windows and random numbers.

use serde_json::Value;

use crate::error::Obstacle;
use crate::ir::{Atom, Aval, Dtype, Eqn, sizes};

use super::products::padding_text;
use super::scope::Scope;
use super::shaping::{arrays, axis_text, shape_of};
use super::text::{Text, list};

/// Writes an equation that reads or writes parts of an array, or draws random numbers.
pub(crate) fn write(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Option<Result<Text, Obstacle>> {
    let out = avals.get(*eqn.outs.first()?)?;
    let first = *eqn.ins.first()?;
    let reference = || scope.reference(first, avals);
    Some(match eqn.prim.as_str() {
        "gather" => gather(scope, avals, eqn),
        "lib.take" => {
            let axis = eqn.size("axis").unwrap_or(0);
            let ids = scope.reference(eqn.ins[1], avals);
            let receiver = scope.receiver(first, avals);
            Ok(Text::atom(match eqn.flag("fill") {
                true => format!("{receiver}.take({ids}, {axis})"),
                false => format!("{receiver}.index(i![{}{ids}])", ".., ".repeat(axis)),
            }))
        }
        "lib.index" => {
            let items = eqn.params.get("items").and_then(Value::as_array);
            let mut parts = Vec::new();
            for item in items.into_iter().flatten() {
                let number = |name: &str| item.get(name).and_then(Value::as_u64);
                parts.push(match (number("at"), number("operand"), number("from"), number("to")) {
                    (Some(at), ..) => at.to_string(),
                    (_, Some(operand), ..) => {
                        let operand = usize::try_from(operand).unwrap_or(usize::MAX);
                        let atom = eqn.ins.get(operand).copied();
                        scope.reference(atom.unwrap_or(first), avals)
                    }
                    (_, _, Some(0), Some(to)) => format!("..{to}"),
                    (_, _, Some(from), Some(to)) => format!("{from}..{to}"),
                    (_, _, Some(from), None) if from > 0 => format!("{from}.."),
                    _ => "..".into(),
                });
            }
            while parts.len() > 1 && parts.last().is_some_and(|part| part == "..") {
                parts.pop();
            }
            let receiver = scope.receiver(first, avals);
            Ok(Text::atom(format!("{receiver}.index(i![{}])", parts.join(", "))))
        }
        "lib.segment_sum" => {
            let segments = eqn.size("segments").unwrap_or(0);
            let ids = scope.reference(eqn.ins[1], avals);
            Ok(Text::atom(format!("segment_sum({}, {ids}, {segments})", reference())))
        }
        "lib.at" => {
            let method = eqn.text("method").unwrap_or("set");
            let ids = scope.reference(eqn.ins[1], avals);
            let updates = scope.like(eqn.ins[2], avals);
            let receiver = scope.receiver(first, avals);
            Ok(Text::atom(format!("{receiver}.at(i![{ids}]).{method}({updates})")))
        }
        "lib.eye" => {
            let size = eqn.size("size").unwrap_or(0);
            Ok(Text::atom(match out.dtype {
                Dtype::F32 => format!("eye({size})"),
                dtype => format!("eye(([{size}, {size}], {}))", dtype.rust()),
            }))
        }
        "lib.searchsorted" => {
            let values = scope.like(eqn.ins[1], avals);
            let receiver = scope.receiver(first, avals);
            Ok(Text::atom(format!("{receiver}.searchsorted({values})")))
        }
        "lib.take_along_axis" => {
            let axis = axis_text(eqn.size("axis").unwrap_or(0), shape_of(first, avals).len());
            let indices = scope.reference(eqn.ins[1], avals);
            Ok(Text::atom(format!("take_along_axis({}, {indices}, {axis})", reference())))
        }
        "dynamic_slice" => {
            let shape = eqn.sizes("slice_sizes").unwrap_or_default();
            let starts = arrays(scope, avals, &eqn.ins[1..]);
            Ok(Text::atom(format!("dynamic_slice({}, {starts}, {})", reference(), list(&shape))))
        }
        "dynamic_update_slice" if eqn.ins.len() >= 2 => {
            let update = scope.reference(eqn.ins[1], avals);
            let starts = arrays(scope, avals, &eqn.ins[2..]);
            Ok(Text::atom(format!("dynamic_update_slice({}, {update}, {starts})", reference())))
        }
        "reduce_window_max" | "reduce_window_min" | "reduce_window_sum" | "reduce_window"
        | "reduce_window_prod" => window(scope, avals, eqn),
        "random_wrap" => Ok(Text::atom(format!("random::Key::from_data({})", {
            let text = scope.text(first, avals);
            match scope.place(first) {
                Some(_) => format!("{}.clone()", text.text),
                None => text.text,
            }
        }))),
        "random_unwrap" => Ok(Text::atom(format!("{}.data().clone()", key(scope, avals, first)))),
        "random_split" => {
            let shape = eqn.sizes("shape").unwrap_or_default();
            let key = consumed(scope, avals, first);
            Ok(Text::atom(match shape.as_slice() {
                [count] => format!("random::split({key}, {count})"),
                shape => format!("random::split({key}, {})", list(shape)),
            }))
        }
        "random_fold_in" => {
            let data = scope.like(eqn.ins[1], avals);
            Ok(Text::atom(format!("random::fold_in({}, {data})", consumed(scope, avals, first))))
        }
        "random_seed" => match first {
            Atom::Lit(_) => {
                Ok(Text::atom(format!("random::key({})", scope.text(first, avals).text)))
            }
            Atom::Var(_) => Err(Obstacle::new("the seed is not a constant")),
        },
        "random_gamma" if eqn.ins.len() == 2 => {
            let sampler = if eqn.flag("log_space") { "loggamma" } else { "gamma" };
            let key = consumed(scope, avals, first);
            let shape = list(&out.shape);
            let a = scope.like(eqn.ins[1], avals);
            Ok(Text::atom(format!("random::{sampler}({key}, {shape}, {a})")))
        }
        "random_bits" => {
            let shape = list(&out.shape);
            let key = consumed(scope, avals, first);
            Ok(Text::atom(format!("random::bits({key}, ({shape}, {}))", out.dtype.rust())))
        }
        "lib.key_get" => {
            let index = eqn.size("index").unwrap_or(0);
            Ok(Text::atom(format!("{}.get({index})", key(scope, avals, first))))
        }
        prim if prim.starts_with("scatter") => scatter(scope, avals, eqn),
        prim if prim.starts_with("lib.random.") => {
            let key = consumed(scope, avals, first);
            let shape = match out.dtype {
                Dtype::F32 | Dtype::Int(32) | Dtype::Bool => list(&out.shape),
                dtype => format!("({}, {})", list(&out.shape), dtype.rust()),
            };
            let value = |index: usize| scope.like(eqn.ins[index], avals);
            let range = |index: usize| {
                let [low, high] = [index, index + 1].map(|index| match eqn.ins[index] {
                    Atom::Lit(_) => scope.text(eqn.ins[index], avals).text,
                    Atom::Var(_) => scope.like(eqn.ins[index], avals),
                });
                format!("{low}..{high}")
            };
            Ok(Text::atom(match &prim["lib.random.".len()..] {
                name @ ("uniform" | "randint") => {
                    format!("random::{name}({key}, {shape}, {})", range(1))
                }
                "bernoulli" => format!("random::bernoulli({key}, {shape}, {})", value(1)),
                name => format!("random::{name}({key}, {shape})"),
            }))
        }
        "optimization_barrier" if eqn.ins.len() == 1 => Ok(Text::atom(format!(
            "oxidax::primitives::optimization_barrier(({},)).remove(0)",
            reference()
        ))),
        _ => return None,
    })
}

fn key(scope: &Scope, avals: &[Aval], atom: Atom) -> String {
    scope.text(atom, avals).receiver()
}

/// A key that a sampler takes by value.
fn consumed(scope: &Scope, avals: &[Aval], atom: Atom) -> String {
    let text = scope.text(atom, avals).text;
    match scope.place(atom) {
        Some(_) => format!("{text}.clone()"),
        None => text,
    }
}

fn mode(eqn: &Eqn) -> Result<&'static str, Obstacle> {
    match (eqn.text("mode"), eqn.integer("mode")) {
        (Some("CLIP"), _) | (_, Some(0)) => Ok("Clip"),
        (Some("FILL_OR_DROP"), _) | (_, Some(1)) => Ok("FillOrDrop"),
        (Some("PROMISE_IN_BOUNDS"), _) | (_, Some(2)) => Ok("PromiseInBounds"),
        _ => Err(Obstacle::new("its mode is unknown")),
    }
}

fn numbers(eqn: &Eqn, names: &[&str]) -> Result<String, Obstacle> {
    let numbers = eqn.params.get("dimension_numbers");
    let mut fields = Vec::new();
    for name in names {
        let axes = numbers.and_then(|numbers| numbers.get(*name)).and_then(sizes);
        // Versions before 0.4.32 have none.
        let axes = axes.or_else(|| name.contains("batching").then(Vec::new));
        let axes = axes.ok_or_else(|| Obstacle::new(format!("`{name}` is missing")))?;
        fields.push(format!("{name}: vec!{}", list(&axes)));
    }
    Ok(fields.join(", "))
}

fn gather(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let [operand, indices] = eqn.ins[..] else {
        return Err(Obstacle::new("two operands expected"));
    };
    let fields = numbers(
        eqn,
        &[
            "offset_dims",
            "collapsed_slice_dims",
            "start_index_map",
            "operand_batching_dims",
            "start_indices_batching_dims",
        ],
    )?;
    let shape = eqn.sizes("slice_sizes").unwrap_or_default();
    let (operand, indices) = (scope.reference(operand, avals), scope.reference(indices, avals));
    let mode = mode(eqn)?;
    Ok(Text::atom(format!(
        "gather({operand}, {indices}, &GatherDimensionNumbers {{ {fields} }}, &{}, \
         GatherScatterMode::{mode})",
        list(&shape)
    )))
}

fn scatter(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let combiner = match eqn.prim.as_str() {
        "scatter" => "Update",
        "scatter-add" | "scatter_add" => "Add",
        "scatter-mul" | "scatter_mul" => "Mul",
        "scatter-min" | "scatter_min" => "Min",
        "scatter-max" | "scatter_max" => "Max",
        _ => return Err(Obstacle::new("it combines updates by another function")),
    };
    let [operand, indices, updates] = eqn.ins[..] else {
        return Err(Obstacle::new("three operands expected"));
    };
    let fields = numbers(
        eqn,
        &[
            "update_window_dims",
            "inserted_window_dims",
            "scatter_dims_to_operand_dims",
            "operand_batching_dims",
            "scatter_indices_batching_dims",
        ],
    )?;
    let mode = mode(eqn)?;
    let [operand, indices, updates] =
        [operand, indices, updates].map(|atom| scope.reference(atom, avals));
    Ok(Text::atom(format!(
        "scatter({operand}, {indices}, {updates}, Combiner::{combiner}, \
         &ScatterDimensionNumbers {{ {fields} }}, GatherScatterMode::{mode})"
    )))
}

fn window(scope: &Scope, avals: &[Aval], eqn: &Eqn) -> Result<Text, Obstacle> {
    let lists = |name: &str| eqn.sizes(name).map(|items| format!("vec!{}", list(&items)));
    let missing = || Obstacle::new("its window is missing");
    let rank = shape_of(eqn.ins[0], avals).len();
    let ones = format!("vec!{}", list(&vec![1; rank]));
    let fields = [
        format!("dimensions: {}", lists("window_dimensions").ok_or_else(missing)?),
        format!("strides: {}", lists("window_strides").ok_or_else(missing)?),
        format!("padding: {}", padding_text(eqn.params.get("padding"))?),
        format!("base_dilation: {}", lists("base_dilation").unwrap_or_else(|| ones.clone())),
        format!("window_dilation: {}", lists("window_dilation").unwrap_or(ones)),
    ];
    let operand = scope.reference(eqn.ins[0], avals);
    let window = format!("&Window {{ {} }}", fields.join(", "));
    if eqn.prim == "reduce_window" {
        return Err(Obstacle::new("it reduces by another function than max, min, sum or product"));
    }
    Ok(Text::atom(format!("{}({operand}, {window})", eqn.prim)))
}
