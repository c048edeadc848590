//! Functions of JAX that oxidax has: recognised by the call, with a check of its parameters or of
//! the operations that it was traced to.

use serde_json::{Map, Value, json};

use crate::file::{Jaxpr, TracedCall, TreeNode, TypeEntry};
use crate::ir::{Atom, Aval, Dtype, integers, sizes};
use crate::load::{Loader, parse_jaxpr};

/// A call of a library function.
pub(crate) struct Found {
    /// `lib.` and the name.
    pub(crate) prim: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) ins: Vec<Atom>,
}

fn found(name: &str, params: Value, ins: Vec<Atom>) -> Option<Found> {
    let Value::Object(params) = params else { return None };
    Some(Found { prim: format!("lib.{name}"), params, ins })
}

/// Functions of one array with the same name and meaning.
const UNARY: &[(&str, &str)] = &[
    ("relu", "relu"),
    ("silu", "silu"),
    ("swish", "silu"),
    ("softplus", "softplus"),
    ("log_sigmoid", "log_sigmoid"),
    ("sigmoid", "sigmoid"),
    ("selu", "selu"),
    ("relu6", "relu6"),
    ("hard_tanh", "hard_tanh"),
    ("soft_sign", "soft_sign"),
];

/// The parameters of a traced call that are not arrays.
struct Options<'c>(&'c TracedCall);

impl Options<'_> {
    fn get(&self, name: &str) -> Option<&TreeNode> {
        self.0.params.iter().find(|(other, _)| other == name).map(|(_, tree)| tree)
    }

    fn value(&self, name: &str) -> Option<&Value> {
        match self.get(name)? {
            TreeNode::Static { value, .. } => value.as_ref(),
            _ => None,
        }
    }

    fn is_none(&self, name: &str) -> bool {
        match self.get(name) {
            None | Some(TreeNode::None(_)) => true,
            // The default of a parameter that older versions of JAX have removed.
            Some(TreeNode::Static { text, value: None }) => text == "Unspecified",
            Some(_) => false,
        }
    }

    fn is_false(&self, name: &str) -> bool {
        self.get(name).is_none() || self.value(name) == Some(&Value::Bool(false))
    }

    /// The axes of an array of this rank; all of them for `None`.
    fn axes(&self, name: &str, rank: usize) -> Option<Value> {
        let axes: Vec<i64> = match self.get(name)? {
            TreeNode::None(_) => (0..rank as i64).collect(),
            TreeNode::Static { value, .. } => vec![value.as_ref()?.as_i64()?],
            TreeNode::Tuple(items) => {
                let axis = |item: &TreeNode| match item {
                    TreeNode::Static { value, .. } => value.as_ref()?.as_i64(),
                    _ => None,
                };
                items.iter().map(axis).collect::<Option<_>>()?
            }
            _ => return None,
        };
        let resolve = |axis: i64| if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
        Some(json!(axes.into_iter().map(resolve).collect::<Vec<_>>()))
    }
}

/// A call that `port.py` intercepted, with its parameters.
pub(crate) fn traced(
    loader: &Loader<'_>,
    call: &TracedCall,
    ins: &[Atom],
    avals: &[Aval],
) -> Option<Found> {
    // A transform may have changed the call: `vmap` adds axes.
    let same = |entry: &TypeEntry, aval: &Aval| {
        Dtype::parse(&entry.dtype) == Some(aval.dtype) && entry.shape == aval.shape
    };
    let inputs: Vec<Aval> = ins.iter().map(|&atom| loader.aval(atom)).collect();
    let unchanged = call.inputs.len() == inputs.len()
        && call.outputs.len() == avals.len()
        && call.inputs.iter().zip(&inputs).all(|(entry, aval)| same(entry, aval))
        && call.outputs.iter().zip(avals).all(|(entry, aval)| same(entry, aval));
    unchanged.then_some(())?;
    let options = Options(call);
    let first = loader.aval(*ins.first()?);
    let rank = first.shape.len();
    let one = || (ins.len() == 1).then(|| ins.to_vec());
    let name = call.name.as_str();
    if let Some((_, name)) = UNARY.iter().find(|(other, _)| *other == name) {
        return found(name, json!({}), one()?);
    }
    match name {
        "softmax" | "log_softmax" if options.is_none("where") && options.is_none("initial") => {
            found(name, json!({ "axes": options.axes("axis", rank)? }), one()?)
        }
        "logsumexp" if ["b", "where"].iter().all(|name| options.is_none(name)) => {
            let keepdims = options.value("keepdims")?.as_bool()?;
            let axes = options.axes("axis", rank)?;
            let plain = options.is_false("return_sign");
            plain.then_some(())?;
            found(name, json!({ "axes": axes, "keepdims": keepdims }), one()?)
        }
        "gelu" => {
            found(name, json!({ "approximate": options.value("approximate")?.as_bool()? }), one()?)
        }
        "elu" | "celu" | "leaky_relu" => {
            let slope = options.value("alpha").or(options.value("negative_slope"))?.as_f64()?;
            found(name, json!({ "alpha": slope }), one()?)
        }
        "standardize" => {
            let defaults = ["mean", "variance", "where"].iter().all(|name| options.is_none(name));
            defaults.then_some(())?;
            let epsilon = options.value("epsilon")?.as_f64()?;
            found(name, json!({ "axes": options.axes("axis", rank)?, "epsilon": epsilon }), one()?)
        }
        "one_hot" => {
            let count = options.value("num_classes")?.as_u64()?;
            let last = options.value("axis")?.as_i64()? == -1;
            last.then_some(())?;
            let dtype = avals.first()?.dtype;
            (dtype == Dtype::F32).then_some(())?;
            found(name, json!({ "count": count }), one()?)
        }
        "dot_product_attention" => {
            let unused = ["bias", "mask", "query_seq_lengths", "key_value_seq_lengths"];
            let plain = unused.iter().all(|name| options.is_none(name))
                && options.is_none("local_window_size")
                && options.is_false("return_residual")
                && ins.len() == 3
                && rank == 4;
            plain.then_some(())?;
            let causal = options.value("is_causal")?.as_bool()?;
            let scale = match options.get("scale")? {
                TreeNode::None(_) => Value::Null,
                _ => options.value("scale")?.clone(),
            };
            found(name, json!({ "causal": causal, "scale": scale }), ins.to_vec())
        }
        _ => None,
    }
}

