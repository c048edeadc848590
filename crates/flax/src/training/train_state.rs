//! The state of a training run.

use oxidax::optim::{self, Optimizer};
use oxidax::prelude::*;

/// The state of a training run: the step, the parameters, and the state of their optimizer.
///
/// It is a tree, so a compiled step takes and returns it. The optimizer is not part of the tree,
/// because it does not hold arrays. The step captures it.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax_flax::training::TrainState;
/// let optimizer = optim::sgd(0.1);
/// let mut state = TrainState::create(nn::Linear::new(random::key(0), 3, 1), &optimizer);
/// let step = jit(move |state: TrainState<nn::Linear>, x: Array, y: Array| {
///     let loss = |model: &nn::Linear| nn::mean_squared_error(&model.forward(&x), &y);
///     let (loss, gradients) = value_and_grad(loss)(&state.params);
///     (state.apply_gradients(&gradients, &optimizer), loss)
/// });
/// let (x, y) = (ones([8, 3]), zeros([8, 1]));
/// let mut losses = Vec::new();
/// for _ in 0..3 {
///     let (next, loss) = step.call(state, &x, &y)?;
///     state = next;
///     losses.push(loss.item::<f32>()?);
/// }
/// assert!(losses[2] < losses[0]);
/// assert_eq!(state.step.item::<i32>()?, 3);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Tree)]
#[doc(alias("nnx.Optimizer", "ModelAndOptimizer"))]
pub struct TrainState<P> {
    /// The number of updates, `i32[]`.
    pub step: Array,
    /// The parameters: a model or any other tree.
    pub params: P,
    /// The state of the optimizer.
    pub opt_state: optim::State,
}

impl<P: Tree> TrainState<P> {
    /// Creates the state before the first step.
    #[track_caller]
    pub fn create(params: P, tx: &Optimizer) -> TrainState<P> {
        let opt_state = tx.init(&params);
        TrainState { step: zeros(([], DType::I32)), params, opt_state }
    }

    /// Returns the state after an update of the parameters by these gradients.
    ///
    /// Throws `Op` (value) if the gradients or the state belong to another optimizer or model.
    #[track_caller]
    pub fn apply_gradients(&self, grads: &P, tx: &Optimizer) -> TrainState<P> {
        let (updates, opt_state) = tx.update(grads, &self.opt_state, &self.params);
        let params = optim::apply_updates(&self.params, &updates);
        TrainState { step: &self.step + 1, params, opt_state }
    }
}
