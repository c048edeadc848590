//! Numbers of parameters compared with the published ones, shapes, and initial scales.

use oxidax::prelude::*;
use oxidax_models::resnet::{ConvNorm, NormStatistics, ResNet, ResNetConfig, ResidualBlock};

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
        let config = ResNetConfig::published(depth, 1000).unwrap();
        let new = move |key: random::Key| ResNet::new(key, &config);
        let model = eval_shape(new, random::Key::of_type()).unwrap();
        assert_eq!(nn::summary(&model).parameters(), parameters, "{depth} layers");
    }
    assert_eq!(ResNetConfig::published(20, 1000), None);
}

#[test]
fn the_size_is_halved_five_times() {
    let config = ResNetConfig::resnet50(7);
    let forward = move |key: random::Key, images: Array| {
        let model = ResNet::new(key, &config);
        let (logits, stats) = model.forward(&images, &model.stats(), NormStatistics::Batch);
        (logits, stats.stages[3][2].main[2].var.clone())
    };
    for size in [32, 224] {
        let images = Aval::new(DType::F32, [2, size, size, 3]);
        let (logits, var) = eval_shape(forward, (random::Key::of_type(), images)).unwrap();
        assert_eq!(logits.aval().to_string(), "f32[2,7]");
        assert_eq!(var.aval().to_string(), "f32[2048]");
    }
}

mod on_cpu {
    use super::*;

    /// Only the scale of each block's last norm is initialized to zeros.
    #[test]
    fn block_with_zero_init_starts_as_its_shortcut() {
        let scales = jit(|key: random::Key| -> Vec<Vec<Option<Array>>> {
            let config = ResNetConfig {
                blocks: [1, 1, 0, 0],
                bottleneck: false,
                width: 4,
                classes: 4,
                zero_init: true,
            };
            let blocks = ResNet::new(key, &config).trunk.stages.into_iter().flatten();
            let of_block = |block: ResidualBlock<ConvNorm>| {
                block.main.into_iter().chain(block.shortcut).map(|layer| layer.norm.scale)
            };
            blocks.map(|block| of_block(block).collect()).collect()
        });
        let value = |scale: &Option<Array>| scale.as_ref().unwrap().to_vec::<f32>().unwrap()[0];
        let scales = scales.call(random::key(0)).unwrap();
        let first: Vec<Vec<f32>> =
            scales.iter().map(|block| block.iter().map(value).collect()).collect();
        assert_eq!(first, [vec![1.0, 0.0], vec![1.0, 0.0, 1.0]]);
    }
}
