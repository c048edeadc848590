//! Weights under torchvision's names: `python-compat/fixtures/resnet_torch`, saved by PyTorch.

use crate::model::{Config, Norms};
use crate::recipe::normalize_images;
use crate::weights::{self, Weights};
use oxidax::prelude::*;
use std::path::PathBuf;

const SMALL: Config =
    Config { blocks: [1; 4], bottleneck: true, width: 4, classes: 5, zero_init: false };

fn file(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python-compat/fixtures/resnet_torch");
    PathBuf::from(folder).join(name)
}

fn template(config: Config) -> Weights {
    eval_shape(move |key: random::Key| Weights::new(key, &config), random::Key::of_type()).unwrap()
}

mod on_cpu {
    use super::*;

    #[test]
    fn logits_match_pytorch() {
        let (weights, other) = weights::load(&file("model.safetensors"), &template(SMALL)).unwrap();
        assert_eq!(other, None);
        let recorded = checkpoint::arrays(file("recorded.safetensors")).unwrap();
        let forward = jit(|weights: Weights, images: Array| {
            let images = normalize_images(&images, DType::F32);
            weights.model.forward(&images, &weights.stats, Norms::Running).0
        });
        let logits = forward.call(&weights, &recorded["images"]).unwrap();
        assert_eq!(logits.shape(), recorded["logits"].shape());
        let (logits, torch) = (logits.to_vec::<f32>().unwrap(), &recorded["logits"]);
        let torch = torch.to_vec::<f32>().unwrap();
        let largest = torch.iter().fold(0.0f32, |limit, x| limit.max(x.abs()));
        for (x, y) in logits.iter().zip(torch) {
            assert!((x - y).abs() <= 2e-5 * largest, "{x}, PyTorch {y}");
        }
    }

    #[test]
    fn head_for_other_classes_is_initialized_randomly() {
        let config = Config { classes: 3, ..SMALL };
        let fresh = tree::map(&template(config), |leaf| zeros(leaf.shape(), leaf.dtype()));
        let (weights, other) = weights::load(&file("model.safetensors"), &fresh).unwrap();
        assert_eq!(other, Some(5));
        let bytes = |x: &Array| x.to_bytes().unwrap();
        assert_eq!(bytes(&weights.model.head.weight), bytes(&fresh.model.head.weight));
        let stem = |weights: &Weights| bytes(&weights.model.trunk.stem.conv.weight);
        assert_ne!(stem(&weights), stem(&fresh));
    }
}

#[test]
fn another_depth_is_refused_leaf_by_leaf() {
    let two = Config { blocks: [1, 2, 1, 1], ..SMALL };
    let error = weights::load(&file("model.safetensors"), &template(two)).unwrap_err();
    let error = error.to_string();
    let expected = "leaf `model.trunk.stages[1][1].main[0].conv.weight` (f32[1,1,32,8]) is missing";
    assert!(error.contains(expected), "{error}");
    let basic = Config { bottleneck: false, ..SMALL };
    let error = weights::load(&file("model.safetensors"), &template(basic)).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("(stored as `layer1.0.conv1.weight`)"), "{error}");
}

#[test]
fn files_under_other_names_are_refused() {
    let error = weights::load(&file("recorded.safetensors"), &template(SMALL)).unwrap_err();
    assert!(error.to_string().contains("no `fc.bias`"), "{error}");
}
