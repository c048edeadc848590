//! Examines a perceptron's training step for TPU topologies, without a TPU.
//!
//! ```text
//! oxidax doctor -- --topology v5e:2x2 --mesh data=4 --batch 4096
//! cargo run --release --example doctor -- --topology v5p:2x2x1 --fit 1024,4096,16384,65536
//! ```
//!
//! It needs libtpu (`oxidax plugin install tpu`). An example of this form in your own crate lowers
//! its step for the options of the command line.

use oxidax::doctor::{self, Case};
use oxidax::jit::Lowered;
use oxidax::prelude::*;
use std::process::ExitCode;

const INPUTS: usize = 784;
const WIDTH: usize = 4096;
const LAYERS: usize = 6;
const CLASSES: usize = 10;

#[derive(Tree, Clone, Debug)]
struct Mlp {
    layers: Vec<nn::Linear>,
    head: nn::Linear,
}

impl Mlp {
    fn new(key: random::Key) -> Mlp {
        let [first, others, head] = key.split();
        let mut layers = vec![nn::Linear::new(first, INPUTS, WIDTH)];
        let others = random::split(others, LAYERS - 1);
        layers.extend(others.into_iter().map(|key| nn::Linear::new(key, WIDTH, WIDTH)));
        Mlp { layers, head: nn::Linear::new(head, WIDTH, CLASSES) }
    }

    fn forward(&self, x: &Array, policy: &Policy) -> Array {
        let layer = |(layer, x): &(nn::Linear, Array)| relu(layer.forward(x));
        let layer =
            remat_with(layer, RematOptions { policy: policy.clone(), ..RematOptions::default() });
        let hidden = self.layers.iter().fold(x.clone(), |x, own| layer(&(own.clone(), x)));
        self.head.forward(&hidden)
    }
}

type Batch = (Array, Array);
type Step = Lowered<(Mlp, optim::State, Batch), (Mlp, optim::State, Array)>;

/// The step for the requested batch, mesh and policy.
fn step(case: &Case) -> Result<Step, Error> {
    let optimizer = optim::adamw(1e-3);
    // Types are enough: nothing is drawn.
    let model = eval_shape(Mlp::new, random::Key::of_type())?;
    let state = eval_shape(|model: Mlp| optim::adamw(1e-3).init(&model), &model)?;
    let policy = case.policy().clone();
    let precision = nn::DTypePolicy::mixed_bf16();
    let step = jit(move |model: Mlp, state: optim::State, (x, labels): Batch| {
        let loss = |model: &Mlp| {
            let (model, x) = (precision.cast_to_compute(model), precision.cast_to_compute(&x));
            let logits = precision.cast_to_output(&model.forward(&x, &policy));
            nn::softmax_cross_entropy_with_integer_labels(&logits, &labels).mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    })
    .name("train_step");
    let step = match case.mesh() {
        None => step,
        Some(mesh) => {
            let first = mesh.axis_names().next().unwrap_or_default();
            let (whole, rows) = (mesh.replicated(), mesh.sharding(p![first])?);
            step.in_shardings((&whole, &whole, &rows)).out_shardings(&whole)
        }
    };
    let x = Array::of_type(Aval::new(DType::F32, [case.batch(), INPUTS]));
    let labels = Array::of_type(Aval::new(DType::I32, [case.batch()]));
    step.lower(model, state, (x, labels))
}

fn main() -> ExitCode {
    doctor::main(step)
}
