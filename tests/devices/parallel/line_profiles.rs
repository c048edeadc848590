//! Times by source line of programs on eight devices.

use super::{counting, mesh};
use oxidax::prelude::*;
use oxidax::profile::{LineProfile, ProfiledOperation};
use oxidax::roofline::SourceLine;

/// Returns the operation whose name begins so.
fn operation<'p>(profile: &'p LineProfile, name: &str) -> &'p ProfiledOperation {
    let mut found = profile.operations.iter().filter(|operation| operation.name.starts_with(name));
    found.next().unwrap_or_else(|| panic!("no {name}: {:#?}", profile.operations))
}

/// Checks that every operation was measured, and that one is on a line of this file.
#[track_caller]
fn assert_measured(operation: &ProfiledOperation, line: u32) {
    assert_eq!(operation.not_measured, None, "{operation:?}");
    let at = |(at, _): &(SourceLine, f64)| (at.file.ends_with("line_profiles.rs"), at.line);
    assert!(operation.lines.iter().any(|found| at(found) == (true, line)), "{operation:?}");
}

#[test]
fn collectives_and_products_of_a_mesh_are_measured() {
    let mesh = mesh([("data", 4), ("model", 2)]);
    let over = |spec: PartitionSpec| mesh.sharding(spec).unwrap();
    let (product, line) = (|x: &Array, w: &Array| x.matmul(w), line!());
    let step = jit(move |w: Array, x: Array| {
        let gradient = grad(|w: &Array| tanh(product(&x, w)).sum())(&w);
        &w - &(gradient * 1e-3)
    });
    let w = device_put(&(counting(&[256, 512]) * 1e-6), over(p![None, "model"])).unwrap();
    let x = device_put(&(counting(&[128, 256]) * 1e-6), over(p!["data"])).unwrap();
    let compiled = step.lower(&w, &x).unwrap().compile().unwrap();
    let profile = compiled.line_profile(&w, &x).unwrap();
    assert!(profile.attributed() > 0.95, "{profile}");
    let [reduced] = &profile.collectives[..] else { panic!("{:?}", profile.collectives) };
    assert_eq!(
        (reduced.kind.as_str(), &reduced.axes[..]),
        ("all-reduce", &["data".to_owned()][..])
    );
    assert_eq!(reduced.line.as_ref().map(|at| at.line), Some(line));
    assert!(reduced.cause.is_some(), "{reduced:?}");
    // Work is that of one device: a quarter of the rows and half of the columns, for the product
    // and the gradient of the weights.
    let flops: f64 = profile.operations.iter().map(|operation| operation.flops).sum();
    let products = 2.0 * 2.0 * (32 * 256 * 256) as f64;
    assert!(flops > products && flops < 1.2 * products, "{flops}, not {products}: {profile}");
}

#[test]
fn collectives_of_shard_map_are_measured() {
    let mesh = mesh([("data", 8)]);
    let line = line!() + 1;
    let exchange = |x: Array| psum(&all_gather(&x, "data", 0, Tiling::Tiled), "data");
    let mapped = shard_map(exchange, &mesh).in_specs(p!["data"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let x = counting(&[64, 32]);
    let profile = f.lower(&x).unwrap().compile().unwrap().line_profile(&x).unwrap();
    assert_measured(operation(&profile, "all_gather"), line);
    assert_measured(operation(&profile, "psum"), line);
    let kinds: Vec<&str> = profile.collectives.iter().map(|found| found.kind.as_str()).collect();
    assert_eq!(kinds, ["all-gather", "all-reduce"]);
}

#[test]
fn memory_of_one_device_is_that_of_its_shards() {
    let mesh = mesh([("data", 8)]);
    let rows = mesh.sharding(p!["data"]).unwrap();
    let f = jit(|x: Array| x.matmul(&ones([4096, 8192])));
    let x = device_put(&counting(&[64, 4096]), &rows).unwrap();
    let profile = f.lower(&x).unwrap().compile().unwrap().line_profile(&x).unwrap();
    let memory = profile.memory.unwrap();
    assert!(memory.of_one_device);
    // The argument and the product, of which each device has eight rows, and the matrix of ones,
    // which each device has whole, unless it is a constant.
    let (x, y, ones) = (8 * 4096 * 4, 8 * 8192 * 4, 4096 * 8192 * 4);
    assert!([x + y, x + y + ones].contains(&memory.peak()), "{memory:?}");
    let argument = memory.at_peak.iter().find(|arrays| arrays.produced_by.is_none()).unwrap();
    assert_eq!(
        (argument.array_type.as_str(), &argument.paths[..]),
        ("f32[8,4096]", &["$[0]".into()][..])
    );
    assert!(memory.at_peak.iter().any(|arrays| arrays.line.is_some()), "{memory:?}");
}
