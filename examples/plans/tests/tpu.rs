//! Compiles the fastest training steps for one device and for a slice of eight.

use crate::rows::{Row, Rows, merged};
use crate::steps::{Devices, STEPS, Step, TWO_LAYERS, TWO_LAYERS_OFFLOADED};
use oxidax::doctor::Report;
use oxidax::prelude::*;

fn report(step: &Step, devices_of_step: Devices<'_>, topology: &Topology) -> Report {
    let lowered = (step.lower)(devices_of_step, step.batch * devices_of_step.devices()).unwrap();
    lowered.examine(topology).unwrap()
}

/// Returns the bytes per device of one kind of memory.
fn bytes(report: &Report, kind: &str) -> u64 {
    let own = report.memory.iter().filter(|share| share.kind.name() == kind);
    own.map(|share| share.bytes).sum()
}

/// `products` is the FLOPs of the matrix products of a step on one device.
#[track_caller]
fn check_one_device_and_slice(step: &Step, slice: &str, products: u64) {
    let topology = Topology::named(slice).unwrap();
    let alone = report(step, Devices::Alone, &topology);
    let spread = report(step, Devices::Slice(topology.devices()), &topology);
    assert_eq!((alone.devices, spread.devices), (1, 8));
    assert_eq!(spread.mesh.as_deref(), Some("Mesh(data=2, fsdp=2, tensor=2)"));
    for found in [&alone, &spread] {
        assert!(found.fits && found.needed > 0, "{found}");
        let prediction = found.prediction.as_ref().unwrap();
        assert!(prediction.seconds > 0.0 && prediction.seconds <= prediction.serial_seconds);
        assert!(prediction.mfu > 0.0 && prediction.mfu <= 1.0, "{found}");
    }
    // The same follows from the traced program and the recorded exchanges.
    for (devices_of_step, found) in
        [(Devices::Alone, &alone), (Devices::Slice(topology.devices()), &spread)]
    {
        let batch = step.batch * devices_of_step.devices();
        let lowered = (step.lower)(devices_of_step, batch).unwrap();
        let compiled = found.prediction.as_ref().unwrap();
        let exchanges = merged(compiled.exchanges.iter().map(|timed| &timed.exchange));
        let (predicted, flops) = lowered.predict(&topology, &exchanges).unwrap();
        assert_eq!(flops, found.flops);
        for (a, b) in [
            (predicted.seconds, compiled.seconds),
            (predicted.serial_seconds, compiled.serial_seconds),
        ] {
            assert!((a / b - 1.0).abs() < 1e-9, "{a} s, compiled {b} s");
        }
    }
    let excess = alone.flops as f64 / products as f64;
    assert!((1.0..1.3).contains(&excess), "{excess} times the FLOPs of the products");
    // Each of four devices holds a part of parameters and optimizer state, except indivisible
    // leaves.
    for kind in ["parameters", "optimizer"] {
        let part = bytes(&spread, kind) as f64 / bytes(&alone, kind) as f64;
        assert!((0.24..0.5).contains(&part), "{kind}: {part}");
    }
    let exchanges = spread.collectives.unwrap();
    assert!(exchanges.contains("all-reduce") && exchanges.contains("all-gather"), "{exchanges}");
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn the_mlp() {
    // One product forward and two backward; the images need no gradient.
    let products = 2 * 128 * (2 * 784 * 1024 + 3 * 1024 * 1024 + 3 * 1024 * 10);
    for slice in ["v5e:2x4", "v6e:2x4"] {
        check_one_device_and_slice(&STEPS[0], slice, products);
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn a_gpt_of_two_layers() {
    // 12 · width² weights per layer, attention over 128 positions, and the head.
    let (tokens, width) = (4 * 128, 128);
    let layer = 12 * width * width + 2 * 128 * width;
    let products = 2 * 3 * tokens * (2 * layer + 512 * width);
    for slice in ["v5e:2x4", "v6e:2x4"] {
        check_one_device_and_slice(&TWO_LAYERS, slice, products);
    }
}

/// Compares a step with the same step whose optimizer state is in host memory. The device memory of
/// the whole step is not compared: in a small model the compiler moves the whole state at once.
fn check_offloaded(kept: &Step, offloaded: &Step) {
    let topology = Topology::named("v5e:2x4").unwrap();
    for devices in [Devices::Alone, Devices::Slice(topology.devices())] {
        let [before, after] = [kept, offloaded].map(|step| report(step, devices, &topology));
        let state = bytes(&before, "optimizer");
        assert_eq!((before.host_needed, bytes(&after, "optimizer")), (0, 0), "{after}");
        // The state before and after the step.
        assert!(after.host_needed >= 2 * state, "{} of {state}: {after}", after.host_needed);
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn optimizer_state_in_host_memory() {
    check_offloaded(&TWO_LAYERS, &TWO_LAYERS_OFFLOADED);
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn every_step_lowers_with_shardings() {
    let topology = Topology::named("v5e:2x4").unwrap();
    for step in &STEPS {
        let devices_of_step = Devices::Slice(topology.devices());
        let text = (step.lower)(devices_of_step, step.batch * devices_of_step.devices())
            .unwrap()
            .text()
            .unwrap();
        assert!(text.contains("sdy.sharding") && !text.contains("loc("), "{}", step.name);
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn rows_are_reused_and_an_incomplete_line_is_dropped() {
    let topology = Topology::named("v5e:2x4").unwrap();
    let row = |text: &str| Row::new_row(&STEPS[0], 128, Devices::Alone, &topology, text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let mut rows = Rows::open(&path).unwrap();
    for text in ["one", "two"] {
        assert!(rows.find(&row(text)).is_none());
        rows.add(Row { date: text.into(), ..row(text) }).unwrap();
    }
    // The writer was interrupted in the middle of the second line.
    let replicated = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &replicated[..replicated.len() - 9]).unwrap();
    let mut rows = Rows::open(&path).unwrap();
    assert_eq!(rows.find(&row("one")).unwrap().date, "one");
    assert!(rows.find(&row("two")).is_none());
    rows.add(Row { date: "again".into(), ..row("two") }).unwrap();
    let rows = Rows::open(&path).unwrap();
    assert_eq!(rows.find(&row("two")).unwrap().date, "again");
    // The newest program of a step and topology counts.
    assert_eq!(rows.newest().len(), 1);
    assert_eq!(rows.newest()[0].date, "again");
}
