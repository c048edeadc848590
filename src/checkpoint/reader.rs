//! Reading checkpoints into trees, by rules.

use super::contents::Contents;
use super::fault::{Read, abridged, listed, refused};
use super::header::Entry;
use super::leaf_name;
use super::rename::Rename;
use crate::core::{Array, Aval, DType, Error, bind1, catch};
use crate::optim::Mask;
use crate::parallel::device_put;
use crate::primitives::{ConvertElementType, convert_element_type, transpose};
use crate::tree::{self, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A tree like `template` with the arrays of a checkpoint, on the default device: [`open`] without rules.
///
/// A leaf whose counterpart in the template is spread over a mesh is spread likewise.
///
/// Every leaf of the template must be there with its shape and dtype, and nothing else. The
/// template's own elements are not looked at: leaves that stand for a type (what `eval_shape` gives)
/// will do.
///
/// # Errors
/// Those of [`open`] and [`Reader::load`].
///
/// ```no_run
/// use oxidax::prelude::*;
/// let template = eval_shape(|| nn::Linear::new(random::key(0), 784, 10), ())?;
/// let model = checkpoint::load("linear.safetensors", &template)?;
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn load<T: Tree>(path: impl AsRef<Path>, template: &T) -> Result<T, Error> {
    open(path)?.load(template)
}

/// Every array of a checkpoint by name, on the default device: for files whose structure is not
/// known beforehand.
///
/// # Errors
/// Those of [`open`] and [`Reader::arrays`].
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

/// Opens a checkpoint, to be loaded by rules: a safetensors file; a model in several files, by its index
/// (`model.safetensors.index.json`) or the folder in which that or `model.safetensors` lies; or one
/// step of a [`Folder`](super::Folder), whose checksums are compared as it is read.
///
/// Reads what the files say of themselves, and no elements yet. Files that an index names must lie beside it.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read; [`Error::Checkpoint`] if it is no safetensors file or no index, was
/// damaged, or if two files hold arrays of one name.
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
pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
    Ok(Reader::of(Contents::open(path.as_ref())?))
}

/// A checkpoint that is open, and the rules by which its arrays become leaves. Made by [`open`].
///
/// Without rules an array is for the leaf whose path is its name. In patterns `*` stands for any text,
/// dots and brackets included, or none; everything else for itself.
pub struct Reader {
    contents: Contents,
    renames: Vec<Rename>,
    transposed: Vec<(Mask, Vec<usize>)>,
    converted: Option<Mask>,
    kept: Option<Mask>,
    ignored: Option<Mask>,
    only: Option<Mask>,
    /// Rules that are none; told when something is loaded.
    wrong: Vec<String>,
}

