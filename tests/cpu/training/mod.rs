//! What stands on the public API: random keys, layers, losses, optimizers, data.

mod blocks;
mod layers;
mod optimizers;
mod precision;
mod quantized;
mod randomness;
mod training_loop;
mod transformations;
mod watching;

/// An error without the lines that name places, of which it must name the test's file.
fn told(error: &oxidax::Error, file: &str) -> String {
    let error = error.to_string();
    assert!(error.contains(file), "{error}");
    let told = |line: &&str| !line.contains("-->") && !line.contains("while tracing");
    error.lines().filter(told).collect::<Vec<_>>().join("\n")
}
