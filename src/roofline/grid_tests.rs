//! Tests of networks of devices with coordinates.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::count::Exchange;
use super::{DeviceSpec, Network, Route};
use crate::core::{Collective, Device, Mesh};

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec::named(name).unwrap()
}

fn near(got: f64, expected: f64, part: f64) {
    assert!((got - expected).abs() <= part * expected.abs(), "{got:e} instead of {expected:e}");
}

/// Returns the devices of a slice, whose first coordinate varies fastest, as libtpu lists them.
fn slice(kind: &str, sizes: [usize; 3], per_chip: usize) -> Vec<Device> {
    let chips: usize = sizes.iter().product();
    let device = |id: usize| {
        let chip = id / per_chip;
        let at = [chip % sizes[0], chip / sizes[0] % sizes[1], chip / (sizes[0] * sizes[1])];
        let device = Device::new(id as i32, 0, "tpu", kind, true);
        device.at(at.map(|at| at as i64).to_vec(), (id % per_chip) as i64)
    };
    (0..chips * per_chip).map(device).collect()
}

fn network(name: &str, sizes: [usize; 3], axes: &[(&str, usize)]) -> Network {
    let mesh = Mesh::by_coordinates(slice("TPU", sizes, 1), axes.to_vec()).unwrap();
    Network::of_mesh(&spec(name), &mesh)
}

fn permute(network: &Network, size: usize, pairs: Vec<(usize, usize)>, bytes: u64) -> f64 {
    let (kind, axes) = (Collective::CollectivePermute, vec!["x".into()]);
    let exchange = Exchange { kind, axes, size, bytes, times: 1, pairs, place: None };
    network.time(&exchange).wires
}

#[test]
fn an_array_from_one_corner_of_4_by_4_to_the_other_takes_194_us() {
    // Chapter 2, question 5, with 4.5e10 B/s for each of two links and 6 hops of 1 us.
    let network = network("v5e", [4, 4, 1], &[("x", 16)]);
    assert_eq!(network.axes()[0].2, Route::Grid { rings: 0, lines: 2 });
    near(permute(&network, 16, vec![(0, 15)], 17_000_000), 194e-6, 0.01);
    // One row: one link and three hops.
    near(permute(&network, 16, vec![(0, 3)], 17_000_000), 17e6 / 4.5e10 + 3e-6, 1e-9);
}

#[test]
fn rings_close_where_the_hardware_closes_them() {
    let routes = |name: &str, sizes: [usize; 3]| {
        let size = sizes.iter().product();
        network(name, sizes, &[("x", size)]).axes()[0].2
    };
    assert_eq!(routes("v5e", [2, 4, 1]), Route::Grid { rings: 0, lines: 2 });
    assert_eq!(routes("v5e", [8, 16, 1]), Route::Grid { rings: 1, lines: 1 });
    assert_eq!(routes("v5e", [16, 16, 1]), Route::Grid { rings: 2, lines: 0 });
    assert_eq!(routes("v4", [4, 4, 8]), Route::Grid { rings: 3, lines: 0 });
    // Optical switches connect whole cubes of 4 by 4 by 4.
    assert_eq!(routes("v4", [2, 2, 4]), Route::Grid { rings: 0, lines: 3 });
}

#[test]
fn gathers_use_the_links_of_all_axes_of_the_grid() {
    let seconds = |name, sizes: [usize; 3]| {
        let size = sizes.iter().product();
        network(name, sizes, &[("x", size)]).seconds(Collective::AllGather, 9e9, &["x"])
    };
    // A corner receives seven eighths over two links.
    near(seconds("v5e", [2, 4, 1]), 9e9 * 7.0 / 8.0 / 9e10, 1e-9);
    near(seconds("v4", [2, 2, 2]), 9e9 * 7.0 / 8.0 / 1.35e11, 1e-9);
    near(seconds("v4", [4, 4, 4]), 9e9 / 2.7e11, 1e-9);
    // Both mesh axes together have the links of the whole slice.
    let both = network("v5e", [4, 4, 1], &[("x", 4), ("y", 4)]);
    let gather = |axes: &[&str]| both.seconds(Collective::AllGather, 9e9, axes);
    near(gather(&["x", "y"]), 9e9 * 15.0 / 16.0 / 9e10, 1e-9);
    near(gather(&["x"]), 9e9 * 3.0 / 4.0 / 4.5e10, 1e-9);
    // A route that is set applies instead.
    let ring = both.along("x", Route::Rings(1));
    near(ring.seconds(Collective::AllGather, 9e9, &["x"]), 0.1, 1e-9);
}

#[test]
fn an_exchange_crosses_the_middle_of_the_longest_axis() {
    let exchange = |name, sizes: [usize; 3]| {
        let size = sizes.iter().product();
        network(name, sizes, &[("x", size)]).seconds(Collective::AllToAll, 9e9, &["x"])
    };
    // A quarter of the data over 2, 4 and 2 times 64 links.
    near(exchange("v5e", [2, 4, 1]), 9e9 / 4.0 / (2.0 * 4.5e10), 1e-9);
    near(exchange("v5e", [4, 4, 1]), 9e9 / 4.0 / (4.0 * 4.5e10), 1e-9);
    near(exchange("v5p", [8, 8, 8]), 9e9 / 4.0 / (128.0 * 9e10), 1e-9);
}

#[test]
fn a_shift_along_a_ring_of_neighbours_loads_each_link_once() {
    let ring = |size: usize| (0..size).map(|at| (at, (at + 1) % size)).collect::<Vec<_>>();
    let torus = network("v4", [4, 4, 4], &[("y", 16), ("x", 4)]);
    near(permute(&torus, 4, ring(4), 4_500_000_000), 0.1 + 1e-6, 1e-9);
    // Groups at other places of the mesh use other links.
    assert_eq!(torus.axes()[0].2, Route::Grid { rings: 2, lines: 0 });
}

#[test]
fn devices_of_one_chip_share_its_links() {
    let devices = slice("TPU7x", [2, 2, 1], 2);
    let mesh = |axes: &[(&str, usize)]| {
        Network::of_mesh(&spec("7x"), &Mesh::new(&devices, axes.to_vec()).unwrap())
    };
    let all = mesh(&[("x", 8)]).seconds(Collective::AllGather, 9e9, &["x"]);
    near(all, 9e9 * 7.0 / 8.0 / 1.8e11, 1e-9);
    // The first devices of four chips at once with the second ones.
    let half = mesh(&[("x", 4), ("core", 2)]);
    near(half.seconds(Collective::AllGather, 9e9, &["x"]), 9e9 * 0.75 / 9e10, 1e-9);
}

#[test]
fn axes_between_slices_use_the_data_centre() {
    let device = |id: i32| {
        let at = vec![i64::from(id % 2), i64::from(id / 2 % 2), 0];
        Device::new(id, 0, "tpu", "TPU", true).at(at, 0).in_slice(i64::from(id / 4))
    };
    let devices: Vec<Device> = (0..8).map(device).collect();
    let mesh = Mesh::new(&devices, [("slice", 2), ("x", 4)]).unwrap();
    let network = Network::of_mesh(&spec("v5e"), &mesh);
    assert_eq!(network.axes()[0].2, Route::DataCentre);
    assert_eq!(network.axes()[1].2, Route::Grid { rings: 0, lines: 2 });
}

#[test]
fn devices_without_coordinates_keep_one_grid_axis_per_mesh_axis() {
    let mesh = Mesh::without_devices([("x", 16)]).unwrap();
    let network = Network::of_mesh(&spec("v5e"), &mesh);
    assert_eq!(network, Network::of(&spec("v5e"), mesh.axes()));
}
