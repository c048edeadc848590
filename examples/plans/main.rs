//! scratch
mod steps;
use oxidax::prelude::*;
use steps::{Place, STEPS};
fn main() -> anyhow::Result<()> {
    let only = std::env::args().nth(1).unwrap_or_default();
    let slice = std::env::args().nth(2).unwrap_or("v5e:2x4".into());
    let topology = Topology::named(&slice)?;
    for step in STEPS.iter().filter(|s| s.name.contains(&only)) {
        let mut places = vec![Place::Slice(topology.devices())];
        if step.alone { places.push(Place::Alone) }
        for place in places {
            let t = std::time::Instant::now();
            let lowered = (step.lower)(place, step.batch * place.devices())?;
            let traced = t.elapsed();
            let text = lowered.text()?;
            println!("{} on {}: traced {traced:?}, {} bytes", step.name, place.devices(), text.len());
            let t = std::time::Instant::now();
            match lowered.compile_for(&topology) {
                Ok(p) => println!("   {:?}: {} MiB, {}", t.elapsed(), p.memory_analysis()?.total() >> 20, p.collectives()?),
                Err(e) => println!("   {:?}: {}", t.elapsed(), e.to_string().lines().take(3).collect::<Vec<_>>().join("\n")),
            }
        }
    }
    Ok(())
}
