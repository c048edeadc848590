//! Training steps: resuming, bf16 and weight decay.

use crate::images::{Images, Reading};
use crate::recipe::{Batch, Means, Recipe, Run, StepMetrics};
use checkpoint::{Folder, Snapshot};
use oxidax::prelude::*;
use oxidax_models::resnet::{ResNet, ResNetConfig};
use std::sync::LazyLock;

/// Two blocks. Each convolution takes the compiler almost a second.
const SMALL: ResNetConfig = ResNetConfig {
    blocks: [1, 1, 0, 0],
    bottleneck: false,
    width: 4,
    classes: 4,
    zero_init: false,
};
const RECIPE: Recipe = Recipe {
    learning_rate: 0.05,
    momentum: 0.9,
    weight_decay: 1e-3,
    label_smoothing: 0.1,
    bf16: false,
};

fn optimizer(recipe: &Recipe) -> optim::Optimizer {
    recipe.optimizer(recipe.schedule(2, 8))
}

fn initial_run() -> Run {
    static BEGIN: LazyLock<Run> = LazyLock::new(|| {
        let fresh = jit(|key: random::Key| {
            let model = ResNet::new(key, &SMALL);
            Run { stats: model.stats(), optimizer: optimizer(&RECIPE).init(&model), model }
        });
        fresh.call(random::key(0)).unwrap()
    });
    BEGIN.clone()
}

/// The step in `f32`, compiled once.
static STEP: LazyLock<Jit<'static, (Run, Batch), (Run, StepMetrics)>> =
    LazyLock::new(|| RECIPE.step(optimizer(&RECIPE)));

fn batches() -> data::Stream<Batch> {
    let reading = Reading { size: 32, batch: 4, workers: 1 };
    Images::Noise { len: 8, classes: 4 }.train(reading, 0, true)
}

/// Returns the losses of `n` steps, and the run after them.
fn steps(
    step: &Jit<'_, (Run, Batch), (Run, StepMetrics)>,
    mut run: Run,
    batches: &mut data::Stream<Batch>,
    n: usize,
) -> (Vec<f32>, Run) {
    let mut losses = Vec::new();
    for batch in batches.by_ref().take(n) {
        let metrics;
        (run, metrics) = step.call(run, batch.unwrap()).unwrap();
        losses.push(metrics.loss.item::<f32>().unwrap());
    }
    (losses, run)
}

fn bytes<T: Tree>(tree: &T) -> Vec<Vec<u8>> {
    tree::leaves(tree).iter().map(|leaf| leaf.to_bytes().unwrap()).collect()
}

#[test]
fn only_kernels_decay() {
    let update = |model: ResNet| {
        let still = tree::map(&model, zeros_like);
        let optimizer = RECIPE.optimizer(0.1);
        optimizer.update(&still, &optimizer.init(&model), &model).0
    };
    let template = eval_shape(|key: random::Key| ResNet::new(key, &SMALL), random::Key::of_type());
    let program = make_program(update, template.unwrap()).unwrap();
    // One product of a parameter and the rate for each kernel, and one for the weight of the head.
    let text = program.to_string();
    let decayed = text.matches("e-3").count() + text.matches("0.001").count();
    assert_eq!(decayed, 7, "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn resumed_run_equals_the_uninterrupted_run_bit_for_bit() {
        let (losses, whole) = steps(&STEP, initial_run(), &mut batches(), 4);
        let temporary = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(temporary.path()).unwrap();
        let mut first = batches();
        let (_, half) = steps(&STEP, initial_run(), &mut first, 2);
        folder.save(Snapshot::new(2, &half).position(first.position())).unwrap();
        let restored = folder.restore_latest(&initial_run()).unwrap().unwrap();
        let mut rest = batches().resume(&restored.position.unwrap()).unwrap();
        let (last, again) = steps(&STEP, restored.state, &mut rest, 2);
        assert_eq!(last, losses[2..]);
        assert_eq!(bytes(&again), bytes(&whole));
    }

    #[test]
    fn bf16_steps_keep_f32_leaves_and_nearly_the_loss() {
        let narrow = Recipe { bf16: true, ..RECIPE };
        let (full, _) = steps(&STEP, initial_run(), &mut batches(), 1);
        let step = narrow.step(optimizer(&narrow));
        let (losses, run) = steps(&step, initial_run(), &mut batches(), 1);
        assert_ne!(losses, full);
        assert!((losses[0] / full[0] - 1.0).abs() < 2e-2, "{losses:?} and {full:?}");
        let floats = |leaf: &Array| leaf.dtype().is_float();
        let leaves = tree::leaves(&run).into_iter().filter(floats);
        assert!(leaves.into_iter().all(|leaf| leaf.dtype() == DType::F32));
    }

    #[test]
    fn evaluation_is_a_mean_over_images_by_running_statistics() {
        let Run { model, stats, .. } = initial_run();
        let add = RECIPE.evaluation();
        let all: Vec<Batch> = batches().take(2).collect::<Result<_, Error>>().unwrap();
        let mut means = Means::default();
        for batch in &all {
            means = add.call(&model, &stats, means, batch).unwrap();
        }
        let one = |batch: &Batch| {
            let means = add.call(&model, &stats, Means::default(), batch).unwrap();
            means.loss.compute().item::<f32>().unwrap()
        };
        let (mean, each) =
            (means.loss.compute().item::<f32>().unwrap(), [&all[0], &all[1]].map(one));
        assert!((mean - (each[0] + each[1]) / 2.0).abs() < 1e-5, "{mean} of {each:?}");
        assert_eq!(means.accuracy.count.item::<f32>().unwrap(), 8.0);
    }
}
