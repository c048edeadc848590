//! The JSON file that `python-compat/port.py` writes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::PortError;

const FORMAT: &str = "oxidax-port";
const VERSION: u64 = 1;
/// The largest number of elements of a shape.
const MAX_ELEMENTS: usize = 1 << 40;

/// A traced function.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) module: String,
    #[serde(default)]
    pub(crate) doc: String,
    pub(crate) jax: String,
    #[serde(default)]
    pub(crate) source: Option<Source>,
    pub(crate) params: Vec<(String, TreeNode)>,
    pub(crate) result: TreeNode,
    pub(crate) calls: Vec<TracedCall>,
    pub(crate) body: Jaxpr,
    pub(crate) vars: Vec<TypeEntry>,
    pub(crate) lines: Vec<Line>,
    pub(crate) consts: Vec<ConstEntry>,
    pub(crate) tensors: String,
    pub(crate) outputs: Vec<TypeEntry>,
}

/// Where a function is defined.
#[derive(Debug, Deserialize)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// A dtype and a shape.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TypeEntry {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
}

/// A statement of the Python source.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) names: Vec<Option<String>>,
}

/// A constant array: its elements, or the name of a tensor.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConstEntry {
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    #[serde(default)]
    pub(crate) values: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) tensor: Option<String>,
}

/// A call of a Python function that was traced as a call.
#[derive(Debug, Deserialize)]
pub(crate) struct TracedCall {
    pub(crate) name: String,
    pub(crate) library: bool,
    pub(crate) params: Vec<(String, TreeNode)>,
    #[serde(default)]
    pub(crate) doc: String,
    pub(crate) result: TreeNode,
    #[serde(default)]
    pub(crate) inputs: Vec<TypeEntry>,
    #[serde(default)]
    pub(crate) outputs: Vec<TypeEntry>,
}

/// The structure of an argument or result.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TreeNode {
    Leaf(usize),
    None(bool),
    Tuple(Vec<TreeNode>),
    List(Vec<TreeNode>),
    Dict(Vec<(String, TreeNode)>),
    #[serde(untagged)]
    Struct {
        #[serde(rename = "struct")]
        name: String,
        fields: Vec<(String, TreeNode)>,
    },
    #[serde(untagged)]
    Static {
        #[serde(rename = "static")]
        text: String,
        #[serde(default)]
        value: Option<Value>,
    },
}

/// An operand: the number of a variable, or a literal.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum AtomEntry {
    Var(usize),
    Const {
        #[serde(rename = "const")]
        index: usize,
    },
    Literal {
        value: Value,
        dtype: String,
        #[serde(default)]
        weak: bool,
    },
}

/// A jaxpr.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Jaxpr {
    pub(crate) ins: Vec<usize>,
    #[serde(default)]
    pub(crate) captures: Vec<usize>,
    #[serde(default)]
    pub(crate) consts: Vec<(usize, usize)>,
    #[serde(default)]
    pub(crate) function: String,
    #[serde(default)]
    pub(crate) library: bool,
    #[serde(default)]
    pub(crate) arg_names: Vec<Option<String>>,
    #[serde(default)]
    pub(crate) unpacked: BTreeMap<String, Vec<Option<String>>>,
    pub(crate) eqns: Vec<EqnEntry>,
    pub(crate) outs: Vec<AtomEntry>,
}

/// An equation.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct EqnEntry {
    pub(crate) prim: String,
    pub(crate) ins: Vec<AtomEntry>,
    pub(crate) outs: Vec<Option<usize>>,
    pub(crate) avals: Vec<TypeEntry>,
    #[serde(default)]
    pub(crate) params: Map<String, Value>,
    #[serde(default)]
    pub(crate) line: Option<usize>,
}

impl File {
    /// Reads and checks the text of a file. `serde_json` limits the depth of nesting.
    pub(crate) fn parse(bytes: &[u8]) -> Result<File, PortError> {
        let wrong = |error: serde_json::Error| PortError::file("the file", error.to_string());
        let value: Value = serde_json::from_slice(bytes).map_err(wrong)?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(PortError::file("the file", format!("`format` is not \"{FORMAT}\"")));
        }
        let found = value.get("version").and_then(Value::as_u64).unwrap_or(0);
        if found != VERSION {
            return Err(PortError::Version { found, expected: VERSION });
        }
        let file: File = serde_json::from_value(value).map_err(wrong)?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), PortError> {
        for entry in self.vars.iter().chain(&self.outputs) {
            check_shape(&entry.shape)?;
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if !self.tensors.chars().all(plain) || self.tensors.starts_with('.') {
            let problem = format!("`tensors` is {:?}, not the name of a file", self.tensors);
            return Err(PortError::file("the file", problem));
        }
        for (index, entry) in self.consts.iter().enumerate() {
            let elements = check_shape(&entry.shape)?;
            let place = format!("constant {index}");
            match (&entry.values, &entry.tensor) {
                (Some(values), _) if values.len() == elements => {}
                (Some(values), _) => {
                    let problem = format!("{} values for {elements} elements", values.len());
                    return Err(PortError::file(place, problem));
                }
                (None, Some(_)) => {}
                (None, None) => return Err(PortError::file(place, "it has no values")),
            }
        }
        Ok(())
    }
}

fn check_shape(shape: &[usize]) -> Result<usize, PortError> {
    let product = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    match product {
        Some(elements) if elements <= MAX_ELEMENTS => Ok(elements),
        _ => Err(PortError::file("a type", format!("the shape {shape:?} is too large"))),
    }
}

impl TreeNode {
    /// The numbers of the leaves, in order.
    pub(crate) fn leaves(&self, leaves: &mut Vec<usize>) {
        match self {
            TreeNode::Leaf(index) => leaves.push(*index),
            TreeNode::None(_) | TreeNode::Static { .. } => {}
            TreeNode::Tuple(items) | TreeNode::List(items) => {
                items.iter().for_each(|item| item.leaves(leaves));
            }
            TreeNode::Dict(fields) | TreeNode::Struct { fields, .. } => {
                fields.iter().for_each(|(_, item)| item.leaves(leaves));
            }
        }
    }
}
