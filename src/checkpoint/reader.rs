//! Loading checkpoints into trees, with rules for names, layouts and dtypes.

use super::contents::Contents;
use super::fault::{Fault, Read, abridged, listed, refused};
use super::header::Entry;
use super::leaf_name;
use super::object_storage::storage_of;
use super::rename::Rename;
use super::span;
use crate::core::{Array, Aval, DType, Error, HostArray, Loc, NamedSharding, bind1, catch};
use crate::optim::Mask;
use crate::parallel::{device_put, make_array_from_callback};
use crate::primitives::{ConvertElementType, convert_element_type, transpose};
use crate::tree::{self, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Loads a checkpoint into a tree like `template`, on the default device. Equivalent to [`open`]
/// without rules.
///
/// A leaf is sharded like its counterpart in the template. Of a sharded leaf, a process reads the
/// bytes that its devices need, and verifies them.
///
/// Every leaf of the template must be stored with its shape and dtype, and no other array may be
/// stored. The template's elements are not used, so a tree of types from `eval_shape` is
/// sufficient.
///
/// # Errors
/// Errors of [`open`] and [`Reader::load`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let template = eval_shape(|| nn::Linear::new(random::key(0), 784, 10), ())?;
/// let model = checkpoint::load("linear.safetensors", &template)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn load<T: Tree>(path: impl AsRef<Path>, template: &T) -> Result<T, Error> {
    open(path)?.load(template)
}

/// Loads every array of a checkpoint by name, on the default device. Use it for files of unknown
/// structure.
///
/// # Errors
/// Errors of [`open`] and [`Reader::arrays`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// for (name, array) in checkpoint::arrays("model.safetensors")? {
///     println!("{name}: {}", array.aval());
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn arrays(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>, Error> {
    open(path)?.arrays()
}

/// Opens a checkpoint for loading with rules. `path` is one of
/// - a safetensors file,
/// - a model in several files: its index (`model.safetensors.index.json`), or the folder with the
///   index or `model.safetensors`,
/// - one step of a [`Folder`](super::Folder), whose checksums are verified during reading.
///
/// With the feature `remote`, `gs://…` and `s3://…` are read like paths, by ranges of bytes.
///
/// Only headers are read. Files listed in an index must be in the index's folder.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read. [`Error::Checkpoint`] if it is not a safetensors file or
/// an index, is damaged, or if two files contain arrays of one name.
///
/// ```no_run
/// use oxidax::prelude::*;
/// #[derive(Tree)]
/// struct Block { norm: nn::LayerNorm, up: nn::Linear }
/// # let template: Vec<Block> = Vec::new();
///
/// let blocks = checkpoint::open("bert-base/")?
///     .rename("bert.*", "*")
///     .rename("encoder.layer.*.intermediate.dense.*", "[*].up.*")
///     .rename("encoder.layer.*.output.LayerNorm.weight", "[*].norm.scale")
///     .rename("encoder.layer.*.output.LayerNorm.bias", "[*].norm.bias")
///     .transpose("*.up.weight", [1, 0]) // stored [out, in]
///     .ignore(["cls.*", "embeddings.*"])
///     .load(&template)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "VarBuilder")]
#[doc(alias = "SafetensorsStore")]
pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
    let (storage, path) = storage_of(path.as_ref())?;
    Ok(Reader::of(Contents::open(&storage, &path)?))
}

/// An open checkpoint, and the rules that assign its arrays to leaves. Created by [`open`].
///
/// Without rules an array belongs to the leaf whose path equals its name. In patterns `*` matches
/// any text, including dots, brackets and the empty text. Other characters match themselves.
pub struct Reader {
    contents: Contents,
    renames: Vec<Rename>,
    transposed: Vec<(Mask, Vec<usize>)>,
    converted: Option<Mask>,
    kept: Option<Mask>,
    ignored: Option<Mask>,
    only: Option<Mask>,
    /// Invalid rules, reported when something is loaded.
    invalid_rules: Vec<String>,
}

