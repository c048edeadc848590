//! Trees: paths of leaves and trees as one vector, as JAX gives them.

use num_complex::Complex;
use oxidax::prelude::*;
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;

#[derive(Tree)]
struct Linear {
    weight: Array,
    bias: Option<Array>,
    #[tree(static)]
    name: &'static str,
}

/// One of two trees, without a step in paths: the values of a dictionary differ in type.
enum Either<A, B> {
    Left(A),
    Right(B),
}

impl<A: Tree, B: Tree> Tree for Either<A, B> {
    fn flatten(&self, visitor: &mut dyn tree::Visitor) {
        match self {
            Either::Left(tree) => tree.flatten(visitor),
            Either::Right(tree) => tree.flatten(visitor),
        }
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        match self {
            Either::Left(tree) => Either::Left(tree.unflatten(leaves)),
            Either::Right(tree) => Either::Right(tree.unflatten(leaves)),
        }
    }
}

/// Makes arrays with consecutive numbers.
#[derive(Default)]
struct Numbered(Cell<i32>);

impl Numbered {
    fn of<const N: usize>(&self, shape: [usize; N], dtype: DType) -> Array {
        let size: usize = shape.iter().product();
        let first = self.0.replace(self.0.get() + size as i32);
        ((arange(size) + first).reshape(shape)).astype(dtype)
    }

    fn f32s<const N: usize>(&self, shape: [usize; N]) -> Array {
        self.of(shape, DType::F32)
    }
}

fn names<T: Tree>(values: &[T]) -> Vec<&'static str> {
    values.iter().flat_map(tree::leaves).map(|leaf| leaf.dtype().name()).collect()
}

/// Compares a tree with the recorded case.
fn check<T: Tree>(case: &Value, tree: &T) {
    let name = &case["name"];
    let texts = |key: &str| -> Vec<String> {
        case[key].as_array().unwrap().iter().map(|x| x.as_str().unwrap().into()).collect()
    };
    let paths = tree::key_paths(tree);
    let keystr: Vec<String> = paths.iter().map(ToString::to_string).collect();
    assert_eq!(keystr, texts("keystr"), "{name}");
    let simple: Vec<String> = paths.iter().map(|path| path.join("/")).collect();
    assert_eq!(simple, texts("simple"), "{name}");

    let (flat, unravel) = tree::ravel(tree);
    assert_eq!(flat.dtype().name(), case["dtype"], "{name}");
    let found: Vec<Complex<f32>> = flat.astype(DType::C64).to_vec().unwrap();
    let expected = case["flat"].as_array().unwrap().iter().map(|number| {
        let part = |index: usize| number[index].as_f64().unwrap() as f32;
        Complex::new(part(0), part(1))
    });
    assert_eq!(found, expected.collect::<Vec<_>>(), "{name}");
    assert_eq!(names(&[unravel(&flat)]), texts("back"), "{name}");
    let other = oxidax::catch(|| unravel(&flat.astype(DType::F16)));
    match &case["other"] {
        Value::Null => assert!(other.is_err(), "{name}: JAX refuses another dtype"),
        _ => assert_eq!(names(&[other.unwrap()]), texts("other"), "{name}"),
    }
}

fn check_case(case: &Value) {
    let n = Numbered::default();
    match case["name"].as_str().unwrap() {
        "nested" => {
            let layers = vec![(n.f32s([2, 2]), n.f32s([2])), (n.f32s([3]), n.f32s([]))];
            let head = Either::Left(n.f32s([2]));
            check(case, &BTreeMap::from([("layers", Either::Right(layers)), ("head", head)]));
        }
        "number_keys" => {
            let (ten, two) = (Either::Left(n.f32s([2])), Either::Left(n.f32s([1])));
            let last = Either::Right((n.f32s([1]),));
            check(case, &BTreeMap::from([(10, ten), (2, two), (33, last)]));
        }
        "quotes" => {
            let keys = ["it's", "a\"b", "a.b[0]", "tab\t\\"];
            check(case, &BTreeMap::from(keys.map(|key| (key, n.f32s([1])))));
        }
        "dataclass" => {
            let layers = vec![
                Linear { weight: n.f32s([2, 3]), bias: Some(n.f32s([3])), name: "a" },
                Linear { weight: n.f32s([3]), bias: None, name: "b" },
            ];
            let head = Linear { weight: n.f32s([2]), bias: Some(n.f32s([1])), name: "c" };
            assert_eq!(layers[1].name, "b");
            check(case, &(layers, BTreeMap::from([("head", head)])));
        }
        "leaf" => check(case, &n.f32s([2, 3])),
        "empty" => check(case, &()),
        "weak" => check(case, &vec![zeros(([2], DType::BF16)), scalar(1.0)]),
        name => {
            let dtypes = name.strip_prefix("dtypes ").unwrap().split(' ');
            let dtypes = dtypes.map(|name| DType::from_name(name).unwrap());
            check(case, &dtypes.map(|dtype| n.of([2], dtype)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn paths_and_vectors_match_jax() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python-compat/fixtures/trees.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let cases = recorded["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 13);
    cases.iter().for_each(check_case);
}
