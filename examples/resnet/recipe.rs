//! The training recipe: Nesterov momentum, weight decay on kernels, linear warm-up and half a
//! cosine.
//!
//! Goyal et al., "Accurate, large minibatch SGD" (2017); He et al., "Bag of tricks for image
//! classification" (2018).

use oxidax::prelude::*;
use oxidax_models::resnet::{NormStatistics, ResNet, ResNetStats, normalize_images};

/// The numbers of a run.
#[derive(clap::Args, Clone, Debug)]
pub struct Recipe {
    /// Learning rate at the end of the warm-up. 0.1 is usual for a batch of 256; scale it with the
    /// batch.
    #[arg(long, default_value_t = 0.1)]
    pub learning_rate: f64,
    #[arg(long, default_value_t = 0.9)]
    pub momentum: f64,
    /// Weight decay of kernels and the head's weight, not of norms and biases.
    #[arg(long, default_value_t = 1e-4)]
    pub weight_decay: f64,
    /// Fraction of a label that is distributed over all classes.
    #[arg(long, default_value_t = 0.0)]
    pub label_smoothing: f64,
    /// Compute in bf16. Parameters, statistics and optimizer state stay f32.
    #[arg(long)]
    pub bf16: bool,
}

/// All state that changes from step to step.
#[derive(Tree, Clone, Debug)]
pub struct Run {
    pub model: ResNet,
    pub stats: ResNetStats,
    pub optimizer: optim::State,
}

/// Images `u8[b, height, width, 3]` and classes `i32[b]`.
pub type Batch = (Array, Array);

/// Metrics of a step.
#[derive(Tree, Clone, Debug)]
pub struct StepMetrics {
    /// The mean cross entropy, in nats, of the smoothed labels: `f32[]`.
    pub loss: Array,
    /// The fraction of correctly classified images: `f32[]`.
    pub accuracy: Array,
}

impl Recipe {
    pub fn policy(&self) -> nn::DTypePolicy {
        match self.bf16 {
            true => nn::DTypePolicy::mixed_bf16(),
            false => nn::DTypePolicy::full(),
        }
    }

    /// Learning rate schedule: linear warm-up, then a cosine to zero.
    pub fn schedule(&self, warmup: u32, steps: u32) -> optim::Schedule {
        let first = self.learning_rate / (f64::from(warmup) + 1.0);
        optim::warmup_cosine_decay_schedule(first, self.learning_rate, warmup, steps, 0.0)
    }

    pub fn optimizer(&self, learning_rate: impl Into<optim::Schedule>) -> optim::Optimizer {
        let decay = optim::add_decayed_weights(self.weight_decay);
        optim::masked(decay, optim::Mask::min_rank(2))
            .chain(optim::nesterov(learning_rate, self.momentum))
    }

    /// Computes loss, logits and updated statistics of a batch.
    fn loss(
        &self,
        model: &ResNet,
        stats: &ResNetStats,
        (images, labels): &Batch,
        policy: nn::DTypePolicy,
    ) -> (Array, (Array, ResNetStats)) {
        let images = policy.cast_to_compute(&normalize_images(images, policy.param));
        let model = policy.cast_to_compute(model);
        let (logits, stats) = model.forward(&images, stats, NormStatistics::Batch);
        let logits = policy.cast_to_output(&logits);
        let loss = nn::smoothed_cross_entropy(&logits, labels, self.label_smoothing).mean();
        (loss, (logits, stats))
    }

    /// Computes loss, logits, updated statistics and gradients of a batch.
    pub fn gradients(
        &self,
        run: &Run,
        batch: &Batch,
        policy: nn::DTypePolicy,
        gather: &dyn Fn(&ResNet) -> ResNet,
    ) -> (Array, Array, ResNetStats, ResNet) {
        let loss = |model: &ResNet| self.loss(&gather(model), &run.stats, batch, policy);
        let ((loss, (logits, stats)), gradients) = value_and_grad_aux(loss)(&run.model);
        (loss, logits, stats, gradients)
    }

    /// Returns the training step. It updates the state that it receives by value.
    pub fn step(
        &self,
        optimizer: optim::Optimizer,
    ) -> Jit<'static, (Run, Batch), (Run, StepMetrics)> {
        self.step_with(optimizer, ResNet::clone)
    }

    /// Returns the training step, with `gather` applied to the model before the forward pass.
    pub fn step_with(
        &self,
        optimizer: optim::Optimizer,
        gather: impl Fn(&ResNet) -> ResNet + Send + Sync + 'static,
    ) -> Jit<'static, (Run, Batch), (Run, StepMetrics)> {
        let recipe = self.clone();
        let step = move |run: Run, batch: Batch| {
            let (loss, logits, stats, gradients) =
                recipe.gradients(&run, &batch, recipe.policy(), &gather);
            let (updates, state) = optimizer.update(&gradients, &run.optimizer, &run.model);
            let model = optim::apply_updates(&run.model, &updates);
            let accuracy = nn::accuracy(&logits, &batch.1);
            (Run { model, stats, optimizer: state }, StepMetrics { loss, accuracy })
        };
        jit(step).name("train_step")
    }

    /// Returns a function that adds a batch to the means of loss and accuracy, without label
    /// smoothing.
    pub fn evaluation(&self) -> Jit<'static, (ResNet, ResNetStats, Means, Batch), Means> {
        let policy = self.policy();
        let add =
            move |model: ResNet, stats: ResNetStats, means: Means, (images, labels): Batch| {
                let images = policy.cast_to_compute(&normalize_images(&images, policy.param));
                let model = policy.cast_to_compute(&model);
                let (logits, _) = model.forward(&images, &stats, NormStatistics::Running);
                let logits = policy.cast_to_output(&logits);
                let right = eq(argmax(&logits, -1).astype(DType::I32), &labels);
                Means {
                    loss: means
                        .loss
                        .update(&nn::softmax_cross_entropy_with_integer_labels(&logits, &labels)),
                    accuracy: means.accuracy.update(&right),
                }
            };
        jit(add).name("evaluate")
    }
}

/// Means over the images so far.
#[derive(Tree, Clone, Debug, Default)]
pub struct Means {
    pub loss: nn::Average,
    pub accuracy: nn::Average,
}
