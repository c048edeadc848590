//! Training runs compared with JAX for equal keys: `examples/mlp` on the digits, and the
//! Fashion-MNIST run of `examples/mlp/ci.sh`. Compares the first 100 losses and the accuracy.
//! `python-compat/README.md` describes the runs in formulas.

use crate::fixtures::{Case, Suite};
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
        head.forward(&hidden.iter().fold(images.clone(), |x, layer| gelu(layer.forward(&x))))
    }
}

/// Returns every loss, and the final test accuracy.
fn train(sizes: &[usize], batch_size: usize, epochs: u32) -> (Vec<f32>, f32) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mlp/data/digits.csv.gz");
    let (test, images) = data::digits(path).unwrap().split(|row| row % 5 == 0);
    let optimizer = optim::adamw(1e-3);
    let mut model = Mlp::new(random::key(0), sizes);
    let mut state = optimizer.init(&model);
    let step = jit(move |model: Mlp, state: optim::State, batch: data::ImageBatch| {
        let loss = |model: &Mlp| {
            nn::softmax_cross_entropy_with_integer_labels(
                &model.forward(&batch.images),
                &batch.labels,
            )
            .mean()
        };
        let (loss, gradients) = value_and_grad(loss)(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    });
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        let key = random::fold_in(random::key(1), epoch);
        let order = random::permutation(key, images.len() as i64).to_vec::<i32>().unwrap();
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

/// Compares the first losses with the recorded ones, and the final accuracy within 0.01: three or
/// four images of the digits, a hundred of Fashion-MNIST.
fn expect_run(case: Case<'_>, losses: &[f32], accuracy: f32) -> Result<(), String> {
    let first = losses.get(..100).ok_or(format!("only {} losses", losses.len()))?;
    case.expect_output(0, &Array::from_slice(first, [100]).unwrap())?;
    let recorded = *case.output(2).to_vec::<f64>().unwrap().last().unwrap();
    match (f64::from(accuracy) - recorded).abs() <= 0.01 {
        true => Ok(()),
        false => Err(format!("accuracy {accuracy}, JAX reached {recorded}")),
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn losses_and_accuracy_match_jax() {
        Suite::load("mlp").check_named("digits_gelu", |case| {
            let (losses, accuracy) = train(
                &case.dims("sizes"),
                usize::try_from(case.integer("batch")).unwrap(),
                u32::try_from(case.integer("epochs")).unwrap(),
            );
            expect_run(case, &losses, accuracy)
        });
    }

    /// Checks the output of the example's own run. The run needs a dataset, which tests do not
    /// download.
    #[test]
    #[ignore = "examples/mlp/ci.sh runs it, after the example"]
    fn a_run_on_fashion_mnist_matches_jax() {
        let folder = std::env::var("OXIDAX_FASHION_RUN").expect("examples/mlp/ci.sh sets it");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let losses = read("losses.txt");
        let losses: Vec<f32> = losses.lines().map(|line| line.parse().unwrap()).collect();
        let output = read("output.txt");
        let accuracy = output.lines().find_map(|line| line.strip_prefix("test accuracy"));
        let accuracy: f32 = accuracy.expect("the example prints it").trim().parse().unwrap();
        Suite::load("fashion").check_named("fashion_gelu", |case| {
            let epochs = usize::try_from(case.integer("epochs")).unwrap();
            let batch = usize::try_from(case.integer("batch")).unwrap();
            assert_eq!(losses.len(), epochs * (60_000 / batch), "the whole of the training set");
            expect_run(case, &losses, accuracy)
        });
    }
}
