//! Functions that create, rearrange and index arrays.

use crate::numpy::{along, axis, signed};
use crate::ops::{dtype, list, whole};
use oxidax::prelude::*;
use oxidax::primitives::fill_of;
use serde_json::Value;

fn index(params: &Value, arrays: &[Array]) -> Vec<Index> {
    let bound = |value: &Value| (!value.is_null()).then(|| axis(value));
    let entry = |entry: &Value| match entry {
        Value::String(name) if name == "newaxis" => Index::NewAxis,
        Value::String(_) => Index::Ellipsis,
        entry => match entry.as_object().unwrap().iter().next().unwrap() {
            (kind, at) if kind == "int" => Index::At(axis(at)),
            (kind, at) if kind == "array" => {
                Index::Array(arrays[usize::try_from(whole(at)).unwrap()].clone())
            }
            (_, slice) => Index::Slice {
                start: bound(&slice[0]),
                stop: bound(&slice[1]),
                step: bound(&slice[2]).unwrap_or(1),
            },
        },
    };
    params["index"].as_array().unwrap().iter().map(entry).collect()
}

/// Computes `x.at[…].set(values)` and the other updates.
fn updated(op: &str, x: &Array, values: &Array, index: &[Index]) -> Array {
    let at = x.at(index);
    match op {
        "at_set" => at.set(values),
        "at_add" => at.add(values),
        "at_multiply" => at.mul(values),
        "at_min" => at.min(values),
        "at_max" => at.max(values),
        _ => panic!("no update is called {op}"),
    }
}

fn rolled(x: &Array, params: &Value) -> Array {
    let shifts = signed(&params["shift"]);
    match &params["axis"] {
        Value::Null => roll(&x.flatten(), shifts[0], 0).reshape(x.shape().to_vec()),
        along => shifts.iter().zip(signed(along)).fold(x.clone(), |x, (&by, at)| roll(&x, by, at)),
    }
}

fn moved(x: &Array, params: &Value) -> Array {
    let (from, to) = (signed(&params["source"]), signed(&params["destination"]));
    let rank = x.rank() as isize;
    let (from, to): (Vec<isize>, Vec<isize>) = (
        from.iter().map(|a| a.rem_euclid(rank)).collect(),
        to.iter().map(|a| a.rem_euclid(rank)).collect(),
    );
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    let order: Vec<isize> = (0..rank)
        .map(|place| match to.iter().position(|&to| to == place) {
            Some(at) => from[at],
            None => rest.next().unwrap(),
        })
        .collect();
    x.transpose_axes(order)
}

fn made(op: &str, params: &Value) -> Option<Array> {
    let size = |name: &str| usize::try_from(whole(&params[name])).unwrap();
    let scalar = |name: &str| match &params[name] {
        value if value.is_i64() => Scalar::Int(value.as_i64().unwrap().into()),
        value => Scalar::Float(value.as_f64().unwrap()),
    };
    Some(match op {
        "eye" => {
            let options = EyeOptions { offset: axis(&params["k"]) };
            eye_with(([size("n"), size("m")], dtype(&params["dtype"])), options)
        }
        "full" => {
            fill_of(scalar("value"), &Aval::new(dtype(&params["dtype"]), list(&params["shape"])))
        }
        "linspace" => {
            let aval = Aval::new(dtype(&params["dtype"]), Shape::scalar());
            let end = |name: &str| fill_of(scalar(name), &aval);
            let options =
                LinspaceOptions { endpoint: params["endpoint"] != false, ..Default::default() };
            linspace_with(end("start"), end("stop"), size("num"), options)
        }
        "arange" => {
            let dtype = dtype(&params["dtype"]);
            arange_dtype(scalar("start"), scalar("stop"), scalar("step"), dtype)
        }
        _ => return None,
    })
}

/// Returns the results if the case belongs to this family.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Option<Vec<Array>> {
    let result = match (op, operands) {
        (_, []) => made(op, params)?,
        ("stack", xs) => stack(xs.iter().collect::<Vec<_>>(), axis(&params["axis"])),
        ("concatenate", xs) => concatenate(xs, axis(&params["axis"])),
        ("split", [x]) => {
            return Some(match &params["indices"] {
                Value::Null => split(
                    x,
                    usize::try_from(whole(&params["sections"])).unwrap(),
                    axis(&params["axis"]),
                ),
                indices => split(x, list(indices), axis(&params["axis"])),
            });
        }
        ("tile", [x]) => tile(x, &list(&params["reps"])),
        ("repeat", [x]) => {
            let repeats = usize::try_from(whole(&params["repeats"])).unwrap();
            match &params["axis"] {
                Value::Null => repeat(&x.flatten(), repeats, 0),
                at => repeat(x, repeats, axis(at)),
            }
        }
        ("squeeze", [x]) => match &params["axis"] {
            Value::Null => x.squeeze(),
            at => x.squeeze_axes(signed(at)),
        },
        ("expand_dims", [x]) => expand_dims(x, &signed(&params["axis"])),
        ("moveaxis", [x]) => moved(x, params),
        ("swapaxes", [x]) => x.swapaxes(axis(&params["axis1"]), axis(&params["axis2"])),
        ("transpose", [x]) => x.t(),
        ("flip", [x]) => flip(x, along(params)),
        ("roll", [x]) => rolled(x, params),
        ("tril", [x]) => tril(x, axis(&params["k"])),
        ("triu", [x]) => triu(x, axis(&params["k"])),
        ("broadcast_to", [x]) => x.broadcast_to(list(&params["shape"])),
        ("ravel", [x]) => x.flatten(),
        ("reshape", [x]) => x.reshape(signed(&params["shape"])),
        ("pad", [x]) => {
            let side = |width: &Value| usize::try_from(whole(width)).unwrap();
            let pair = |width: &Value| (side(&width[0]), side(&width[1]));
            let widths: Vec<(usize, usize)> =
                params["pad_width"].as_array().unwrap().iter().map(pair).collect();
            let value = params["constant_values"].as_i64().unwrap();
            let mode = PadMode::Constant(Scalar::Int(value.into()));
            pad_with(x, widths, PadOptions { mode })
        }
        ("diagonal", [x]) => diagonal(x),
        ("trace", [x]) => trace(x),
        ("sort", [x]) => match params["descending"] == true {
            true => sort_descending(x, axis(&params["axis"])),
            false => sort(x, axis(&params["axis"])),
        },
        ("argsort", [x]) => match params["descending"] == true {
            true => argsort_descending(x, axis(&params["axis"])),
            false => argsort(x, axis(&params["axis"])),
        },
        ("cumsum", [x]) => cumsum(x, axis(&params["axis"])),
        ("cumprod", [x]) => cumprod(x, axis(&params["axis"])),
        ("diff", [x]) => diff(x, axis(&params["axis"])),
        ("index", [x, arrays @ ..]) => x.index(index(params, arrays)),
        (_, [x, values, arrays @ ..]) if op.starts_with("at_") => {
            updated(op, x, values, &index(params, arrays))
        }
        ("take", [x, indices]) => match &params["axis"] {
            Value::Null => take(&x.flatten(), indices, 0),
            at => take(x, indices, axis(at)),
        },
        ("take_along_axis", [x, indices]) => take_along_axis(x, indices, axis(&params["axis"])),
        _ => return None,
    };
    Some(vec![result])
}