/// The primitives of a jaxpr, with those of calls in it.
pub(crate) fn primitives(jaxpr: &Jaxpr, names: &mut Vec<String>) {
    for eqn in &jaxpr.eqns {
        let inner = eqn.params.values().filter_map(|value| value.get("jaxpr"));
        names.push(eqn.prim.clone());
        for value in inner {
            if let Ok(inner) = parse_jaxpr(value) {
                primitives(&inner, names);
            }
        }
    }
}

/// A function of JAX that is jitted, by its name and its operations.
pub(crate) fn named(
    loader: &Loader<'_>,
    name: &str,
    jaxpr: &Jaxpr,
    ins: &[Atom],
    avals: &[Aval],
) -> Option<Found> {
    let [out] = avals else { return named_pair(loader, name, jaxpr, ins) };
    let mut prims = Vec::new();
    primitives(jaxpr, &mut prims);
    let only = |allowed: &[&str]| {
        prims.iter().all(|prim| allowed.contains(&prim.as_str()) || prim.ends_with("jit"))
    };
    let has = |prim: &str| prims.iter().any(|other| other == prim);
    let argument = |name: &str| {
        let index = jaxpr.arg_names.iter().position(|other| other.as_deref() == Some(name))?;
        ins.get(index).copied()
    };
    let first = ins.first().map(|&atom| loader.aval(atom));
    match name {
        "_where" | "where" if only(&["convert_element_type", "broadcast_in_dim", "select_n"]) => {
            let [mask, yes, no] = *ins else { return None };
            broadcasts_like_numpy(jaxpr, out).then_some(())?;
            found("where", json!({}), vec![mask, yes, no])
        }
        "clip" if only(&["convert_element_type", "max", "min", "broadcast_in_dim"]) => {
            let x = argument("arr").or(argument("x"))?;
            (loader.aval(x).dtype == out.dtype).then_some(())?;
            let low = argument("min").or(argument("a_min"));
            let high = argument("max").or(argument("a_max"));
            match (low, high) {
                (Some(low), Some(high)) => found("clip", json!({}), vec![x, low, high]),
                (Some(low), None) => found("maximum", json!({}), vec![x, low]),
                (None, Some(high)) => found("minimum", json!({}), vec![x, high]),
                (None, None) => None,
            }
        }
        "_var" | "_std" => {
            let allowed = [
                "reduce_sum",
                "broadcast_in_dim",
                "div",
                "sub",
                "square",
                "integer_pow",
                "mul",
                "convert_element_type",
                "gt",
                "select_n",
                "sqrt",
                "reshape",
            ];
            let ok = only(&allowed) && has("sqrt") == (name == "_std");
            ok.then_some(())?;
            let eqn = jaxpr.eqns.iter().find(|eqn| eqn.prim == "reduce_sum")?;
            let axes = sizes(eqn.params.get("axes")?)?;
            let ddof = ins.get(1)?.number()?;
            let rank = first.as_ref()?.shape.len();
            (first.as_ref()?.dtype == out.dtype).then_some(())?;
            let keepdims = out.shape.len() == rank;
            let params = json!({ "axes": axes, "keepdims": keepdims, "ddof": ddof });
            found(name.trim_start_matches('_'), params, vec![ins[0]])
        }
        "tril" | "triu" if ins.len() == 1 => {
            let mut k = 0;
            for eqn in jaxpr.eqns.iter().filter(|eqn| eqn.prim == "add") {
                for atom in &eqn.ins {
                    if let crate::file::AtomEntry::Literal { value, .. } = atom {
                        k = value.as_i64()?;
                    }
                }
            }
            let k = if name == "triu" { k.saturating_add(1) } else { k };
            only(&["iota", "add", "ge", "broadcast_in_dim", "select_n"]).then_some(())?;
            found(name, json!({ "k": k }), ins.to_vec())
        }
        "_one_hot" if only(&["broadcast_in_dim", "iota", "eq", "convert_element_type"]) => {
            let shape = &first?.shape;
            let (count, batch) = out.shape.split_last()?;
            (batch == shape.as_slice() && out.dtype == Dtype::F32).then_some(())?;
            found("one_hot", json!({ "count": count }), vec![ins[0]])
        }
        "relu" if only(&["max", "custom_jvp_call"]) => found(name, json!({}), ins.to_vec()),
        "silu" if only(&["logistic", "mul"]) => found(name, json!({}), ins.to_vec()),
        "softplus" if has("log1p") && ins.len() == 1 && !has("transpose") => {
            found(name, json!({}), ins.to_vec())
        }
        "gelu" if ins.len() == 1 && !has("transpose") => {
            found(name, json!({ "approximate": has("tanh") }), ins.to_vec())
        }
        "logaddexp" if has("log1p") && ins.len() == 2 => found(name, json!({}), ins.to_vec()),
        "floor_divide" | "remainder" if ins.len() == 2 && (has("div") || has("rem")) => {
            let same = ins.iter().all(|&atom| loader.aval(atom).dtype == out.dtype);
            same.then(|| found(name, json!({}), ins.to_vec()))?
        }
        "solve" | "_solve" if has("lu") && ins.len() == 2 => {
            let right = loader.aval(ins[1]).shape;
            let square = first.is_some_and(|aval| aval.shape.len() == 2);
            let plain = square && right.len() <= 2 && right == out.shape;
            plain.then(|| found("solve", json!({}), ins.to_vec()))?
        }
        "searchsorted" if has("lt_to") && !has("le_to") && ins.len() == 2 => {
            let sorted = first.is_some_and(|aval| aval.shape.len() == 1);
            let values = loader.aval(ins[1]);
            let plain = sorted && out.dtype == Dtype::Int(32) && values.shape == out.shape;
            plain.then(|| found(name, json!({}), ins.to_vec()))?
        }
        "inv" if has("lu") && ins.len() == 1 => found(name, json!({}), ins.to_vec()),
        _ if first.is_some_and(|aval| aval.dtype == Dtype::Key && aval.shape.is_empty()) => {
            random(loader, name, &prims, jaxpr, ins, out)
        }
        _ => None,
    }
}

