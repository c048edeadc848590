//! Planted exchanges between devices: each is reported with line, axis, bytes and cause, and
//! `no_collectives` makes it an error.

use super::mesh_of;
use oxidax::jit::{Compiled, ExplainedCollective, Lowered};
use oxidax::parallel::reshard;
use oxidax::prelude::*;
use oxidax::tree::Args;

fn mesh() -> Mesh {
    mesh_of(&[("data", 4), ("model", 2)])
}

fn over(spec: PartitionSpec) -> NamedSharding {
    mesh().sharding(spec).unwrap()
}

fn f32s(shape: &[usize]) -> Aval {
    Aval::new(DType::F32, shape.to_vec())
}

fn compiled<A: Args, O: Tree>(lowered: Result<Lowered<A, O>, Error>) -> Compiled<A, O> {
    lowered.unwrap().compile().unwrap()
}

/// Returns the text of the first collective, and checks its line, that of the function.
fn first<A: Args, O: Tree>(compiled: &Compiled<A, O>, line: u32) -> String {
    let found = compiled.collectives().unwrap();
    let written: Vec<String> = found.iter().map(ToString::to_string).collect();
    let at = format!(" at {}:{line}", file!());
    assert!(written[0].contains(&at), "{written:?}, not {at}");
    written[0].replace(&at, "")
}

/// Compiles a function of one line for arguments with these shardings, and checks the text of its
/// first collective, without the line.
macro_rules! planted {
    ($f:expr, $($spec:expr => $shape:expr),*; $text:expr) => {{
        let shardings = ($(over($spec)),*,);
        let (function, line) = (jit($f), line!());
        let lowered = function.in_shardings(shardings).lower($(f32s(&$shape)),*);
        assert_eq!(first(&compiled(lowered), line), $text);
    }};
}

#[test]
fn operands_of_products() {
    // Tensor parallel: rows of the second operand are split.
    planted!(|x: Array, w: Array| x.matmul(&w), p![None, "model"] => [8, 16], p!["model"] => [16, 4];
        "all-reduce of 128 B over `model` (2 devices), because `dot_general` combines axis 1 of \
         `$[0]` and axis 0 of `$[1]`, which are split over `model`");
    // Fully sharded: the batch and the weights are split over one axis.
    planted!(|x: Array, w: Array| x.matmul(&w), p!["data"] => [64, 4], p!["data"] => [4, 4];
        "all-gather of 64 B over `data` (4 devices), because `dot_general` has operands that \
         differ: `$[1]` is p![\"data\"], `$[0]` is p![\"data\"]");
}

#[test]
fn operands_that_are_split_differently() {
    planted!(|x: Array, y: Array| x + y, p!["data"] => [16, 16], p![None, "data"] => [16, 16];
        "all-to-all of 256 B over `data` (4 devices), because `add` has operands that differ: \
         `$[1]` is p![None, \"data\"], `$[0]` is p![\"data\"]");
    planted!(|x: Array| &x + &x.transpose(), p!["data"] => [16, 16];
        "all-to-all of 256 B over `data` (4 devices), because `add` has operands that differ: the \
         `transpose` of `$[0]` is p![None, \"data\"], `$[0]` is p![\"data\"]");
}

#[test]
fn reductions_and_their_gradients() {
    planted!(|x: Array| x.max_axes([0]), p!["data"] => [16, 4];
        "all-reduce of 16 B over `data` (4 devices), because `reduce_max` combines axis 0 of \
         `$[0]`, which is split over `data`");
    // Data parallel: the gradient is a sum over the batch.
    planted!(|w: Array, x: Array| grad(|w: &Array| tanh(x.matmul(w)).sum())(&w),
        p![] => [4, 8], p!["data"] => [16, 4];
        "all-reduce of 128 B over `data` (4 devices), because `dot_general` combines axis 0 of \
         `$[1]` and axis 0 of the result of `mul`, which are split over `data`");
}

#[test]
fn operations_along_a_split_axis() {
    planted!(|x: Array| x.sort(0), p!["data"] => [16, 16];
        "all-to-all of 256 B over `data` (4 devices), because `sort` reads along axis 0 of `$[0]`, \
         which is split over `data`");
    planted!(|x: Array| x.reshape([256]), p![None, "data"] => [16, 16];
        "all-gather of 1.0 KiB over `data` (4 devices), because `reshape` reads along axis 1 of \
         `$[0]`, which is split over `data`");
    planted!(|x: Array| concatenate([&x, &x], 0), p!["data"] => [16, 16];
        "all-to-all of 256 B over `data` (4 devices), because `concatenate` reads along axis 0 of \
         `$[0]`, which is split over `data`");
    planted!(|x: Array| slice_in_dim(&x, 4, 12, 1, 0), p!["data"] => [16, 4];
        "collective-permute of 32 B over `data` (4 devices), because `slice` reads along axis 0 of \
         `$[0]`, which is split over `data`");
    planted!(|x: Array| roll(&x, 1, 0), p!["data"] => [16, 4];
        "collective-permute of 16 B over `data` (4 devices), because `slice` reads along axis 0 of \
         `$[0]`, which is split over `data`");
    planted!(|x: Array, k: Array| conv(&x, &k, &[1, 1], Padding::Same),
        p![None, None, "data"] => [2, 3, 16, 8], p![] => [4, 3, 3, 3];
        "collective-permute of 192 B over `data` (4 devices), because `conv_general_dilated` reads \
         along axis 2 of `$[0]`, which is split over `data`");
    planted!(|table: Array| take(&table, &array![3, 9], 0), p!["data"] => [16, 8];
        "all-reduce of 64 B over `data` (4 devices), because `gather` reads along axis 0 of \
         `$[0]`, which is split over `data`");
}

