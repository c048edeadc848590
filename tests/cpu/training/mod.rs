//! Random keys, layers, losses, optimizers and training loops, through the public API.

mod blocks;
mod layers;
mod monitoring;
mod optimizers;
mod precision;
mod quantized;
mod randomness;
mod training_loop;
mod transformations;
mod watchdog;

/// Returns an error without its location lines. The location must be in the test's file.
fn message_of(error: &oxidax::Error, file: &str) -> String {
    let error = error.to_string();
    assert!(error.contains(file), "{error}");
    let is_kept = |line: &&str| !line.contains("-->") && !line.contains("while tracing");
    error.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}