/// Source of a leaf's elements.
enum LeafSource<'a> {
    /// The template's elements are kept.
    Template,
    /// The array of this name in the files.
    Stored(&'a str, &'a Entry),
}

impl Reader {
    pub(super) fn of(contents: Contents) -> Reader {
        Reader {
            contents,
            renames: Vec::new(),
            transposed: Vec::new(),
            converted: None,
            kept: None,
            ignored: None,
            only: None,
            invalid_rules: Vec::new(),
        }
    }

    pub(super) fn into_contents(self) -> Contents {
        self.contents
    }

    /// Renames arrays whose name matches `pattern` to `replacement`. Each star of the replacement
    /// stands for the text matched by the pattern's star of the same number: `rename("h.*.ln_1.*",
    /// "blocks[*].norm.*")`.
    ///
    /// Rules apply in order, each to the name returned by the previous one.
    #[must_use]
    pub fn rename(mut self, pattern: &str, replacement: &str) -> Reader {
        match Rename::new(pattern, replacement) {
            Ok(rule) => self.renames.push(rule),
            Err(why) => self.invalid_rules.push(why),
        }
        self
    }

    /// Loads leaves whose path matches with permuted axes: axis `i` of the leaf is axis `axes[i]`
    /// of the stored array. Use `[1, 0]` for the `[out, in]` weights of PyTorch's linear layers,
    /// and `[2, 3, 1, 0]` for the `[out, in, height, width]` weights of its convolutions. The last
    /// matching rule wins.
    #[must_use]
    pub fn transpose(mut self, pattern: &str, axes: impl IntoIterator<Item = usize>) -> Reader {
        let axes: Vec<usize> = axes.into_iter().collect();
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..axes.len()) {
            self.transposed.push((Mask::paths([pattern]), axes))
        } else {
            let why = format!("transpose `{pattern}`: {axes:?} is not a permutation of the axes");
            self.invalid_rules.push(why);
        }
        self
    }

    /// Converts leaves whose path matches to the template's dtype, such as published `f16` weights
    /// for a model in `f32`. Floats convert to floats and complex numbers to complex numbers. Other
    /// conversions are errors.
    #[must_use]
    pub fn convert<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.converted = Some(either(self.converted, patterns));
        self
    }

    /// Keeps the template's elements for leaves whose path matches if no array is stored for them,
    /// such as a new head on a pretrained model.
    #[must_use]
    pub fn keep<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.kept = Some(either(self.kept, patterns));
        self
    }

    /// Allows arrays whose name (after renaming) matches to belong to no leaf.
    #[must_use]
    #[doc(alias = "strict")]
    pub fn ignore<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.ignored = Some(either(self.ignored, patterns));
        self
    }

    /// Loads only leaves whose path matches. Other leaves keep the template's elements, and arrays
    /// that belong to no such leaf are ignored.
    #[must_use]
    pub fn only<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.only = Some(either(self.only, patterns));
        self
    }

    /// Returns the stored types of the arrays by name, after renaming. Arrays with a dtype that
    /// oxidax does not have are left out.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if two arrays are renamed to one name, or a rule is invalid.
    pub fn types(&self) -> Result<BTreeMap<String, Aval>, Error> {
        let named = self.named()?;
        let aval = |stored: &str| self.contents.entry(stored).and_then(Entry::aval);
        Ok(named.into_iter().filter_map(|(name, stored)| Some((name, aval(stored)?))).collect())
    }

    /// Loads every array by name, after renaming and transposing.
    ///
    /// # Errors
    /// As [`Reader::types`], and [`Error::Checkpoint`] if an array is damaged or has a dtype that
    /// oxidax does not have. [`Error::Io`] if a file cannot be read.
    pub fn arrays(&self) -> Result<BTreeMap<String, Array>, Error> {
        let mut arrays = BTreeMap::new();
        for (name, stored) in self.named()? {
            let Some(entry) = self.contents.entry(stored) else { continue };
            let Some(aval) = entry.aval() else {
                let message = format!(
                    "`{}` has the type {entry}, which oxidax does not have",
                    abridged(&name)
                );
                return Err(refused(&self.contents.path, message));
            };
            let shape = self.shape(&name, &aval).map_err(|why| {
                let message = format!("`{}` is {aval}: {why}", abridged(&name));
                refused(&self.contents.path, message)
            })?;
            let array = self.array(&name, stored, entry, &aval.with_shape(shape))?;
            arrays.insert(name, array);
        }
        Ok(arrays)
    }

    /// Loads the arrays into a tree like `template`: with the sharding of the template's leaf, else
    /// on the default device, in the memory of the leaf.
    ///
    /// The template's structure and static fields are kept. Its elements are used only for leaves
    /// selected by [`keep`](Reader::keep) or excluded by [`only`](Reader::only).
    ///
    /// # Errors
    /// [`Error::Checkpoint`] listing the leaves that are missing or have another shape or dtype and
    /// the arrays that belong to no leaf, or naming a damaged array. [`Error::Io`] if a file cannot
    /// be read.
    #[track_caller]
    pub fn load<T: Tree>(&self, template: &T) -> Result<T, Error> {
        let _span = span("load", Loc::caller());
        let leaves = self.read(&tree::paths(template), tree::leaves(template))?;
        Ok(tree::unflatten(template, leaves))
    }

    /// Loads a tree's leaves, and distinguishes damage from other errors.
    pub(super) fn read(&self, paths: &[String], leaves: Vec<Array>) -> Read<Vec<Array>> {
        let named = self.named()?;
        let sources = self.leaf_sources(&named, paths, &leaves)?;
        let mut loaded = Vec::with_capacity(leaves.len());
        for ((path, leaf), source) in paths.iter().zip(leaves).zip(sources) {
            let name = leaf_name(path);
            loaded.push(match source {
                LeafSource::Template => leaf,
                LeafSource::Stored(stored, entry) => match leaf.sharding() {
                    Some(sharding) if self.is_stored_as(name, entry, leaf.aval()) => {
                        self.shards(stored, entry, leaf.aval(), &sharding)?
                    }
                    Some(sharding) => {
                        device_put(&self.array(name, stored, entry, leaf.aval())?, sharding)?
                    }
                    None => {
                        let array = self.array(name, stored, entry, leaf.aval())?;
                        device_put(&array, leaf.memory_kind())?
                    }
                },
            });
        }
        Ok(loaded)
    }

    /// Returns the stored name for each name after renaming.
    fn named(&self) -> Result<BTreeMap<String, &str>, Error> {
        let path = &self.contents.path;
        if !self.invalid_rules.is_empty() {
            return Err(refused(path, self.invalid_rules.join("\n  ")));
        }
        let mut named: BTreeMap<String, &str> = BTreeMap::new();
        for stored in self.contents.names() {
            let first = stored.to_owned();
            let name =
                self.renames.iter().fold(first, |name, rule| rule.apply(&name).unwrap_or(name));
            if let Some(other) = named.get(&name) {
                let message = format!(
                    "`{}` and `{}` are both renamed to `{}`",
                    abridged(other),
                    abridged(stored),
                    abridged(&name)
                );
                return Err(refused(path, message));
            }
            named.insert(name, stored);
        }
        Ok(named)
    }

    /// Returns the source of every leaf, or one error that lists all mismatches.
    fn leaf_sources<'a>(
        &'a self,
        named: &BTreeMap<String, &'a str>,
        paths: &[String],
        leaves: &[Array],
    ) -> Result<Vec<LeafSource<'a>>, Error> {
        let mut sources = Vec::with_capacity(leaves.len());
        let mut used = BTreeSet::new();
        let mut mismatches = Mismatches::default();
        for (path, leaf) in paths.iter().zip(leaves) {
            let (name, aval) = (leaf_name(path), leaf.aval());
            let is_selected = fits(&self.only, name, aval).unwrap_or(true);
            let array = named.get_key_value(name).filter(|_| is_selected);
            let is_kept = !is_selected || fits(&self.kept, name, aval).unwrap_or(false);
            match array {
                Some((key, stored)) => {
                    used.insert(key.as_str());
                    let entry = self.contents.entry(stored).expect("names come from the entries");
                    if let Err(why) = self.expect_fit(name, entry, aval, &mut mismatches) {
                        let renamed = if *stored == name {
                            String::new()
                        } else {
                            format!(" (stored as `{}`)", abridged(stored))
                        };
                        mismatches.lines.push(format!("leaf `{name}`{renamed} {why}"));
                    }
                    sources.push(LeafSource::Stored(stored, entry));
                }
                None if is_kept && leaf.is_traced() => {
                    let what = "cannot be kept: the template has only its type";
                    mismatches.lines.push(format!("leaf `{name}` ({}) {what}", aval.strong()));
                }
                None if is_kept => sources.push(LeafSource::Template),
                None => {
                    mismatches.missing = true;
                    mismatches.lines.push(format!("leaf `{name}` ({}) is missing", aval.strong()));
                }
            }
        }
        if self.only.is_none() {
            for (name, stored) in named.iter().filter(|(name, _)| !used.contains(name.as_str())) {
                let entry = self.contents.entry(stored).expect("names come from the entries");
                let any = Aval::new(entry.dtype.unwrap_or(DType::U8), entry.shape.clone());
                if !fits(&self.ignored, name, &any).unwrap_or(false) {
                    mismatches.left_over = true;
                    mismatches
                        .lines
                        .push(format!("`{}` ({entry}) belongs to no leaf", abridged(name)));
                }
            }
        }
        if mismatches.lines.is_empty() {
            Ok(sources)
        } else {
            Err(refused(&self.contents.path, mismatches.message()))
        }
    }

    /// Returns an error message if the stored array cannot become a leaf of this type.
    fn expect_fit(
        &self,
        path: &str,
        entry: &Entry,
        template_aval: &Aval,
        mismatches: &mut Mismatches,
    ) -> Result<(), String> {
        let expected = template_aval.strong();
        let Some(found) = entry.aval() else {
            return Err(format!(
                "has the type {entry}, which oxidax does not have, expected {expected}"
            ));
        };
        let shape = self.shape(path, &found).map_err(|why| format!("is {found}: {why}"))?;
        let transposed = self.axes(path, &found).map_or("", |_| " after transposing");
        let found = found.with_shape(shape);
        if found.shape != expected.shape {
            let reversed = found.shape.iter().rev().eq(expected.shape.iter());
            mismatches.reversed |= reversed && found.rank() == 2 && transposed.is_empty();
            return Err(format!("is {found}{transposed}, expected {expected}"));
        }
        if found.dtype == expected.dtype {
            return Ok(());
        }
        let convertible = found.dtype.is_float() && expected.dtype.is_float()
            || found.dtype.is_complex() && expected.dtype.is_complex();
        match fits(&self.converted, path, template_aval).unwrap_or(false) {
            true if convertible => Ok(()),
            true => Err(format!("is {found}, which cannot be converted to {expected}")),
            false => {
                mismatches.convertible |= convertible;
                Err(format!("is {found}{transposed}, expected {expected}"))
            }
        }
    }

    fn axes(&self, path: &str, aval: &Aval) -> Option<&[usize]> {
        let rule = self.transposed.iter().rev().find(|(mask, _)| mask.contains(path, aval))?;
        Some(&rule.1)
    }

    /// Returns the shape of a leaf stored with the type `found`, after transposing.
    fn shape(&self, path: &str, found: &Aval) -> Result<Vec<usize>, String> {
        let Some(axes) = self.axes(path, found) else { return Ok(found.shape.to_vec()) };
        if axes.len() == found.rank() {
            Ok(axes.iter().map(|&axis| found.shape[axis]).collect())
        } else {
            Err(format!("transposing by {axes:?} takes {} axes", axes.len()))
        }
    }

    /// Returns true if the elements are stored as the leaf has them, not transposed or converted.
    fn is_stored_as(&self, path: &str, entry: &Entry, template_aval: &Aval) -> bool {
        let is_transposed =
            |found: &Aval| self.axes(path, found).is_some_and(|axes| !axes.is_sorted());
        entry
            .aval()
            .is_some_and(|found| found.dtype == template_aval.dtype && !is_transposed(&found))
    }

    /// Reads the shards that this process's devices need.
    fn shards(
        &self,
        stored: &str,
        entry: &Entry,
        template_aval: &Aval,
        sharding: &NamedSharding,
    ) -> Read<Array> {
        let found = entry.aval().expect("types were compared");
        let mut failed = None;
        let array = make_array_from_callback(&found, sharding, |slice| {
            let bytes = self.contents.read_slice(stored, slice).map_err(|fault| {
                // The classification as damage is kept beside the error.
                failed = Some(fault.damage);
                fault.error
            })?;
            let shape: Vec<usize> = slice.iter().map(std::ops::Range::len).collect();
            HostArray::from_bytes(bytes, found.with_shape(shape))
        });
        let array = array.map_err(|error| Fault { error, damage: failed.unwrap_or(false) })?;
        if !template_aval.weak {
            return Ok(array);
        }
        let weaken = ConvertElementType { dtype: template_aval.dtype, weak: true };
        Ok(catch(|| bind1(weaken, [&array]))?)
    }

    /// Reads an array and converts it to a leaf of type `template_aval`. All elements reach a
    /// device here.
    fn array(&self, path: &str, stored: &str, entry: &Entry, template_aval: &Aval) -> Read<Array> {
        let found = entry.aval().expect("types were compared");
        let bytes = self.contents.read(stored)?;
        let array = Array::from_bytes(&bytes, found.dtype, &found.shape)?;
        drop(bytes);
        let array = catch(|| {
            let array =
                self.axes(path, &found).map_or(array.clone(), |axes| transpose(&array, axes));
            let array = if array.dtype() == template_aval.dtype {
                array
            } else {
                convert_element_type(&array, template_aval.dtype)
            };
            match template_aval.weak {
                // Weak types are restored, because they promote differently from strong ones.
                true => {
                    bind1(ConvertElementType { dtype: template_aval.dtype, weak: true }, [&array])
                }
                false => array,
            }
        });
        Ok(array?)
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arrays = self.contents.names().count();
        write!(f, "Reader({}: {arrays} arrays)", self.contents.path.display())
    }
}