fn named_pair(loader: &Loader<'_>, name: &str, jaxpr: &Jaxpr, ins: &[Atom]) -> Option<Found> {
    let mut prims = Vec::new();
    primitives(jaxpr, &mut prims);
    let lu = prims.iter().any(|prim| prim == "lu");
    let [a] = *ins else { return None };
    let square = loader.aval(a).shape.len() == 2 && loader.aval(a).dtype.is_float();
    (name == "slogdet" && lu && square).then(|| found("slogdet", json!({}), vec![a]))?
}

/// True if every broadcast of the operands of `where` is the one of NumPy.
fn broadcasts_like_numpy(jaxpr: &Jaxpr, out: &Aval) -> bool {
    jaxpr.eqns.iter().filter(|eqn| eqn.prim == "broadcast_in_dim").all(|eqn| {
        let axes = eqn.params.get("broadcast_dimensions").and_then(integers);
        let rank = out.shape.len() as i64;
        axes.is_some_and(|axes| {
            let first = rank - axes.len() as i64;
            axes.iter().enumerate().all(|(index, &axis)| axis == first + index as i64)
        })
    })
}

/// Samplers with one key.
fn random(
    loader: &Loader<'_>,
    name: &str,
    prims: &[String],
    jaxpr: &Jaxpr,
    ins: &[Atom],
    out: &Aval,
) -> Option<Found> {
    let argument = |name: &str| {
        let index = jaxpr.arg_names.iter().position(|other| other.as_deref() == Some(name))?;
        ins.get(index).copied()
    };
    let scalar = |atom: Atom| loader.aval(atom).shape.is_empty();
    let draws = prims.iter().filter(|prim| *prim == "random_bits").count();
    let key = *ins.first()?;
    let float = matches!(out.dtype, Dtype::F32 | Dtype::F64);
    let params = json!({ "shape": out.shape });
    match name {
        "_normal" | "_gumbel" | "_exponential" | "_laplace" | "_cauchy" | "_logistic"
            if ins.len() == 1 && draws == 1 && float =>
        {
            found(&format!("random.{}", &name[1..]), params, vec![key])
        }
        "_uniform" if draws == 1 && float => {
            let (low, high) = (argument("minval")?, argument("maxval")?);
            (scalar(low) && scalar(high)).then_some(())?;
            found("random.uniform", params, vec![key, low, high])
        }
        "_randint" if out.dtype == Dtype::Int(32) && draws == 2 => {
            let (low, high) = (argument("minval")?, argument("maxval")?);
            (scalar(low) && scalar(high)).then_some(())?;
            found("random.randint", params, vec![key, low, high])
        }
        "_bernoulli" if draws == 1 => {
            let p = argument("p")?;
            scalar(p).then_some(())?;
            found("random.bernoulli", params, vec![key, p])
        }
        _ => None,
    }
}
