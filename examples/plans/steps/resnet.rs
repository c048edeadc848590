//! `examples/resnet -- --depth 50 --bf16`: images of 224 by 224 pixels, momentum.

#[path = "../../resnet/model.rs"]
#[allow(dead_code, reason = "the example also evaluates")]
mod model;
#[path = "../../resnet/recipe.rs"]
#[allow(dead_code, reason = "the example also evaluates")]
mod recipe;

use super::cut::Cut;
use super::{Place, Step, Traced, of_type};
use anyhow::Context as _;
use model::{Config, ResNet};
use oxidax::prelude::*;
use recipe::{Recipe, Run, Told};

const SIDE: usize = 224;
const CLASSES: usize = 1000;

pub const FIFTY: Step = Step {
    name: "resnet",
    about: "ResNet-50, 224 × 224, bf16",
    unit: "images",
    batch: 128,
    alone: true,
    lower,
};

/// In each bottleneck the 3x3 convolution by the channels that it gives, the 1x1 behind it by those that it takes; norms and their
/// statistics between the two go along.
const LAYERS: [(&str, usize); 5] = [
    ("*main[1].conv.weight", 3),
    ("*main[1].norm.*", 0),
    ("*main[1].mean", 0),
    ("*main[1].var", 0),
    ("*main[2].conv.weight", 2),
];

/// The example's own numbers.
const RECIPE: Recipe = Recipe {
    learning_rate: 0.1,
    momentum: 0.9,
    weight_decay: 1e-4,
    label_smoothing: 0.0,
    bf16: true,
};

fn lower(place: Place<'_>, batch: usize) -> anyhow::Result<Box<dyn Traced>> {
    let config = Config::published(50, CLASSES).context("it is published")?;
    let optimizer = || RECIPE.optimizer(RECIPE.schedule(50, 1000));
    let fresh = move |key: random::Key| {
        let model = ResNet::new(key, &config);
        Run { stats: model.stats(), optimizer: optimizer().init(&model), model }
    };
    let run = eval_shape(fresh, random::Key::of_type())?;
    let images = (of_type(DType::U8, [batch, SIDE, SIDE, 3]), of_type(DType::I32, [batch]));
    let step = match place {
        Place::Alone => RECIPE.step(optimizer()),
        Place::Slice(devices) => {
            let cut = Cut::new(devices, &LAYERS)?;
            let (computing, kept) = (cut.computing(&run.model)?, cut.kept(&run)?);
            let gather = move |model: &ResNet| with_sharding_constraint(model, &computing);
            let step: Jit<(Run, recipe::Batch), (Run, Told)> =
                RECIPE.step_with(optimizer(), gather);
            step.in_shardings((&kept, cut.batch()?)).out_shardings((&kept, cut.whole()))
        }
    };
    Ok(Box::new(step.lower((&run, &images))?))
}
