//! The laws of trees, on every container and on derived types.

use super::*;
use crate::core::trace::{Mode, Tracing};
use crate::core::{Aval, DType, Kind, catch};
use expect_test::expect;
use rustc_hash::FxHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::marker::PhantomData;

/// Makes distinguishable arrays: leaf number `n` is `f32[n]`.
struct Leaves {
    tracing: Tracing,
    made: std::cell::Cell<usize>,
}

impl Leaves {
    fn new() -> Leaves {
        Leaves { tracing: Tracing::begin(Mode::All, None), made: 0.into() }
    }

    fn next(&self) -> Array {
        let number = self.made.get();
        self.made.set(number + 1);
        self.of(DType::F32, [number])
    }

    fn of<const N: usize>(&self, dtype: DType, shape: [usize; N]) -> Array {
        self.tracing.input(Aval::new(dtype, shape))
    }
}

#[derive(Tree, Clone, Debug)]
struct Linear {
    weight: Array,
    bias: Option<Array>,
    #[tree(static)]
    features: (usize, usize),
}

#[derive(Tree, Clone, Debug)]
enum Activation {
    Relu,
    Gelu,
    Leaky(Array, #[tree(static)] u8),
    Affine { scale: Array, r#type: Static<&'static str> },
}

#[derive(Tree, Clone, Debug)]
struct Block<T, const N: usize> {
    layers: [T; N],
    activation: Activation,
}

#[derive(Tree, Clone, Debug)]
enum Nested {
    Leaf(Array),
    Pair(Box<(Nested, Nested)>),
}

#[derive(Tree, Clone, Copy, Debug, PartialEq)]
struct Unit;

fn identity(array: &Array) -> (u64, u32) {
    match array.kind {
        Kind::Traced { trace, var } => (trace, var),
        Kind::Concrete(_) => unreachable!("the tests make traced arrays"),
    }
}

fn identities<T: Tree>(tree: &T) -> Vec<(u64, u32)> {
    leaves(tree).iter().map(identity).collect()
}

fn hash<T: Tree>(tree: &T) -> u64 {
    let mut hasher = FxHasher::default();
    Signature::hash_of(tree, &mut hasher);
    hasher.finish()
}

/// Checks the laws of one tree and returns its paths.
#[track_caller]
fn check<T: Tree>(tree: &T) -> Vec<String> {
    let (structure, signature) = (structure(tree), Signature::of(tree));
    assert_eq!(structure.n_leaves(), leaves(tree).len());
    assert_eq!(signature.avals().len(), structure.n_leaves());
    assert_eq!(signature.paths(), structure.paths());

    let rebuilt = rebuild(tree, leaves(tree));
    assert_eq!(identities(&rebuilt), identities(tree), "unflatten undoes flatten");
    assert_eq!(super::structure(&rebuilt), structure);

    assert!(signature.matches(&rebuilt));
    assert_eq!(hash(&rebuilt), hash(tree));
    assert_eq!(signature.difference(&Signature::of(&rebuilt)), "");
    structure.paths().to_vec()
}

fn linear(leaves: &Leaves) -> Linear {
    Linear { weight: leaves.next(), bias: Some(leaves.next()), features: (2, 3) }
}

#[test]
fn containers_name_their_leaves() {
    let l = Leaves::new();
    assert_eq!(check(&l.next()), [""]);
    assert_eq!(check(&Box::new(l.next())), [""]);
    assert_eq!(check(&Some(l.next())), [""]);
    assert_eq!(check(&vec![l.next(), l.next()]), ["[0]", "[1]"]);
    assert_eq!(check(&[l.next(), l.next()]), ["[0]", "[1]"]);
    assert_eq!(check(&(l.next(), (l.next(), vec![l.next()]))), ["[0]", "[1][0]", "[1][1][0]"]);
    assert_eq!(check(&vec![Some(l.next()), None, Some(l.next())]), ["[0]", "[2]"]);
    assert_eq!(check(&BTreeMap::from([(2, l.next()), (1, l.next())])), ["1", "2"]);
    let map = BTreeMap::from([("head", vec![l.next()]), ("body", vec![])]);
    assert_eq!(check(&map), ["head[0]"]);
    assert_eq!(check(&vec![map]), ["[0].head[0]"]);
}

#[test]
fn the_longest_tuple_keeps_its_order() {
    let l = Leaves::new();
    let n = || l.next();
    let tuple = (n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), n(), n());
    let expected: Vec<String> = (0..12).map(|index| format!("[{index}]")).collect();
    assert_eq!(check(&tuple), expected);
    let sizes: Vec<usize> = leaves(&tuple).iter().map(Array::size).collect();
    assert_eq!(sizes, (0..12).collect::<Vec<_>>());
}

#[test]
fn trees_without_leaves_are_trees() {
    let none: [String; 0] = [];
    assert_eq!(check(&()), none);
    assert_eq!(check(&Unit), none);
    assert_eq!(check(&None::<Array>), none);
    assert_eq!(check(&Vec::<Array>::new()), none);
    assert_eq!(check::<[Array; 0]>(&[]), none);
    assert_eq!(check(&HashMap::<String, Array>::new()), none);
    assert_eq!(check(&PhantomData::<str>), none);
    assert_eq!(check(&Activation::Relu), none);
    assert_eq!(check(&(true, 'x', -1i128, 7usize, "a", String::from("b"), Static([1, 2]))), none);
}

#[test]
fn derived_trees_name_their_leaves_by_field() {
    let l = Leaves::new();
    let block = Block {
        layers: [linear(&l), Linear { bias: None, ..linear(&l) }],
        activation: Activation::Leaky(l.next(), 3),
    };
    let paths = check(&block);
    assert_eq!(paths, ["layers[0].weight", "layers[0].bias", "layers[1].weight", "activation[0]"]);
    assert_eq!(structure(&block).to_string(), paths.join("\n") + "\n");
    let affine = Activation::Affine { scale: l.next(), r#type: Static("a") };
    assert_eq!(check(&affine), ["scale"]);
    let nested = Nested::Pair(Box::new((Nested::Leaf(l.next()), Nested::Leaf(l.next()))));
    assert_eq!(check(&nested), ["[0][0][0]", "[0][1][0]"]);
}

#[test]
fn rebuilt_trees_keep_their_static_values() {
    let l = Leaves::new();
    let tree = (linear(&l), Activation::Leaky(l.next(), 9), Unit);
    let rebuilt = map(&tree, |_| l.next());
    assert_eq!(rebuilt.0.features, (2, 3));
    assert!(matches!(rebuilt.1, Activation::Leaky(_, 9)));
    assert_ne!(identities(&rebuilt), identities(&tree));
    assert_eq!(structure(&rebuilt), structure(&tree));
}

#[test]
fn maps_are_matched_by_key() {
    let l = Leaves::new();
    let entries: Vec<(u32, Array)> = (0..100).rev().map(|key| (key, l.next())).collect();
    let ordered: BTreeMap<u32, Array> = entries.iter().cloned().collect();
    let hashed: HashMap<u32, Array> = entries.into_iter().collect();
    assert_eq!(check(&hashed), (0..100).map(|key| key.to_string()).collect::<Vec<_>>());
    assert_eq!(identities(&hashed), identities(&ordered));
    let rebuilt = map(&hashed, Array::clone);
    assert!(rebuilt.iter().all(|(key, leaf)| identity(leaf) == identity(&hashed[key])));
}

#[test]
fn map_with_path_pairs_each_leaf_with_its_own() {
    let l = Leaves::new();
    let tree = (linear(&l), vec![l.next()]);
    let mut seen = Vec::new();
    let same = map_with_path(&tree, |path, leaf| {
        seen.push(format!("{path}: {}", leaf.aval()));
        leaf.clone()
    });
    assert_eq!(seen, ["[0].weight: f32[0]", "[0].bias: f32[1]", "[1][0]: f32[2]"]);
    assert_eq!(identities(&same), identities(&tree));
}

/// Checks that the signatures differ, both ways, and returns how.
#[track_caller]
fn differ<T: Tree>(a: &T, b: &T) -> String {
    let (left, right) = (Signature::of(a), Signature::of(b));
    assert!(left.matches(a) && right.matches(b));
    assert!(!left.matches(b) && !right.matches(a));
    assert_ne!(hash(a), hash(b));
    left.difference(&right)
}

#[test]
fn signatures_distinguish_programs_that_compile_separately() {
    let l = Leaves::new();
    let a = linear(&l);
    let wider = Linear { features: (2, 4), ..a.clone() };
    assert_eq!(differ(&a, &wider), "$.features: static (2, 3) -> static (2, 4)");
    let without = Linear { bias: None, ..a.clone() };
    assert_eq!(differ(&a, &without), "$.bias: `Some` -> `None`");
    let other = Linear { weight: l.of(DType::BF16, [2, 3]), ..a.clone() };
    assert_eq!(differ(&a, &other), "$.weight: f32[0] -> bf16[2,3]");
    let both = Linear { bias: Some(l.of(DType::F32, [])), ..other };
    assert_eq!(differ(&a, &both), "$.weight: f32[0] -> bf16[2,3], $.bias: f32[1] -> f32[]");
    let (one, two) = (vec![l.next()], vec![l.next(), l.next()]);
    assert_eq!(differ(&one, &two), "$: 1 child -> 2 children");
    assert_eq!(differ(&l.next(), &l.next()), "$: f32[5] -> f32[6]");
    let (x, y) = (l.next(), l.next());
    let keys = (BTreeMap::from([("x", x.clone())]), BTreeMap::from([("y", x.clone())]));
    assert_eq!(differ(&keys.0, &keys.1), "$: static \"x\" -> static \"y\"");
    assert_eq!(
        differ(
            &Nested::Leaf(x),
            &Nested::Pair(Box::new((Nested::Leaf(y.clone()), Nested::Leaf(y))))
        ),
        "$: `Nested::Leaf` -> `Nested::Pair`"
    );
    assert_eq!(differ(&(1u8, true), &(1u8, false)), "$[1]: static true -> static false");
}

/// Two variants with names of one length must not share a hash, or lookups become walks.
#[test]
fn variants_hash_by_name() {
    let difference = differ(&Activation::Relu, &Activation::Gelu);
    assert_eq!(difference, "$: `Activation::Relu` -> `Activation::Gelu`");
}

#[test]
fn a_weak_leaf_has_another_signature() {
    let l = Leaves::new();
    let aval = Aval::new(DType::F32, []);
    let (strong, weak) = (l.tracing.input(aval.clone()), Aval { weak: true, ..aval });
    assert_eq!(differ(&strong, &l.tracing.input(weak)), "$: f32[] -> ~f32[]");
}

/// Written by hand, and silent about its length.
struct Bag(Vec<Array>);

impl Tree for Bag {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        self.0.iter().for_each(|leaf| visitor.leaf(leaf));
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Bag {
        Bag(leaves.take(self.0.len()).collect())
    }
}

#[test]
fn longer_tree_does_not_match_its_prefix() {
    let l = Leaves::new();
    let (short, long) = (Bag(vec![l.next()]), Bag(vec![l.of(DType::F32, [0]), l.next()]));
    assert_eq!(differ(&short, &long), "$: nothing -> an array");
    assert_eq!(differ(&long, &short), "$: an array -> nothing");
}

/// The error that `f` throws, without the line that says where in this file.
#[track_caller]
fn thrown<R>(f: impl FnOnce() -> R) -> String {
    let error = catch(f).err().expect("the trees do not fit").to_string();
    assert!(error.contains(file!()), "names the caller's file: {error}");
    let lines = error.lines().filter(|line| !line.trim_start().starts_with("-->"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn zip_map_pairs_leaves_and_names_the_first_difference() {
    let l = Leaves::new();
    let (a, b) = (linear(&l), linear(&l));
    let second = zip_map(&a, &b, |_, b| b.clone());
    assert_eq!(identities(&second), identities(&b));

    let without = Linear { bias: None, ..b.clone() };
    expect![[r#"
        error[tree]: $.bias: the structures differ: the first tree has `Some`, the second has `None`
          help: build both trees the same way"#]]
    .assert_eq(&thrown(|| zip_map(&a, &without, |a, _| a.clone())));
    expect![[r#"
        error[tree]: $: the structures differ: the first tree has 1 child, the second has 2 children
          help: build both trees the same way"#]]
    .assert_eq(&thrown(|| zip_map(&vec![a.clone()], &vec![a.clone(), b], |a, _| a.clone())));
    expect![[r#"
        error[tree]: $[1]: the structures differ: the first tree has static 3, the second has static 4
          help: build both trees the same way"#]]
    .assert_eq(&thrown(|| zip_map(&(l.next(), 3), &(l.next(), 4), |a, _| a.clone())));
}

#[test]
fn unflatten_counts_its_leaves() {
    let l = Leaves::new();
    let template = linear(&l);
    let tree = unflatten(&template, [l.next(), l.next()]);
    assert_eq!(
        identities(&tree),
        [(identity(&tree.weight)), (identity(tree.bias.as_ref().unwrap()))]
    );
    expect!["error[tree]: $: expected 2 leaves, got 1: none for $.bias"]
        .assert_eq(&thrown(|| unflatten(&template, [l.next()])));
    expect!["error[tree]: $: expected 2 leaves, got 3"]
        .assert_eq(&thrown(|| unflatten(&template, [l.next(), l.next(), l.next()])));
}
