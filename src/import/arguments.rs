//! The correspondence of a caller's leaves to those of an exported function.

use super::PyTree;
use crate::core::{Array, AxisSpec, Mesh, NamedSharding, PartitionSpec};
use crate::tree::{Tree, leaf_keys, leaves_of, rebuild};
use oxidax_jax_export::PyTreeDef;
use std::collections::HashSet;

/// Returns the paths of arguments: `[0]['w']`, and `['scale']` for a keyword.
pub(super) fn paths(tree: &PyTreeDef) -> Vec<String> {
    tree.paths()
        .into_iter()
        .map(|path| match is_signature(tree) {
            true => path.get(3..).unwrap_or_default().to_owned(),
            false => path,
        })
        .collect()
}

/// Adds the keys of each leaf, and the structure of the nodes on the way: true where the names of
/// children count, and not their order alone.
fn add_keys(tree: &PyTreeDef, key: &mut Vec<(String, bool)>, keys: &mut Vec<Vec<(String, bool)>>) {
    let mut below = |name: String, is_named: bool, child: &PyTreeDef, key: &mut Vec<_>| {
        key.push((name, is_named));
        add_keys(child, key, keys);
        key.pop();
    };
    match tree {
        PyTreeDef::Leaf => keys.push(key.clone()),
        PyTreeDef::Dict(entries) => {
            entries.iter().for_each(|(name, child)| below(name.clone(), true, child, key));
        }
        PyTreeDef::Tuple(children) | PyTreeDef::List(children) => {
            children
                .iter()
                .enumerate()
                .for_each(|(i, child)| below(i.to_string(), true, child, key));
        }
        PyTreeDef::Custom { children, .. } => {
            let children = children.iter().enumerate();
            children.for_each(|(i, child)| below(i.to_string(), false, child, key));
        }
        _ => {}
    }
}

fn keys_of(tree: &PyTreeDef) -> Vec<Vec<(String, bool)>> {
    let mut keys = Vec::new();
    add_keys(tree, &mut Vec::new(), &mut keys);
    keys
}

/// Returns the caller's leaves in the order of the exported arguments, which have these paths.
pub(super) fn matched(
    tree: &PyTreeDef,
    paths: &[String],
    positional: &impl Tree,
    keywords: &PyTree,
) -> Result<Vec<Array>, String> {
    let mut keys = leaf_keys(positional);
    keys.extend(leaf_keys(keywords));
    let mut leaves = leaves_of(positional);
    leaves.extend(leaves_of(keywords));
    let mut wanted = keys_of(tree);
    if is_signature(tree) {
        wanted.iter_mut().for_each(|key| drop(key.remove(0)));
    }
    let order = matching(&wanted, &keys, paths).or_else(|problem| {
        // The only argument may be passed without a tuple around it.
        let PyTreeDef::Tuple(parts) = tree else { return Err(problem) };
        match parts.first() {
            Some(PyTreeDef::Tuple(arguments)) if arguments.len() == 1 => {
                for key in &mut keys {
                    key.insert(0, "0".to_owned());
                }
                matching(&wanted, &keys, paths).map_err(|_| problem)
            }
            _ => Err(problem),
        }
    })?;
    Ok(order.into_iter().map(|at| leaves[at].clone()).collect())
}

/// Returns, for each wanted leaf, the place of the given leaf with its keys.
fn matching(
    wanted: &[Vec<(String, bool)>],
    keys: &[Vec<String>],
    paths: &[String],
) -> Result<Vec<usize>, String> {
    let numbers = |count: usize| -> Vec<usize> { (0..count).collect() };
    let all = numbers(keys.len());
    let mut order = vec![None; wanted.len()];
    assign(wanted, keys, (&numbers(wanted.len()), &all), 0, &mut order);
    let used: HashSet<usize> = order.iter().flatten().copied().collect();
    let missing: Vec<&str> = order
        .iter()
        .zip(paths)
        .filter(|(at, _)| at.is_none())
        .map(|(_, path)| path.as_str())
        .collect();
    let surplus: Vec<String> =
        all.iter().filter(|at| !used.contains(at)).map(|at| keys[*at].join(".")).collect();
    if missing.is_empty() && surplus.is_empty() {
        return Ok(order.into_iter().flatten().collect());
    }
    let list = |what: &str, names: Vec<&str>| match names.len() {
        0 => None,
        _ => Some(format!("{what}: {}", names.join(", "))),
    };
    let parts = [
        list("missing leaves", missing),
        list("surplus leaves", surplus.iter().map(String::as_str).collect()),
    ];
    Err(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

/// Assigns the leaves below a node, by the names of its children or, if they have no names in
/// Python, by their order.
fn assign(
    wanted: &[Vec<(String, bool)>],
    given: &[Vec<String>],
    (of_wanted, of_given): (&[usize], &[usize]),
    depth: usize,
    order: &mut [Option<usize>],
) {
    if let ([w], [g]) = (of_wanted, of_given)
        && wanted[*w].len() == depth
        && given[*g].len() == depth
    {
        order[*w] = Some(*g);
        return;
    }
    let mut children: Vec<(&str, bool, Vec<usize>)> = Vec::new();
    for &w in of_wanted {
        let Some((name, is_named)) = wanted[w].get(depth) else { continue };
        match children.iter_mut().find(|(other, ..)| other == name) {
            Some((.., leaves)) => leaves.push(w),
            None => children.push((name, *is_named, vec![w])),
        }
    }
    let mut named: Vec<(&str, Vec<usize>)> = Vec::new();
    for &g in of_given {
        let Some(name) = given[g].get(depth) else { continue };
        match named.iter_mut().find(|(other, _)| other == name) {
            Some((_, leaves)) => leaves.push(g),
            None => named.push((name, vec![g])),
        }
    }
    for (position, (name, is_named, leaves)) in children.iter().enumerate() {
        let found = match is_named {
            true => named.iter().find(|(other, _)| other == name),
            false => named.get(position),
        };
        if let Some((_, below)) = found {
            assign(wanted, given, (leaves, below), depth + 1, order);
        }
    }
}

/// Returns the results of a function in the structure of an example.
pub(super) fn rebuilt<O: Tree>(
    tree: &PyTreeDef,
    leaves: Vec<Array>,
    example: &O,
) -> Result<O, String> {
    let keys = leaf_keys(example);
    let order = matching(&keys_of(tree), &keys, &tree.paths())?;
    let mut placed: Vec<Option<Array>> = vec![None; keys.len()];
    for (at, leaf) in order.into_iter().zip(leaves) {
        placed[at] = Some(leaf);
    }
    Ok(rebuild(example, placed.into_iter().flatten().collect()))
}

/// Returns true for the structure of positional arguments and keyword arguments.
fn is_signature(tree: &PyTreeDef) -> bool {
    matches!(tree, PyTreeDef::Tuple(parts)
        if matches!(&parts[..], [PyTreeDef::Tuple(_), PyTreeDef::Dict(_)]))
}

/// Returns a sharding over a mesh; `None` if the mesh has other axes.
pub(super) fn sharding(mesh: &Mesh, spec: &[Vec<String>]) -> Option<NamedSharding> {
    let spec = spec.iter().map(|names| AxisSpec::Axes(names.clone())).collect();
    NamedSharding::checked(mesh, PartitionSpec(spec)).ok()
}
