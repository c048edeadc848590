//! Encoded parts of an OCDBT database: checksummed records, and the fields in them.
//!
//! Source: "OCDBT driver: storage format" in TensorStore's documentation, version 0 of the format.

use super::codec::unzstd;
use super::keys::Value;
use crate::error::{Error, Result};

/// Numbers at the start of records.
pub(super) const MANIFEST: u32 = 0x0cdb_3a2a;
pub(super) const BTREE_NODE: u32 = 0x0cdb_20de;

/// Largest decoded record. TensorStore splits nodes at 8 MiB.
const MAX_DECODED: u64 = 64 << 20;

/// Returns the body of a record: header, perhaps compressed body, and checksum.
pub(super) fn body(bytes: &[u8], magic: u32) -> Result<Vec<u8>> {
    const HEADER: usize = 12;
    const CHECKSUM: usize = 4;
    if bytes.len() < HEADER + CHECKSUM {
        return Err(Error::new(format!("a record of {} bytes", bytes.len())));
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM);
    let found = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if found != magic {
        return Err(Error::new(format!("a record begins with {found:#010x}, not {magic:#010x}")));
    }
    let mut fields = Fields { bytes: content, at: 4 };
    let length = fields.u64()?;
    if length != bytes.len() as u64 {
        let size = bytes.len();
        return Err(Error::new(format!("a record of {size} bytes states {length}")));
    }
    let expected = u32::from_le_bytes([checksum[0], checksum[1], checksum[2], checksum[3]]);
    if crc32c::crc32c(content) != expected {
        return Err(Error::new("a record's checksum does not fit: it is damaged"));
    }
    let (version, compression) = (fields.varint()?, fields.varint()?);
    let rest = fields.rest();
    match (version, compression) {
        (0, 0) => Ok(rest.to_vec()),
        (0, 1) => unzstd(rest, MAX_DECODED),
        _ => Err(Error::new(format!(
            "version {version} with compression {compression} of a record is not supported"
        ))),
    }
}

/// Reads fields one after the other.
pub(super) struct Fields<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(count).ok().and_then(|count| self.at.checked_add(count));
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| {
            Error::new(format!("{count} bytes from byte {} exceed the record", self.at))
        })?;
        self.at += found.len();
        Ok(found)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(std::array::from_fn(|index| bytes[index])))
    }

    /// Reads a number in groups of seven bits, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 127);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 128 == 0 {
                return Ok(value);
            }
        }
        Err(Error::new(format!("a number before byte {} has over 64 bits", self.at)))
    }

    /// Reads a number of entries, each of which takes a byte at least.
    pub(super) fn count(&mut self) -> Result<usize> {
        let (count, left) = (self.varint()?, self.rest().len());
        match usize::try_from(count) {
            Ok(count) if count <= left => Ok(count),
            _ => Err(Error::new(format!("{count} entries, but {left} bytes are left"))),
        }
    }

    pub(super) fn varints(&mut self, count: usize) -> Result<Vec<u64>> {
        (0..count).map(|_| self.varint()).collect()
    }
}

/// Bounds the bytes of names and nodes, which short files could repeat without end.
pub(super) struct Allowance(u64);

impl Allowance {
    pub(super) fn new(size: u64) -> Allowance {
        Allowance(size.saturating_mul(64).saturating_add(1 << 20))
    }

    pub(super) fn spend(&mut self, bytes: u64) -> Result<()> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| Error::new("the nodes of the database repeat too much"))?;
        Ok(())
    }
}

/// A data file of a node: the path, and the part of it that its own nodes refer to.
pub(super) struct DataFile {
    pub(super) path: String,
    pub(super) base: usize,
}

/// Reads texts of which each begins with a part of the one before.
fn texts(
    fields: &mut Fields<'_>,
    prefixes: Vec<u64>,
    suffixes: Vec<u64>,
    allowance: &mut Allowance,
) -> Result<Vec<Vec<u8>>> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let prefixes = std::iter::once(0).chain(prefixes);
    for (prefix, suffix) in prefixes.zip(suffixes) {
        let before = texts.last().map_or(&[][..], |text| &text[..]);
        let prefix = usize::try_from(prefix).ok().and_then(|prefix| before.get(..prefix));
        let prefix = prefix.ok_or_else(|| Error::new("a name repeats more than the one before"))?;
        let suffix = fields.take(suffix)?;
        allowance.spend((prefix.len() + suffix.len()) as u64)?;
        texts.push([prefix, suffix].concat());
    }
    Ok(texts)
}

