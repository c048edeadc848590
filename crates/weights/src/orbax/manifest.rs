//! Reads the newest version of an OCDBT database.

use super::MANIFEST as NAME;
use super::keys::Value;
use super::node::{
    Allowance, BTREE_NODE, Entries, Fields, MANIFEST, NodeRef, body, data_files, entries, file_of,
};
use crate::error::{Error, Result, shortened};
use crate::source::ByteFolder;
use std::collections::BTreeMap;

/// Most levels of the tree.
const MAX_HEIGHT: u8 = 16;

/// Reads all keys of the newest version.
pub(super) fn read(folder: &ByteFolder, part: &str) -> Result<BTreeMap<String, Value>> {
    let name = format!("{part}{NAME}");
    let mut bytes = folder.read(&name)?.unwrap_or_default();
    let mut parsed = version(&bytes, part).map_err(|error| error.within(&name))?;
    if matches!(parsed, Version::Numbered) {
        let start = format!("{part}manifest.");
        let numbered = folder.list()?.into_iter().filter_map(|(file, _)| {
            let number = file.strip_prefix(&start)?;
            (number.len() == 16 && number.bytes().all(|c| c.is_ascii_hexdigit())).then_some(file)
        });
        let newest = numbered.max().ok_or_else(|| {
            Error::new(format!("`{name}` refers to manifests with numbers, which are missing"))
        })?;
        bytes = folder.read(&newest)?.unwrap_or_default();
        parsed = version(&bytes, part).map_err(|error| error.within(&newest))?;
    }
    match parsed {
        Version::Numbered => Err(Error::new("a manifest with a number refers to others")),
        Version::Empty => Ok(BTreeMap::new()),
        Version::Root(root) => {
            let size = folder.list()?.iter().map(|file| file.1).sum();
            let mut tree = Tree {
                folder,
                allowance: Allowance::new(size),
                values: BTreeMap::new(),
                left: size,
            };
            tree.visit(&root)?;
            Ok(tree.values)
        }
    }
}

/// The newest version of a manifest.
enum Version {
    /// The versions are in other manifests.
    Numbered,
    /// The database has no keys.
    Empty,
    Root(NodeRef),
}

fn version(bytes: &[u8], part: &str) -> Result<Version> {
    let body = body(bytes, MANIFEST)?;
    let mut fields = Fields::new(&body);
    let mut allowance = Allowance::new(body.len() as u64);
    let _uuid = fields.take(16)?;
    let kind = fields.varint()?;
    let (_max_inline, _max_decoded) = (fields.varint()?, fields.varint()?);
    let _arity = fields.u8()?;
    match fields.varint()? {
        0 => {}
        1 => drop(fields.take(4)?),
        other => return Err(Error::new(format!("the compression {other} is not supported"))),
    }
    match kind {
        0 => {}
        1 => return Ok(Version::Numbered),
        other => return Err(Error::new(format!("the manifest kind {other} is unknown"))),
    }
    let files = data_files(&mut fields, part, &mut allowance)?;
    let count = fields.count()?;
    if count == 0 {
        return Ok(Version::Empty);
    }
    let _generations = fields.varints(count)?;
    let heights = fields.take(count as u64)?;
    let (ids, offsets, lengths) =
        (fields.varints(count)?, fields.varints(count)?, fields.varints(count)?);
    let keys = fields.varints(count)?;
    let last = count - 1;
    if keys[last] == 0 {
        return Ok(Version::Empty);
    }
    if heights[last] > MAX_HEIGHT {
        return Err(Error::new(format!(
            "a tree of {} levels, at most {MAX_HEIGHT}",
            heights[last]
        )));
    }
    let file = file_of(&files, ids[last])?;
    Ok(Version::Root(NodeRef {
        path: file.path.clone(),
        base: file.path[..file.base].to_owned(),
        offset: offsets[last],
        length: lengths[last],
        height: heights[last],
        prefix: Vec::new(),
    }))
}

struct Tree<'a> {
    folder: &'a ByteFolder,
    allowance: Allowance,
    values: BTreeMap<String, Value>,
    /// Bytes of nodes that may still be read: each byte of the files belongs to one node at most.
    left: u64,
}

impl Tree<'_> {
    fn visit(&mut self, node: &NodeRef) -> Result<()> {
        let left = self.left.checked_sub(node.length.max(1));
        self.left = left.ok_or_else(|| Error::new("the nodes of the database repeat"))?;
        let place = format!("`{}`, byte {}", shortened(&node.path), node.offset);
        let read = || {
            let file = self.folder.file(&node.path)?;
            let file = file.ok_or_else(|| Error::new("the file is missing"))?;
            body(&file.read(node.offset, node.length)?, BTREE_NODE)
        };
        let bytes = read().map_err(|error| error.within(&place))?;
        let entries = entries(&bytes, node, &mut self.allowance);
        match entries.map_err(|error| error.within(&place))? {
            Entries::Children(children) => children.iter().try_for_each(|child| self.visit(child)),
            Entries::Values(values) => {
                for (key, value) in values {
                    let key = String::from_utf8(key);
                    let key = key.map_err(|_| Error::new("a key is not UTF-8").within(&place))?;
                    self.values.insert(key, value);
                }
                Ok(())
            }
        }
    }
}
