//! Our count of FLOPs against the TPU compiler's: within 3 % on models without loops, and correct
//! for loops, which the compiler counts once. Collectives of the compiled program.

use super::f32s;
use oxidax::jit::Lowered;
use oxidax::prelude::*;
use oxidax::roofline::{DeviceSpec, Network, Roofline, Route};

/// Counts of a program, ours and the compiler's.
struct Counts {
    ours: Roofline,
    flops: f64,
    bytes: f64,
    arguments: u64,
    results: u64,
}

fn counts<A: oxidax::tree::Args, O: Tree>(lowered: &Lowered<A, O>) -> Counts {
    let compiled = lowered.compile_for(&Topology::named("v5e:1x1").unwrap()).unwrap();
    let (memory, costs) =
        (compiled.report().memory_analysis().unwrap(), compiled.report().cost_analysis().unwrap());
    Counts {
        ours: Roofline::of(lowered.program()),
        flops: costs["flops"],
        bytes: costs["bytes accessed"],
        arguments: memory.arguments,
        results: memory.results,
    }
}

/// Lowers a step of gradient descent on a model's loss.
fn step<M: Tree + Clone>(
    model: impl Fn(random::Key) -> M,
    loss: impl Fn(&M, &Array, &Array) -> Array + Send + Sync + 'static,
    x: Aval,
    y: Aval,
) -> Counts {
    let model = eval_shape(model, random::Key::of_type()).unwrap();
    let step = jit(move |model: M, x: Array, y: Array| {
        let (loss, slopes) = value_and_grad(|model: &M| loss(model, &x, &y))(&model);
        let optimizer = optim::sgd(0.1);
        let (updates, _) = optimizer.update(&slopes, &optimizer.init(&model), &model);
        (optim::apply_updates(&model, &updates), loss)
    });
    counts(&step.lower(model, x, y).unwrap())
}

/// Checks that our count is within 3 % of the compiler's, and prints both.
#[track_caller]
fn agree(name: &str, counts: &Counts) {
    let ours = counts.ours.flops() as f64;
    let off = ours / counts.flops - 1.0;
    let [fused, all, least] =
        [counts.ours.fused_bytes(), counts.ours.bytes(), counts.ours.least_bytes()]
            .map(|n| n as f64);
    eprintln!(
        "{name}: {ours:.4e} FLOP, the compiler's {:.4e}, {:+.2} %; bytes: fused {fused:.3e}, unfused {all:.3e}, \
         least {least:.3e}, the compiler's {:.3e} ({:+.0} %), arguments and results {}",
        counts.flops,
        off * 100.0,
        counts.bytes,
        (fused / counts.bytes - 1.0) * 100.0,
        counts.arguments + counts.results
    );
    assert!(off.abs() < 0.03, "{name}: {ours:e} against {:e}", counts.flops);
    // TPUs pad the last axes of arrays to tiles, which enlarges kernels for three channels.
    let kept = (counts.arguments + counts.results) as f64;
    assert!((0.8..1.01).contains(&(least / kept)), "{name}: {least} of {kept} bytes");
}

pub(super) fn ids<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::I32, shape)
}

#[derive(Tree, Clone)]
struct Block {
    norms: [nn::LayerNorm; 2],
    attention: nn::MultiHeadAttention,
    mlp: nn::Mlp,
}

impl Block {
    fn new(key: random::Key, width: usize, is_causal: bool) -> Block {
        let [a, b] = key.split();
        let attention = nn::MultiHeadAttention::new(a, width, 4);
        Block {
            norms: [nn::LayerNorm::new(width), nn::LayerNorm::new(width)],
            attention: nn::MultiHeadAttention { is_causal, ..attention },
            mlp: nn::Mlp::new(b, &[width, 4 * width, width]),
        }
    }

    fn forward(&self, x: &Array) -> Array {
        let x = x + self.attention.forward(&self.norms[0].forward(x));
        &x + self.mlp.forward(&self.norms[1].forward(&x))
    }
}

#[derive(Tree, Clone)]
pub(super) struct Transformer {
    tokens: nn::Embedding,
    blocks: Vec<Block>,
    head: nn::Linear,
}

impl Transformer {
    pub(super) fn new(key: random::Key, is_causal: bool) -> Transformer {
        let [tokens, a, b, head] = key.split();
        Transformer {
            tokens: nn::Embedding::new(tokens, 2048, 256),
            blocks: vec![Block::new(a, 256, is_causal), Block::new(b, 256, is_causal)],
            head: nn::Linear::new(head, 256, 2048),
        }
    }