/// What is done for a leaf.
enum Source<'a> {
    /// The template's own elements stay.
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
            wrong: Vec::new(),
        }
    }

    pub(super) fn into_contents(self) -> Contents {
        self.contents
    }

    /// Arrays whose name fits `pattern` are called `replacement` from here on; its stars are what the
    /// pattern's first, second, … star stood for: `rename("h.*.ln_1.*", "blocks[*].norm.*")`.
    ///
    /// Rules apply one after the other, each to what the one before made of the name.
    #[must_use]
    pub fn rename(mut self, pattern: &str, replacement: &str) -> Reader {
        match Rename::new(pattern, replacement) {
            Ok(rule) => self.renames.push(rule),
            Err(why) => self.wrong.push(why),
        }
        self
    }

    /// Leaves whose path fits are stored with their axes in another order: axis `i` of the leaf is axis
    /// `axes[i]` of the array. `[1, 0]` for the `[out, in]` of PyTorch's linear layers, `[2, 3, 1, 0]` for the
    /// `[out, in, height, width]` of its convolutions. Of several rules the last that fits counts.
    #[must_use]
    pub fn transpose(mut self, pattern: &str, axes: impl IntoIterator<Item = usize>) -> Reader {
        let axes: Vec<usize> = axes.into_iter().collect();
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        match sorted.iter().copied().eq(0..axes.len()) {
            true => self.transposed.push((Mask::paths([pattern]), axes)),
            false => {
                let why = format!("transpose `{pattern}`: {axes:?} is no order of axes from 0 on");
                self.wrong.push(why);
            }
        }
        self
    }

    /// Leaves whose path fits are converted to the template's dtype: published `f16` weights for a model in
    /// `f32`, say. Between floats, and between complex numbers; nothing else is converted.
    #[must_use]
    pub fn convert<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.converted = Some(either(self.converted, patterns));
        self
    }

    /// Leaves whose path fits stay as the template has them if there is no array for them: a new head on
    /// an old model.
    #[must_use]
    pub fn keep<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.kept = Some(either(self.kept, patterns));
        self
    }

    /// Arrays whose name (after renaming) fits need not belong to a leaf.
    #[must_use]
    #[doc(alias = "strict")]
    pub fn ignore<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.ignored = Some(either(self.ignored, patterns));
        self
    }

    /// Only leaves whose path fits are loaded. The others stay as the template has them, and arrays that belong
    /// to no such leaf are not looked at.
    #[must_use]
    pub fn only<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Reader {
        self.only = Some(either(self.only, patterns));
        self
    }

    /// The types of the arrays by name, after renaming, as they are stored. Those of a dtype that arrays cannot
    /// have are left out.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if renaming gives two arrays one name, or a rule is none.
    pub fn types(&self) -> Result<BTreeMap<String, Aval>, Error> {
        let named = self.named()?;
        let aval = |stored: &str| self.contents.entry(stored).and_then(Entry::aval);
        Ok(named.into_iter().filter_map(|(name, stored)| Some((name, aval(stored)?))).collect())
    }

    /// Every array by name, after renaming and transposing.
    ///
    /// # Errors
    /// As [`Reader::types`]; [`Error::Checkpoint`] also if an array has a dtype that arrays cannot have, or was
    /// damaged; [`Error::Io`] if a file cannot be read.
    pub fn arrays(&self) -> Result<BTreeMap<String, Array>, Error> {
        let mut arrays = BTreeMap::new();
        for (name, stored) in self.named()? {
            let Some(entry) = self.contents.entry(stored) else { continue };
            let Some(aval) = entry.aval() else {
                let message = format!("`{}` is {entry}, which arrays cannot be", abridged(&name));
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

    /// A tree like `template` with the arrays, on the default device.
    ///
    /// The template's structure and static fields are kept. Its elements matter for leaves that [`keep`](Reader::keep)
    /// or [`only`](Reader::only) leave as they are; elsewhere types will do.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] listing the leaves that are missing or of another shape or dtype, and the
    /// arrays that belong to no leaf, each with what was expected and found; or naming an array that was
    /// damaged. [`Error::Io`] if a file cannot be read.
    pub fn load<T: Tree>(&self, template: &T) -> Result<T, Error> {
        Ok(self.read(template)?)
    }

    /// The same, telling damage from what does not fit.
    pub(super) fn read<T: Tree>(&self, template: &T) -> Read<T> {
        let named = self.named()?;
        let paths = tree::paths(template);
        let leaves = tree::leaves(template);
        let sources = self.sources(&named, &paths, &leaves)?;
        let mut loaded = Vec::with_capacity(leaves.len());
        for ((path, leaf), source) in paths.iter().zip(leaves).zip(sources) {
            let name = leaf_name(path);
            loaded.push(match source {
                Source::Template => leaf,
                Source::Stored(stored, entry) => {
                    let array = self.array(name, stored, entry, leaf.aval())?;
                    match leaf.sharding() {
                        Some(sharding) => device_put(&array, sharding)?,
                        None => array,
                    }
                }
            });
        }
        let mut loaded = loaded.into_iter();
        Ok(tree::map(template, |_| loaded.next().expect("one for each leaf")))
    }

    /// The stored name for each name after renaming.
    fn named(&self) -> Result<BTreeMap<String, &str>, Error> {
        let path = &self.contents.path;
        if !self.wrong.is_empty() {
            return Err(refused(path, self.wrong.join("\n  ")));
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

    /// Where every leaf comes from, or all that does not fit.
    fn sources<'a>(
        &'a self,
        named: &BTreeMap<String, &'a str>,
        paths: &[String],
        leaves: &[Array],
    ) -> Result<Vec<Source<'a>>, Error> {
        let mut sources = Vec::with_capacity(leaves.len());
        let mut used = BTreeSet::new();
        let mut misfits = Misfits::default();
        for (path, leaf) in paths.iter().zip(leaves) {
            let (name, aval) = (leaf_name(path), leaf.aval());
            let wanted = fits(&self.only, name, aval).unwrap_or(true);
            let found = named.get_key_value(name).filter(|_| wanted);
            let kept = !wanted || fits(&self.kept, name, aval).unwrap_or(false);
            match found {
                Some((key, stored)) => {
                    used.insert(key.as_str());
                    let entry = self.contents.entry(stored).expect("names come from the entries");
                    if let Err(why) = self.expect_fit(name, entry, aval, &mut misfits) {
                        let renamed = match *stored == name {
                            true => String::new(),
                            false => format!(" (stored as `{}`)", abridged(stored)),
                        };
                        misfits.lines.push(format!("leaf `{name}`{renamed} {why}"));
                    }
                    sources.push(Source::Stored(stored, entry));
                }
                None if kept && leaf.is_traced() => {
                    let what = "is to stay as it is, and the template has only its type";
                    misfits.lines.push(format!("leaf `{name}` ({}) {what}", aval.strong()));
                }
                None if kept => sources.push(Source::Template),
                None => {
                    misfits.missing = true;
                    misfits.lines.push(format!("leaf `{name}` ({}) is missing", aval.strong()));
                }
            }
        }
        if self.only.is_none() {
            for (name, stored) in named.iter().filter(|(name, _)| !used.contains(name.as_str())) {
                let entry = self.contents.entry(stored).expect("names come from the entries");
                let any = Aval::new(entry.dtype.unwrap_or(DType::U8), entry.shape.clone());
                if !fits(&self.ignored, name, &any).unwrap_or(false) {
                    misfits.left_over = true;
                    misfits
                        .lines
                        .push(format!("`{}` ({entry}) belongs to no leaf", abridged(name)));
                }
            }
        }
        match misfits.lines.is_empty() {
            true => Ok(sources),
            false => Err(refused(&self.contents.path, misfits.told())),
        }
    }

    /// Whether an array can be a leaf of this type, and if not, why.
    fn expect_fit(
        &self,
        path: &str,
        entry: &Entry,
        wanted: &Aval,
        misfits: &mut Misfits,
    ) -> Result<(), String> {
        let expected = wanted.strong();
        let Some(found) = entry.aval() else {
            return Err(format!("is {entry}, which arrays cannot be, expected {expected}"));
        };
        let shape = self.shape(path, &found).map_err(|why| format!("is {found}: {why}"))?;
        let transposed = self.axes(path, &found).map_or("", |_| " after transposing");
        let found = found.with_shape(shape);
        if found.shape != expected.shape {
            let reversed = found.shape.iter().rev().eq(expected.shape.iter());
            misfits.reversed |= reversed && found.rank() == 2 && transposed.is_empty();
            return Err(format!("is {found}{transposed}, expected {expected}"));
        }
        if found.dtype == expected.dtype {
            return Ok(());
        }
        let convertible = found.dtype.is_float() && expected.dtype.is_float()
            || found.dtype.is_complex() && expected.dtype.is_complex();
        match fits(&self.converted, path, wanted).unwrap_or(false) {
            true if convertible => Ok(()),
            true => Err(format!("is {found}, which is not converted to {expected}")),
            false => {
                misfits.convertible |= convertible;
                Err(format!("is {found}{transposed}, expected {expected}"))
            }
        }
    }

    fn axes(&self, path: &str, aval: &Aval) -> Option<&[usize]> {
        let rule = self.transposed.iter().rev().find(|(mask, _)| mask.contains(path, aval))?;
        Some(&rule.1)
    }

    /// The shape of a leaf that is stored as `found`.
    fn shape(&self, path: &str, found: &Aval) -> Result<Vec<usize>, String> {
        let Some(axes) = self.axes(path, found) else { return Ok(found.shape.to_vec()) };
        match axes.len() == found.rank() {
            true => Ok(axes.iter().map(|&axis| found.shape[axis]).collect()),
            false => Err(format!("transposing by {axes:?} takes {} axes", axes.len())),
        }
    }

    /// An array as a leaf of this type: the one place where elements go to a device.
    fn array(&self, path: &str, stored: &str, entry: &Entry, wanted: &Aval) -> Read<Array> {
        let found = entry.aval().expect("types were compared");
        let bytes = self.contents.read(stored)?;
        let array = Array::from_bytes(&bytes, found.dtype, &found.shape)?;
        drop(bytes);
        let array = catch(|| {
            let array =
                self.axes(path, &found).map_or(array.clone(), |axes| transpose(&array, axes));
            let array = match array.dtype() == wanted.dtype {
                true => array,
                false => convert_element_type(&array, wanted.dtype),
            };
            match wanted.weak {
                // As in the run that goes on: a weak leaf promotes otherwise than a strong one.
                true => bind1(ConvertElementType { dtype: wanted.dtype, weak: true }, [&array]),
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

/// What does not fit, and which remedies there are.
#[derive(Default)]
struct Misfits {
    lines: Vec<String>,
    missing: bool,
    left_over: bool,
    reversed: bool,
    convertible: bool,
}

impl Misfits {
    fn told(self) -> String {
        let remedies = [
            (self.missing && self.left_over, "`Reader::rename` leads from stored names to leaves"),
            (self.missing, "`Reader::keep` leaves leaves as the template has them"),
            (self.left_over, "`Reader::ignore` passes over arrays"),
            (self.reversed, "`Reader::transpose(pattern, [1, 0])` loads what is stored [out, in]"),
            (self.convertible, "`Reader::convert` converts to the template's dtype"),
        ];
        let mut told = listed(self.lines);
        for (_, remedy) in remedies.iter().filter(|(fits, _)| *fits) {
            told.push_str("\n  help: ");
            told.push_str(remedy);
        }
        told
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
