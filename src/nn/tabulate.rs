//! A table of a model's layers with their inputs, outputs and work.

use super::summary::{grouped, write_table};
use crate::core::{Aval, Error, Program, Var};
use crate::transforms::make_program;
use crate::tree::{self, Example, Tree};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// The layers of a model in a call, as listed by [`tabulate`]. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTable {
    /// The layers, in the order of their first operation.
    pub rows: Vec<LayerRow>,
    /// The work of the whole call: that of all layers and of the operations between them.
    pub flops: u64,
}

/// One layer of a model in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRow {
    /// The path of the layer, such as `blocks[3].attn.query`. Empty for leaves of the model itself.
    pub path: String,
    /// The types of the arrays that the layer reads, without its parameters.
    pub inputs: Vec<Aval>,
    /// The types of the arrays that other operations read from the layer.
    pub outputs: Vec<Aval>,
    /// The number of elements of the layer's leaves that the call reads.
    pub parameters: usize,
    /// The number of arithmetic operations: additions, multiplications, comparisons and the like,
    /// and functions such as `exp`.
    pub flops: u64,
}

/// Lists the layers of a model with the types of their inputs and outputs, their parameters and
/// their work in a call of `forward`. Nothing is computed: model and inputs may be abstract.
///
/// A layer consists of the leaves with one parent, such as `weight` and `bias`, and of the
/// operations that read them. An operation that reads leaves of several layers, such as the scan
/// over a stack of layers, counts for the innermost part of the model that holds them all.
/// Operations that read no leaves, such as activations, the statistics of a normalization and the
/// products of attention, count for the total only.
///
/// # Errors
/// Errors that `forward` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let model = eval_shape(
///     |key: random::Key| nn::Mlp::new(key, &[784, 128, 10]),
///     random::Key::of_type(),
/// )?;
/// let x = Aval::new(DType::F32, [32, 784]);
/// let table = nn::tabulate(&model, |model, x: &Array| model.forward(x), x)?;
/// assert_eq!(
///     table.to_string(),
///     "\
/// layer      inputs       outputs      parameters      FLOPs
/// layers[0]  f32[32,784]  f32[32,128]     100,480  6,426,624
/// layers[1]  f32[32,128]  f32[32,10]        1,290     82,240
/// total                                   101,770  6,517,056
/// "
/// );
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn tabulate<T: Tree, A: Tree, O: Tree>(
    model: &T,
    forward: impl Fn(&T, &A) -> O,
    inputs: impl Example<A>,
) -> Result<LayerTable, Error> {
    let both = (tree::map(model, |leaf| leaf.clone()), inputs.example());
    let program = make_program(|(model, x): &(T, A)| forward(model, x), both)?;
    let layers = tree::paths(model).into_iter().map(|path| parent_of(&path).to_owned()).collect();
    Ok(table_of(&program, layers))
}

/// Returns the path without its last part: `layers[0]` for `layers[0].weight`.
fn parent_of(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

/// Returns the innermost path that two paths are below.
fn common_parent(a: &str, b: &str) -> String {
    let mut common = String::new();
    for (x, y) in parts(a).zip(parts(b)) {
        if x != y {
            break;
        }
        common.push_str(x);
    }
    common
}

/// Splits `blocks[3].attn` into `blocks`, `[3]` and `.attn`.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let start = usize::from(!rest.is_empty());
        let end = rest[start..].find(['.', '[']).map_or(rest.len(), |at| at + start);
        let part;
        (part, rest) = rest.split_at(end);
        (!part.is_empty()).then_some(part)
    })
}

/// The work and the variables of a layer while the program is read.
#[derive(Default)]
struct Layer {
    order: usize,
    leaves: BTreeSet<Var>,
    inputs: Vec<Var>,
    results: Vec<Var>,
    flops: u64,
}