    pub(super) fn loss(&self, ids: &Array, labels: &Array) -> Array {
        let x = self.tokens.forward(ids);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(&x));
        nn::softmax_cross_entropy_with_integer_labels(&self.head.forward(&x), labels).mean()
    }
}

#[derive(Tree, Clone)]
struct Pictures {
    stem: nn::Conv,
    down: nn::Conv,
    wide: nn::Conv,
    up: nn::ConvTranspose,
    out: nn::Conv,
}

impl Pictures {
    fn new(key: random::Key) -> Pictures {
        let [a, b, c, d, e] = key.split();
        let strides = vec![2, 2];
        Pictures {
            stem: nn::Conv::new(a, &[3, 3], 3, 64),
            down: nn::Conv { strides: strides.clone(), ..nn::Conv::new(b, &[3, 3], 64, 128) },
            wide: nn::Conv { dilation: vec![2, 2], ..nn::Conv::new(c, &[3, 3], 128, 128) },
            up: nn::ConvTranspose { strides, ..nn::ConvTranspose::new(d, &[4, 4], 128, 64) },
            out: nn::Conv::new(e, &[3, 3], 128, 3),
        }
    }

    /// Downsampling, dilated convolution, upsampling, and concatenation with the input.
    fn loss(&self, x: &Array, y: &Array) -> Array {
        let stem = silu(self.stem.forward(x));
        let middle = silu(self.down.forward(&stem));
        let middle = silu(self.wide.forward(&middle));
        let up = silu(self.up.forward(&middle));
        nn::mean_squared_error(&self.out.forward(&concatenate([&stem, &up], -1)), y)
    }
}

#[derive(Tree, Clone)]
struct Residual {
    stem: nn::Conv,
    blocks: Vec<(nn::Conv, nn::GroupNorm, nn::Conv, nn::Conv)>,
    head: nn::Linear,
}

impl Residual {
    fn new(key: random::Key) -> Residual {
        let [stem, a, b, head] = key.split();
        let block = |key: random::Key, n: usize| {
            let [a, b, c] = key.split();
            let strides = vec![2, 2];
            let first =
                nn::Conv { strides: strides.clone(), ..nn::Conv::new(a, &[3, 3], n, 2 * n) };
            let shortcut = nn::Conv { strides, ..nn::Conv::new(c, &[1, 1], n, 2 * n) };
            (first, nn::GroupNorm::new(2 * n, 8), nn::Conv::new(b, &[3, 3], 2 * n, 2 * n), shortcut)
        };
        let strides = vec![2, 2];
        Residual {
            stem: nn::Conv { strides, ..nn::Conv::new(stem, &[7, 7], 3, 64) },
            blocks: vec![block(a, 64), block(b, 128)],
            head: nn::Linear::new(head, 256, 100),
        }
    }

