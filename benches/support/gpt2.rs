//! An unrolled GPT-2 training step from shapes, traced and lowered but never run, with the formulas
//! of `gpt2_step` in `python-compat/jax_bench.py`.

use anyhow::Result;
use oxidax::prelude::*;

const LAYERS: usize = 12;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const VOCABULARY: usize = 50257;
const POSITIONS: usize = 1024;
const BATCH: usize = 8;
const CONTEXT: usize = 64;

/// Scale and offset of a normalization, each `[width]`.
#[derive(Tree, Clone)]
struct Norm {
    scale: Array,
    bias: Array,
}

#[derive(Tree, Clone)]
struct Block {
    before_attention: Norm,
    qkv: nn::Linear,
    project: nn::Linear,
    before_mlp: Norm,
    widen: nn::Linear,
    narrow: nn::Linear,
}

/// The model.
#[derive(Tree, Clone)]
pub struct Gpt2 {
    tokens: Array,
    positions: Array,
    blocks: Vec<Block>,
    last: Norm,
}

/// Model, optimizer state and tokens `i32[batch, context + 1]`.
pub type Arguments = (Gpt2, optim::State, Array);

fn f32s<const N: usize>(shape: [usize; N]) -> Array {
    Array::of_type(Aval::new(DType::F32, shape))
}

impl Norm {
    fn of_type() -> Norm {
        Norm { scale: f32s([WIDTH]), bias: f32s([WIDTH]) }
    }

    fn forward(&self, x: &Array) -> Array {
        let mean = x.mean_axes(axes(-1).keepdims());
        let variance = x.var_axes(axes(-1).keepdims());
        (x - &mean) * rsqrt(&(variance + 1e-5)) * &self.scale + &self.bias
    }
}

impl Block {
    fn of_type() -> Block {
        let linear = |n_in: usize, n_out: usize| nn::Linear {
            weight: f32s([n_in, n_out]),
            bias: Some(f32s([n_out])),
        };
        Block {
            before_attention: Norm::of_type(),
            qkv: linear(WIDTH, 3 * WIDTH),
            project: linear(WIDTH, WIDTH),
            before_mlp: Norm::of_type(),
            widen: linear(WIDTH, 4 * WIDTH),
            narrow: linear(4 * WIDTH, WIDTH),
        }
    }

    fn attend(&self, x: &Array) -> Array {
        let [b, t, c] = x.dims();
        let parts = split(&self.qkv.forward(x), 3, -1);
        let heads = |part: &Array| reshape(part, [b, t, HEADS, c / HEADS]);
        let (q, k, v) = (heads(&parts[0]), heads(&parts[1]), heads(&parts[2]));
        let scores = einsum("bqhd,bkhd->bhqk", [&q, &k]) / ((c / HEADS) as f32).sqrt();
        let past = tril(&ones(([t, t], DType::Bool)), 0);
        let weights = softmax(where_(&past, &scores, -1e10), -1);
        let mixed = einsum("bhqk,bkhd->bqhd", [&weights, &v]);
        self.project.forward(&reshape(&mixed, [b, t, c]))
    }

    fn forward(&self, x: &Array) -> Array {
        let x = x + &self.attend(&self.before_attention.forward(x));
        let wide = gelu(self.widen.forward(&self.before_mlp.forward(&x)));
        &x + &self.narrow.forward(&wide)
    }
}

impl Gpt2 {
    /// Computes the mean cross entropy of the next tokens, in nats.
    fn loss(&self, tokens: &Array) -> Array {
        let seen = tokens.index(i![.., ..-1]);
        let [_, t] = seen.dims();
        let embedded = self.tokens.index(i![&seen]) + self.positions.index(i![..t as isize]);
        let x = self.blocks.iter().fold(embedded, |x, block| block.forward(&x));
        let logits = self.last.forward(&x).matmul(&self.tokens.t());
        nn::softmax_cross_entropy_with_integer_labels(&logits, &tokens.index(i![.., 1..])).mean()
    }
}

/// The step: loss, gradient, AdamW.
pub fn step() -> Jit<'static, Arguments, (Gpt2, optim::State, Array)> {
    let optimizer = optim::adamw(1e-3);
    jit(move |model: Gpt2, state: optim::State, tokens: Array| {
        let (loss, gradients) = value_and_grad(|model: &Gpt2| model.loss(&tokens))(&model);
        let (updates, state) = optimizer.update(&gradients, &state, &model);
        (optim::apply_updates(&model, &updates), state, loss)
    })
    .name("gpt2_step")
}

/// Returns the arguments of the step as avals.
pub fn arguments() -> Result<Arguments> {
    arguments_of(LAYERS)
}

/// Returns the arguments of the step of a model with this many layers.
pub fn arguments_of(layers: usize) -> Result<Arguments> {
    let model = Gpt2 {
        tokens: f32s([VOCABULARY, WIDTH]),
        positions: f32s([POSITIONS, WIDTH]),
        blocks: vec![Block::of_type(); layers],
        last: Norm::of_type(),
    };
    let state = eval_shape(|model: Gpt2| optim::adamw(1e-3).init(&model), &model)?;
    let tokens = Array::of_type(Aval::new(DType::I32, [BATCH, CONTEXT + 1]));
    Ok((model, state, tokens))
}
