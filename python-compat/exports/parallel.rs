//! Functions for several platforms, and over a mesh of eight devices.

use crate::cases::{Case, Cases, Leaves, case};
use anyhow::Result;
use oxidax::prelude::*;

pub fn write(cases: &mut Cases) -> Result<()> {
    let x = random::normal(random::key(0), [16, 6]);
    let w = random::normal(random::key(1), [6, 8]);

    // Cumulative sums are lowered in another way for each platform.
    let products = |x: &Array| x * 3.0 + 1.0;
    let sums = |x: &Array| cumsum(x, 0);
    let (products, sums) = (jit(products).name("platforms"), jit(sums).name("differing_platforms"));
    for (name, f) in [("platforms", products), ("differing_platforms", sums)] {
        cases.add(Case {
            name,
            export: f.lower(&x)?.export().platforms(["tpu", "cpu", "cuda"]),
            arguments: Leaves::of(&(x.clone(),)),
            results: Leaves::of(&f.call(&x)?),
            gradients: None,
            tolerance: 1e-5,
        })?;
    }

    let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    let (rows, columns) = (mesh.sharding(p!["data"])?, mesh.sharding(p![None, "model"])?);
    let layer = |x: &Array, w: &Array| tanh(x.matmul(w));
    let f = jit(layer).name("sharded").in_shardings((&rows, &columns)).out_shardings(&rows);
    let (y, pullback) = vjp(layer, (&x, &w));
    cases.add(Case {
        name: "sharded",
        export: f.lower(&x, &w)?.export().vjp_order(1),
        arguments: Leaves::of(&(x.clone(), w.clone())),
        results: Leaves::of(&y),
        gradients: Some(Leaves::of(&pullback(&square(&y)))),
        tolerance: 1e-5,
    })?;

    let mapped_mesh = mesh.clone();
    case!(
        cases,
        "shard_map",
        move |x: &Array| {
            let f = |x: Array| {
                let total = psum(&x.sum_axes(0), "data");
                (all_gather(&x, "data", 0, Tiling::Tiled), total)
            };
            shard_map(f, &mapped_mesh)
                .in_specs(p!["data"])
                .out_specs((p![], p![]))
                .check_varying(false)
                .apply(x)
        },
        (x),
        1e-5
    );
    let constrained_mesh = mesh.clone();
    case!(
        cases,
        "constrained",
        move |x: &Array| {
            let sharding = constrained_mesh.sharding(p!["data"]).expect("the mesh has the axis");
            with_sharding_constraint(&(x * 2.0), &sharding) + 1.0
        },
        (x)
    );
    Ok(())
}
