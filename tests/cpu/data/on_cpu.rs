//! Batches on the device.

use oxidax::Array;
use oxidax::data::{HostArray, Record, Source, Synthetic};

#[test]
fn batches_arrive_in_order_on_the_device() {
    let record = |n: usize| {
        Ok((HostArray::from_slice(&[n as f32; 2], [2])?, HostArray::from_slice(&[n as i32], [])?))
    };
    let build = || Synthetic::new(10, record).shuffled(3).stream().batch(4);
    let on_host: Vec<(HostArray, HostArray)> = build().collect::<Result<_, _>>().unwrap();
    let on_device: Vec<(Array, Array)> = build().to_device(2).collect::<Result<_, _>>().unwrap();
    assert_eq!(on_device.len(), 2);
    for ((x, y), (on_host_x, on_host_y)) in on_device.iter().zip(&on_host) {
        assert_eq!(x.to_host().unwrap(), *on_host_x);
        assert_eq!(y.to_host().unwrap(), *on_host_y);
    }
}

#[test]
fn device_records_are_trees_and_keep_positions() {
    let record = |n: usize| Ok(Record::new().with("n", HostArray::from_slice(&[n as i32], [])?));
    let build = || Synthetic::new(12, record).stream().batch(3).to_device(3);
    let mut stream = build();
    let first = stream.next().unwrap().unwrap();
    assert_eq!(first["n"].to_vec::<i32>().unwrap(), [0, 1, 2]);
    let mut resumed = build().resume(&stream.position()).unwrap();
    let second = resumed.next().unwrap().unwrap();
    assert_eq!(second["n"].to_vec::<i32>().unwrap(), [3, 4, 5]);
    assert_eq!(resumed.count(), 2);
}
