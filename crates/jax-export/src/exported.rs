//! [`Exported`]: a function that `jax.export` has serialized.

use crate::abstract_value::{AbstractValue, JaxDType};
use crate::dimension::Dimension;
use crate::error::{Error, Result};
use crate::flatbuffer::{Buffer, Table};
use crate::sharding::{MeshShape, Sharding};
use crate::tree::PyTreeDef;
use std::collections::BTreeSet;

/// The versions of the format that this crate reads: from December 2023, when the first one that
/// JAX itself still reads was made.
const VERSIONS: std::ops::RangeInclusive<u16> = 2..=11;

/// Number of derivatives of derivatives at which a file is refused.
const MAX_ORDER: usize = 16;

/// A function that `jax.export` has serialized.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Exported {
    /// The version that the file states. Files of versions from 4 on state 3.
    pub version: u16,
    /// The name of the Python function.
    pub name: String,
    /// The structure of the arguments: a tuple of the positional ones, and a dictionary of those
    /// with keywords.
    pub input_tree: PyTreeDef,
    /// The types of the arguments' leaves.
    pub inputs: Vec<AbstractValue>,
    /// The structure of the result.
    pub output_tree: PyTreeDef,
    /// The types of the result's leaves.
    pub outputs: Vec<AbstractValue>,
    /// The number of devices that the function runs on.
    pub devices: u32,
    /// The shardings of the arguments' leaves; `None` if unspecified.
    pub input_shardings: Vec<Option<Sharding>>,
    /// The shardings of the result's leaves.
    pub output_shardings: Vec<Option<Sharding>>,
    /// The platforms that it was lowered for: `cpu`, `tpu`, `cuda`, `rocm`. The module has an
    /// argument for the index of the platform if there are several.
    pub platforms: Vec<String>,
    /// The Python types of effects whose order matters; the module has a token for each.
    pub ordered_effects: Vec<String>,
    /// The Python types of other effects.
    pub unordered_effects: Vec<String>,
    /// The checks that the program turned off when it exported the function.
    pub disabled_checks: Vec<DisabledCheck>,
    /// The version of the convention by which the module is called.
    pub calling_convention: u16,
    /// The indices of the leaves that are arguments of the module; the function does not use the
    /// others.
    pub used_inputs: Vec<usize>,
    /// True if the module needs constants that name the platform or the dimension variables.
    pub uses_global_constants: bool,
    /// The module: a StableHLO portable artifact in MLIR's bytecode.
    pub module: Vec<u8>,
    /// The function's vector-Jacobian product, if it was exported. It takes the arguments and the
    /// cotangents of the results, and returns the cotangents of the arguments.
    pub vjp: Option<Box<Exported>>,
}

/// A check that was turned off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisabledCheck {
    /// That the function runs on a platform that it was lowered for.
    Platform,
    /// That a custom call with this target is stable.
    CustomCall(String),
    /// That sizes satisfy the constraints of dimension variables.
    ShapeAssertions,
}

/// Fields of `Exported` in `jax/_src/export/serialization.fbs`.
pub(crate) mod field {
    pub(crate) const VERSION: usize = 0;
    pub(crate) const NAME: usize = 1;
    pub(crate) const INPUT_TREE: usize = 2;
    pub(crate) const INPUTS: usize = 3;
    pub(crate) const OUTPUT_TREE: usize = 4;
    pub(crate) const OUTPUTS: usize = 5;
    pub(crate) const DEVICES_SHORT: usize = 6;
    pub(crate) const INPUT_SHARDINGS: usize = 7;
    pub(crate) const OUTPUT_SHARDINGS: usize = 8;
    pub(crate) const PLATFORMS: usize = 9;
    pub(crate) const ORDERED_EFFECTS: usize = 10;
    pub(crate) const UNORDERED_EFFECTS: usize = 11;
    pub(crate) const DISABLED_CHECKS: usize = 12;
    pub(crate) const MODULE: usize = 13;
    pub(crate) const CALLING_CONVENTION: usize = 14;
    pub(crate) const USED_INPUTS: usize = 15;
    pub(crate) const USES_GLOBAL_CONSTANTS: usize = 16;
    pub(crate) const VJP: usize = 17;
    pub(crate) const DEVICES: usize = 18;
    pub(crate) const UNIQUE_TYPES: usize = 19;
    pub(crate) const UNIQUE_MESHES: usize = 20;
    pub(crate) const UNIQUE_SHARDINGS: usize = 21;
    pub(crate) const INPUT_TYPE_INDICES: usize = 22;
    pub(crate) const OUTPUT_TYPE_INDICES: usize = 23;
    pub(crate) const INPUT_SHARDING_INDICES: usize = 24;
    pub(crate) const OUTPUT_SHARDING_INDICES: usize = 25;
}

