//! The keys of a folder or a database, with the places of their values.

use super::manifest;
use crate::archive::Member;
use crate::error::{Error, Result};
use crate::source::{ByteFolder, ByteSource};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Names of the files that describe arrays, for zarr 2 and 3.
const METADATA: [&str; 2] = [".zarray", "zarr.json"];

/// The place of a value.
pub(super) enum Value {
    /// A file of the folder.
    File { name: String, size: u64 },
    /// Bytes in a node of the database.
    Inline(Vec<u8>),
    /// A range of a file of the database.
    Range { name: String, offset: u64, size: u64 },
}

/// Values by key.
pub(super) struct Keys {
    folder: ByteFolder,
    values: BTreeMap<String, Value>,
    /// Bytes of all files. Values of a database may share them.
    total: u64,
}

impl Keys {
    /// Returns the files of a folder.
    pub(super) fn of_folder(folder: &ByteFolder) -> Result<Keys> {
        let files = folder.list()?;
        let total = files.iter().map(|file| file.1).sum();
        let value = |(name, size): (String, u64)| (name.clone(), Value::File { name, size });
        let values = files.into_iter().map(value).collect();
        Ok(Keys { folder: folder.clone(), values, total })
    }

    /// Returns the keys of a database whose manifest is in a folder inside `folder`.
    pub(super) fn of_database(folder: &ByteFolder, part: &str) -> Result<Keys> {
        let total = folder.list()?.iter().map(|file| file.1).sum();
        Ok(Keys { folder: folder.clone(), values: manifest::read(folder, part)?, total })
    }

    /// Keeps the keys that begin with a prefix, without it.
    pub(super) fn below(self, prefix: &str) -> Keys {
        let values = self.values.into_iter();
        let values =
            values.filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.into(), value)));
        Keys { folder: self.folder, values: values.collect(), total: self.total }
    }

    /// Returns the bytes of all files.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns true if there are arrays below a prefix, at its first level.
    pub(super) fn has_arrays(&self, prefix: &str) -> bool {
        self.values.keys().any(|key| {
            let rest = key.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('/'));
            rest.is_some_and(|(name, file)| !name.contains('/') && METADATA.contains(&file))
        })
    }

    /// Returns the names of all arrays, with the keys of their metadata.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.keys().filter_map(|key| {
            let (name, file) = key.rsplit_once('/')?;
            METADATA.contains(&file).then_some((name, key.as_str()))
        })
    }

    /// Returns the keys that begin with a prefix, with the rest of each.
    pub(super) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let values = self.values.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        values.map_while(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
    }

    /// Returns the place of the value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Opens the place of a value.
    pub(super) fn member(&self, value: &Value) -> Result<Member> {
        let open = |name: &str| {
            let file = self.folder.file(name)?;
            file.ok_or_else(|| Error::new(format!("the file `{name}` is missing")))
        };
        match value {
            Value::Inline(bytes) => {
                let source = ByteSource::memory(bytes.clone());
                Ok(Member::range(&source, 0, source.size()))
            }
            Value::File { name, .. } => {
                let source = open(name)?;
                Ok(Member::range(&source, 0, source.size()))
            }
            Value::Range { name, offset, size } => Ok(Member::range(&open(name)?, *offset, *size)),
        }
    }
}

impl Value {
    /// Returns the number of bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Value::Inline(bytes) => bytes.len() as u64,
            Value::File { size, .. } | Value::Range { size, .. } => *size,
        }
    }
}
