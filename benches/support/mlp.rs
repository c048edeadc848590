//! The training step of `examples/mlp -- --data`, and a batch of random images.

use anyhow::Result;
use oxidax::prelude::*;

const SIZES: [usize; 4] = [784, 1024, 1024, 10];
const BATCH: usize = 128;

/// The perceptron.
#[derive(Tree, Clone)]
pub struct Mlp {
    layers: Vec<nn::Linear>,
}

/// Images and their classes.
#[derive(Tree)]
pub struct Batch {
    images: Array, // f32[b, pixels]
    labels: Array, // i32[b]
}

/// Model, optimizer state and a batch.
pub type Arguments = (Mlp, optim::State, Batch);

impl Mlp {
    pub fn new(key: random::Key) -> Mlp {
        let keys = random::split(key, SIZES.len() - 1);
        let pairs = keys.into_iter().zip(SIZES.windows(2));
        Mlp { layers: pairs.map(|(key, n)| nn::Linear::new(key, n[0], n[1])).collect() }
    }

    fn forward(&self, images: &Array) -> Array {
        let (head, hidden) = self.layers.split_last().expect("a model has layers");
        head.forward(&hidden.iter().fold(images.clone(), |x, layer| gelu(layer.forward(&x))))
    }
}

pub fn optimizer() -> optim::Optimizer {
    optim::adamw(1e-3)
}

/// Returns the step: loss, gradient, AdamW.
pub fn step() -> Jit<'static, Arguments, (Mlp, optim::State, Array)> {
    step_with(Mlp::clone)
}

/// Returns the step, with `gather` applied to the model before the forward pass.
pub fn step_with(
    gather: impl Fn(&Mlp) -> Mlp + Send + Sync + 'static,
) -> Jit<'static, Arguments, (Mlp, optim::State, Array)> {
    let optimizer = optimizer();
    jit(move |model: Mlp, state: optim::State, batch: Batch| {
        let loss = |model: &Mlp| {
            let logits = gather(model).forward(&batch.images);
            nn::softmax_cross_entropy_with_integer_labels(&logits, &batch.labels).mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    })
    .name("train_step")
}

pub fn batch() -> Result<Batch> {
    let pixels: Vec<f32> = (0..BATCH * SIZES[0]).map(|at| (at % 255) as f32 / 255.0).collect();
    let labels: Vec<i32> = (0..BATCH).map(|at| (at % 10) as i32).collect();
    Ok(Batch {
        images: Array::from_slice(&pixels, [BATCH, SIZES[0]])?,
        labels: Array::from_slice(&labels, [BATCH])?,
    })
}

/// Initializes weights as the example does, and a batch.
pub fn arguments() -> Result<Arguments> {
    let model = Mlp::new(random::key(0));
    let state = optimizer().init(&model);
    Ok((model, state, batch()?))
}

/// Returns the arguments as avals, with a batch of `n` images.
#[allow(dead_code, reason = "benchmarks run it")]
pub fn types(images: usize) -> Result<Arguments> {
    let fresh = |key| {
        let model = Mlp::new(key);
        (optimizer().init(&model), model)
    };
    let (state, model) = eval_shape(fresh, random::Key::of_type())?;
    let batch = Batch {
        images: Array::of_type(Aval::new(DType::F32, [images, SIZES[0]])),
        labels: Array::of_type(Aval::new(DType::I32, [images])),
    };
    Ok((model, state, batch))
}
