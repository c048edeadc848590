//! Trains a transformer on recalling pairs, with attention over blocks of keys in bfloat16.
//!
//! ```text
//! cargo run --release -p research --bin blockwise_attention
//! ```
//!
//! Liu, Abbeel: Blockwise parallel transformer for large context models (2023). Products are in
//! bfloat16 with sums in float32, the softmax is computed online, and the reverse pass computes all
//! but the outputs of blocks again. The losses are those of
//! `python-compat/research/blockwise_attention.py`.

#![allow(clippy::print_stdout, reason = "an example shows its results")]

mod chart;

use oxidax::prelude::*;

const STEPS: usize = 120;
const BATCH: usize = 64;
const PAIRS: usize = 16;
const SYMBOLS: usize = 16;
const WIDTH: usize = 64;
const HEADS: usize = 4;
const BLOCK: usize = 4;
const LAYERS: usize = 2;

/// The parameters.
#[derive(Tree)]
pub struct Params {
    keys: Array,
    values: Array,
    out: Array,
    layers: Vec<Layer>,
}

/// Keys, values, and the values that are asked.
pub type Batch = (Array, Array, Array);

/// Matrices of queries, keys, values and the output of attention, and of the perceptron.
type Layer = [Array; 6];

/// Returns a product in the dtype of `y`, with sums in float32.
fn product(equation: &str, x: &Array, y: &Array) -> Array {
    let wide = MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
    einsum_with(equation, (x.astype(y.dtype()), y), wide)
}

/// Applies a matrix.
fn project(x: &Array, w: &Array) -> Array {
    product("...i,io->...o", x, w)
}

/// Returns causal attention for queries, keys and values `[time, head_size]`.
fn attention(q: &Array, k: &Array, v: &Array) -> Array {
    let [t, size] = q.dims();
    let q = q * (size as f64).powf(-0.5);
    let blocks = |a: &Array| a.reshape((t / BLOCK, BLOCK, size));
    let rows = arange(t).expand_dims(1);
    let step = |(output, top, total): (Array, Array, Array), block: (Array, Array, Array)| {
        let (k, v, columns) = block;
        let scores = where_(columns.less_equal(&rows), product("qd,kd->qk", &q, &k), -1e9);
        let new_top = maximum(&top, scores.max_axes(-1));
        let weights = exp(scores - new_top.expand_dims(1));
        let scale = exp(top - &new_top);
        let output = output * scale.expand_dims(1) + product("qk,kd->qd", &weights, &v);
        ((output, new_top, total * scale + weights.sum_axes(-1)), ())
    };
    let start = (zeros([t, size]), full([t], -1e9), zeros([t]));
    let columns = arange(t).reshape((t / BLOCK, BLOCK));
    let ((output, _, total), ()) = scan(step, start, (blocks(k), blocks(v), columns));
    output / total.expand_dims(1)
}

/// Returns rows with a mean square of 1.
fn norm(x: &Array) -> Array {
    x * rsqrt(x.square().mean_axes(-1).expand_dims(-1) + 1e-6)
}

/// Applies attention and a perceptron to activations `[time, width]`.
fn layer([q, k, v, o, up, down]: &Layer, x: &Array) -> Array {
    let heads =
        |w: &Array| project(&norm(x), w).astype(w.dtype()).reshape((-1, HEADS, WIDTH / HEADS));
    let mixed = vmap(attention).in_axes(1).out_axes(1);
    let mixed = mixed.apply(heads(q), heads(k), heads(v)).reshape((-1, WIDTH));
    let x = x + checkpoint_name(project(&mixed, o), "attended");
    &x + project(&silu(project(&norm(&x), up)), down)
}

/// Returns the logits of the last value, for the keys and values of pairs `[time]`.
fn logits(params: &Params, keys: &Array, values: &Array) -> Array {
    let options = RematOptions { policy: Policy::names(["attended"]), ..Default::default() };
    let x = params.keys.index(i![keys]) + params.values.index(i![values]);
    let mut x = x.astype(DType::F32);
    for p in &params.layers {
        x = remat_with(layer, options.clone())(p, &x);
    }
    project(&norm(&x.index(i![-1])), &params.out)
}

