//! Draws two pictures of the guide: `cargo run -p guide --bin pictures`.
//!
//! The other pictures are drawn by examples; `cargo xtask gallery` runs them.

use oxidax::prelude::*;
use oxidax::roofline::{DeviceSpec, Roofline};
use oxidax::train::{Bars, PictureGrid};
use std::collections::BTreeMap;
use std::path::Path;

/// One attention layer of GPT-2's sizes, one operation per line.
fn attention(x: &Array, qkv: &Array, out: &Array) -> Array {
    let [_, t, c] = x.dims();
    let heads = x.matmul(qkv).reshape((-1, t, 3, 12, 64));
    let [q, k, v] = [0, 1, 2].map(|part| heads.index(i![.., .., part]));
    let scores = einsum("bqhd,bkhd->bhqk", [&q, &k]) / 8.0;
    let weights = softmax(where_(tri((t, DType::Bool), 0), scores, -1e9), -1);
    let mixed = einsum("bhqk,bkhd->bqhd", [&weights, &v]);
    x + mixed.reshape((-1, t, c)).matmul(out)
}

fn main() -> Result<(), Error> {
    oxidax::parallel::set_cpu_devices(8)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/images");

    let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    let x = device_put(&zeros([512, 64]), mesh.sharding(p!["data", "model"])?)?;
    PictureGrid::sharding(r#"f32[512,64] as p!["data", "model"]"#, &x)?
        .save(folder.join("sharding.svg"))?;

    let of = |shape: &[usize]| Aval::new(DType::BF16, shape);
    let (x, qkv, out) = (of(&[32, 1024, 768]), of(&[768, 2304]), of(&[768, 768]));
    let lowered = jit(attention).lower(x, qkv, out)?;
    let spec = DeviceSpec::named("v5e").expect("the table has it");
    let mut lines: BTreeMap<u32, f64> = BTreeMap::new();
    for operation in &Roofline::of(lowered.program()).operations {
        let line = operation.place.as_ref().map_or(0, |place| place.line);
        *lines.entry(line).or_default() += 1e3 * operation.on(&spec).seconds();
    }
    let source: Vec<&str> = include_str!("pictures.rs").lines().collect();
    let title = "Attention on a TPU v5e: milliseconds by source line, predicted";
    let bars = lines.into_iter().fold(Bars::new(title), |bars, (line, time)| {
        let text = source.get((line as usize).wrapping_sub(1)).map_or("", |text| text.trim());
        bars.bar(format!("{line}  {:.40}", text), (1e3 * time).round() / 1e3)
    });
    bars.save(folder.join("profile.svg"))
}
