//! Types on which the derive must work, and the structure it reports for them.

#![deny(warnings, reason = "a derive must not make its user's code warn")]

use oxidax::core::Array;
use oxidax::tree::{self, PathKey, Static, Tag, Visitor};
use oxidax::{Tree, tree::Signature};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

/// Records the visits of a tree.
#[derive(Default)]
struct Events(Vec<String>);

impl Visitor for Events {
    fn leaf(&mut self, leaf: &Array) {
        self.0.push(leaf.aval().to_string());
    }
    fn tag(&mut self, tag: Tag<'_>) {
        self.0.push(match tag {
            Tag::Name(name) => name.to_string(),
            Tag::Len(len) => len.to_string(),
            Tag::Static(value) => format!("={value:?}"),
        });
    }
    fn enter(&mut self, key: PathKey<'_>) {
        self.0.push(match key {
            PathKey::Field(name) => format!(".{name}("),
            PathKey::Index(index) => format!("[{index}]("),
            PathKey::Entry(key) => format!("{{{key}}}("),
        });
    }
    fn exit(&mut self) {
        self.0.push(")".into());
    }
}

fn events<T: Tree>(tree: &T) -> String {
    let mut events = Events::default();
    tree.flatten(&mut events);
    events.0.join(" ")
}

fn is_tree<T: Tree>() {}

/// Flattens and unflattens a tree without leaves.
fn rebuilt<T: Tree>(tree: &T) -> T {
    tree.unflatten(&mut std::iter::empty())
}

#[derive(Tree, Debug, PartialEq)]
struct Named {
    r#type: u8,
    #[tree(static)]
    shape: Vec<usize>,
    children: (bool, Static<char>),
}

