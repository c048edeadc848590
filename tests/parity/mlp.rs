//! The training run of `examples/mlp` on the digits: the first 100 losses and the accuracy that JAX
//! reaches with the same keys. `python-compat/README.md` states the run in formulas.

use crate::fixtures::Suite;
use oxidax::prelude::*;

#[derive(Tree, Clone)]
struct Mlp {
    layers: Vec<nn::Linear>,
}

impl Mlp {
    fn new(key: random::Key, sizes: &[usize]) -> Mlp {
        let keys = random::split(key, sizes.len() - 1);
        let pairs = keys.into_iter().zip(sizes.windows(2));
        Mlp { layers: pairs.map(|(key, n)| nn::Linear::new(key, n[0], n[1])).collect() }
    }

    fn forward(&self, images: &Array) -> Array {
        let (head, hidden) = self.layers.split_last().unwrap();
        head.forward(&hidden.iter().fold(images.clone(), |x, layer| gelu(&layer.forward(&x))))
    }
}

/// Every loss, and the test accuracy at the end.
fn train(sizes: &[usize], batch_size: usize, epochs: u32) -> (Vec<f32>, f32) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mlp/data/digits.csv.gz");
    let (test, images) = data::digits(path).unwrap().split(|row| row % 5 == 0);
    let optimizer = optim::adamw(1e-3);
    let mut model = Mlp::new(random::key(0), sizes);
    let mut state = optimizer.init(&model);
    let step = jit(move |model: Mlp, state: optim::State, batch: data::Batch| {
        let loss = |model: &Mlp| {
            nn::softmax_cross_entropy(&model.forward(&batch.images), &batch.labels).mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    });
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let key = random::fold_in(random::key(1), epoch);
        let order = random::permutation(key, images.len()).to_vec::<i32>().unwrap();
        let rows = order.into_iter().map(|row| row as usize);
        for batch in images.select(rows).batch(batch_size) {
            let loss;
            (model, state, loss) = step.call(model, state, batch.unwrap()).unwrap();
            losses.push(loss.item::<f32>().unwrap());
        }
    }
    let test = test.all().unwrap();
    let accuracy = nn::accuracy(&model.forward(&test.images), &test.labels);
    (losses, accuracy.item::<f32>().unwrap())
}

mod on_cpu {
    use super::*;

    #[test]
    fn losses_and_accuracy_are_those_of_jax() {
        Suite::load("mlp").check_named("digits_gelu", |case| {
            let (losses, accuracy) = train(
                &case.dims("sizes"),
                usize::try_from(case.integer("batch")).unwrap(),
                u32::try_from(case.integer("epochs")).unwrap(),
            );
            let first = Array::from_slice(&losses[..100], [100]).unwrap();
            case.expect_output(0, &first)?;
            let recorded = *case.output(2).to_vec::<f64>().unwrap().last().unwrap();
            // A hundredth of 360 images is three or four.
            match (f64::from(accuracy) - recorded).abs() <= 0.01 {
                true => Ok(()),
                false => Err(format!("accuracy {accuracy}, JAX reached {recorded}")),
            }
        });
    }
}
