//! Python's pickles, without executing anything: every object becomes a [`Node`].
//!
//! A pickle is a program for a stack machine. Calls and classes are recorded by name, so the reader
//! decides what they mean. Nodes live in one list and refer to each other by index: objects may
//! contain themselves, and no depth of nesting overflows the stack.
//!
//! Source: Python's documentation of `pickle` and `pickletools`, protocols 0 to 5.

pub(crate) use crate::pickle_machine::read;

/// The index of a node.
pub(crate) type NodeId = u32;

/// An object of a pickle.
#[derive(Debug, PartialEq)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    Tuple(Vec<NodeId>),
    /// A list or a set.
    List(Vec<NodeId>),
    Dict(Vec<(NodeId, NodeId)>),
    /// A function or class, by module and name.
    Global(String, String),
    /// The result of calling something.
    Call(Call),
    /// An object outside the pickle.
    Persistent(NodeId),
}

/// A call that was recorded, and what the pickle did with its result.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) callable: NodeId,
    pub(crate) arguments: NodeId,
    pub(crate) state: Option<NodeId>,
}

/// The objects of a pickle.
#[derive(Debug)]
pub(crate) struct Pickle {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
}

impl Pickle {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::None)
    }

    pub(crate) fn text(&self, id: NodeId) -> Option<&str> {
        match self.node(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn int(&self, id: NodeId) -> Option<i128> {
        match self.node(id) {
            Node::Int(value) => Some(*value),
            Node::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// Returns the items of a tuple or list.
    pub(crate) fn items(&self, id: NodeId) -> Option<&[NodeId]> {
        match self.node(id) {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns module and name of a function or class.
    pub(crate) fn global(&self, id: NodeId) -> Option<(&str, &str)> {
        match self.node(id) {
            Node::Global(module, name) => Some((module, name)),
            _ => None,
        }
    }

    /// Returns the value of a key of a dictionary.
    pub(crate) fn get(&self, id: NodeId, key: &str) -> Option<NodeId> {
        match self.node(id) {
            Node::Dict(pairs) => {
                let pair = pairs.iter().rev().find(|(name, _)| self.text(*name) == Some(key));
                pair.map(|pair| pair.1)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::source::ByteSource;

    fn parsed(bytes: &[u8]) -> Result<Pickle> {
        read(&mut ByteSource::memory(bytes.to_vec()).cursor(0))
    }

    #[test]
    fn values_of_all_protocols_are_read() {
        // pickle.dumps({'a': (1, 2.5), 'b': [True, None]}, 0 and 4)
        let first = b"(dp0\nVa\np1\n(I1\nF2.5\ntp2\nsVb\np3\n(lp4\nI01\naNas.";
        let fourth = b"\x80\x04\x95\x20\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94K\x01G@\x04\0\0\0\0\0\0\
            \x86\x94\x8c\x01b\x94]\x94(\x88Neu.";
        for bytes in [&first[..], fourth] {
            let pickle = parsed(bytes).unwrap();
            let a = pickle.items(pickle.get(pickle.root, "a").unwrap()).unwrap();
            assert_eq!(pickle.int(a[0]), Some(1));
            assert_eq!(pickle.node(a[1]), &Node::Float(2.5));
            let b = pickle.items(pickle.get(pickle.root, "b").unwrap()).unwrap();
            assert_eq!(pickle.node(b[0]), &Node::Bool(true));
        }
    }

    #[test]
    fn calls_are_recorded_and_not_executed() {
        let pickle = parsed(b"cos\nsystem\n(S'true'\ntR.").unwrap();
        let Node::Call(call) = pickle.node(pickle.root) else { panic!("not a call") };
        assert_eq!(pickle.global(call.callable), Some(("os", "system")));
    }

    #[test]
    fn damage_is_an_error_with_its_position() {
        for (bytes, expected) in [
            (&b"\x80\x02R."[..], "pickle, byte 2: an instruction takes an object"),
            (b"K\x01K\x02a.", "pickle, byte 4: items are appended"),
            (b"h\x07.", "pickle, byte 0: the memo has no entry 7"),
            (b"X\xff\xff\xff\xff", "pickle, byte 0: 4294967295 bytes from byte 5"),
            (b"\xff", "the instruction 0xff"),
            (b"}N", "1 bytes from byte 2"),
        ] {
            let error = parsed(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let mut bytes = vec![b']'; 1];
        bytes.extend(std::iter::repeat_n(0x85, 1_000_000));
        bytes.push(b'.');
        assert_eq!(parsed(&bytes).unwrap().nodes.len(), 1_000_001);
    }
}