fn table_of(program: &Program, layer_of_leaf: Vec<String>) -> LayerTable {
    let mut layers: BTreeMap<String, Layer> = BTreeMap::new();
    // Variables that depend on leaves only, with their layer and the leaves.
    let mut derived: HashMap<Var, (String, BTreeSet<Var>)> = HashMap::new();
    for (&var, layer) in program.inputs().iter().zip(layer_of_leaf) {
        derived.insert(var, (layer, BTreeSet::from([var])));
    }
    // The layer that computes a variable, for variables that depend on inputs.
    let mut owner: HashMap<Var, String> = HashMap::new();
    let mut readers: HashMap<Var, Vec<Option<String>>> = HashMap::new();
    let mut flops = 0;
    for (order, eqn) in program.eqns().iter().enumerate() {
        let avals = |vars: &[Var]| vars.iter().map(|&var| program.aval(var).clone()).collect();
        let (operands, results): (Vec<Aval>, Vec<Aval>) =
            (avals(&eqn.operands), avals(&eqn.results));
        let cost = eqn.primitive.cost(&operands, &results);
        let work = cost.flops + cost.transcendentals;
        flops += work;
        let of_leaves: Vec<&(String, BTreeSet<Var>)> =
            eqn.operands.iter().filter_map(|var| derived.get(var)).collect();
        let layer = of_leaves
            .iter()
            .map(|(layer, _)| layer.clone())
            .reduce(|a, b| if a == b { a } else { common_parent(&a, &b) });
        let leaves: BTreeSet<Var> =
            of_leaves.iter().flat_map(|(_, leaves)| leaves.iter().copied()).collect();
        let is_derived = !eqn.operands.is_empty() && of_leaves.len() == eqn.operands.len();
        for &var in eqn.operands.iter().filter(|var| !derived.contains_key(var)) {
            readers.entry(var).or_default().push(layer.clone());
        }
        let Some(name) = layer else { continue };
        let layer = layers.entry(name.clone()).or_insert(Layer { order, ..Layer::default() });
        layer.flops += work;
        if is_derived {
            let all = eqn.results.iter().map(|&var| (var, (name.clone(), leaves.clone())));
            derived.extend(all);
            continue;
        }
        layer.leaves.extend(&leaves);
        for &var in eqn.operands.iter().filter(|var| !derived.contains_key(var)) {
            let is_own = owner.get(&var) == Some(&name);
            if !is_own && !layer.inputs.contains(&var) {
                layer.inputs.push(var);
            }
        }
        layer.results.extend(&eqn.results);
        owner.extend(eqn.results.iter().map(|&var| (var, name.clone())));
    }
    for &var in program.outputs() {
        readers.entry(var).or_default().push(None);
    }
    let is_output = |var: &Var, name: &str| {
        let others = readers
            .get(var)
            .map(|readers| readers.iter().any(|reader| reader.as_deref() != Some(name)));
        others.unwrap_or(false)
    };
    let mut layers: Vec<(String, Layer)> = layers.into_iter().collect();
    layers.sort_by_key(|(_, layer)| layer.order);
    let rows = layers.into_iter().map(|(path, layer)| {
        let aval = |var: &Var| program.aval(*var).clone();
        let outputs = layer.results.iter().filter(|var| is_output(var, &path)).map(aval).collect();
        LayerRow {
            inputs: layer.inputs.iter().map(aval).collect(),
            outputs,
            parameters: layer.leaves.iter().map(|var| program.aval(*var).size()).sum(),
            flops: layer.flops,
            path,
        }
    });
    LayerTable { rows: rows.collect(), flops }
}

impl LayerTable {
    /// Returns the number of elements of all leaves that the call reads.
    pub fn parameters(&self) -> usize {
        self.rows.iter().map(|row| row.parameters).sum()
    }
}

impl fmt::Display for LayerTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = |avals: &[Aval]| {
            avals.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ")
        };
        let count = |flops: u64| grouped(usize::try_from(flops).unwrap_or(usize::MAX));
        let header = ["layer", "inputs", "outputs", "parameters", "FLOPs"];
        let mut table = vec![header.map(str::to_owned)];
        table.extend(self.rows.iter().map(|row| {
            let (inputs, outputs) = (types(&row.inputs), types(&row.outputs));
            [row.path.clone(), inputs, outputs, grouped(row.parameters), count(row.flops)]
        }));
        let (parameters, flops) = (grouped(self.parameters()), count(self.flops));
        table.push(["total".into(), String::new(), String::new(), parameters, flops]);
        write_table(f, &table)
    }
}

#[cfg(test)]
mod tests {
    use super::{common_parent, parent_of, parts};

    #[test]
    fn paths_are_split_at_fields_and_indices() {
        assert_eq!(parts("blocks[3].attn").collect::<Vec<_>>(), ["blocks", "[3]", ".attn"]);
        assert_eq!(parts("[0][1]").collect::<Vec<_>>(), ["[0]", "[1]"]);
        assert_eq!(parts("").count(), 0);
        let parents = ["layers[0].weight", "weight", "[2]", "a[1]"].map(parent_of);
        assert_eq!(parents, ["layers[0]", "", "", "a"]);
        assert_eq!(common_parent("blocks[3].attn", "blocks[3].mlp.up"), "blocks[3]");
        assert_eq!(common_parent("blocks[3]", "blocks[31]"), "blocks");
        assert_eq!(common_parent("encoder", "decoder"), "");
    }
}
