//! `examples/parallel` on eight CPU devices: the numbers of one device, the collectives that were meant and no others, and
//! as many bytes on each device as the rules say.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../examples/parallel/batches.rs"]
mod batches;
#[path = "../../examples/parallel/data.rs"]
mod data_parallel;
#[path = "../../examples/parallel/experts.rs"]
mod experts;
#[path = "../../examples/parallel/fsdp.rs"]
mod fsdp;
#[path = "../../examples/parallel/model.rs"]
mod model;
#[path = "../../examples/parallel/pipeline.rs"]
mod pipeline;
#[path = "../../examples/parallel/sequence.rs"]
mod sequence;
#[path = "../../examples/parallel/tensor.rs"]
mod tensor;
#[path = "../../examples/parallel/train.rs"]
mod train;

mod collectives;
mod recipes;
