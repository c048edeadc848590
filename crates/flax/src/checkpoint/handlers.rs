//! Handlers: the conversion of a checkpoint's items to arrays and JSON.

use oxidax::prelude::*;
use oxidax::random::{Key, KeyImpl};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A type of items that a checkpoint can hold beside others: the conversion to arrays and JSON,
/// and back.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::checkpoint::{CheckpointHandler, ItemContents, StoredItem};
/// /// A mean, which is stored by its sum and count.
/// struct MeanHandler;
///
/// impl CheckpointHandler for MeanHandler {
///     type Item = (Array, u32);
///     fn save(&self, (sum, count): &(Array, u32)) -> Result<ItemContents, Error> {
///         ItemContents::of_tree(sum).with_json(count)
///     }
///     fn restore(&self, item: &StoredItem) -> Result<(Array, u32), Error> {
///         Ok((item.load(&zeros([]))?, item.json()?))
///     }
/// }
/// let contents = MeanHandler.save(&(ones([]), 3))?;
/// assert_eq!(contents.arrays().len(), 1);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub trait CheckpointHandler {
    /// The type of the items.
    type Item;

    /// Returns the arrays and the JSON of an item.
    ///
    /// # Errors
    /// The item cannot be converted.
    fn save(&self, item: &Self::Item) -> Result<ItemContents, Error>;

    /// Returns the item that was saved.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the checkpoint does not have what the item needs.
    fn restore(&self, item: &StoredItem) -> Result<Self::Item, Error>;
}

/// The arrays, by path, and the JSON of an item.
#[derive(Clone, Debug, Default)]
pub struct ItemContents {
    arrays: BTreeMap<String, Array>,
    json: Value,
}

impl ItemContents {
    /// Creates contents without arrays and JSON.
    pub fn new() -> ItemContents {
        ItemContents::default()
    }

    /// Creates contents with the leaves of a tree.
    pub fn of_tree<T: Tree>(tree: &T) -> ItemContents {
        let leaves = tree::paths(tree).into_iter().zip(tree::leaves(tree));
        ItemContents { arrays: leaves.collect(), json: Value::Null }
    }

    /// Adds a value of any type that serde can write as JSON.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it cannot.
    pub fn with_json(self, value: &impl Serialize) -> Result<ItemContents, Error> {
        let json = serde_json::to_value(value).map_err(|error| {
            refused(Path::new("item"), format!("the value is not JSON: {error}"))
        })?;
        Ok(ItemContents { json, ..self })
    }

    /// Returns the arrays, by path.
    pub fn arrays(&self) -> &BTreeMap<String, Array> {
        &self.arrays
    }
}

/// The items of a checkpoint by name, for
/// [`CheckpointManager::save_items`](super::CheckpointManager::save_items).
#[derive(Clone, Debug, Default)]
#[doc(alias = "Composite")]
pub struct CheckpointItems {
    items: BTreeMap<String, ItemContents>,
}

impl CheckpointItems {
    /// Creates an empty list.
    pub fn new() -> CheckpointItems {
        CheckpointItems::default()
    }

    /// Adds an item. A second one of the same name replaces the first.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a name with a slash, and errors of the handler.
    pub fn item<H: CheckpointHandler>(
        mut self,
        name: &str,
        handler: &H,
        item: &H::Item,
    ) -> Result<CheckpointItems, Error> {
        if name.contains('/') {
            return Err(refused(Path::new(name), "names of items do not contain slashes".into()));
        }
        self.items.insert(name.to_owned(), handler.save(item)?);
        Ok(self)
    }

    /// Returns all arrays, named after their items, and the index of the items.
    pub(super) fn into_parts(self) -> (BTreeMap<String, Array>, BTreeMap<String, IndexEntry>) {
        let (mut arrays, mut index) = (BTreeMap::new(), BTreeMap::new());
        for (name, ItemContents { arrays: own, json }) in self.items {
            index.insert(name.clone(), (own.keys().cloned().collect(), json));
            arrays.extend(own.into_iter().map(|(path, array)| (array_name(&name, &path), array)));
        }
        (arrays, index)
    }
}