impl Exported {
    /// Reads what `Exported.serialize()` has returned.
    ///
    /// Takes time and memory proportional to the length of `bytes`, whatever they contain.
    ///
    /// # Errors
    /// The bytes are damaged, or are of a version that this crate does not know.
    ///
    /// ```
    /// use oxidax_jax_export::Exported;
    /// let error = Exported::read(b"no function").unwrap_err();
    /// assert!(error.to_string().starts_with("exported function, byte "), "{error}");
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Exported> {
        let buffer = Buffer::new(bytes);
        Exported::read_table(buffer.root()?, MAX_ORDER)
    }

    fn read_table(table: Table<'_>, order: usize) -> Result<Exported> {
        let fail = |message: String| Err(Error::at(table.at(), message));
        let missing = |what: &str| Error::at(table.at(), format!("it has no {what}"));
        let version = table.u16(field::VERSION)?;
        if !VERSIONS.contains(&version) {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            return fail(format!(
                "it has version {version} of the format, and versions {first} to {last} are known"
            ));
        }
        let tree = |number, what| -> Result<PyTreeDef> {
            PyTreeDef::read(table.table(number)?.ok_or_else(|| missing(what))?)
        };
        let (input_tree, output_tree) = (
            tree(field::INPUT_TREE, "tree of arguments")?,
            tree(field::OUTPUT_TREE, "tree of results")?,
        );
        let types = Shared::of(table)?;
        let inputs = types.arrays(table, field::INPUT_TYPE_INDICES, field::INPUTS)?;
        let outputs = types.arrays(table, field::OUTPUT_TYPE_INDICES, field::OUTPUTS)?;
        for (what, tree, leaves) in
            [("arguments", &input_tree, inputs.len()), ("results", &output_tree, outputs.len())]
        {
            let found = tree.leaves();
            if found != leaves {
                return fail(format!(
                    "its {what} have {leaves} types, and a tree of {found} leaves"
                ));
            }
        }
        let input_shardings =
            types.shardings(table, field::INPUT_SHARDING_INDICES, field::INPUT_SHARDINGS)?;
        let output_shardings =
            types.shardings(table, field::OUTPUT_SHARDING_INDICES, field::OUTPUT_SHARDINGS)?;
        let effects = |number| -> Result<Vec<String>> {
            let effects = table.tables(number)?.into_iter();
            effects.map(|effect| effect.text(0).map(Option::unwrap_or_default)).collect()
        };
        let used_inputs: Vec<usize> =
            table.u16s(field::USED_INPUTS)?.into_iter().map(usize::from).collect();
        if let Some(index) = used_inputs.iter().find(|index| **index >= inputs.len()) {
            return fail(format!("it uses argument {index} of {}", inputs.len()));
        }
        let vjp = match (table.table(field::VJP)?, order.checked_sub(1)) {
            (None, _) => None,
            (Some(_), None) => return fail(format!("it has derivatives beyond order {MAX_ORDER}")),
            (Some(vjp), Some(order)) => Some(Box::new(Exported::read_table(vjp, order)?)),
        };
        let devices = match table.u32(field::DEVICES)? {
            Some(devices) if devices != 0 => devices,
            _ => table.u16(field::DEVICES_SHORT)?.into(),
        };
        Ok(Exported {
            version,
            name: table.text(field::NAME)?.unwrap_or_default(),
            input_tree,
            inputs,
            output_tree,
            outputs,
            devices,
            input_shardings,
            output_shardings,
            platforms: table.texts(field::PLATFORMS)?,
            ordered_effects: effects(field::ORDERED_EFFECTS)?,
            unordered_effects: effects(field::UNORDERED_EFFECTS)?,
            disabled_checks: disabled_checks(table)?,
            calling_convention: table.u16(field::CALLING_CONVENTION)?,
            used_inputs,
            uses_global_constants: table.u8(field::USES_GLOBAL_CONSTANTS)? != 0,
            module: table.bytes(field::MODULE)?.ok_or_else(|| missing("module"))?.to_vec(),
            vjp,
        })
    }

