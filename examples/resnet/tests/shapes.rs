//! Numbers of parameters compared with the published ones.

use crate::model::{Config, Norms, ResNet};
use oxidax::prelude::*;

#[test]
fn the_published_depths_have_their_published_numbers_of_parameters() {
    let published = [
        (18, 11_689_512),
        (34, 21_797_672),
        (50, 25_557_032),
        (101, 44_549_160),
        (152, 60_192_808),
    ];
    for (depth, parameters) in published {
        let config = Config::published(depth, 1000).unwrap();
        let new = move |key: random::Key| ResNet::new(key, &config);
        let model = eval_shape(new, random::Key::of_type()).unwrap();
        assert_eq!(nn::summary(&model).parameters(), parameters, "{depth} layers");
    }
    assert_eq!(Config::published(20, 1000), None);
}

#[test]
fn the_size_is_halved_five_times() {
    let config = Config::published(50, 7).unwrap();
    let forward = move |key: random::Key, images: Array| {
        let model = ResNet::new(key, &config);
        let (logits, stats) = model.forward(&images, &model.stats(), Norms::Batch);
        (logits, stats.stages[3][2].main[2].var.clone())
    };
    for size in [32, 224] {
        let images = Aval::new(DType::F32, [2, size, size, 3]);
        let (logits, var) = eval_shape(forward, (random::Key::of_type(), images)).unwrap();
        assert_eq!(logits.aval().to_string(), "f32[2,7]");
        assert_eq!(var.aval().to_string(), "f32[2048]");
    }
}