/// The paths of an item's arrays, and its JSON.
pub(super) type IndexEntry = (Vec<String>, Value);

fn array_name(item: &str, path: &str) -> String {
    format!("{item}/{path}")
}

/// An item in a checkpoint, from which its [`CheckpointHandler`] restores it.
#[derive(Clone, Debug)]
pub struct StoredItem {
    path: PathBuf,
    name: String,
    paths: Vec<String>,
    json: Value,
}

impl StoredItem {
    pub(super) fn new(path: PathBuf, name: &str, (paths, json): IndexEntry) -> StoredItem {
        StoredItem { path, name: name.to_owned(), paths, json }
    }

    /// Returns the arrays in the structure of a template, with the shardings of its leaves. Floats
    /// have the dtypes of the template.
    ///
    /// # Errors
    /// As [`Reader::load`](oxidax::checkpoint::Reader::load).
    #[track_caller]
    pub fn load<T: Tree>(&self, template: &T) -> Result<T, Error> {
        let leaves = self.load_leaves(&tree::paths(template), tree::leaves(template))?;
        Ok(tree::unflatten(template, leaves))
    }

    /// Returns the arrays at these paths, like the leaves of a template.
    #[track_caller]
    fn load_leaves(&self, paths: &[String], templates: Vec<Array>) -> Result<Vec<Array>, Error> {
        let missing = paths.iter().find(|path| !self.paths.contains(path));
        let unused = self.paths.iter().find(|path| !paths.contains(path));
        if let Some(path) = missing.or(unused) {
            let role = if missing.is_some() { "does not have" } else { "also has" };
            let message = format!("the item `{}` {role} the array `{path}`", self.name);
            return Err(refused(&self.path, message));
        }
        let names: Vec<String> = paths.iter().map(|path| array_name(&self.name, path)).collect();
        let map: BTreeMap<String, Array> = names.iter().cloned().zip(templates).collect();
        let reader = checkpoint::open(&self.path)?.only(tree::paths(&map));
        // `CheckpointManagerOptions::save_dtype` stores other floats.
        let loaded = reader.convert(["*"]).load(&map)?;
        Ok(names.iter().map(|name| loaded[name].clone()).collect())
    }

    /// Returns the types of the arrays, by path, without reading them.
    ///
    /// # Errors
    /// As [`checkpoint::open`].
    pub fn types(&self) -> Result<BTreeMap<String, Aval>, Error> {
        let stored = checkpoint::open(&self.path)?.types()?;
        let mut types = BTreeMap::new();
        for path in &self.paths {
            let entry = BTreeMap::from([(array_name(&self.name, path), zeros([]))]);
            let found = tree::paths(&entry).pop().and_then(|name| stored.get(&name));
            if let Some(aval) = found {
                types.insert(path.clone(), aval.clone());
            }
        }
        Ok(types)
    }

    /// Returns the arrays, by path, on the default device.
    ///
    /// # Errors
    /// As [`Reader::load`](oxidax::checkpoint::Reader::load).
    #[track_caller]
    pub fn arrays(&self) -> Result<BTreeMap<String, Array>, Error> {
        let types = self.types()?;
        let templates = types.values().map(|aval| zeros((aval.shape.clone(), aval.dtype)));
        let paths: Vec<String> = types.keys().cloned().collect();
        let arrays = self.load_leaves(&paths, templates.collect())?;
        Ok(paths.into_iter().zip(arrays).collect())
    }

    /// Returns the JSON.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if it has another type.
    pub fn json<V: DeserializeOwned>(&self) -> Result<V, Error> {
        V::deserialize(&self.json).map_err(|error| {
            refused(&self.path, format!("the JSON of the item `{}`: {error}", self.name))
        })
    }
}