    /// Returns the dimension variables of the arguments, each once, in order of their names.
    pub fn dimension_variables(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for dimension in self.inputs.iter().flat_map(|input| &input.shape) {
            if let Dimension::Symbolic(expression) = dimension {
                expression.for_each_variable(&mut |name| {
                    names.insert(name.to_owned());
                });
            }
        }
        names.into_iter().collect()
    }
}

fn disabled_checks(table: Table<'_>) -> Result<Vec<DisabledCheck>> {
    let checks = table.tables(field::DISABLED_CHECKS)?.into_iter();
    let read = |check: Table<'_>| match check.u8(0)? {
        0 => Ok(DisabledCheck::Platform),
        1 => Ok(DisabledCheck::CustomCall(check.text(1)?.unwrap_or_default())),
        2 => Ok(DisabledCheck::ShapeAssertions),
        kind => Err(Error::at(check.at(), format!("it disables the unknown check {kind}"))),
    };
    checks.map(read).collect()
}

/// Types and shardings that several leaves have.
struct Shared {
    arrays: Vec<(AbstractValue, usize)>,
    meshes: Vec<(MeshShape, usize)>,
    shardings: Vec<(Sharding, usize)>,
}

impl Shared {
    fn of(table: Table<'_>) -> Result<Shared> {
        let arrays = table.tables(field::UNIQUE_TYPES)?.into_iter();
        let arrays = arrays.map(|array| table.costed(|| AbstractValue::read(array)));
        let arrays = arrays.collect::<Result<_>>()?;
        let meshes = table.tables(field::UNIQUE_MESHES)?.into_iter();
        let meshes = meshes.map(|mesh| table.costed(|| MeshShape::read(mesh)));
        let meshes: Vec<(MeshShape, usize)> = meshes.collect::<Result<_>>()?;
        let shardings = table.tables(field::UNIQUE_SHARDINGS)?.into_iter();
        let read = |sharding| table.costed(|| Sharding::read_named(sharding, &meshes));
        let shardings = shardings.map(read).collect::<Result<_>>()?;
        Ok(Shared { arrays, meshes, shardings })
    }

    /// Returns the types of leaves, of new files by their indices.
    fn arrays(&self, table: Table<'_>, indices: usize, whole: usize) -> Result<Vec<AbstractValue>> {
        let found = table.u32s(indices)?;
        if found.is_empty() {
            return table.tables(whole)?.into_iter().map(AbstractValue::read).collect();
        }
        let each = found.into_iter().map(|index| {
            let array = self.arrays.get(index as usize);
            let missing = || Error::at(table.at(), format!("there is no type {index}"));
            table.copy(array.ok_or_else(missing)?)
        });
        each.collect()
    }

    /// Returns the shardings of leaves, of new files by their indices, of which 0 is none.
    fn shardings(
        &self,
        table: Table<'_>,
        indices: usize,
        whole: usize,
    ) -> Result<Vec<Option<Sharding>>> {
        let found = table.u32s(indices)?;
        if found.is_empty() {
            let each = table.tables(whole)?.into_iter();
            return each.map(|sharding| Sharding::read(sharding, &self.meshes)).collect();
        }
        let each = found.into_iter().map(|index| {
            let Some(index) = index.checked_sub(1) else { return Ok(None) };
            let sharding = self.shardings.get(index as usize);
            let missing = || Error::at(table.at(), format!("there is no sharding {index}"));
            table.copy(sharding.ok_or_else(missing)?).map(Some)
        });
        each.collect()
    }
}

impl Exported {
    /// Returns true if the arguments are all of types that a module without dimension variables
    /// takes.
    pub fn is_static(&self) -> bool {
        let is_known =
            |array: &AbstractValue| array.shape.iter().all(|size| size.known().is_some());
        self.inputs.iter().chain(&self.outputs).all(is_known)
    }

    /// Returns true if a leaf is an array of keys of random numbers.
    pub fn has_keys(&self) -> bool {
        let mut leaves = self.inputs.iter().chain(&self.outputs);
        leaves.any(|leaf| matches!(leaf.dtype, JaxDType::Key(_)))
    }
}