#[derive(Tree, Debug, PartialEq)]
struct Numbered(u8, #[tree(static)] [i32; 2], Option<Unit>);

#[derive(Tree, Debug, PartialEq)]
struct Unit;

#[derive(Tree, Debug, PartialEq)]
struct Empty {}

#[derive(Tree, Debug, PartialEq)]
enum Choice {
    Unit,
    Numbered(u8, #[tree(static)] (u8, u8)),
    Named { depth: usize, r#in: BTreeMap<String, u8> },
}

#[derive(Tree)]
enum Never {}

#[test]
fn structs_visit_name_and_fields_in_order() {
    let named = Named { r#type: 1, shape: vec![2, 3], children: (true, Static('c')) };
    let expected = "Named .type( =1 ) =[2, 3] .children( 2 [0]( =true ) [1]( ='c' ) )";
    assert_eq!(events(&named), expected);
    assert_eq!(rebuilt(&named), named);

    let numbered = Numbered(1, [2, 3], Some(Unit));
    assert_eq!(events(&numbered), "Numbered [0]( =1 ) =[2, 3] [2]( Some Unit )");
    assert_eq!(rebuilt(&numbered), numbered);

    assert_eq!((events(&Unit), events(&Empty {})), ("Unit".into(), "Empty".into()));
    assert_eq!((rebuilt(&Unit), rebuilt(&Empty {})), (Unit, Empty {}));
}

#[test]
fn enums_visit_their_variant() {
    let named = Choice::Named { depth: 4, r#in: BTreeMap::from([("k".into(), 5)]) };
    let choices = [Choice::Unit, Choice::Numbered(1, (2, 3)), named];
    let expected = [
        "Choice::Unit",
        "Choice::Numbered [0]( =1 ) =(2, 3)",
        "Choice::Named .depth( =4 ) .in( 1 =\"k\" {k}( =5 ) )",
    ];
    for (choice, expected) in choices.iter().zip(expected) {
        assert_eq!(events(choice), expected);
        assert_eq!(rebuilt(choice), *choice);
    }
    let signatures = choices.each_ref().map(Signature::of);
    for (row, signature) in signatures.iter().enumerate() {
        let matches: Vec<bool> = choices.iter().map(|choice| signature.matches(choice)).collect();
        assert_eq!(matches, [row == 0, row == 1, row == 2]);
    }
    is_tree::<Never>();
}

/// The optimizer state for one kind of parameters.
trait Rule: Send + Sync + 'static {
    type State;
    type Config;
}

struct Adam;

impl Rule for Adam {
    type State = (u8, bool);
    type Config = &'static str;
}

#[derive(Tree)]
struct Optimizer<R: Rule> {
    states: Vec<R::State>,
    #[tree(static)]
    config: <R as Rule>::Config,
    rule: PhantomData<R>,
}

#[derive(Tree, Debug, PartialEq)]
struct Stack<First, Rest = Unit, Label: ?Sized = str, const N: usize = 2>
where
    First: Debug,
{
    first: [Option<First>; N],
    rest: Box<Rest>,
    label: PhantomData<Label>,
}

#[derive(Tree, Debug, PartialEq)]
struct Labelled<T, L> {
    tree: T,
    #[tree(static)]
    label: Vec<L>,
}

#[derive(Tree)]
enum Recursive<T> {
    Leaf(T),
    Node { left: Box<Self>, right: Box<Recursive<T>> },
    Many(Vec<Recursive<T>>),
}

#[test]
fn type_parameters_get_required_bounds() {
    let optimizer: Optimizer<Adam> =
        Optimizer { states: vec![(1, true)], config: "fast", rule: PhantomData };
    let expected = "Optimizer .states( 1 [0]( 2 [0]( =1 ) [1]( =true ) ) ) =\"fast\" .rule( )";
    assert_eq!(events(&optimizer), expected);
    assert_eq!(events(&rebuilt(&optimizer)), expected);

    let stack: Stack<u8> = Stack { first: [Some(1), None], rest: Unit.into(), label: PhantomData };
    let expected = "Stack .first( 2 [0]( Some =1 ) [1]( None ) ) .rest( Unit ) .label( )";
    assert_eq!(events(&stack), expected);
    assert_eq!(rebuilt(&stack), stack);

    fn generic<T: Tree, L: Clone + Eq + Hash + Debug + Send + Sync + 'static>() {
        is_tree::<Labelled<T, L>>();
    }
    generic::<Array, char>();
    let labelled = Labelled { tree: (), label: vec!['x'] };
    assert_eq!(rebuilt(&labelled), labelled);
    is_tree::<Recursive<Array>>();
    is_tree::<Labelled<Stack<Array, Vec<Array>, dyn Send + Sync>, String>>();
}

macro_rules! layer {
    ($name:ident { $($field:ident: $ty:ty),* }) => {
        #[derive(Tree)]
        struct $name<T> { $($field: $ty,)* other: T }
    };
}

/// The generated code must not depend on the names in scope.
mod hostile {
    #![expect(non_upper_case_globals, dead_code, reason = "the names are the test")]
    use super::is_tree;

    mod core {}
    mod oxidax {}
    struct Option;
    struct Iterator;
    struct Clone;
    struct Array;
    struct Visitor;
    const field_0: u8 = 0;

    #[derive(::oxidax::Tree)]
    struct Hostile {
        visitor: ::oxidax::core::Array,
        leaves: ::oxidax::core::Array,
        #[tree(static)]
        field_0: u8,
    }

    #[test]
    fn derive_is_hygienic() {
        is_tree::<Hostile>();
    }
}

#[test]
fn types_from_macros_can_derive() {
    layer!(Layer { weight: Array, rest: Vec<Option<T>> });
    is_tree::<Layer<Array>>();
}

#[test]
fn structures_compare_static_values() {
    let labelled = |label: &str| Labelled { tree: 3u8, label: vec![label.to_string()] };
    let (a, b) = (labelled("a"), labelled("b"));
    assert_eq!(tree::structure(&a), tree::structure(&labelled("a")));
    assert_ne!(tree::structure(&a), tree::structure(&b));
    assert!(!Signature::of(&a).matches(&b));
    let difference = Signature::of(&a).difference(&Signature::of(&b));
    assert_eq!(difference, "$.label: static [\"a\"] -> static [\"b\"]");
}