#[test]
fn requested_shardings() {
    let columns = over(p![None, "data"]);
    planted!(|x: Array| with_sharding_constraint(&x, &columns), p!["data"] => [16, 16];
        "all-to-all of 256 B over `data` (4 devices), because `$[0]` is p![\"data\"] and \
         `sharding_constraint` asks for p![None, \"data\"]");
    // The value is computed on another line than it is moved on.
    let f = |x: Array| {
        let x = tanh(&x);
        with_sharding_constraint(&x, &columns)
    };
    let line = line!() - 2;
    let lowered = jit(f).in_shardings(over(p!["data"])).lower(f32s(&[16, 16]));
    let text = format!(
        "all-to-all of 256 B over `data` (4 devices), because the result of `tanh` at {}:{} is \
         p![\"data\"] and `sharding_constraint` asks for p![None, \"data\"]",
        file!(),
        line - 1
    );
    assert_eq!(first(&compiled(lowered), line), text);
    let f = |x: Array, y: Array| (tanh(&x), sin(&y));
    let line = line!() - 1;
    let f = jit(f).in_shardings(over(p!["data"]));
    let f = f.out_shardings((over(p!["data"]), over(p![])));
    let text = "all-gather of 1.0 KiB over `data` (4 devices), because result `$[1]` is \
                p![\"data\"] and `out_shardings` asks for p![]";
    assert_eq!(first(&compiled(f.lower(f32s(&[16, 16]), f32s(&[16, 16]))), line), text);
}

#[test]
fn loops_and_mapped_shards() {
    let step = |x: Array, w: Array| (tanh(x.matmul(&w)), ());
    let line = line!() - 1;
    let f = jit(move |ws: Array, x: Array| scan(step, x, &ws).0);
    let f = f.in_shardings((over(p![None, "model"]), over(p!["data"])));
    let text = "all-reduce of 256 B over `model` (2 devices), 3 times, because `dot_general` \
                combines axis 0 of a slice of `$[0]`, which is split over `model`";
    let lowered = f.lower(f32s(&[3, 16, 16]), f32s(&[16, 16]));
    assert_eq!(first(&compiled(lowered), line), text);
    let sum = |x: Array| psum(&x, "data");
    let line = line!() - 1;
    let mapped =
        move |x: Array| shard_map(sum, &mesh()).in_specs(p!["data"]).out_specs(p![]).apply(&x);
    let mapped = jit(mapped).in_shardings(over(p!["data"]));
    let compiled = compiled(mapped.lower(f32s(&[16, 4])));
    let text = "all-reduce of 64 B over `data` (4 devices), because `psum` over `data` is written \
                there";
    assert_eq!(first(&compiled, line), text);
    assert!(compiled.collectives().unwrap()[0].is_written);
}

/// Over explicit axes, the types of arrays have shardings. What moves is written, or sums up.
#[test]
fn explicit_axes() {
    let mesh = mesh().explicit();
    let over = |spec: PartitionSpec| mesh.sharding(spec).unwrap();
    let array = |shape: &[usize], spec: PartitionSpec| {
        let ones = ones(shape.to_vec());
        device_put(&ones, over(spec)).unwrap()
    };
    let (x, w) = (array(&[16, 16], p!["data"]), array(&[16, 8], p![]));
    let rows = array(&[16, 8], p!["model"]);
    let columns = over(p![None, "data"]);
    let (f, line) = (|x: Array| reshard(&x, &columns), line!());
    let text = "all-to-all of 256 B over `data` (4 devices), because `$[0]` is p![\"data\"] and \
                `reshard` asks for p![None, \"data\"]";
    assert_eq!(first(&compiled(jit(f).lower(&x)), line), text);
    let (f, line) = (|x: Array| x.sum_axes(0), line!());
    let text = "all-reduce of 64 B over `data` (4 devices), because `reduce_sum` combines axis 0 \
                of `$[0]`, which is split over `data`";
    assert_eq!(first(&compiled(jit(f).lower(&x)), line), text);
    let (f, line) = (|x: Array, w: Array| grad(|w: &Array| tanh(x.matmul(w)).sum())(&w), line!());
    let text = "all-reduce of 512 B over `data` (4 devices), because `dot_general` combines axis 0 \
                of `$[0]` and axis 0 of the result of `mul`, which are split over `data`";
    assert_eq!(first(&compiled(jit(f).lower(&x, &w)), line), text);
    let (blocks, summed) = (array(&[16, 16], p!["data", "model"]), over(p!["data"]));
    let options = MatmulOptions { out_sharding: Some(&summed), ..MatmulOptions::default() };
    let (f, line) = (|x: Array, w: Array| matmul_with(&x, &w, options), line!());
    let text = "all-reduce of 128 B over `model` (2 devices), because `dot_general` combines axis \
                1 of `$[0]` and axis 0 of `$[1]`, which are split over `model`";
    assert_eq!(first(&compiled(jit(f).lower(&blocks, &rows)), line), text);
    // Without it, the operation is an error while it is traced.
    let (f, line) = (|x: Array, w: Array| x.matmul(&w), line!());
    let error = jit(f).lower(&blocks, &rows).unwrap_err();
    assert_eq!(error.code(), "sharding");
    let text = error.to_string();
    assert!(text.contains(&format!("{}:{line}", file!())), "{text}");
    assert!(text.contains("lhs axis 1 and rhs axis 0, which are contracted"), "{text}");
}

