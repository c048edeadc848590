//! Calls of user-defined functions, and of transforms of them: `grad`, `vmap`.

use crate::error::{Obstacle, PortError};
use crate::file::TreeNode;
use crate::ir::{Atom, Eqn, Var};
use crate::types::Ty;

use super::Writer;
use super::control::{Written, ranges};
use super::scope::{Aggregate, Scope};
use super::text::Text;

impl Writer<'_> {
    fn described<'e>(&self, eqn: &'e Eqn) -> Result<Described, PortError> {
        let entry: Option<&'e serde_json::Value> = eqn.params.get("described");
        let described = entry.and_then(|value| serde::Deserialize::deserialize(value).ok());
        let missing = || self.unsupported(eqn, &Obstacle::new("its arguments are not described"));
        let described: Described = described.ok_or_else(missing)?;
        let mut leaves = Vec::new();
        described.trees.iter().for_each(|tree| tree.leaves(&mut leaves));
        let fits = leaves.len() == eqn.ins.len() && described.names.len() == described.trees.len();
        if fits { Ok(described) } else { Err(missing()) }
    }

    /// `grad(|params: &Params| loss(params, x))(params)`.
    pub(super) fn grad(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let described = self.described(eqn)?;
        let body = &eqn.bodies[0];
        let argnums = eqn.sizes("argnums").unwrap_or_default();
        let with_value = eqn.flag("value");
        if body.ins.len() != eqn.ins.len() || argnums.iter().any(|&n| n >= described.trees.len()) {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        let mut inner = scope.enter(body);
        let ranges = ranges(&described.trees);
        // Other arguments are captured.
        for (index, range) in ranges.iter().enumerate() {
            if !argnums.contains(&index) {
                for leaf in range.clone() {
                    self.alias(&mut inner, scope, body.ins[leaf], eqn.ins[leaf]);
                }
            }
        }
        let mut parameters = Vec::new();
        let mut operands = Vec::new();
        let mut types = Vec::new();
        for &number in &argnums {
            let (tree, range) = (&described.trees[number], ranges[number].clone());
            let vars = body.ins[range.clone()].to_vec();
            let (name, ty) = self.by_reference(&mut inner, &described.names[number], tree, &vars);
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range]));
            parameters.push((name, self.types.text(&ty)));
            types.push(ty);
        }
        let (parameter, operand) = match (parameters.as_slice(), operands.as_slice()) {
            ([(name, ty)], [operand]) => (format!("{name}: &{ty}"), operand.clone()),
            (parameters, operands) => {
                let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
                let types: Vec<&str> = parameters.iter().map(|(_, ty)| ty.as_str()).collect();
                let pattern = format!("({}): &({})", names.join(", "), types.join(", "));
                (pattern, format!("({})", operands.join(", ")))
            }
        };
        let aux = eqn.flag("aux");
        let outs = body.outs.clone();
        let result = described.result.clone();
        let text = self.closure(&mut inner, body, |writer, inner| {
            let ty = writer.result_type(&result, &outs);
            writer.owned_tree(inner, &ty, &result, &outs)
        })?;
        let function = match (with_value, aux) {
            (false, false) => "grad",
            (true, false) => "value_and_grad",
            (false, true) => "grad_aux",
            (true, true) => "value_and_grad_aux",
        };
        let call = format!("{function}(|{parameter}| {text})({operand})");
        let gradient = match types.as_slice() {
            [one] => one.clone(),
            types => Ty::Tuple(types.to_vec()),
        };
        let mut rest = eqn.outs.as_slice();
        let take = |rest: &mut &[Var], count: usize| -> Vec<Var> {
            let (now, later) = rest.split_at(count.min(rest.len()));
            *rest = later;
            now.to_vec()
        };
        let gradient_tree = match argnums.as_slice() {
            [one] => described.trees[*one].clone(),
            many => TreeNode::Tuple(many.iter().map(|&n| described.trees[n].clone()).collect()),
        };
        let mut n_gradient = Vec::new();
        gradient_tree.leaves(&mut n_gradient);
        let aux_tree = match (&described.result, aux) {
            (TreeNode::Tuple(parts), true) => parts.get(1).cloned(),
            _ => None,
        };
        // JAX's order: value and auxiliary results first, or last without a value.
        let mut parts: Vec<(TreeNode, Ty, Vec<Var>, &str)> = Vec::new();
        let mut value_parts = Vec::new();
        if with_value {
            value_parts.push((TreeNode::Leaf(0), Ty::Array, take(&mut rest, 1), "value"));
            if let Some(tree) = &aux_tree {
                let mut leaves = Vec::new();
                tree.leaves(&mut leaves);
                let vars = take(&mut rest, leaves.len());
                value_parts.push((tree.clone(), self.tree_type(tree, "aux", &vars), vars, "aux"));
            }
        }
        let vars = take(&mut rest, n_gradient.len());
        parts.push((gradient_tree, gradient, vars, "gradient"));
        if let (false, Some(tree)) = (with_value, &aux_tree) {
            let mut leaves = Vec::new();
            tree.leaves(&mut leaves);
            let vars = take(&mut rest, leaves.len());
            parts.push((tree.clone(), self.tree_type(tree, "aux", &vars), vars, "aux"));
        }
        let names = eqn.line.and_then(|line| self.file.lines.get(line));
        let names = names.map(|line| line.names.clone()).unwrap_or_default();
        let n_parts = value_parts.len() + parts.len();
        let named = |index: usize, default: &str| match names.len() == n_parts {
            true => names[index].clone().unwrap_or_else(|| default.into()),
            false => default.into(),
        };
        self.comment(scope, eqn.line);
        let mut patterns = Vec::new();
        for (index, (tree, ty, vars, name)) in value_parts.iter().chain(&parts).enumerate() {
            patterns.push(self.result_pattern(scope, tree, ty, vars, &named(index, name)));
        }
        let pattern = match (with_value, aux, patterns.as_slice()) {
            (true, true, [value, aux, gradient]) => format!("(({value}, {aux}), {gradient})"),
            (_, _, [one]) => one.clone(),
            (_, _, patterns) => format!("({})", patterns.join(", ")),
        };
        scope.push_let(&pattern, &call);
        Ok(())
    }

    /// Makes a variable of a closure another name for a value outside of it.
    fn alias(&self, inner: &mut Scope, outer: &Scope, var: Var, atom: Atom) {
        let value = match atom {
            Atom::Var(other) => outer.values.get(&other).cloned(),
            Atom::Lit(_) => None,
        };
        match value {
            Some(value) => {
                inner.values.insert(var, value);
            }
            None => {
                let text = outer.text(atom, &self.avals);
                inner.values.insert(var, super::scope::Value::Inline(text));
            }
        }
        if let Atom::Var(other) = atom {
            let parts = inner.aggregates.clone();
            for aggregate in parts.iter().filter(|part| part.leaves.contains(&other)) {
                let replace = |&leaf: &Var| if leaf == other { var } else { leaf };
                let leaves = aggregate.leaves.iter().map(replace).collect();
                inner.add_aggregate(Aggregate { leaves, ..aggregate.clone() });
            }
        }
    }

    /// `vmap(|x: &Array| …)(&xs)`.
    pub(super) fn vmap(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let described = self.described(eqn)?;
        let body = &eqn.bodies[0];
        let axes = eqn.params.get("in_axes").and_then(|value| value.as_array());
        let axes: Vec<Option<i64>> = axes.into_iter().flatten().map(|axis| axis.as_i64()).collect();
        if body.ins.len() != eqn.ins.len() || axes.len() != described.trees.len() {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        if axes.iter().flatten().any(|&axis| axis != 0) || eqn.integer("out_axes") != Some(0) {
            let obstacle = Obstacle::new("it maps another axis than 0, which is not supported yet");
            return Err(self.unsupported(eqn, &obstacle));
        }
        let mut inner = scope.enter(body);
        let ranges = ranges(&described.trees);
        let (mut parameters, mut operands) = (Vec::new(), Vec::new());
        for (index, range) in ranges.iter().enumerate() {
            let tree = &described.trees[index];
            if axes[index].is_none() {
                for leaf in range.clone() {
                    self.alias(&mut inner, scope, body.ins[leaf], eqn.ins[leaf]);
                }
                continue;
            }
            let vars = body.ins[range.clone()].to_vec();
            let (name, ty) = self.by_reference(&mut inner, &described.names[index], tree, &vars);
            parameters.push(format!("{name}: &{}", self.types.text(&ty)));
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range.clone()]));
        }
        let outs = body.outs.clone();
        let result = described.result.clone();
        let ty = self.result_type(&result, &outs);
        let text = self.closure(&mut inner, body, |writer, inner| {
            writer.owned_tree(inner, &ty, &result, &outs)
        })?;
        let call =
            format!("vmap(|{}| {text}).apply({})", parameters.join(", "), operands.join(", "));
        self.bind_tree(scope, eqn, &result, &ty, &call);
        Ok(())
    }

    /// A call of a user-defined function.
    pub(super) fn call(&mut self, scope: &mut Scope, eqn: &Eqn) -> Written {
        let Some(call) = eqn.call.and_then(|number| self.file.calls.get(number)) else {
            return Err(self.unsupported(eqn, &Obstacle::new("the call is not described")));
        };
        let body = &eqn.bodies[0];
        let trees: Vec<TreeNode> = call.params.iter().map(|(_, tree)| tree.clone()).collect();
        let ranges = ranges(&trees);
        let described = ranges.last().map_or(0, |range| range.end);
        let Some(extra) = eqn.ins.len().checked_sub(described) else {
            return Err(self.unsupported(eqn, &Obstacle::new("an argument is missing")));
        };
        if body.ins.len() != eqn.ins.len() {
            return Err(self.unsupported(eqn, &Obstacle::new("its operands do not fit its body")));
        }
        let name = self.function(call.name.as_str(), call, body, extra)?;
        let mut operands: Vec<String> =
            eqn.ins[..extra].iter().map(|&atom| scope.reference(atom, &self.avals)).collect();
        for ((hint, tree), range) in call.params.iter().zip(&ranges) {
            let range = range.start + extra..range.end + extra;
            let vars = &body.ins[range.clone()];
            let ty = self.tree_type(tree, hint, vars);
            if matches!(ty, Ty::Static | Ty::Unit) {
                continue;
            }
            operands.push(self.argument(scope, &ty, tree, &eqn.ins[range]));
        }
        let text = format!("{name}({})", operands.join(", "));
        let outs: Vec<Atom> = eqn.outs.iter().map(|&var| Atom::Var(var)).collect();
        let ty = self.result_type(&call.result, &outs);
        if let (Ty::Array | Ty::Key, [_]) = (&ty, eqn.outs.as_slice()) {
            let var = eqn.outs[0];
            let single = scope.uses.get(&var) == Some(&1);
            let unnamed = !scope.python_names.contains_key(&var);
            if single && unnamed && text.chars().count() <= 64 {
                let value = super::scope::Value::Inline(Text::atom(text));
                scope.set_unnamed(var, value, &eqn.ins);
                return Ok(());
            }
        }
        self.bind_tree(scope, eqn, &call.result.clone(), &ty, &text);
        Ok(())
    }

    /// Binds the result of a call to a pattern with the names of the line.
    fn bind_tree(&mut self, scope: &mut Scope, eqn: &Eqn, tree: &TreeNode, ty: &Ty, text: &str) {
        self.comment(scope, eqn.line);
        let names = eqn.line.and_then(|line| self.file.lines.get(line));
        let names = names.map(|line| line.names.clone()).unwrap_or_default();
        let pattern = match (tree, ty) {
            (TreeNode::Tuple(items), Ty::Tuple(types)) if !items.is_empty() => {
                let mut parts = Vec::new();
                let ranges = ranges(items);
                for (index, ((item, ty), range)) in items.iter().zip(types).zip(ranges).enumerate()
                {
                    if *ty == Ty::Static {
                        continue;
                    }
                    let name = match names.len() == items.len() {
                        true => names[index].clone().unwrap_or_else(|| "value".into()),
                        false => "value".into(),
                    };
                    let vars = eqn.outs[range].to_vec();
                    parts.push(self.result_pattern(scope, item, ty, &vars, &name));
                }
                match parts.as_slice() {
                    [one] => format!("({one},)"),
                    parts => format!("({})", parts.join(", ")),
                }
            }
            _ => {
                let python = eqn.outs.first().and_then(|var| scope.python_names.get(var).cloned());
                let name = match names.as_slice() {
                    [Some(name)] => name.clone(),
                    _ => python.unwrap_or_else(|| "value".into()),
                };
                self.result_pattern(scope, tree, ty, &eqn.outs.clone(), &name)
            }
        };
        scope.push_let(&pattern, text);
    }

    /// A pattern for a part of a result, with its parts in scope.
    fn result_pattern(
        &mut self,
        scope: &mut Scope,
        tree: &TreeNode,
        ty: &Ty,
        vars: &[Var],
        name: &str,
    ) -> String {
        if let (TreeNode::Tuple(items), Ty::Tuple(types)) = (tree, ty) {
            let mut parts = Vec::new();
            for (index, ((item, ty), range)) in
                items.iter().zip(types).zip(ranges(items)).enumerate()
            {
                if *ty != Ty::Static {
                    let name = format!("{name}_{index}");
                    parts.push(self.result_pattern(scope, item, ty, &vars[range], &name));
                }
            }
            return format!("({})", parts.join(", "));
        }
        if vars.iter().all(|var| scope.uses.get(var).copied().unwrap_or(0) == 0) {
            return "_".into();
        }
        let name = match (ty, vars) {
            (Ty::Array | Ty::Key, [var]) => {
                let name = scope.python_names.get(var).cloned().unwrap_or_else(|| name.into());
                scope.claim(&name, vars)
            }
            _ => scope.claim(name, vars),
        };
        let mut leaves = vars.iter().copied();
        self.register(scope, ty, tree, &name, false, &mut leaves);
        if let (Ty::Array | Ty::Key, [var]) = (ty, vars) {
            scope.owned.insert(*var);
        }
        name
    }
}

/// Arguments of a transform, as `port.py` describes them.
#[derive(Debug, serde::Deserialize)]
struct Described {
    trees: Vec<TreeNode>,
    result: TreeNode,
    names: Vec<String>,
}
