//! Contributions of processes to a collective operation, and the comparison of their structure.

use super::rendezvous::{Failure, listed};
use crate::core::{Array, Error, HostArray};
use crate::tree::{self, Tree};
use hmac_sha256::Hash as Sha256;
use prost::Message;

/// The contribution of one process: the operation, and its arrays.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Contribution {
    /// The function with its name or options, as in ``sync_global_devices `epoch 3` ``.
    #[prost(string, tag = "1")]
    pub(super) doing: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) leaves: Vec<Leaf>,
    /// The arrays' bytes, concatenated, if this process sends them.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) data: Vec<u8>,
}

/// Description of one array of a tree.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Leaf {
    #[prost(string, tag = "1")]
    path: String,
    /// Dtype and shape: `f32[2,3]`.
    #[prost(string, tag = "2")]
    aval: String,
    /// The first elements and a digest of all, for comparison.
    #[prost(string, tag = "3")]
    content: String,
}

/// Number of elements shown per array.
const SHOWN_ELEMENTS: usize = 4;

/// Copies a tree's arrays to the host, each with its path.
#[track_caller]
pub(super) fn host_arrays<T: Tree>(tree: &T) -> Result<Vec<(String, HostArray)>, Error> {
    let leaves = tree::leaves(tree);
    let arrays: Result<Vec<HostArray>, Error> = leaves.iter().map(Array::to_host).collect();
    Ok(tree::paths(tree).into_iter().zip(arrays?).collect())
}

/// Describes arrays without their elements.
pub(super) fn describe(arrays: &[(String, HostArray)]) -> Vec<Leaf> {
    let described = |(path, array): &(String, HostArray)| Leaf {
        path: path.clone(),
        aval: typed(array),
        content: String::new(),
    };
    arrays.iter().map(described).collect()
}

/// Formats dtype and shape. Weak types are ignored: they do not affect elements.
fn typed(array: &HostArray) -> String {
    format!("{}{}", array.dtype(), array.shape())
}

/// Describes arrays with their first elements and a digest of all.
pub(super) fn describe_with_digest(arrays: &[(String, HostArray)]) -> Vec<Leaf> {
    let with_content =
        |(leaf, (_, array)): (Leaf, &(String, HostArray))| Leaf { content: content(array), ..leaf };
    describe(arrays).into_iter().zip(arrays).map(with_content).collect()
}

fn content(array: &HostArray) -> String {
    let digest = Sha256::hash(array.as_bytes());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let shown = array.aval().size().min(SHOWN_ELEMENTS);
    let bytes = array.as_bytes()[..shown * array.dtype().host_bytes()].to_vec();
    let more = if array.aval().size() > shown { " …" } else { "" };
    let aval = crate::core::Aval::new(array.dtype(), [shown]);
    match HostArray::from_bytes(bytes, aval) {
        Ok(first) => format!("{first}{more} (SHA-256 {short}…)"),
        Err(_) => format!("SHA-256 {short}…"),
    }
}

/// Computes a digest of arrays with their paths and types.
pub(super) fn digest(arrays: &[(String, HostArray)]) -> Vec<u8> {
    let mut digest = Sha256::new();
    for (path, array) in arrays {
        // Lengths come first, so that different lists of arrays have different bytes.
        for part in [path.as_bytes(), typed(array).as_bytes(), array.as_bytes()] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
    }
    digest.finalize().to_vec()
}

