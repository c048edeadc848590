//! The test that compares the generated function with JAX's results.

use crate::Options;
use crate::file::{TracedCall, TreeNode};
use crate::ir::{Body, Dtype};
use crate::names;
use crate::types::Ty;

use super::Writer;
use super::control::ranges;

impl Writer<'_> {
    pub(crate) fn parity_test(
        &mut self,
        call: &TracedCall,
        body: &Body,
        name: &str,
        options: &Options,
    ) -> String {
        let trees: Vec<TreeNode> = call.params.iter().map(|(_, tree)| tree.clone()).collect();
        let mut statements = String::new();
        let mut operands = Vec::new();
        let mut taken = std::collections::HashSet::from(["arrays", "array"].map(str::to_string));
        for ((param, tree), range) in call.params.iter().zip(ranges(&trees)) {
            let vars = body.ins[range.clone()].to_vec();
            let ty = self.tree_type(tree, param, &vars);
            if matches!(ty, Ty::Static | Ty::Unit) {
                continue;
            }
            let mut leaf = range.start;
            let value = self.loaded(&ty, tree, &mut leaf);
            let param = names::unique(&names::variable(param), &mut taken);
            statements.push_str(&format!("let {param} = {value};\n"));
            operands.push(format!("&{param}"));
        }
        let path = format!("{}{}", options.data_folder, self.file.tensors);
        let call = match operands.len() {
            1..=8 => format!(
                "let found = jit({name}).call({}).expect(\"the function compiles\");\n",
                operands.join(", ")
            ),
            _ => format!("let found = {name}({});\n", operands.join(", ")),
        };
        let complex = self
            .file
            .outputs
            .iter()
            .any(|out| matches!(Dtype::parse(&out.dtype), Some(Dtype::C64 | Dtype::C128)));
        let float = if complex { "DType::C128" } else { "DType::F64" };
        let tolerance = options.tolerance;
        format!(
            "#[cfg(test)]\nmod tests {{\nuse super::*;\n\n\
             // The largest difference from JAX's results, absolute or relative.\n\
             const TOLERANCE: f64 = {tolerance:?};\n\n\
             #[test]\nfn {name}_agrees_with_jax() {{\n\
             let path = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{path}\");\n\
             let arrays = checkpoint::arrays(path).expect(\"the file of port.py\");\n\
             let array = |name: &str| arrays[name].clone();\n\
             {statements}{call}\
             let found = tree::leaves(&found);\n\
             assert_eq!(found.len(), {n});\n\
             for (index, found) in found.iter().enumerate() {{\n\
             let expected = array(&format!(\"out.{{index}}\"));\n\
             assert_eq!(found.shape(), expected.shape(), \"result {{index}}\");\n\
             assert_eq!(found.dtype(), expected.dtype(), \"result {{index}}\");\n\
             let close = CloseOptions {{ rtol: TOLERANCE, atol: TOLERANCE, equal_nan: true }};\n\
             let (found, expected) = (found.astype({float}), expected.astype({float}));\n\
             let agrees = allclose_with(&found, &expected, close).item::<bool>();\n\
             assert!(agrees.expect(\"one value\"), \"result {{index}}: {{found}} is not \
             {{expected}}\");\n\
             }}\n}}\n}}\n",
            n = self.file.outputs.len(),
        )
    }

    /// A value of the recorded arrays.
    fn loaded(&self, ty: &Ty, tree: &TreeNode, leaf: &mut usize) -> String {
        match (ty, tree) {
            (Ty::Array, TreeNode::Leaf(_)) => {
                *leaf += 1;
                format!("array(\"in.{}\")", *leaf - 1)
            }
            (Ty::Key, TreeNode::Leaf(_)) => {
                *leaf += 1;
                format!("random::Key::from_data(array(\"in.{}\"))", *leaf - 1)
            }
            (Ty::Struct(index), TreeNode::Dict(fields) | TreeNode::Struct { fields, .. }) => {
                let def = &self.types.structs[*index];
                let mut parts = Vec::new();
                for ((name, ty), (_, tree)) in def.fields.iter().zip(fields) {
                    if *ty != Ty::Static {
                        parts.push(format!("{name}: {}", self.loaded(ty, tree, leaf)));
                    }
                }
                format!("{} {{ {} }}", def.name, parts.join(", "))
            }
            (Ty::Tuple(types), TreeNode::Tuple(items) | TreeNode::List(items)) => {
                let mut parts = Vec::new();
                for (ty, tree) in types.iter().zip(items) {
                    if *ty != Ty::Static {
                        parts.push(self.loaded(ty, tree, leaf));
                    }
                }
                match parts.as_slice() {
                    [one] => format!("({one},)"),
                    parts => format!("({})", parts.join(", ")),
                }
            }
            (Ty::Vec(ty, _), TreeNode::List(items)) => {
                let parts: Vec<String> =
                    items.iter().map(|tree| self.loaded(ty, tree, leaf)).collect();
                format!("vec![{}]", parts.join(", "))
            }
            _ => "()".into(),
        }
    }
}
