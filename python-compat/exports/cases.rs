//! The files of a function.

use anyhow::Result;
use oxidax::export::Export;
use oxidax::prelude::*;
use oxidax::tree::{PathKey, Tag, Visitor, Walk};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// The folder of the files.
pub struct Cases {
    folder: PathBuf,
    pub count: usize,
    pub derivatives: usize,
}

/// A function to be written.
pub struct Case {
    pub name: &'static str,
    pub export: Export,
    pub arguments: Leaves,
    pub results: Leaves,
    /// The gradients for the squares of all results as cotangents, in the order of the arguments.
    pub gradients: Option<Leaves>,
    /// The largest difference to JAX's results, relative to the largest number of each.
    pub tolerance: f64,
}

/// The leaves of a tree, with their paths.
#[derive(Default)]
pub struct Leaves {
    path: Vec<String>,
    leaves: Vec<(String, Array)>,
}

impl Leaves {
    pub fn of(tree: &impl Walk) -> Leaves {
        let mut leaves = Leaves::default();
        tree.walk(&mut leaves);
        leaves
    }

    /// Adds the elements to `data`. Returns paths, dtypes and shapes.
    fn write(&self, data: &mut Vec<u8>) -> Result<Vec<Value>> {
        let mut entries = Vec::new();
        for (path, array) in &self.leaves {
            let bytes = array.to_bytes()?;
            entries.push(json!({
                "path": path,
                "dtype": array.dtype().name(),
                "shape": array.shape().dims(),
                "offset": data.len(),
                "bytes": bytes.len(),
            }));
            data.extend(bytes);
        }
        Ok(entries)
    }
}

impl Visitor for Leaves {
    fn leaf(&mut self, leaf: &Array) {
        self.leaves.push((self.path.concat(), leaf.clone()));
    }
    fn tag(&mut self, _: Tag<'_>) {}
    fn enter(&mut self, key: PathKey<'_>) {
        self.path.push(match key {
            PathKey::Index(index) => format!("[{index}]"),
            PathKey::Field(name) => format!("['{name}']"),
            PathKey::Entry(key) => format!("['{key}']"),
        });
    }
    fn exit(&mut self) {
        self.path.pop();
    }
}

impl Cases {
    pub fn new(folder: &str) -> Result<Cases> {
        let folder = PathBuf::from(folder);
        fs::create_dir_all(&folder)?;
        Ok(Cases { folder, count: 0, derivatives: 0 })
    }

    pub fn add(&mut self, case: Case) -> Result<()> {
        let Case { name, export, arguments, results, gradients, tolerance } = case;
        let (mut data, path) = (Vec::new(), self.folder.join(name));
        let description = json!({
            "arguments": arguments.write(&mut data)?,
            "results": results.write(&mut data)?,
            "gradients": gradients.as_ref().map(|g| g.write(&mut data)).transpose()?,
            "tolerance": tolerance,
        });
        export.save(path.with_extension("jax_export"))?;
        fs::write(path.with_extension("json"), serde_json::to_string_pretty(&description)?)?;
        fs::write(path.with_extension("data"), data)?;
        self.count += 1;
        self.derivatives += usize::from(gradients.is_some());
        Ok(())
    }
}

/// Writes a function with its results for these arguments: `case!(cases, "name", |x: &Array| …,
/// (x))`. With `vjp`, its gradients too; with a number, another tolerance than 1e-6.
macro_rules! case {
    ($cases:expr, $name:literal, $f:expr, ($($argument:expr),*) $(, $tolerance:literal)?) => {{
        let f = oxidax::prelude::jit($f).name($name);
        let export = f.lower($(&$argument),*)?.export();
        case!(@ $cases, $name, f, export, None, ($($argument),*) $(, $tolerance)?)
    }};
    ($cases:expr, vjp $name:literal, $f:expr, ($($argument:expr),*) $(, $tolerance:literal)?) => {{
        let f = oxidax::prelude::jit($f).name($name);
        let export = f.lower($(&$argument),*)?.export().vjp_order(1);
        let (results, pullback) = oxidax::prelude::vjp($f, ($(&$argument),*));
        // That of the sum of cubes, divided by 3.
        let cotangents = oxidax::prelude::tree::mul(&results, &results);
        let gradients = Some($crate::cases::Leaves::of(&pullback(&cotangents)));
        case!(@ $cases, $name, f, export, gradients, ($($argument),*) $(, $tolerance)?)
    }};
    (@ $cases:expr, $name:literal, $f:ident, $export:ident, $gradients:expr,
     ($($argument:expr),*) $(, $tolerance:literal)?) => {{
        let results = $f.call($(&$argument),*)?;
        #[allow(unused_mut, unused_assignments, reason = "not each function has its own")]
        let mut tolerance = 1e-6;
        $(tolerance = $tolerance;)?
        $cases.add($crate::cases::Case {
            name: $name,
            export: $export,
            arguments: $crate::cases::Leaves::of(&($($argument.clone(),)*)),
            results: $crate::cases::Leaves::of(&results),
            gradients: $gradients,
            tolerance,
        })?
    }};
}

pub(crate) use case;