    fn loss(&self, x: &Array, labels: &Array) -> Array {
        let mut x = relu(self.stem.forward(x));
        for (first, norm, second, shortcut) in &self.blocks {
            let inner = relu(norm.forward(&first.forward(&x)));
            x = relu(&(second.forward(&inner) + shortcut.forward(&x)));
        }
        let x = x.mean_axes([1, 2]);
        nn::softmax_cross_entropy_with_integer_labels(&self.head.forward(&x), labels).mean()
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn flops_of_mlp() {
    let mlp = |key| nn::Mlp::new(key, &[784, 1024, 1024, 10]);
    let loss = |model: &nn::Mlp, x: &Array, y: &Array| {
        nn::softmax_cross_entropy_with_integer_labels(&model.forward(x), y).mean()
    };
    agree("mlp", &step(mlp, loss, f32s([256, 784]), ids([256])));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn flops_of_gpt() {
    let new = |key| Transformer::new(key, true);
    agree("gpt", &step(new, Transformer::loss, ids([4, 128]), ids([4, 128])));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn flops_of_encoder() {
    let new = |key| Transformer::new(key, false);
    agree("bert", &step(new, Transformer::loss, ids([4, 128]), ids([4, 128])));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn flops_of_residual_network() {
    agree("resnet", &step(Residual::new, Residual::loss, f32s([8, 64, 64, 3]), ids([8])));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn flops_of_strided_dilated_and_padded_windows() {
    let images = f32s([8, 32, 32, 3]);
    agree("u-net", &step(Pictures::new, Pictures::loss, images.clone(), images));
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn loop_costs_as_much_as_unrolled() {
    let layer = |h: Array, w: Array| (tanh(h.matmul(&w)), ());
    let (ws, x) = (f32s([16, 512, 512]), f32s([128, 512]));
    let looped = jit(move |ws: Array, x: Array| scan(layer, x, &ws).0);
    let unrolled = jit(move |ws: Array, x: Array| {
        (0..16).fold(x, |h, at| layer(h, ws.take(&full([], at), 0)).0)
    });
    let counted =
        |f: Jit<'_, (Array, Array), Array>| counts(&f.lower(ws.clone(), x.clone()).unwrap());
    let (looped, unrolled) = (counted(looped), counted(unrolled));
    agree("unrolled", &unrolled);
    let products = |counts: &Counts| -> u64 {
        let operations = counts.ours.operations.iter();
        operations.filter(|operation| operation.product.is_some()).map(|one| one.flops).sum()
    };
    assert_eq!(products(&looped), products(&unrolled));
    let once = looped.ours.flops() as f64 / looped.flops;
    eprintln!("looped: {} FLOP, the compiler's {}", looped.ours.flops(), looped.flops);
    assert!((15.0..17.0).contains(&once), "{once}");
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn compiled_collectives_follow_mesh_axes() {
    let mesh = Mesh::without_devices([("data", 2), ("model", 2)]).unwrap();
    let [x, w, y] =
        [p!["data", "model"], p!["model"], p!["data"]].map(|s| mesh.sharding(s).unwrap());
    let product = jit(|x: Array, w: Array| x.matmul(&w)).in_shardings((&x, &w)).out_shardings(&y);
    let lowered = product.lower(f32s([512, 1024]), f32s([1024, 1024])).unwrap();
    let compiled = lowered.compile_for(&Topology::named("v5e:2x2").unwrap()).unwrap();
    let found = compiled.report().collectives().unwrap();
    let costs = Roofline::of(lowered.program()).with_exchanges(&found, &mesh);
    let sent: Vec<_> =
        costs.exchanges.iter().filter(|one| one.kind.name() == "all-reduce").collect();
    assert!(!sent.is_empty(), "{found}");
    for one in sent {
        assert_eq!(
            (one.axes.as_slice(), one.size),
            (["model".to_string()].as_slice(), 2),
            "{one:?}"
        );
        assert_eq!(one.times, 1);
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn topology_devices_match_the_table() {
    for slice in ["v3:2x2", "v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "7x:2x2x1"] {
        let topology = Topology::named(slice).unwrap();
        let spec = DeviceSpec::of_topology(slice).unwrap();
        let apart = spec.hbm_bytes as f64 / topology.memory().unwrap() as f64;
        assert!(
            (apart - 1.0).abs() < 0.01,
            "{slice}: {} and {:?}",
            spec.hbm_bytes,
            topology.memory()
        );
        let per_chip = if spec.unit.starts_with("core") { 2 } else { 1 };
        assert_eq!(topology.devices_per_chip(), per_chip, "{slice}");
        assert_eq!(
            DeviceSpec::named(topology.kind()).map(|spec| spec.name),
            Some(spec.name),
            "{slice}"
        );
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn networks_follow_the_coordinates_of_a_slice() {
    let route = |name: &str, axes: &[(&str, usize)]| {
        let slice = Topology::named(name).unwrap();
        let spec = DeviceSpec::of_topology(name).unwrap();
        let network = Network::of_mesh(&spec, &slice.mesh(axes.to_vec()).unwrap());
        network.axes().iter().map(|(.., route)| *route).collect::<Vec<_>>()
    };
    let grid = |rings, lines| Route::Grid { rings, lines };
    assert_eq!(route("v5e:2x4", &[("data", 8)]), [grid(0, 2)]);
    assert_eq!(route("v5e:8x16", &[("data", 8), ("model", 16)]), [grid(0, 1), grid(1, 0)]);
    assert_eq!(route("v4:2x2x2", &[("data", 8)]), [grid(0, 3)]);
    assert_eq!(route("v4:4x4x4", &[("data", 4), ("model", 16)]), [grid(1, 0), grid(2, 0)]);
    assert_eq!(route("v5p:2x2x4", &[("data", 4), ("model", 4)]), [grid(0, 1), grid(0, 2)]);
}