impl Contribution {
    pub(super) fn of(doing: &str, leaves: Vec<Leaf>, data: Vec<u8>) -> Contribution {
        Contribution { doing: doing.to_owned(), leaves, data }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Contribution, Failure> {
        Contribution::decode(bytes).map_err(|error| {
            Failure::mismatch(format!("invalid data from another process: {error}"))
        })
    }

    /// Returns an error unless the process `name` contributes to the same operation with the same
    /// types.
    pub(super) fn expect_like(
        &self,
        other: &Contribution,
        index: u32,
        name: &str,
    ) -> Result<(), Failure> {
        let unlike = |message: String| {
            Failure::mismatch(message).of(&[index]).help(
                "all processes must call the functions of `distributed` in the same order, with \
                 trees of the same shapes and dtypes",
            )
        };
        if other.doing != self.doing {
            return Err(unlike(format!("{name} is at {} instead", other.doing)));
        }
        for (mine, theirs) in self.leaves.iter().zip(&other.leaves) {
            if (&mine.path, &mine.aval) != (&theirs.path, &theirs.aval) {
                return Err(unlike(format!(
                    "`{}` is {} here, and {name} has `{}`, {}",
                    tree::rooted(&mine.path),
                    mine.aval,
                    tree::rooted(&theirs.path),
                    theirs.aval
                )));
            }
        }
        let (mine, theirs) = (self.leaves.len(), other.leaves.len());
        if mine == theirs {
            Ok(())
        } else {
            Err(unlike(format!("the tree has {mine} arrays here, and {theirs} in {name}")))
        }
    }
}

/// Builds the error raised when arrays differ between processes. Contributions are ordered by
/// process and have the same structure.
pub(super) fn unequal(all: &[Contribution], message: &str) -> Failure {
    /// Number of leaves that are shown.
    const LEAVES: usize = 4;
    let first = all.first().map_or(&[][..], |first| &first.leaves);
    let differs = |other: &Contribution| {
        other.leaves.iter().zip(first).any(|(theirs, mine)| theirs.content != mine.content)
    };
    let others: Vec<u32> = all
        .iter()
        .enumerate()
        .filter_map(|(index, other)| differs(other).then_some(index as u32))
        .collect();
    let mut lines = Vec::new();
    for (at, leaf) in first.iter().enumerate() {
        let mut groups: Vec<(&str, Vec<u32>)> = Vec::new();
        for (index, contribution) in all.iter().enumerate() {
            let content = contribution.leaves.get(at).map_or("", |leaf| &leaf.content);
            match groups.iter_mut().find(|(known, _)| *known == content) {
                Some((_, members)) => members.push(index as u32),
                None => groups.push((content, vec![index as u32])),
            }
        }
        if groups.len() > 1 {
            let groups: Vec<String> = groups
                .iter()
                .map(|(content, members)| format!("\n    {content} in {}", listed(members)))
                .collect();
            lines.push(format!(
                "\n  {} {}:{}",
                tree::rooted(&leaf.path),
                leaf.aval,
                groups.concat()
            ));
        }
    }
    let more = match lines.len().saturating_sub(LEAVES) {
        0 => String::new(),
        more => format!("\n  and {more} arrays more"),
    };
    lines.truncate(LEAVES);
    let title = if message.is_empty() { "the processes' arrays differ" } else { message };
    Failure::mismatch(format!("{title}{}{more}", lines.concat())).of(&others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays(elements: &[f32]) -> Vec<(String, HostArray)> {
        let array = HostArray::from_slice(elements, [elements.len()]).unwrap();
        vec![("w".to_owned(), array)]
    }

    fn unlike(a: &Contribution, b: &Contribution) -> String {
        let failure = a.expect_like(b, 1, "process 1 (h:2)").unwrap_err();
        failure.error("gather").to_string()
    }

    #[test]
    fn differences_of_structure_are_named() {
        let of = |doing, elements: &[f32]| {
            Contribution::of(doing, describe(&arrays(elements)), Vec::new())
        };
        let mine = of("gather", &[1.0, 2.0]);
        assert!(mine.expect_like(&of("gather", &[3.0, 4.0]), 1, "").is_ok());
        let said = unlike(&mine, &of("assert_equal", &[1.0, 2.0]));
        assert!(said.contains("gather: process 1 (h:2) is at assert_equal instead"), "{said}");
        let said = unlike(&mine, &of("gather", &[1.0]));
        assert!(
            said.contains("`$.w` is f32[2] here, and process 1 (h:2) has `$.w`, f32[1]"),
            "{said}"
        );
        let said = unlike(&mine, &Contribution::of("gather", Vec::new(), Vec::new()));
        assert!(said.contains("1 arrays here, and 0 in process 1"), "{said}");
    }

    #[test]
    fn contributions_survive_encoding() {
        let sent = Contribution::of("x", describe_with_digest(&arrays(&[1.0; 9])), vec![1, 2]);
        assert_eq!(Contribution::read(&sent.bytes()).unwrap(), sent);
        assert!(Contribution::read(&[0xFF; 9]).is_err());
    }

    #[test]
    fn differences_are_shown_by_process() {
        let of = |elements: &[f32]| {
            Contribution::of("", describe_with_digest(&arrays(elements)), Vec::new())
        };
        let same = [1.0, 2.0, 3.0, 4.0, 5.0];
        let all = [of(&same), of(&[1.0, 2.0, 3.0, 4.0, 6.0]), of(&same)];
        let said = unequal(&all, "weights").error("assert_equal").to_string();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], ["error[distributed]: assert_equal: weights", "  $.w f32[5]:"]);
        assert!(lines[2].contains("…") && lines[2].ends_with("in processes 0 and 2"), "{said}");
        assert!(lines[3].ends_with("in process 1"), "{said}");
    }

    #[test]
    fn digests_include_paths_types_and_bits() {
        let other = vec![("v".to_owned(), arrays(&[1.0])[0].1.clone())];
        let integers = HostArray::from_slice(&[1.0f32.to_bits()], [1]).unwrap();
        let seen = [
            digest(&arrays(&[1.0])),
            digest(&arrays(&[2.0])),
            digest(&arrays(&[1.0, 1.0])),
            digest(&other),
            digest(&[("w".to_owned(), integers)]),
            digest(&[]),
        ];
        for (at, one) in seen.iter().enumerate() {
            assert!(seen[..at].iter().all(|other| other != one), "{at}");
        }
        assert_ne!(digest(&arrays(&[0.0])), digest(&arrays(&[-0.0])));
        assert_eq!(digest(&arrays(&[f32::NAN])), digest(&arrays(&[f32::NAN])));
    }
}
