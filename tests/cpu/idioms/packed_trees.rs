//! Trees that are stored as one array per dtype.

use oxidax::prelude::*;
use oxidax::tree::PackedTree;

use super::array;

type Layer = (Array, Array);

fn layers() -> Vec<Layer> {
    let weight = |n: usize| (arange(n * n).astype(DType::F32) * 0.1).reshape([n, n]);
    (0..3).map(|at| (weight(3) + at, ones([3]) * at)).collect()
}

fn loss(layers: &[Layer], x: &Array) -> Array {
    let layer = |x: Array, (weight, bias): &Layer| tanh(&(x.matmul(weight) * 0.1 + bias));
    layers.iter().fold(x.clone(), layer).sum()
}

#[test]
fn trees_of_several_dtypes_are_packed_and_unpacked() {
    let scalar = array(&[3.0]).sum();
    let tree = (array(&[1.0, 2.0]), arange(4).reshape([2, 2]), scalar, zeros([0, 5]));
    let packed = PackedTree::new(&tree);
    let types: Vec<String> = packed.arrays().iter().map(|x| x.aval().to_string()).collect();
    assert_eq!(types, ["f32[3]", "i32[4]"]);
    assert_eq!(tree::paths(&packed), ["f32", "i32"]);
    let (a, n, b, empty) = packed.clone().unpack();
    assert_eq!(a.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(n.to_vec::<i32>().unwrap(), [0, 1, 2, 3]);
    assert_eq!((n.shape().dims(), empty.shape().dims()), (&[2, 2][..], &[0, 5][..]));
    assert_eq!(b.item::<f32>().unwrap(), 3.0);
    let nothing = PackedTree::new(&Vec::<Array>::new());
    assert!(nothing.arrays().is_empty() && nothing.unpack().is_empty());
}

#[test]
fn trees_with_equal_arrays_and_other_leaves_have_other_structures() {
    let f = jit(|packed: PackedTree<Vec<Array>>| {
        let sizes = packed.unpack().iter().map(Array::size).collect::<Vec<_>>();
        (packed, sizes.iter().map(|&size| scalar(size as i32)).collect::<Vec<_>>())
    });
    let sizes = |leaves: &[&[usize]]| {
        let leaves: Vec<Array> = leaves.iter().map(|&shape| ones(shape.to_vec())).collect();
        let (packed, sizes) = f.call(PackedTree::new(&leaves)).unwrap();
        assert_eq!(packed.unpack()[0].shape().dims(), leaves[0].shape().dims());
        sizes.iter().map(|size| size.item::<i32>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[&[2, 3], &[3]]), [6, 3]);
    assert_eq!(sizes(&[&[2, 3], &[3]]), [6, 3]);
    assert_eq!(f.stats().compiles, 1);
    assert_eq!(sizes(&[&[3], &[2, 3]]), [3, 6]);
    assert_eq!(sizes(&[&[6], &[3]]), [6, 3]);
    assert_eq!(f.stats().compiles, 3);
    let [a, b] = [&[6][..], &[2, 3]].map(|shape| PackedTree::new(&vec![ones(shape.to_vec())]));
    let error = catch(|| tree::add(&a, &b)).unwrap_err().to_string();
    assert!(error.contains("$"), "{error}");
}

#[test]
fn gradients_of_packed_trees_are_concatenations() {
    let x = array(&[1.0, 2.0, 3.0]);
    let expected = grad(|layers: &Vec<Layer>| loss(layers, &x))(&layers());
    let packed = PackedTree::new(&layers());
    let gradient = grad(|layers: &PackedTree<Vec<Layer>>| loss(&layers.unpack(), &x))(&packed);
    for ((weight, bias), (w, b)) in gradient.unpack().iter().zip(&expected) {
        assert_eq!(weight.to_vec::<f32>().unwrap(), w.to_vec::<f32>().unwrap());
        assert_eq!(bias.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    }
    let program = make_program(
        move |packed: PackedTree<Vec<Layer>>| {
            grad(|layers: &PackedTree<Vec<Layer>>| loss(&layers.unpack(), &x))(&packed)
        },
        packed,
    );
    let text = program.unwrap().to_string();
    assert!(text.contains("= concatenate[") && !text.contains("= pad["), "{text}");
}

#[test]
fn packed_training_equals_training_of_leaves() {
    let x = array(&[1.0, 2.0, 3.0]);
    let optimizer = optim::adamw(0.1);
    let mut separate = layers();
    let mut state = optimizer.init(&separate);
    let mut packed = PackedTree::new(&separate);
    let mut packed_state = optimizer.init(&packed);
    for _ in 0..3 {
        let gradients = grad(|layers: &Vec<Layer>| loss(layers, &x))(&separate);
        let (updates, next) = optimizer.update(&gradients, &state, &separate);
        (separate, state) = (optim::apply_updates(&separate, &updates), next);
        let gradients = grad(|layers: &PackedTree<Vec<Layer>>| loss(&layers.unpack(), &x))(&packed);
        let (updates, next) = optimizer.update(&gradients, &packed_state, &packed);
        (packed, packed_state) = (optim::apply_updates(&packed, &updates), next);
    }
    for (a, b) in tree::leaves(&separate).iter().zip(tree::leaves(&packed.unpack())) {
        for (a, b) in a.to_vec::<f32>().unwrap().iter().zip(b.to_vec::<f32>().unwrap()) {
            assert!((a - b).abs() <= 1e-6, "{a} is not {b}");
        }
    }
}
