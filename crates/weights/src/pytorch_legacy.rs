//! Files of `torch.save` before PyTorch 1.6: pickles one after the other, then the storages.

use crate::archive::Member;
use crate::error::{Error, Result};
use crate::pickle::{self, Node, Pickle};
use crate::source::ByteSource;
use crate::state_dict::{Storages, flatten};
use crate::tensor::ByteOrder;
use crate::weights::Contents;
use std::collections::BTreeMap;

/// The number at the start of the file.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
const PROTOCOL: i128 = 1001;

/// Reads a file.
pub(crate) fn read(source: &ByteSource) -> Result<Contents> {
    let mut cursor = source.cursor(0);
    let magic = pickle::read(&mut cursor)?;
    if magic.int(magic.root) != Some(MAGIC) {
        return Err(Error::new(
            "a pickle that `torch.save` did not write\n  help: write the arrays with \
             `torch.save`, `numpy.savez` or `safetensors`",
        ));
    }
    let protocol = pickle::read(&mut cursor)?;
    if protocol.int(protocol.root) != Some(PROTOCOL) {
        return Err(Error::new(format!("the protocol is not {PROTOCOL}")));
    }
    let system = pickle::read(&mut cursor)?;
    let is_little = system.get(system.root, "little_endian").and_then(|id| system.int(id));
    let order = if is_little == Some(0) { ByteOrder::Big } else { ByteOrder::Little };
    let tree = pickle::read(&mut cursor)?;
    let keys = pickle::read(&mut cursor)?;
    let widths = element_widths(&tree);
    let mut storages = BTreeMap::new();
    for &key in keys.items(keys.root).unwrap_or_default() {
        let Some(key) = keys.text(key) else {
            return Err(Error::new("the key of a storage is not text"));
        };
        let number = cursor.array()?;
        let count = match order {
            ByteOrder::Little => u64::from_le_bytes(number),
            ByteOrder::Big => u64::from_be_bytes(number),
        };
        let width = widths.get(key).copied().unwrap_or(1);
        let at = cursor.position();
        let bytes = count.checked_mul(width).filter(|&bytes| bytes <= cursor.left());
        let Some(bytes) = bytes else {
            let left = cursor.left();
            let message = format!("{count} elements from byte {at}, but {left} bytes are left");
            return Err(Error::new(message));
        };
        cursor.skip(bytes)?;
        storages.insert(key.to_owned(), Member::range(source, at, bytes));
    }
    flatten(&tree, cursor.position(), &Ranges { storages, order })
}

/// Returns the bytes of an element of each storage.
fn element_widths(tree: &Pickle) -> BTreeMap<String, u64> {
    let mut widths = BTreeMap::new();
    for node in &tree.nodes {
        let Node::Persistent(id) = node else { continue };
        let Some([_, class, key, ..]) = tree.items(*id) else { continue };
        let (Some((_, class)), Some(key)) = (tree.global(*class), tree.text(*key)) else {
            continue;
        };
        let width = match class {
            "ComplexDoubleStorage" => 16,
            "DoubleStorage" | "LongStorage" | "ComplexFloatStorage" => 8,
            "FloatStorage" | "IntStorage" => 4,
            "HalfStorage" | "BFloat16Storage" | "ShortStorage" => 2,
            _ => 1,
        };
        widths.insert(key.to_owned(), width);
    }
    widths
}

struct Ranges {
    storages: BTreeMap<String, Member>,
    order: ByteOrder,
}

impl Storages for Ranges {
    fn storage(&self, key: &str) -> Option<Member> {
        self.storages.get(key).cloned()
    }

    fn order(&self) -> ByteOrder {
        self.order
    }
}