/// The handler of trees of arrays: models, states of optimizers. Items are restored in the
/// structure and with the shardings of a template.
#[derive(Clone, Debug)]
#[doc(alias = "PyTreeCheckpointHandler")]
pub struct StandardCheckpointHandler<T> {
    template: T,
}

impl<T: Tree> StandardCheckpointHandler<T> {
    /// Creates a handler for trees like `template`, whose elements are not used.
    pub fn new(template: T) -> StandardCheckpointHandler<T> {
        StandardCheckpointHandler { template }
    }
}

impl<T: Tree> CheckpointHandler for StandardCheckpointHandler<T> {
    type Item = T;
    fn save(&self, item: &T) -> Result<ItemContents, Error> {
        Ok(ItemContents::of_tree(item))
    }
    fn restore(&self, item: &StoredItem) -> Result<T, Error> {
        item.load(&self.template)
    }
}

/// The handler of values that serde writes as JSON: configurations, positions of data.
#[derive(Clone, Copy, Debug)]
pub struct JsonCheckpointHandler<V> {
    values: PhantomData<fn() -> V>,
}

impl<V> JsonCheckpointHandler<V> {
    /// Creates a handler.
    pub fn new() -> JsonCheckpointHandler<V> {
        JsonCheckpointHandler { values: PhantomData }
    }
}

impl<V> Default for JsonCheckpointHandler<V> {
    fn default() -> JsonCheckpointHandler<V> {
        JsonCheckpointHandler::new()
    }
}

impl<V: Serialize + DeserializeOwned> CheckpointHandler for JsonCheckpointHandler<V> {
    type Item = V;
    fn save(&self, item: &V) -> Result<ItemContents, Error> {
        ItemContents::new().with_json(item)
    }
    fn restore(&self, item: &StoredItem) -> Result<V, Error> {
        item.json()
    }
}

/// The handler of one array of any type.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrayCheckpointHandler;

impl CheckpointHandler for ArrayCheckpointHandler {
    type Item = Array;
    fn save(&self, item: &Array) -> Result<ItemContents, Error> {
        Ok(ItemContents::of_tree(item))
    }
    fn restore(&self, item: &StoredItem) -> Result<Array, Error> {
        let mut arrays = item.arrays()?;
        arrays.remove("").ok_or_else(|| {
            refused(&item.path, format!("the item `{}` is not one array", item.name))
        })
    }
}

/// The handler of random keys, with their generator.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "JaxRandomKeyCheckpointHandler")]
pub struct KeyCheckpointHandler;

/// The generators, and the names by which they are stored: those of JAX.
const GENERATORS: [(KeyImpl, &str); 3] = [
    (KeyImpl::Threefry, "threefry2x32"),
    (KeyImpl::Rbg, "rbg"),
    (KeyImpl::UnsafeRbg, "unsafe_rbg"),
];

impl CheckpointHandler for KeyCheckpointHandler {
    type Item = Key;
    fn save(&self, item: &Key) -> Result<ItemContents, Error> {
        let generator = GENERATORS.iter().find(|(other, _)| *other == item.implementation());
        let Some((_, name)) = generator else {
            let message = format!("keys of {:?} cannot be stored", item.implementation());
            return Err(refused(Path::new(""), message));
        };
        ItemContents::of_tree(item.data()).with_json(&name)
    }
    fn restore(&self, item: &StoredItem) -> Result<Key, Error> {
        let name: String = item.json()?;
        let generator = GENERATORS.iter().find(|(_, other)| *other == name);
        let Some((generator, _)) = generator else {
            return Err(refused(&item.path, format!("there is no generator `{name}`")));
        };
        Ok(Key::from_data_with(ArrayCheckpointHandler.restore(item)?, *generator))
    }
}

fn refused(path: &Path, message: String) -> Error {
    Error::Checkpoint { path: path.to_path_buf(), message }
}
