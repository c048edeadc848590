//! The memory of training steps of GPT-2 with 124M parameters, by the compiler's analysis.

use crate::train::Recipe;
use oxidax::prelude::*;
use oxidax::random::Key;
use oxidax_models::gpt2::{Gpt2, Gpt2Config};

/// Windows of a batch and tokens of a window.
const BATCHES: [[usize; 2]; 5] = [[32, 64], [16, 128], [4, 128], [4, 512], [1, 1024]];

/// Bytes of a step: intermediate values, and these with arguments and results.
struct Memory {
    temporaries: u64,
    total: u64,
}

/// Compiles the steps for the default device and prints a table. Nothing is computed.
pub fn print_table(recipe: &Recipe) -> anyhow::Result<()> {
    println!(
        "| windows | logits, GB | `--fused-loss` | and `--flash-attention` | total, logits | \
         total, both |\n| --- | ---: | ---: | ---: | ---: | ---: |"
    );
    for [batch, tokens] in BATCHES {
        let auto = nn::AttentionImplementation::Auto;
        let flash = nn::AttentionImplementation::Flash;
        let of = |fused_loss, attention| {
            memory(&Recipe { fused_loss, ..recipe.clone() }, attention, [batch, tokens])
        };
        let (logits, fused, both) = (of(false, auto)?, of(true, auto)?, of(true, flash)?);
        let gigabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e9);
        let with_share = |bytes: u64, whole: u64| {
            let saved = 100.0 * (1.0 - bytes as f64 / whole as f64);
            format!("{} ({saved:.0} %)", gigabytes(bytes))
        };
        println!(
            "| {batch} × {tokens} | {} | {} | {} | {} | {} |",
            gigabytes(logits.temporaries),
            with_share(fused.temporaries, logits.temporaries),
            with_share(both.temporaries, logits.temporaries),
            gigabytes(logits.total),
            with_share(both.total, logits.total),
        );
    }
    Ok(())
}

/// Compiles the step of a batch.
fn memory(
    recipe: &Recipe,
    attention: nn::AttentionImplementation,
    batch: [usize; 2],
) -> anyhow::Result<Memory> {
    let init = |key: Key| {
        let model = Gpt2::new(key, &Gpt2Config::small()).with_attention(attention);
        let state = recipe.first_state(&model);
        (model, state)
    };
    let (model, state) = eval_shape(init, Key::of_type())?;
    let tokens = Array::of_type(Aval::new(DType::I32, batch));
    let lowered = recipe.step().lower(model, state, (tokens.clone(), tokens), None::<Key>)?;
    let analysis = lowered.compile()?.report().memory_analysis()?;
    Ok(Memory { temporaries: analysis.temporaries, total: analysis.total() })
}
