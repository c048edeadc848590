//! The programs equal their JAX originals, whose figures are in `python-compat/fixtures`.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
#![allow(clippy::duplicate_mod, reason = "each program declares the module `chart`")]
#![allow(dead_code, reason = "the programs' `main` functions are not called")]

#[path = "../blockwise_attention.rs"]
mod blockwise_attention;
#[path = "../graph_net.rs"]
mod graph_net;
#[path = "../hmc.rs"]
mod hmc;
#[path = "../implicit_layer.rs"]
mod implicit_layer;
#[path = "../kalman.rs"]
mod kalman;
#[path = "../maml.rs"]
mod maml;
#[path = "../neural_ode.rs"]
mod neural_ode;
#[path = "../own_optimizer.rs"]
mod own_optimizer;
#[path = "../pinn.rs"]
mod pinn;
#[path = "../ppo.rs"]
mod ppo;

mod lines;
mod parity;