#[test]
fn programs_without_exchanges() {
    let layer = |x: Array, w: Array| tanh(x.matmul(&w)).sum_axes([1]);
    let layer = jit(layer).in_shardings((over(p!["data"]), over(p![])));
    let compiled = compiled(layer.no_collectives().lower(f32s(&[16, 4]), f32s(&[4, 8])));
    assert!(compiled.collectives().unwrap().is_empty());
    let text = compiled.explain().unwrap().to_string();
    assert!(text.ends_with(" on Mesh(data=4, model=2): no collectives"), "{text}");
}

/// A transformer block with its gradient and update, split over the batch and as in Megatron.
#[test]
fn every_collective_of_a_transformer_is_explained() {
    #[derive(Clone, Debug, Tree)]
    struct Block {
        norm: nn::LayerNorm,
        attention: nn::MultiHeadAttention,
        mlp: nn::Mlp,
    }
    let mesh = mesh();
    let mut keys = random::split(random::key(0), 2).into_iter();
    let mut key = || keys.next().unwrap();
    let block = Block {
        norm: nn::LayerNorm::new(16),
        attention: nn::MultiHeadAttention::new(key(), 16, 4),
        mlp: nn::Mlp::new(key(), &[16, 32, 16]),
    };
    let rules = PartitionRules::new([
        ("*out.weight", p!["model"]),
        ("*layers[1].weight", p!["model"]),
        ("attention.*.weight", p![None, "model"]),
        ("*layers[0].weight", p![None, "model"]),
    ]);
    let shardings = rules.shardings(&block, &mesh).unwrap();
    let step = jit(|block: Block, x: Array| {
        let loss = |block: &Block| {
            let h = &x + &block.attention.forward(&block.norm.forward(&x));
            tanh(&h + &block.mlp.forward(&h)).mean()
        };
        let (loss, slopes) = value_and_grad(loss)(&block);
        (tree::zip_map(&block, &slopes, |w, slope| w - &(slope * 0.1)), loss)
    });
    let step = step.in_shardings((shardings.clone(), over(p!["data"])));
    let step = step.out_shardings((shardings, over(p![])));
    let compiled = compiled(step.lower(&block, f32s(&[8, 16, 16])));
    let explanation = compiled.explain().unwrap();
    let found = &explanation.collectives;
    // The list is that of the compiled program.
    let text = compiled.as_text().unwrap();
    let kinds = ["reduce", "gather", "to-all", "permute"];
    let is_collective = |line: &&str| {
        let mut opcodes = kinds.iter().map(|kind| format!("{kind}("));
        line.contains(" = ") && opcodes.any(|it| line.contains(&it)) && line.contains("channel_id=")
    };
    assert_eq!(found.len(), text.lines().filter(is_collective).count(), "{text}");
    assert!(found.len() > 4, "{explanation}");
    let is_known = |it: &&ExplainedCollective| it.cause.is_some() && it.place.is_some();
    let collectives: Vec<_> = found.iter().map(|found| &found.collective).collect();
    let known = collectives.iter().copied().filter(is_known).count();
    assert!(10 * known >= 9 * found.len(), "{explanation}");
    // The partial sums of attention and of the feed-forward layers.
    for leaf in ["`$[0].attention.out.weight`", "`$[0].mlp.layers[1].weight`"] {
        let sums = "`dot_general` combines axis 2 of the result of `";
        let of_leaf = |it: &&&ExplainedCollective| {
            let cause = it.cause.as_deref().unwrap_or_default();
            cause.starts_with(sums) && cause.contains(&format!("axis 0 of {leaf}"))
        };
        assert_eq!(collectives.iter().filter(of_leaf).count(), 1, "{explanation}");
    }
}
