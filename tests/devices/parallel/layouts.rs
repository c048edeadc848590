//! Layouts of arrays on several devices.

use super::mesh;
use oxidax::parallel::Layout;
use oxidax::prelude::*;

#[test]
fn shards_have_layouts() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let x = iota(DType::F32, 16 * 4).reshape([16, 4]);
    let (elements, columns) = (x.to_vec::<f32>().unwrap(), Layout::new([1, 0]));
    let sharded = device_put(&x, &rows).unwrap();
    let put = device_put(&sharded, &columns).unwrap();
    let format = put.format().unwrap();
    assert_eq!(format.layout, columns);
    assert_eq!(put.sharding(), Some(rows.clone()));
    assert_eq!(put.to_vec::<f32>().unwrap(), elements);
    assert_eq!(device_put(&x, format.clone()).unwrap().format().unwrap(), format);
    for (shard, expected) in put.addressable_shards().unwrap().iter().zip(elements.chunks(8)) {
        assert_eq!(shard.data.to_vec::<f32>().unwrap(), expected);
    }
    let gathered = device_put(&put, mesh.replicated()).unwrap();
    assert_eq!(gathered.to_vec::<f32>().unwrap(), elements);
    let double = jit(|x: Array| x * 2.0).in_shardings(&rows).in_layouts(&columns);
    let double = double.out_layouts(columns.clone());
    let doubled = double.call(&put).unwrap();
    assert_eq!(double.stats().transferred, 0);
    assert_eq!(doubled.format().unwrap().layout, columns);
    let expected: Vec<f32> = elements.iter().map(|x| x * 2.0).collect();
    assert_eq!(doubled.to_vec::<f32>().unwrap(), expected);
    assert_eq!((put * 2.0).to_vec::<f32>().unwrap(), expected);
}