/// Draws the parameters.
pub fn init(key: random::Key) -> Params {
    let [k_keys, k_values, k_out, k_layers] = key.split();
    let matrix = |key: random::Key, rows: usize, columns: usize| {
        random::normal(key, [rows, columns]) * (rows as f64).powf(-0.5)
    };
    let layer = |key: random::Key| {
        let [q, k, v, o, up, down] = key.split();
        let [q, k, v, o] = [q, k, v, o].map(|key| matrix(key, WIDTH, WIDTH));
        let (up, down) = (matrix(up, WIDTH, 2 * WIDTH), matrix(down, 2 * WIDTH, WIDTH));
        [q, k, v, o, up, down]
    };
    let [keys, values] = [k_keys, k_values].map(|key| random::normal(key, [SYMBOLS, WIDTH]));
    let layers = random::split(k_layers, LAYERS).into_iter().map(layer).collect();
    Params { keys, values, out: matrix(k_out, WIDTH, SYMBOLS), layers }
}

/// Returns keys and values `[b, PAIRS]`; the last key occurred before, its value is asked, `[b]`.
pub fn batch(key: random::Key) -> Batch {
    let sequence = |key: random::Key| {
        let [k_keys, k_values, k_asked] = key.split();
        let keys = random::permutation(k_keys, SYMBOLS);
        let values = random::randint(k_values, [PAIRS], 1..SYMBOLS);
        let asked = random::randint(k_asked, [], 0..PAIRS - 1);
        let (key, target) = (keys.index(i![&asked]), values.index(i![&asked]));
        (keys.at(i![-1]).set(key), values.at(i![-1]).set(0), target)
    };
    vmap(sequence).apply(random::split(key, BATCH))
}

/// Returns the mean cross entropy with products in a dtype, and the accuracy.
pub fn loss(dtype: DType, params: &Params, (keys, values, target): &Batch) -> (Array, Array) {
    let params = tree::map(params, |p| p.astype(dtype));
    let scores = vmap(|k: &Array, v: &Array| logits(&params, k, v)).apply(keys, values);
    let losses = nn::softmax_cross_entropy_with_integer_labels(&scores, target);
    (losses.mean(), scores.argmax_axis(-1).equal(target).mean())
}

/// Returns the loss of each step with products in a dtype, and the last accuracy.
pub fn train(steps: usize, dtype: DType) -> Result<(Vec<f32>, f32), Error> {
    let mut params = init(random::key(0));
    let adam = optim::adam(3e-3);
    let mut state = adam.init(&params);
    let step = jit(|params: Params, state: optim::State, key: random::Key| {
        let loss = |params: &Params, batch: &Batch| loss(dtype, params, batch);
        let ((value, accuracy), grads) = value_and_grad_aux(loss)(&params, &batch(key));
        let (updates, state) = adam.update(&grads, &state, &params);
        (optim::apply_updates(&params, &updates), state, value, accuracy)
    });
    // Without this option the compiler leaves out roundings to bfloat16 where it fuses operations.
    let step = step.compiler_options([("xla_allow_excess_precision", false)]);
    let (mut losses, mut last) = (Vec::new(), 0.0);
    for i in 0..steps as i64 {
        let (value, accuracy);
        (params, state, value, accuracy) = step.call(params, state, random::key(i))?;
        losses.push(value.item()?);
        last = accuracy.item()?;
    }
    Ok((losses, last))
}

fn main() -> Result<(), Error> {
    let (losses, accuracy) = train(STEPS, DType::BF16)?;
    println!("loss     {:.4} -> {:.4}", losses[0], losses[STEPS - 1]);
    println!("accuracy {accuracy:.3}");
    chart::save("Blockwise attention: cross entropy", &[("loss", &losses)])
}
