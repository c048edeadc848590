//! `examples/mlp -- --data`: a perceptron under AdamW.

#[path = "../../../benches/support/mlp.rs"]
#[allow(dead_code, reason = "benchmarks also run it")]
mod step;

use super::cut::Cut;
use super::{Place, Step, Traced};
use oxidax::prelude::*;

pub const STEP: Step = Step {
    name: "mlp",
    about: "784-1024-1024-10, f32",
    unit: "images",
    batch: 128,
    alone: true,
    lower,
};

/// The first layer by columns, the second by rows.
const LAYERS: [(&str, usize); 3] =
    [("*layers[0].weight", 1), ("*layers[0].bias", 0), ("*layers[1].weight", 0)];

fn lower(place: Place<'_>, batch: usize) -> anyhow::Result<Box<dyn Traced>> {
    let (model, state, images) = step::types(batch)?;
    let step = match place {
        Place::Alone => step::step(),
        Place::Slice(devices) => {
            let cut = Cut::new(devices, &LAYERS)?;
            let (computing, kept) =
                (cut.computing(&model)?, (cut.kept(&model)?, cut.kept(&state)?));
            step::step_with(move |model| with_sharding_constraint(model, &computing))
                .in_shardings((&kept.0, &kept.1, cut.batch()?))
                .out_shardings((&kept.0, &kept.1, cut.whole()))
        }
    };
    Ok(Box::new(step.lower((&model, &state, &images))?))
}
