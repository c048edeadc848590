//! Maps over trees: nodes of a type, values that are not arrays, prefixes, many arguments.

use oxidax::prelude::*;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

#[derive(Tree, Clone, Debug)]
struct Linear {
    weight: Array,
    bias: Option<Array>,
    #[tree(static)]
    eps: f32,
    #[tree(static)]
    cap: Option<f64>,
}

#[derive(Tree, Clone, Debug)]
enum Layer<T, const N: usize> {
    Dense(Linear),
    Stack {
        parts: [T; N],
        #[tree(static)]
        activation: fn(&Array) -> Array,
        dtype: DType,
    },
    Empty,
    Shared(Arc<Linear>),
    Maps(HashMap<String, T>, BTreeMap<u8, Box<Layer<T, N>>>, VecDeque<T>, Box<[T]>),
}

fn linear(size: usize) -> Linear {
    Linear { weight: ones([size]), bias: None, eps: 0.1, cap: Some(2.0) }
}

fn model() -> Vec<Layer<Linear, 2>> {
    let maps = Layer::Maps(
        [("b", 6), ("a", 7)].map(|(key, size)| (key.to_string(), linear(size))).into(),
        [(3, Box::new(Layer::Dense(linear(8))))].into(),
        [linear(9)].into(),
        vec![linear(10)].into(),
    );
    let stack =
        Layer::Stack { parts: [linear(3), linear(4)], activation: |x| tanh(x), dtype: DType::F32 };
    vec![Layer::Dense(linear(2)), stack, Layer::Empty, Layer::Shared(Arc::new(linear(5))), maps]
}

#[test]
fn nodes_are_found_in_every_container() {
    let nodes = tree::nodes_with_path::<Linear, _>(&model());
    let found: Vec<(&str, usize)> =
        nodes.iter().map(|(path, node)| (path.as_str(), node.weight.size())).collect();
    assert_eq!(
        found,
        [
            ("[0][0]", 2),
            ("[1].parts[0]", 3),
            ("[1].parts[1]", 4),
            ("[3][0]", 5),
            ("[4][0].a", 7),
            ("[4][0].b", 6),
            ("[4][1].3[0]", 8),
            ("[4][2][0]", 9),
            ("[4][3][0]", 10),
        ]
    );
    let paths: Vec<String> = nodes.iter().map(|(path, _)| format!("{path}.weight")).collect();
    assert_eq!(tree::paths(&model()), paths);
}

#[test]
fn nodes_are_replaced_by_nodes_of_another_structure() {
    let with_bias = |node: &Linear| Linear { bias: Some(zeros([1])), ..node.clone() };
    let biased = tree::map_nodes(&model(), with_bias);
    assert_eq!(tree::leaves(&biased).len(), 18);
    assert!(tree::all(&biased, |leaf| leaf.rank() == 1));
    // Nodes inside of a replaced one are left alone.
    let mut visited = 0;
    tree::map_nodes(&biased, |layer: &Layer<Linear, 2>| {
        visited += 1;
        layer.clone()
    });
    assert_eq!(visited, 5);
    // The whole tree is a node too.
    let cut = tree::map_nodes(&biased, |all: &Vec<Layer<Linear, 2>>| all[..1].to_vec());
    assert_eq!(tree::paths(&cut), ["[0][0].weight", "[0][0].bias"]);
    assert!(
        matches!(&biased[1], Layer::Stack { dtype: DType::F32, parts, .. } if parts[0].eps == 0.1)
    );
}

#[test]
fn nodes_of_two_trees_are_combined_by_path() {
    let (a, b) = (vec![Some(ones([2])), None], vec![None, Some(ones([3]))]);
    let first = |a: &Option<Array>, b: &Option<Array>| a.clone().or(b.clone());
    let merged = tree::zip_nodes(&a, &b, first);
    assert_eq!(merged.iter().flatten().map(Array::size).collect::<Vec<_>>(), [2, 3]);
    let error = oxidax::catch(|| tree::zip_nodes(&a, &b[..1].to_vec(), first)).unwrap_err();
    assert!(error.to_string().contains("$[1]: zip_nodes: the second tree has no such"), "{error}");
    let error = oxidax::catch(|| tree::zip_nodes(&a[..1].to_vec(), &b, first)).unwrap_err();
    assert!(error.to_string().contains("$[1]: zip_nodes: the first tree has no such"), "{error}");
}

