//! Specs and shardings that are nested as arguments and results are.

use super::{mesh, values};
use oxidax::parallel::{PerLeaf, Placement};
use oxidax::prelude::*;
use std::collections::BTreeMap;

#[derive(Tree, Clone)]
struct Linear {
    weight: Array,
    bias: Option<Array>,
}

fn pair() -> (Array, Linear) {
    (ones([8]), Linear { weight: ones([8]), bias: Some(full([8], 2.0)) })
}

#[test]
fn specs_of_shard_map_are_trees() {
    let mesh = mesh([("data", 8)]);
    let f = |(x, layer): &(Array, Linear), y: &Array| {
        let bias = layer.bias.as_ref().expect("it has one");
        (x + &layer.weight + bias, vec![y * 1.0, y * 2.0])
    };
    let rows = || p!["data"];
    let by_name = || PerLeaf::fields().field("weight", rows()).field("bias", rows());
    let results = || (rows(), [p![], p![]]);
    let apply = |specs: PerLeaf<PartitionSpec>| {
        let mapped = shard_map(f, &mesh).in_specs((specs, p![])).out_specs(results());
        let (sum, list) = mapped.apply(pair(), ones([1]));
        assert_eq!(values(&list[1]), [2.0]);
        values(&sum)
    };
    assert_eq!(apply((rows(), (rows(), rows())).into()), [4.0; 8]);
    assert_eq!(apply((rows(), by_name()).into()), [4.0; 8]);
    assert_eq!(apply((rows(), rows()).into()), [4.0; 8]);
    assert_eq!(apply(tree::map_values(&pair(), |_| rows()).into()), [4.0; 8]);
    assert_eq!(apply(vec![rows(), rows()].into()), [4.0; 8]);
    let map = BTreeMap::from([("bias", rows()), ("weight", rows())]);
    assert_eq!(apply((rows(), map).into()), [4.0; 8]);
}

#[test]
fn mismatched_specs_name_the_part() {
    let mesh = mesh([("data", 8)]);
    let first = |specs: PerLeaf<PartitionSpec>| {
        let f = shard_map(|(x, _): &(Array, Linear)| x.clone(), &mesh);
        let f = f.in_specs((specs,)).out_specs(p!["data"]);
        oxidax::catch(|| f.apply(pair())).unwrap_err().to_string()
    };
    let error = first((p![], p![], p![], p![]).into());
    assert!(error.contains("in_specs names 4 specs for tree 0, which has 3 leaves"), "{error}");
    let error = first((p![], PerLeaf::fields().field("weight", p![])).into());
    assert!(
        error.contains("in_specs: `1` of tree 0 gets no entry for its field `bias`"),
        "{error}"
    );
}

#[test]
fn shardings_of_jit_are_trees() {
    let mesh = mesh([("data", 8)]);
    let (rows, whole) = (mesh.sharding(p!["data"]).unwrap(), mesh.replicated());
    let f =
        jit(|(x, layer): &(Array, Linear), y: &Array| (x + &layer.weight, vec![y * 1.0, y * 2.0]))
            .in_shardings((
                (&rows, PerLeaf::fields().field("weight", &rows).field("bias", &whole)),
                &whole,
            ))
            .out_shardings((&rows, [&whole, &rows]));
    let y = ones([8]);
    let (sum, list) = f.call(pair(), &y).unwrap();
    assert_eq!(sum.sharding(), Some(rows.clone()));
    assert_eq!(list[0].sharding(), Some(whole.clone()));
    assert_eq!(list[1].sharding(), Some(rows.clone()));
    let compiled = f.lower(pair(), &y).unwrap().compile().unwrap();
    let on = |sharding: &NamedSharding| Some(Placement::Mesh(sharding.clone()));
    assert_eq!(compiled.input_shardings(), [&rows, &rows, &whole, &whole].map(on));
    assert_eq!(compiled.output_shardings(), [&rows, &whole, &rows].map(on));
    let outer = jit(move |p: &(Array, Linear), y: &Array| f.apply(p, y));
    assert_eq!(outer.call(pair(), &y).unwrap().1[1].sharding(), Some(rows));
}

#[test]
fn device_put_takes_trees_of_shardings() {
    let mesh = mesh([("data", 8)]);
    let (rows, whole) = (mesh.sharding(p!["data"]).unwrap(), mesh.replicated());
    let put = with_sharding_constraint(&pair(), (&rows, (&whole, &rows)));
    assert_eq!(put.1.weight.sharding(), Some(whole));
    assert_eq!(put.1.bias.as_ref().and_then(Array::sharding), Some(rows));
    assert!(put.0.is_fully_addressable() && !put.0.is_fully_replicated());
    let shards = put.0.global_shards().unwrap();
    assert_eq!(shards.len(), 8);
    assert_eq!(values(shards[7].data.as_ref().unwrap()), [1.0]);
    assert_eq!(put.0.on_device_size_in_bytes().unwrap(), 32);
    assert!(put.0.addressable_data(8).unwrap_err().to_string().contains("shard 8 of 8"));
}
