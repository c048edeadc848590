//! [`Nesting`]: the containers of a tree, as other languages have them.

use super::{PathKey, Tag, Visitor, Walk};
use crate::core::Array;

/// The containers of a tree around its leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// An array, with its index among the leaves.
    Leaf(usize),
    /// A static value, an absent option or a struct without arrays.
    Nothing,
    /// A tuple, or the fields of a tuple struct.
    Tuple(Vec<Nesting>),
    /// A vector or an array of trees.
    List(Vec<Nesting>),
    /// A map by the text of its keys, or a struct by the names of its fields.
    Map(Vec<(String, Nesting)>),
}

impl Nesting {
    /// Returns the containers of a tree.
    pub(crate) fn of(tree: &impl Walk) -> Nesting {
        let mut recorder = Recorder { frames: vec![Frame::default()], leaves: 0 };
        tree.walk(&mut recorder);
        recorder.frames.pop().map_or(Nesting::Nothing, Frame::finish)
    }
}

/// The kind of a container, as far as its tags tell.
#[derive(Clone, Copy, Default)]
enum Container {
    #[default]
    Unknown,
    Tuple,
    List,
    Map,
}

/// A node of the tree under construction.
#[derive(Default)]
struct Frame {
    key: String,
    has_names: bool,
    container: Container,
    leaf: Option<usize>,
    children: Vec<(String, Nesting)>,
}

impl Frame {
    fn finish(self) -> Nesting {
        let Frame { has_names, container, leaf, children, .. } = self;
        let values = |children: Vec<(String, Nesting)>| {
            children.into_iter().map(|(_, child)| child).collect()
        };
        match (leaf, container) {
            (Some(leaf), _) => Nesting::Leaf(leaf),
            (None, Container::List) => Nesting::List(values(children)),
            (None, Container::Map) => Nesting::Map(children),
            // A struct may state the number of its fields.
            (None, Container::Tuple) if has_names => Nesting::Map(children),
            (None, Container::Tuple) => Nesting::Tuple(values(children)),
            (None, Container::Unknown) if children.is_empty() => Nesting::Nothing,
            (None, Container::Unknown) if has_names => Nesting::Map(children),
            (None, Container::Unknown) => Nesting::Tuple(values(children)),
        }
    }
}

struct Recorder {
    frames: Vec<Frame>,
    leaves: usize,
}

impl Recorder {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("every exit follows its enter")
    }
}

impl Visitor for Recorder {
    fn leaf(&mut self, _: &Array) {
        self.frame().leaf = Some(self.leaves);
        self.leaves += 1;
    }
    fn tag(&mut self, tag: Tag<'_>) {
        if let Tag::Len(_) = tag {
            self.frame().container = Container::Tuple;
        }
    }
    fn list(&mut self, _: usize) {
        self.frame().container = Container::List;
    }
    fn map(&mut self, _: usize) {
        self.frame().container = Container::Map;
    }
    fn static_field(&mut self, _: PathKey<'_>, _: Tag<'_>) {}
    fn enter(&mut self, key: PathKey<'_>) {
        let (key, is_name) = match key {
            PathKey::Field(name) => (name.to_owned(), true),
            PathKey::Index(index) => (index.to_string(), false),
            PathKey::Entry(key) => (key.to_string(), true),
        };
        self.frame().has_names |= is_name;
        self.frames.push(Frame { key, ..Frame::default() });
    }
    fn exit(&mut self) {
        let mut frame = self.frames.pop().expect("every exit follows its enter");
        let key = std::mem::take(&mut frame.key);
        self.frame().children.push((key, frame.finish()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Tree)]
    struct Layer {
        weight: Array,
        bias: Option<Array>,
        #[tree(static)]
        name: String,
        pair: (Array, bool),
    }

    #[test]
    fn containers_are_told_apart() {
        let x = || zeros([2]);
        let layer = Layer { weight: x(), bias: None, name: "head".into(), pair: (x(), true) };
        let map = BTreeMap::from([(2, vec![x()]), (1, vec![])]);
        let tree = (layer, map, [x(), x()], (), random::key(0), Some(vec![x()]));
        let leaf = Nesting::Leaf;
        let expected = Nesting::Tuple(vec![
            Nesting::Map(vec![
                ("weight".into(), leaf(0)),
                ("bias".into(), Nesting::Nothing),
                ("pair".into(), Nesting::Tuple(vec![leaf(1), Nesting::Nothing])),
            ]),
            Nesting::Map(vec![
                ("1".into(), Nesting::List(vec![])),
                ("2".into(), Nesting::List(vec![leaf(2)])),
            ]),
            Nesting::List(vec![leaf(3), leaf(4)]),
            Nesting::Tuple(vec![]),
            leaf(5),
            Nesting::List(vec![leaf(6)]),
        ]);
        assert_eq!(Nesting::of(&tree), expected);
        assert_eq!(tree.0.name, "head");
    }
}