/// Reads the table of data files. Paths are relative to `base`.
pub(super) fn data_files(
    fields: &mut Fields<'_>,
    base: &str,
    allowance: &mut Allowance,
) -> Result<Vec<DataFile>> {
    let count = fields.count()?;
    let prefixes = fields.varints(count.saturating_sub(1))?;
    let suffixes = fields.varints(count)?;
    let bases = fields.varints(count)?;
    let paths = texts(fields, prefixes, suffixes, allowance)?;
    let file = |(path, own): (Vec<u8>, u64)| {
        let path = String::from_utf8(path).ok();
        let own = usize::try_from(own).ok();
        let fits = path.as_ref().zip(own).is_some_and(|(path, own)| path.is_char_boundary(own));
        match (path, own) {
            (Some(path), Some(own)) if fits => {
                Ok(DataFile { path: format!("{base}{path}"), base: base.len() + own })
            }
            _ => Err(Error::new("the path of a data file is damaged")),
        }
    };
    allowance.spend(base.len() as u64 * count as u64)?;
    paths.into_iter().zip(bases).map(file).collect()
}

/// The place of a node.
#[derive(Clone, Debug)]
pub(super) struct NodeRef {
    pub(super) path: String,
    /// The directory to which the paths of the node are relative.
    pub(super) base: String,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) height: u8,
    /// The start of all keys below the node.
    pub(super) prefix: Vec<u8>,
}

/// The entries of a node.
pub(super) enum Entries {
    Children(Vec<NodeRef>),
    Values(Vec<(Vec<u8>, Value)>),
}

/// Returns a data file of a table.
pub(super) fn file_of(files: &[DataFile], index: u64) -> Result<&DataFile> {
    let file = usize::try_from(index).ok().and_then(|index| files.get(index));
    file.ok_or_else(|| Error::new(format!("data file {index} of {}", files.len())))
}

/// Reads the entries of a node.
pub(super) fn entries(bytes: &[u8], node: &NodeRef, allowance: &mut Allowance) -> Result<Entries> {
    let mut fields = Fields::new(bytes);
    let height = fields.u8()?;
    if height != node.height {
        return Err(Error::new(format!("a node of height {height}, expected {}", node.height)));
    }
    let files = data_files(&mut fields, &node.base, allowance)?;
    let count = fields.count()?;
    let prefixes = fields.varints(count.saturating_sub(1))?;
    let suffixes = fields.varints(count)?;
    if height > 0 {
        let commons = fields.varints(count)?;
        let keys = texts(&mut fields, prefixes, suffixes, allowance)?;
        let (ids, offsets, lengths) =
            (fields.varints(count)?, fields.varints(count)?, fields.varints(count)?);
        let mut children = Vec::new();
        for (index, key) in keys.into_iter().enumerate() {
            let file = file_of(&files, ids[index])?;
            let common = usize::try_from(commons[index]).ok().and_then(|common| key.get(..common));
            let common = common.ok_or_else(|| Error::new("a prefix is longer than its key"))?;
            allowance.spend((node.prefix.len() + common.len() + file.path.len()) as u64)?;
            children.push(NodeRef {
                path: file.path.clone(),
                base: file.path[..file.base].to_owned(),
                offset: offsets[index],
                length: lengths[index],
                height: height - 1,
                prefix: [&node.prefix, common].concat(),
            });
        }
        return Ok(Entries::Children(children));
    }
    let keys = texts(&mut fields, prefixes, suffixes, allowance)?;
    let (sizes, kinds) = (fields.varints(count)?, fields.varints(count)?);
    let indirect = kinds.iter().filter(|kind| **kind == 1).count();
    if let Some(kind) = kinds.iter().find(|kind| **kind > 1) {
        return Err(Error::new(format!("a value of the kind {kind}, expected 0 or 1")));
    }
    let places = fields.varints(indirect)?.into_iter().zip(fields.varints(indirect)?);
    let mut places = places.collect::<Vec<_>>().into_iter();
    let mut values = Vec::new();
    for ((key, size), kind) in keys.into_iter().zip(sizes).zip(kinds) {
        allowance.spend((node.prefix.len() + key.len()) as u64)?;
        let key = [&node.prefix[..], &key[..]].concat();
        let value = match (kind, places.len()) {
            (1, 1..) => {
                let (id, offset) = places.next().unwrap_or_default();
                let file = file_of(&files, id)?;
                allowance.spend(file.path.len() as u64)?;
                Value::Range { name: file.path.clone(), offset, size }
            }
            _ => Value::Inline(fields.take(size)?.to_vec()),
        };
        values.push((key, value));
    }
    Ok(Entries::Values(values))
}
