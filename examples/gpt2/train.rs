//! The training step: loss, gradients and AdamW, with nanoGPT's recipe.

use oxidax::kernels::linear_cross_entropy;
use oxidax::prelude::*;
use oxidax::profile::named_scope;
use oxidax::random::Key;
use oxidax_models::gpt2::Gpt2;

/// The numbers of a training run.
#[derive(clap::Args, Clone, Debug)]
pub struct Recipe {
    /// Number of training steps.
    #[arg(long, default_value_t = 2000)]
    pub steps: u32,
    /// Steps until the learning rate reaches its peak.
    #[arg(long, default_value_t = 100)]
    pub warmup: u32,
    /// Peak learning rate, from which it falls along a cosine.
    #[arg(long, default_value_t = 1e-3)]
    pub learning_rate: f64,
    /// Final learning rate.
    #[arg(long, default_value_t = 1e-4)]
    pub min_learning_rate: f64,
    /// Weight decay of matrices, times the learning rate.
    #[arg(long, default_value_t = 0.1)]
    pub weight_decay: f64,
    /// Decay of AdamW's first moment.
    #[arg(long, default_value_t = 0.9)]
    pub b1: f64,
    /// Decay of AdamW's second moment.
    #[arg(long, default_value_t = 0.99)]
    pub b2: f64,
    /// Largest norm of a gradient; longer ones are scaled down to it.
    #[arg(long, default_value_t = 1.0)]
    pub clip: f64,
    /// Number of parts of a batch, computed one after the other to save memory.
    #[arg(long, default_value_t = 1)]
    pub accumulate: usize,
    /// Compute in bf16. Parameters and optimizer state stay f32.
    #[arg(long)]
    pub bf16: bool,
    /// Keep the optimizer state in host memory between steps.
    #[arg(long)]
    pub offload: bool,
    /// Compute the loss from the last features in blocks, without storing the logits.
    #[arg(long)]
    pub fused_loss: bool,
}

/// Tokens and next tokens, `i32[b, t]` each.
pub type Batch = (Array, Array);
/// Maps model, optimizer state, batch and dropout key to the new model, the new state and the loss.
pub type Step = Jit<'static, (Gpt2, optim::State, Batch, Option<Key>), (Gpt2, optim::State, Array)>;

impl Recipe {
    pub fn policy(&self) -> nn::DTypePolicy {
        if self.bf16 { nn::DTypePolicy::mixed_bf16() } else { nn::DTypePolicy::full() }
    }

    /// Linear warm-up, with `(k + 1) / (warmup + 1)` of the peak in step `k`, then half a cosine.
    pub fn schedule(&self) -> optim::Schedule {
        let Recipe { steps, warmup, learning_rate: peak, min_learning_rate: end, .. } = *self;
        let first = peak / (f64::from(warmup) + 1.0);
        optim::warmup_cosine_decay_schedule(first, peak, warmup, steps, end)
    }

    pub fn optimizer(&self) -> optim::Optimizer {
        let Recipe { b1, b2, weight_decay, .. } = *self;
        let mask = matrices();
        let options = optim::AdamWOptions { b1, b2, weight_decay, mask, ..Default::default() };
        optim::clip_by_global_norm(self.clip).chain(optim::adamw_with(self.schedule(), options))
    }

    /// Returns the memory of the optimizer state between steps.
    fn memory_of_state(&self) -> MemoryKind {
        if self.offload { MemoryKind::PinnedHost } else { MemoryKind::Device }
    }

    /// Returns the optimizer state before the first step.
    pub fn first_state(&self, model: &Gpt2) -> optim::State {
        with_memory_kind(&self.optimizer().init(model), self.memory_of_state())
    }

    /// Returns the training step.
    pub fn step(&self) -> Step {
        self.step_with(Gpt2::clone)
    }

    /// Returns the training step, with `gather` applied to the model before the forward pass.
    pub fn step_with(&self, gather: impl Fn(&Gpt2) -> Gpt2 + Send + Sync + 'static) -> Step {
        let (optimizer, policy, parts) = (self.optimizer(), self.policy(), self.accumulate);
        let (stored_in, is_fused) = (self.memory_of_state(), self.fused_loss);
        let step = move |model: Gpt2, state: optim::State, batch: Batch, key: Option<Key>| {
            let loss = |model: &Gpt2, batch: &Batch, key| {
                let of = if is_fused { fused_loss } else { loss };
                of(&gather(model), batch, key, policy)
            };
            let (loss, gradients) = mean_gradients(&model, loss, batch, key, parts);
            let state = with_memory_kind(&state, MemoryKind::Device);
            let (model, state) = named_scope("optimizer", || {
                let (updates, state) = optimizer.update(&gradients, &state, &model);
                (optim::apply_updates(&model, &updates), state)
            });
            (model, with_memory_kind(&state, stored_in), loss)
        };
        jit(step).name("train_step")
    }
}

/// Computes the mean cross entropy of the next tokens, in nats.
pub fn loss(
    model: &Gpt2,
    (tokens, next): &Batch,
    key: Option<Key>,
    policy: nn::DTypePolicy,
) -> Array {
    let logits = policy.cast_to_compute(model).forward(tokens, key);
    named_scope("loss", || {
        let logits = policy.cast_to_output(&logits);
        nn::softmax_cross_entropy_with_integer_labels(&logits, next).mean()
    })
}

/// Computes [`loss`] without storing logits.
pub fn fused_loss(
    model: &Gpt2,
    (tokens, next): &Batch,
    key: Option<Key>,
    policy: nn::DTypePolicy,
) -> Array {
    let model = policy.cast_to_compute(model);
    let features = model.features(tokens, key);
    named_scope("loss", || linear_cross_entropy(&features, &model.wte.weight, next).mean())
}

/// Computes loss and gradients of a batch in `parts` parts, one after the other.
fn mean_gradients(
    model: &Gpt2,
    loss: impl Fn(&Gpt2, &Batch, Option<Key>) -> Array,
    batch: Batch,
    key: Option<Key>,
    parts: usize,
) -> (Array, Gpt2) {
    let gradients = |batch: &Batch, key: Option<Key>| {
        value_and_grad(|model: &Gpt2| loss(model, batch, key.clone()))(model)
    };
    if parts == 1 {
        return gradients(&batch, key);
    }
    let [rows, block] = batch.0.dims();
    let batches = tree::map(&batch, |x| reshape(x, [parts, rows / parts, block]));
    let keys = key.map(|key| random::split(key, [parts]));
    let add = |sum: (Array, Gpt2), (batch, key): (Batch, Option<Key>)| {
        (tree::zip_map(&sum, &gradients(&batch, key), |a, b| a + b), ())
    };
    let zero = (zeros([]), tree::map(model, zeros_like));
    let (sum, ()) = scan(add, zero, (batches, keys));
    tree::map(&sum, |x| x / parts as f32)
}

/// Selects the leaves with weight decay: matrices, not counting the layer axis of stacked layers.
fn matrices() -> optim::Mask {
    let stacked = || optim::Mask::paths(["h.stack.*"]);
    let matrix = optim::Mask::min_rank(2).and(stacked().not());
    matrix.or(optim::Mask::min_rank(3).and(stacked()))
}
