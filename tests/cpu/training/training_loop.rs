//! A complete training loop on the public API.

use oxidax::prelude::*;

#[derive(Tree, Clone)]
struct Mlp {
    hidden: Vec<nn::Linear>,
    head: nn::Linear,
}

#[derive(Tree)]
struct Batch {
    images: Array,
    labels: Array,
}

impl From<data::ImageBatch> for Batch {
    fn from(batch: data::ImageBatch) -> Batch {
        Batch { images: batch.images, labels: batch.labels }
    }
}

impl Mlp {
    fn new(key: random::Key, sizes: &[usize]) -> Mlp {
        let mut layers: Vec<nn::Linear> = random::split(key, sizes.len() - 1)
            .into_iter()
            .zip(sizes.windows(2))
            .map(|(key, size)| nn::Linear::new(key, size[0], size[1]))
            .collect();
        let head = layers.pop().expect("at least two sizes");
        Mlp { hidden: layers, head }
    }

    fn forward(&self, x: &Array) -> Array {
        let h = self.hidden.iter().fold(x.clone(), |h, layer| relu(layer.forward(&h)));
        self.head.forward(&h)
    }
}

fn loss(model: &Mlp, batch: &Batch) -> Array {
    nn::softmax_cross_entropy_with_integer_labels(&model.forward(&batch.images), &batch.labels)
        .mean()
}

mod on_cpu {
    use super::*;
    use std::path::Path;

    /// Writes Idx files of 64 images with 4 pixels. The class is the index of the bright pixel.
    fn write_idx(folder: &Path) {
        let mut images = vec![0, 0, 8, 3, 0, 0, 0, 64, 0, 0, 0, 2, 0, 0, 0, 2];
        let mut labels = vec![0, 0, 8, 1, 0, 0, 0, 64];
        for row in 0..64u8 {
            let class = row % 4;
            images.extend((0..4).map(|pixel| if pixel == class { 255 - row } else { row }));
            labels.push(class);
        }
        std::fs::write(folder.join("train-images-idx3-ubyte"), images).unwrap();
        std::fs::write(folder.join("train-labels-idx1-ubyte"), labels).unwrap();
    }

    #[test]
    fn training_loop_reduces_the_loss() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        write_idx(dir.path());
        let optimizer = optim::adamw(1e-2);
        let mut model = Mlp::new(random::key(0), &[4, 16, 4]);
        let mut state = optimizer.init(&model);

        let step = jit(move |model: Mlp, state: optim::State, batch: Batch| {
            let (loss, grads) = value_and_grad(|m: &Mlp| loss(m, &batch))(&model);
            let (updates, state) = optimizer.update(&grads, &state, &model);
            (optim::apply_updates(&model, &updates), state, loss)
        });

        let mut losses = Vec::new();
        for epoch in 0..20 {
            for batch in data::idx(dir.path())?.shuffle(64, epoch).batch(16).prefetch(2) {
                let l;
                (model, state, l) = step.call(model, state, Batch::from(batch?))?;
                losses.push(l.item::<f32>()?);
            }
        }
        assert_eq!(losses.len(), 80);
        assert!(losses[79] < 0.1 * losses[0], "{losses:?}");
        let stats = step.stats();
        assert_eq!((stats.compiles, stats.not_donated), (1, 0));
        let path = dir.path().join("mlp.safetensors");
        checkpoint::save(&path, &(model, state))?;
        Ok(())
    }
}
