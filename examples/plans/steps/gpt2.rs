//! `examples/gpt2` with nanoGPT's recipe, unrolled, in bf16.

#[path = "../../gpt2/train.rs"]
#[allow(dead_code, reason = "the example also measures what is held out")]
mod train;

use super::shardings::MeshShardings;
use super::{Devices, LoweredStep, Step, of_type};
use oxidax::prelude::*;
use oxidax_models::gpt2::{Gpt2, Gpt2Config};
use train::Recipe;

pub const SMALLEST: Step = Step {
    name: "gpt2",
    about: "124M parameters, bf16",
    unit: "× 1024 tokens",
    batch: 8,
    alone: true,
    lower: |devices_of_step, batch| lower(&Gpt2Config::small(), false, devices_of_step, batch),
};

pub const OFFLOADED: Step = Step {
    name: "gpt2, offloaded",
    about: "124M parameters, bf16, optimizer state in host memory",
    unit: "× 1024 tokens",
    batch: 8,
    alone: true,
    lower: |devices_of_step, batch| lower(&Gpt2Config::small(), true, devices_of_step, batch),
};

pub const TWO_LAYERS: Step = Step {
    name: "gpt of 2 layers",
    about: "width 128, 4 heads, bf16",
    unit: "× 128 tokens",
    batch: 4,
    alone: true,
    lower: |devices_of_step, batch| lower(&two_layers(), false, devices_of_step, batch),
};

pub const TWO_LAYERS_OFFLOADED: Step = Step {
    name: "gpt of 2 layers, offloaded",
    lower: |devices_of_step, batch| lower(&two_layers(), true, devices_of_step, batch),
    ..TWO_LAYERS
};

fn two_layers() -> Gpt2Config {
    Gpt2Config {
        vocabulary: 512,
        positions: 128,
        width: 128,
        heads: 4,
        layers: 2,
        epsilon: 1e-5,
        dropout: 0.0,
    }
}

/// Of two consecutive layers, the first is split by columns, the second by rows.
const LAYERS: [(&str, usize); 6] = [
    ("*attn.c_attn.weight", 1),
    ("*attn.c_attn.bias", 0),
    ("*attn.c_proj.weight", 0),
    ("*mlp.c_fc.weight", 1),
    ("*mlp.c_fc.bias", 0),
    ("*mlp.c_proj.weight", 0),
];

/// The example's defaults.
const RECIPE: Recipe = Recipe {
    steps: 2000,
    warmup: 100,
    learning_rate: 1e-3,
    min_learning_rate: 1e-4,
    weight_decay: 0.1,
    b1: 0.9,
    b2: 0.99,
    clip: 1.0,
    accumulate: 1,
    bf16: true,
    offload: false,
    fused_loss: false,
};

fn lower(
    config: &Gpt2Config,
    offload: bool,
    devices_of_step: Devices<'_>,
    batch: usize,
) -> anyhow::Result<Box<dyn LoweredStep>> {
    let (config, recipe) = (*config, Recipe { offload, ..RECIPE });
    let model = eval_shape(move |key| Gpt2::new(key, &config), random::Key::of_type())?;
    let state = eval_shape(|model: Gpt2| recipe.first_state(&model), &model)?;
    let tokens = of_type(DType::I32, [batch, config.positions]);
    let windows = (tokens.clone(), tokens);
    let step = match devices_of_step {
        Devices::Alone => recipe.step(),
        Devices::Slice(devices) => {
            let shardings = MeshShardings::new(devices, &LAYERS)?;
            let (gathered, stored) = (
                shardings.gathered(&model)?,
                (shardings.stored(&model)?, shardings.stored(&state)?),
            );
            recipe
                .step_with(move |model| with_sharding_constraint(model, &gathered))
                .in_shardings((&stored.0, &stored.1, shardings.batch()?, None::<NamedSharding>))
                .out_shardings((&stored.0, &stored.1, shardings.replicated()))
        }
    };
    Ok(Box::new(step.lower(&model, &state, &windows, &None)?))
}
