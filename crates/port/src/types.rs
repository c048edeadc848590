//! Types of arguments and results: structs for dicts, dataclasses and named tuples.

use std::collections::HashSet;

use crate::file::TreeNode;
use crate::names;

/// The Rust type of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    Array,
    Key,
    Unit,
    /// Not an array: a part of the program.
    Static,
    Struct(usize),
    Tuple(Vec<Ty>),
    Vec(Box<Ty>, usize),
}

/// A struct with `#[derive(Tree)]`.
#[derive(Debug)]
pub(crate) struct StructDef {
    pub(crate) name: String,
    /// The Python name of a class; `None` for dicts.
    class: Option<String>,
    keys: Vec<String>,
    /// Names and types.
    pub(crate) fields: Vec<(String, Ty)>,
}

/// All structs of a file.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub(crate) structs: Vec<StructDef>,
    names: HashSet<String>,
}

impl Types {
    /// The type of a tree. `hint` names its struct, `is_key` tells keys from arrays.
    pub(crate) fn of(&mut self, tree: &TreeNode, hint: &str, is_key: &dyn Fn(usize) -> bool) -> Ty {
        match tree {
            TreeNode::Leaf(index) => {
                if is_key(*index) {
                    Ty::Key
                } else {
                    Ty::Array
                }
            }
            TreeNode::None(_) => Ty::Unit,
            TreeNode::Static { .. } => Ty::Static,
            TreeNode::Tuple(items) => {
                Ty::Tuple(items.iter().map(|item| self.of(item, hint, is_key)).collect())
            }
            TreeNode::List(items) => {
                let singular = hint.strip_suffix('s').filter(|hint| hint.len() > 1);
                let hint = singular.unwrap_or(hint);
                let types: Vec<Ty> = items.iter().map(|item| self.of(item, hint, is_key)).collect();
                match types.split_first() {
                    Some((first, rest)) if rest.iter().all(|ty| ty == first) => {
                        Ty::Vec(Box::new(first.clone()), types.len())
                    }
                    _ => Ty::Tuple(types),
                }
            }
            TreeNode::Dict(fields) => self.of_fields(None, hint, fields, is_key),
            TreeNode::Struct { name, fields } => self.of_fields(Some(name), name, fields, is_key),
        }
    }

    fn of_fields(
        &mut self,
        class: Option<&str>,
        hint: &str,
        fields: &[(String, TreeNode)],
        is_key: &dyn Fn(usize) -> bool,
    ) -> Ty {
        let keys: Vec<String> = fields.iter().map(|(key, _)| key.clone()).collect();
        let types: Vec<Ty> = fields.iter().map(|(key, item)| self.of(item, key, is_key)).collect();
        let same = |def: &StructDef| {
            def.class.as_deref() == class
                && def.keys == keys
                && def.fields.iter().map(|(_, ty)| ty).eq(&types)
        };
        if let Some(index) = self.structs.iter().position(same) {
            return Ty::Struct(index);
        }
        let mut taken = HashSet::new();
        let field_names = keys.iter().map(|key| names::unique(&names::snake(key), &mut taken));
        let fields = field_names.zip(types).collect();
        let mut name = names::type_name(hint);
        if ["Array", "Key", "Tree", "Vec", "Option", "Result", "String"].contains(&name.as_str()) {
            name.push_str("Tree");
        }
        let name = names::unique(&name, &mut self.names);
        let class = class.map(str::to_string);
        self.structs.push(StructDef { name, class, keys, fields });
        Ty::Struct(self.structs.len() - 1)
    }

    /// The text of an owned type.
    pub(crate) fn text(&self, ty: &Ty) -> String {
        match ty {
            Ty::Array => "Array".into(),
            Ty::Key => "random::Key".into(),
            Ty::Unit | Ty::Static => "()".into(),
            Ty::Struct(index) => self.structs[*index].name.clone(),
            Ty::Tuple(items) => {
                let items: Vec<String> =
                    items.iter().filter(|ty| **ty != Ty::Static).map(|ty| self.text(ty)).collect();
                match items.as_slice() {
                    [one] => format!("({one},)"),
                    _ => format!("({})", items.join(", ")),
                }
            }
            Ty::Vec(item, _) => format!("Vec<{}>", self.text(item)),
        }
    }

    /// The definitions of all structs.
    pub(crate) fn definitions(&self) -> String {
        let mut out = String::new();
        for def in &self.structs {
            let source = match &def.class {
                Some(class) => format!("`{class}` of the Python program."),
                None => format!("A dict with the keys `{}`.", def.keys.join("`, `")),
            };
            out.push_str(&wrapped("/// ", &source));
            out.push_str("#[derive(Clone, Debug, Tree)]\n");
            out.push_str(&format!("pub struct {} {{\n", def.name));
            for ((name, ty), key) in def.fields.iter().zip(&def.keys) {
                if *ty == Ty::Static {
                    continue;
                }
                if name != key {
                    out.push_str(&format!("    /// `{key}`\n"));
                }
                out.push_str(&format!("    pub {name}: {},\n", self.text(ty)));
            }
            out.push_str("}\n\n");
        }
        out
    }
}

/// Text in lines of at most 100 columns with a prefix.
pub(crate) fn wrapped(prefix: &str, text: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.chars().count() + 1 + word.chars().count() > 96 {
            out.push_str(&format!("{prefix}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("{prefix}{line}\n"));
    }
    out
}