#[test]
fn nodes_of_several_trees_are_combined() {
    type Leaf = Option<Array>;
    let (a, b, c) = (vec![None, Some(ones([2]))], vec![None, None], vec![Some(ones([3])), None]);
    let first = |all: [&Leaf; 3]| all.into_iter().flatten().next().cloned();
    let merged = tree::map_nodes_of([&a, &b, &c], first);
    assert_eq!(merged.iter().flatten().map(Array::size).collect::<Vec<_>>(), [3, 2]);
    let present = |all: [&Leaf; 3]| all.map(Option::is_some);
    let found = tree::map_node_values([&a, &b, &c], present);
    let expected = [("[0]", [false, false, true]), ("[1]", [true, false, false])];
    assert_eq!(found, expected.map(|(path, value)| (path.to_string(), value)));
    for (trees, number) in [([&a, &b, &c[..1].to_vec()], 3), ([&a[..1].to_vec(), &b, &c], 1)] {
        let error = oxidax::catch(|| tree::map_node_values(trees, present)).unwrap_err();
        let text = format!("$[1]: map_node_values: tree {number} of 3 has no such node here");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[test]
fn static_floats_and_functions_are_part_of_the_key_of_programs() {
    let double = jit(|model: &Vec<Layer<Linear, 2>>| tree::map(model, |x| x * 2.0));
    let same = double.call(model()).unwrap();
    assert_eq!(tree::structure(&same), tree::structure(&model()));
    double.call(model()).unwrap();
    assert_eq!(double.stats().compiles, 1);
    let other = tree::map_nodes(&model(), |node: &Linear| Linear { eps: 0.2, ..node.clone() });
    double.call(&other).unwrap();
    let other = tree::map_nodes(&model(), |node: &Linear| Linear { cap: None, ..node.clone() });
    double.call(&other).unwrap();
    assert_eq!(double.stats().compiles, 3);
}

#[test]
fn values_of_any_type_have_the_structure_of_the_tree() {
    let params = (ones([2, 3]), vec![zeros([3]), zeros([4])]);
    let sizes = tree::map_values(&params, Array::size);
    assert_eq!(format!("{sizes:?}"), r#"{"[0]": 6, "[1][0]": 3, "[1][1]": 4}"#);
    assert_eq!(sizes.iter().map(|(path, _)| path).collect::<Vec<_>>(), tree::paths(&params));
    let named = sizes.map_with_path(|path, size| format!("{path}={size}"));
    assert_eq!(named["[1][1]"], "[1][1]=4");
    let both = sizes.zip_map(&named, |size, name| name.len() + size);
    assert_eq!(both.into_values(), [11, 11, 12]);
    let [one, two] = tree::map_values(&params, |x| [x * 1.0, x + 2.0]).transpose();
    assert_eq!(one.1[1].to_vec::<f32>().unwrap(), [0.0; 4]);
    assert_eq!(two.1[1].to_vec::<f32>().unwrap(), [2.0; 4]);
    let lists = tree::transpose(&[one.clone(), two.clone(), one]);
    assert_eq!(lists.map(Vec::len).values(), [3, 3, 3]);
    let trees = lists.transpose();
    assert_eq!(trees[1].0.to_vec::<f32>().unwrap(), [3.0; 6]);
    let error = oxidax::catch(|| sizes["[2]"]).unwrap_err().to_string();
    assert!(error.contains("$[2]: the tree has no leaf at this path"), "{error}");
    let uneven = tree::LeafValues::new(&params, [vec![zeros([1])], vec![], vec![]]);
    let error = oxidax::catch(|| uneven.transpose()).unwrap_err().to_string();
    assert!(error.contains("$[1][0]: transpose: lists differ in length: 0 here, 1"), "{error}");
}

#[test]
fn prefixes_are_broadcast_and_checked() {
    let params = (vec![ones([2]), ones([3])], (linear(4), None::<Array>));
    let rates = tree::broadcast(&(scalar(1.0), (scalar(2.0), scalar(3.0))), &params);
    let found: Vec<f32> =
        tree::leaves(&rates).iter().map(|rate| rate.item::<f32>().unwrap()).collect();
    assert_eq!(found, [1.0, 1.0, 2.0]);
    assert_eq!(tree::broadcast(&scalar(5.0), &params).1.0.weight.rank(), 0);
    let labels = tree::LeafValues::new(&(scalar(0.0), scalar(0.0)), ["a", "b"]);
    assert_eq!(labels.broadcast_to(&params).values(), ["a", "a", "b"]);
    let message = |f: &dyn Fn()| oxidax::catch(f).unwrap_err().to_string();
    let error = message(&|| drop(tree::broadcast(&(scalar(1.0),), &params)));
    assert!(error.contains("$[1][0].weight: tree::broadcast: no leaf of the prefix"), "{error}");
    assert!(error.contains(file!()), "{error}");
    let three = (scalar(1.0), scalar(2.0), scalar(3.0));
    let error = message(&|| drop(tree::broadcast(&three, &params)));
    assert!(error.contains("$[2]: tree::broadcast: the tree"), "{error}");
}

#[test]
fn functions_of_arrays_take_trees() {
    let loss = |(w, target): &(Array, Vec<Array>)| {
        let fixed = stop_gradient(target);
        (w * &fixed[0]).sum()
    };
    let (dw, dtarget) = grad(loss)(&(ones([2]), vec![full([2], 3.0)]));
    assert_eq!(dw.to_vec::<f32>().unwrap(), [3.0, 3.0]);
    assert_eq!(dtarget[0].to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let x = ones([2]);
    assert_eq!((stop_gradient(&x) + stop_gradient(x.sum())).to_vec::<f32>().unwrap(), [3.0, 3.0]);
    let two: Array = stop_gradient(2.0);
    assert_eq!(two.item::<f32>().unwrap(), 2.0);
    let [a, b] = optimization_barrier([&x, &x]);
    let (c, d) = optimization_barrier((a + b, vec![x.clone()]));
    assert_eq!((c.sum() + d[0].sum()).item::<f32>().unwrap(), 6.0);
    assert!(optimization_barrier(Vec::<Array>::new()).is_empty());
    let six = optimization_barrier((&x, &x, &x, &x, &x, &d));
    assert_eq!(six.5.len(), 1);
    let named = checkpoint_name((&x, &x), "pair");
    assert_eq!(named.1.size(), 2);
    let host = device_get(&(x, vec![arange(2)])).unwrap();
    assert_eq!(host["[1][0]"].to_vec::<i32>().unwrap(), [0, 1]);
}

#[test]
fn functions_take_sixteen_arguments() {
    type A = Array;
    fn sum(list: &[&Array]) -> Array {
        list.iter().skip(1).fold(list[0].clone(), |sum, x| sum + *x)
    }
    let one = || ones([2]);
    let by_value = jit(
        |a: A,
         b: A,
         c: A,
         d: A,
         e: A,
         f: A,
         g: A,
         h: A,
         i: A,
         j: A,
         k: A,
         l: A,
         m: A,
         n: A,
         o: A,
         p: A| { sum(&[&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l, &m, &n]) + o * p },
    );
    let (x, y) = (&one(), &one());
    let z = by_value.call(x, y, x, y, x, y, x, y, x, y, x, y, x, one(), one(), 3.0).unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), [17.0, 17.0]);
    let by_reference =
        |a: &A,
         b: &A,
         c: &A,
         d: &A,
         e: &A,
         f: &A,
         g: &A,
         h: &A,
         i: &A,
         j: &A,
         k: &A,
         l: &A,
         m: &A,
         n: &A,
         o: &A,
         p: &A| { (sum(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]) * p).sum() };
    let slope = grad(by_reference)(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, &full([2], 4.0));
    assert_eq!(slope.to_vec::<f32>().unwrap(), [4.0, 4.0]);
    let rows = vmap(by_reference).in_axes([0; 16]);
    let rows = rows.apply(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
    assert_eq!(rows.to_vec::<f32>().unwrap(), [15.0, 15.0]);
}

#[test]
fn mapped_axes_may_be_values_of_leaves() {
    let layers = (ones([5, 3]), linear(5));
    let axes = tree::map_values(&layers, |leaf| (leaf.rank() == 2).then_some(0));
    let sums = vmap(|(w, layer): &(Array, Linear)| w.sum() + layer.weight.sum()).in_axes((axes,));
    assert_eq!(sums.apply(&layers).to_vec::<f32>().unwrap(), [8.0; 5]);
}