/// Mismatches between a template and a checkpoint, and the rules that could resolve them.
#[derive(Default)]
struct Mismatches {
    lines: Vec<String>,
    missing: bool,
    left_over: bool,
    reversed: bool,
    convertible: bool,
}

impl Mismatches {
    fn message(self) -> String {
        let remedies = [
            (self.missing && self.left_over, "`Reader::rename` maps stored names to leaf paths"),
            (self.missing, "`Reader::keep` keeps the template's elements"),
            (self.left_over, "`Reader::ignore` ignores stored arrays"),
            (
                self.reversed,
                "`Reader::transpose(pattern, [1, 0])` loads arrays stored as [out, in]",
            ),
            (self.convertible, "`Reader::convert` converts to the template's dtype"),
        ];
        let mut message = listed(self.lines);
        for (_, remedy) in remedies.iter().filter(|(fits, _)| *fits) {
            message.push_str("\n  help: ");
            message.push_str(remedy);
        }
        message
    }
}

fn either<S: Into<String>>(mask: Option<Mask>, patterns: impl IntoIterator<Item = S>) -> Mask {
    let more = Mask::paths(patterns);
    match mask {
        Some(mask) => mask.or(more),
        None => more,
    }
}

fn fits(mask: &Option<Mask>, path: &str, aval: &Aval) -> Option<bool> {
    mask.as_ref().map(|mask| mask.contains(path, aval))
}
