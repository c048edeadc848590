//! Writes the intermediate form as Rust.

mod body;
mod constants;
mod control;
mod elementwise;
mod indexing;
mod parity;
mod products;
mod reductions;
mod scope;
mod shaping;
mod text;

use std::collections::HashSet;

use crate::Options;
use crate::error::PortError;
use crate::file::{File, TracedCall, TreeNode};
use crate::ir::{Atom, Aval, Body, Dtype, Var};
use crate::names;
use crate::types::{Ty, Types, wrapped};

use control::ranges;
use scope::{Aggregate, Scope};

/// A function that has been written.
struct Function {
    name: String,
    python: String,
    /// Everything but the name and the documentation.
    text: String,
    doc: String,
}

/// The state of writing one file.
pub(crate) struct Writer<'f> {
    pub(crate) file: &'f File,
    pub(crate) avals: Vec<Aval>,
    pub(crate) types: Types,
    functions: Vec<Function>,
    names: HashSet<String>,
}

/// Writes the whole program.
pub(crate) fn program(
    file: &File,
    avals: Vec<Aval>,
    body: &Body,
    options: &Options,
) -> Result<String, PortError> {
    let names = HashSet::from_iter(["main", "tests", "recorded"].map(str::to_string));
    let mut writer = Writer { file, avals, types: Types::default(), functions: Vec::new(), names };
    let top = TracedCall {
        name: file.name.clone(),
        library: false,
        params: file.params.clone(),
        doc: file.doc.clone(),
        result: file.result.clone(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    // The traced function keeps its name; others that have it get a number.
    let top_name = names::unique(&names::snake(&file.name), &mut writer.names);
    let (text, test) = writer.top(&top, body, &top_name, options)?;
    Ok(writer.assemble(&top_name, &text, &test, options))
}

impl Writer<'_> {
    /// The text of the traced function, and its test.
    fn top(
        &mut self,
        call: &TracedCall,
        body: &Body,
        name: &str,
        options: &Options,
    ) -> Result<(String, String), PortError> {
        let text = self.function_text(call, body, 0)?;
        let test = self.parity_test(call, body, name, options);
        Ok((text, test))
    }

    fn assemble(&self, top_name: &str, top: &str, test: &str, options: &Options) -> String {
        let File { module, jax, source, .. } = self.file;
        let place = match source {
            Some(source) => format!("`{}:{}`", source.file, source.line),
            None => format!("the module `{module}`"),
        };
        let mut out = wrapped(
            "//! ",
            &format!(
                "`{}` of {place}, traced with JAX {jax} and written by `oxidax port`.",
                self.file.name
            ),
        );
        let functions: String = self
            .functions
            .iter()
            .map(|function| {
                let doc = documentation(&function.doc, &function.python);
                let allowed = allowances(&function.text);
                format!("{doc}{allowed}fn {}{}\n", function.name, function.text)
            })
            .collect();
        let mut functions = functions;
        if format!("{functions}{top}").contains("recorded(\"const.") {
            functions.push_str(&format!(
                "/// Returns an array that the Python function captures.\n\
                 fn recorded(name: &str) -> Array {{\n\
                 let path = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{}{}\");\n\
                 checkpoint::arrays(path).expect(\"the file of port.py\")[name].clone()\n}}\n\n",
                options.data_folder, self.file.tensors
            ));
        }
        let doc = documentation(&self.file.doc, &self.file.name);
        let uses = self.imports(&format!("{functions}{top}"));
        out.push_str(&format!("\n{uses}\n{}", self.types.definitions()));
        let allowed = allowances(top);
        out.push_str(&format!("{doc}{allowed}pub fn {top_name}{top}\n{functions}{test}"));
        out
    }

    /// The names that are not in the prelude.
    fn imports(&self, text: &str) -> String {
        let primitives = [
            "Combiner",
            "ConvDimensionNumbers",
            "ConvGeneralDilated",
            "FftType",
            "GatherDimensionNumbers",
            "GatherScatterMode",
            "PaddingDim",
            "RandomAlgorithm",
            "ScatterDimensionNumbers",
            "TransposeA",
            "TriangularSolve",
            "Window",
        ];
        let used: Vec<&str> = primitives
            .into_iter()
            .filter(|name| {
                text.contains(&format!("{name} {{")) || text.contains(&format!("{name}::"))
            })
            .collect();
        let mut out = String::from("use oxidax::prelude::*;\n");
        match used.as_slice() {
            [] => {}
            [one] => out.push_str(&format!("use oxidax::primitives::{one};\n")),
            several => {
                out.push_str(&format!("use oxidax::primitives::{{{}}};\n", several.join(", ")));
            }
        }
        out
    }

    /// The name of the function for a call, which is written unless an equal one is there.
    pub(crate) fn function(
        &mut self,
        python: &str,
        call: &TracedCall,
        body: &Body,
        extra: usize,
    ) -> Result<String, PortError> {
        let text = self.function_text(call, body, extra)?;
        let same = |function: &&Function| function.python == python && function.text == text;
        if let Some(function) = self.functions.iter().find(same) {
            return Ok(function.name.clone());
        }
        let base = names::variable(python);
        let name = names::unique(&base, &mut self.names);
        self.functions.push(Function {
            name: name.clone(),
            python: python.to_string(),
            text,
            doc: call.doc.clone(),
        });
        Ok(name)
    }

    /// `(params: &Params) -> Array { … }`.
    fn function_text(
        &mut self,
        call: &TracedCall,
        body: &Body,
        extra: usize,
    ) -> Result<String, PortError> {
        let trees: Vec<TreeNode> = call.params.iter().map(|(_, tree)| tree.clone()).collect();
        let ranges = ranges(&trees);
        let count = ranges.last().map_or(0, |range| range.end) + extra;
        if body.ins.len() != count {
            let problem = format!("{} inputs, {count} described", body.ins.len());
            return Err(PortError::file(format!("the function {}", call.name), problem));
        }
        let mut scope = Scope::default().enter(body);
        let mut parameters = Vec::new();
        for &var in &body.ins[..extra] {
            let name = scope.claim_parameter("captured", &[var]);
            let ty = self.types.text(&self.leaf_type(var));
            parameters.push(format!("{name}: &{ty}"));
            scope.set_place(var, name, true);
        }
        for ((name, tree), range) in call.params.iter().zip(ranges) {
            let vars = body.ins[range.start + extra..range.end + extra].to_vec();
            let ty = self.tree_type(tree, name, &vars);
            if matches!(ty, Ty::Static | Ty::Unit) {
                continue;
            }
            let unused = vars.iter().all(|var| !scope.uses.contains_key(var));
            let name = scope.claim_parameter(name, &vars);
            let prefix = if unused { "_" } else { "" };
            parameters.push(format!("{prefix}{name}: &{}", self.types.text(&ty)));
            let mut leaves = vars.iter().copied();
            self.register(&mut scope, &ty, tree, &name, true, &mut leaves);
        }
        self.statements(&mut scope, body)?;
        scope.pin(body);
        let result = self.result_type(&call.result, &body.outs);
        for &atom in &body.outs {
            self.comment_of(&mut scope, body, atom);
        }
        let tail = self.owned_tree(&mut scope, &result, &call.result, &body.outs);
        let returns = match &result {
            Ty::Unit | Ty::Static => String::new(),
            ty => format!(" -> {}", self.types.text(ty)),
        };
        let text = scope.finish(tail);
        Ok(format!("({}){returns} {{\n{text}\n}}\n", parameters.join(", ")))
    }

    /// The type of a tree with these variables as leaves.
    pub(crate) fn tree_type(&mut self, tree: &TreeNode, hint: &str, vars: &[Var]) -> Ty {
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        let avals = &self.avals;
        let is_key = |leaf: usize| {
            let position = leaves.iter().position(|&other| other == leaf);
            let var = position.and_then(|position| vars.get(position));
            var.is_some_and(|&var| avals[var].dtype == Dtype::Key)
        };
        self.types.of(tree, hint, &is_key)
    }

    /// The type of a result.
    pub(crate) fn result_type(&mut self, tree: &TreeNode, outs: &[Atom]) -> Ty {
        let mut leaves = Vec::new();
        tree.leaves(&mut leaves);
        let avals = &self.avals;
        let is_key = |leaf: usize| {
            let position = leaves.iter().position(|&other| other == leaf);
            let var = position.and_then(|position| outs.get(position)?.var());
            var.is_some_and(|var| avals[var].dtype == Dtype::Key)
        };
        self.types.of(tree, "output", &is_key)
    }

    /// Brings a value and its parts into scope.
    pub(crate) fn register(
        &self,
        scope: &mut Scope,
        ty: &Ty,
        tree: &TreeNode,
        text: &str,
        is_ref: bool,
        leaves: &mut dyn Iterator<Item = Var>,
    ) {
        let mut all = Vec::new();
        self.register_parts(scope, ty, tree, text, is_ref, leaves, &mut all);
    }

    #[allow(clippy::too_many_arguments, reason = "the state of one recursion")]
    fn register_parts(
        &self,
        scope: &mut Scope,
        ty: &Ty,
        tree: &TreeNode,
        text: &str,
        is_ref: bool,
        leaves: &mut dyn Iterator<Item = Var>,
        all: &mut Vec<Var>,
    ) {
        let start = all.len();
        let mut part = |ty: &Ty, tree: &TreeNode, text: String, all: &mut Vec<Var>| {
            self.register_parts(scope, ty, tree, &text, false, leaves, all);
        };
        match (ty, tree) {
            (Ty::Array | Ty::Key, TreeNode::Leaf(_)) => {
                if let Some(var) = leaves.next() {
                    scope.set_place(var, text, is_ref);
                    all.push(var);
                }
                return;
            }
            (Ty::Struct(index), TreeNode::Dict(fields) | TreeNode::Struct { fields, .. }) => {
                let names = &self.types.structs[*index].fields;
                for ((name, ty), (_, tree)) in names.iter().zip(fields) {
                    part(ty, tree, format!("{text}.{name}"), all);
                }
            }
            (Ty::Tuple(types), TreeNode::Tuple(items) | TreeNode::List(items)) => {
                let mut number = 0;
                for (ty, tree) in types.iter().zip(items) {
                    if *ty != Ty::Static {
                        part(ty, tree, format!("{text}.{number}"), all);
                        number += 1;
                    }
                }
            }
            (Ty::Vec(ty, _), TreeNode::List(items)) => {
                for (number, tree) in items.iter().enumerate() {
                    part(ty, tree, format!("{text}[{number}]"), all);
                }
            }
            _ => return,
        }
        let leaves = all[start..].to_vec();
        let aggregate = Aggregate { leaves, ty: ty.clone(), text: text.to_string(), is_ref };
        scope.add_aggregate(aggregate);
    }

    /// An argument by reference.
    pub(crate) fn argument(
        &self,
        scope: &mut Scope,
        ty: &Ty,
        tree: &TreeNode,
        atoms: &[Atom],
    ) -> String {
        if let ([atom], TreeNode::Leaf(_)) = (atoms, tree) {
            return scope.reference(*atom, &self.avals);
        }
        let vars: Option<Vec<Var>> = atoms.iter().map(|atom| atom.var()).collect();
        let place = vars.and_then(|vars| scope.find_aggregate(&vars, ty).cloned());
        match place {
            Some(Aggregate { text, is_ref: true, .. }) => text,
            Some(Aggregate { text, .. }) => format!("&{text}"),
            None => format!("&{}", self.built(scope, ty, tree, &mut atoms.iter(), &[])),
        }
    }

    /// A result that is owned.
    pub(crate) fn owned_tree(
        &self,
        scope: &mut Scope,
        ty: &Ty,
        tree: &TreeNode,
        atoms: &[Atom],
    ) -> String {
        let mut leaves = atoms.iter();
        self.built(scope, ty, tree, &mut leaves, atoms)
    }

    fn built(
        &self,
        scope: &mut Scope,
        ty: &Ty,
        tree: &TreeNode,
        leaves: &mut std::slice::Iter<'_, Atom>,
        movable: &[Atom],
    ) -> String {
        let mut numbers = Vec::new();
        tree.leaves(&mut numbers);
        let next: Option<Vec<Var>> =
            leaves.as_slice().iter().take(numbers.len()).map(|atom| atom.var()).collect();
        let found = next.and_then(|vars| scope.find_aggregate(&vars, ty).cloned());
        if let (Some(found), false) = (found, numbers.is_empty()) {
            for _ in 0..numbers.len() {
                leaves.next();
            }
            return format!("{}.clone()", found.text);
        }
        match (ty, tree) {
            (Ty::Array | Ty::Key, TreeNode::Leaf(_)) => match leaves.next() {
                Some(&atom) => {
                    // The last of several uses moves the value.
                    let last = movable.contains(&atom) && !leaves.as_slice().contains(&atom);
                    scope.owned(atom, &self.avals, last)
                }
                None => "()".into(),
            },
            (Ty::Struct(index), TreeNode::Dict(fields) | TreeNode::Struct { fields, .. }) => {
                let def = &self.types.structs[*index];
                let mut parts = Vec::new();
                for ((name, ty), (_, tree)) in def.fields.iter().zip(fields) {
                    if *ty == Ty::Static {
                        continue;
                    }
                    let value = self.built(scope, ty, tree, leaves, movable);
                    parts.push(match value == *name {
                        true => value,
                        false => format!("{name}: {value}"),
                    });
                }
                format!("{} {{ {} }}", def.name, parts.join(", "))
            }
            (Ty::Tuple(types), TreeNode::Tuple(items) | TreeNode::List(items)) => {
                let mut parts = Vec::new();
                for (ty, tree) in types.iter().zip(items) {
                    if *ty != Ty::Static {
                        parts.push(self.built(scope, ty, tree, leaves, movable));
                    }
                }
                match parts.as_slice() {
                    [one] => format!("({one},)"),
                    parts => format!("({})", parts.join(", ")),
                }
            }
            (Ty::Vec(ty, _), TreeNode::List(items)) => {
                let parts: Vec<String> =
                    items.iter().map(|tree| self.built(scope, ty, tree, leaves, movable)).collect();
                format!("vec![{}]", parts.join(", "))
            }
            _ => "()".into(),
        }
    }
}

/// Lints of Clippy that the signature of a ported function breaks.
fn allowances(text: &str) -> String {
    let signature = text.split_once('{').map_or(text, |(signature, _)| signature);
    let mut out = String::new();
    if signature.contains(": &Vec<") {
        out.push_str("#[allow(clippy::ptr_arg, reason = \"transforms take trees\")]\n");
    }
    if signature.matches(": &").count() > 7 {
        out.push_str("#[allow(clippy::too_many_arguments, reason = \"as in Python\")]\n");
    }
    out
}

fn documentation(doc: &str, python: &str) -> String {
    match doc.trim() {
        "" => format!("/// `{python}` of the Python program.\n"),
        doc => wrapped("/// ", doc),
    }
}
