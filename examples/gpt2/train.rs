//! The training step: loss, gradients, AdamW; nanoGPT's recipe.

use super::model::Gpt2;
use oxidax::prelude::*;

/// What a step does, beside the model and the data.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Recipe {
    /// How many steps to train.
    #[arg(long, default_value_t = 2000)]
    pub(crate) steps: u32,
    /// In how many steps the learning rate rises to its peak.
    #[arg(long, default_value_t = 100)]
    pub(crate) warmup: u32,
    /// The peak; the rate falls from it along a cosine.
    #[arg(long, default_value_t = 1e-3)]
    pub(crate) learning_rate: f64,
    /// Where the learning rate ends.
    #[arg(long, default_value_t = 1e-4)]
    pub(crate) min_learning_rate: f64,
    /// How much of a matrix is taken away at each step, times the learning rate.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) weight_decay: f64,
    /// Decay of AdamW's mean gradient.
    #[arg(long, default_value_t = 0.9)]
    pub(crate) b1: f64,
    /// Decay of AdamW's mean square.
    #[arg(long, default_value_t = 0.99)]
    pub(crate) b2: f64,
    /// The longest gradient; longer ones are shortened to it.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) clip: f64,
    /// Into how many parts a batch is cut, one after the other in memory.
    #[arg(long, default_value_t = 1)]
    pub(crate) accumulate: usize,
    /// Compute in bf16; parameters and the optimizer's state stay f32.
    #[arg(long)]
    pub(crate) bf16: bool,
}

/// Model, optimizer state, tokens and those one place later, and the step's own key if elements are dropped.
pub(crate) type Arguments = (Gpt2, optim::State, (Array, Array), Option<random::Key>);
pub(crate) type Step = Jit<Arguments, (Gpt2, optim::State, Array)>;

impl Recipe {
    pub(crate) fn policy(&self) -> nn::DTypePolicy {
        if self.bf16 { nn::DTypePolicy::mixed_bf16() } else { nn::DTypePolicy::full() }
    }

    /// The learning rate: `k + 1` parts of the warm-up's `warmup + 1` in step `k`, then half a cosine.
    pub(crate) fn schedule(&self) -> optim::Schedule {
        let Recipe { steps, warmup, learning_rate: peak, min_learning_rate: end, .. } = *self;
        let first = peak / (f64::from(warmup) + 1.0);
        optim::warmup_cosine_decay_schedule(first, peak, warmup, steps, end)
    }

    pub(crate) fn optimizer(&self) -> optim::Optimizer {
        let Recipe { b1, b2, weight_decay, .. } = *self;
        let mask = matrices();
        let options = optim::AdamWOptions { b1, b2, weight_decay, mask, ..Default::default() };
        optim::clip_by_global_norm(self.clip).chain(optim::adamw_with(self.schedule(), options))
    }

    /// The step: the new model and state, and the loss before. It is given away what it is called with by value.
    pub(crate) fn step(&self) -> Step {
        self.step_with(Gpt2::clone)
    }

    /// The same; `gather` gives the model as it is to lie while it computes.
    pub(crate) fn step_with(&self, gather: impl Fn(&Gpt2) -> Gpt2 + Send + Sync + 'static) -> Step {
        let (optimizer, policy, parts) = (self.optimizer(), self.policy(), self.accumulate);
        jit(
            move |model: Gpt2,
                  state: optim::State,
                  batch: (Array, Array),
                  key: Option<random::Key>| {
                let (loss, gradients) = mean_gradients(&model, &gather, batch, key, policy, parts);
                let (updates, state) = optimizer.update(&gradients, &state, &model);
                (optim::apply_updates(&model, &updates), state, loss)
            },
        )
        .name("train_step")
    }
}

/// The mean cross entropy, in nats, of the next tokens.
pub(crate) fn loss(
    model: &Gpt2,
    (tokens, next): &(Array, Array),
    key: Option<random::Key>,
    policy: nn::DTypePolicy,
) -> Array {
    let logits = policy.cast_to_compute(model).forward(tokens, key);
    nn::softmax_cross_entropy_with_integer_labels(&policy.cast_to_output(&logits), next).mean()
}

/// Loss and gradients of a batch, whose parts are taken one after the other.
fn mean_gradients(
    model: &Gpt2,
    gather: &dyn Fn(&Gpt2) -> Gpt2,
    batch: (Array, Array),
    key: Option<random::Key>,
    policy: nn::DTypePolicy,
    parts: usize,
) -> (Array, Gpt2) {
    let of_part = |batch: &(Array, Array), key: Option<random::Key>| {
        value_and_grad(|model: &Gpt2| loss(&gather(model), batch, key.clone(), policy))(model)
    };
    if parts == 1 {
        return of_part(&batch, key);
    }
    let [rows, block] = batch.0.dims();
    let parted = tree::map(&batch, |x| reshape(x, [parts, rows / parts, block]));
    let keys = key.map(|key| random::split_batch(key, [parts]));
    let add = |sum: (Array, Gpt2), (batch, key): ((Array, Array), Option<random::Key>)| {
        (tree::zip_map(&sum, &of_part(&batch, key), |a, b| a + b), ())
    };
    let nothing = (zeros([], DType::F32), tree::map(model, zeros_like));
    let (sum, ()) = scan(add, nothing, (parted, keys));
    tree::map(&sum, |x| x / parts as f32)
}

/// The leaves that decay: matrices, also where a leading axis counts the layers.
fn matrices() -> optim::Mask {
    let stacked = || optim::Mask::paths(["h.stack.*"]);
    let matrix = optim::Mask::min_rank(2).and(stacked().not());
    matrix.or(optim::Mask::min_rank(3).and(stacked()))
}
