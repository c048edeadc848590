//! Shared by the call benchmarks: the program, the bare side's client, and alternation.

use crate::figures::micros_per_call;
use crate::jax::Jax;
use anyhow::Result;
use oxidax::prelude::*;
use oxidax_pjrt::{Client, NamedValue};
use oxidax_plugin::{Config, Request, Stderr, find_or_install};
use serde_json::Value;

/// Warm-up rounds, which do not count.
const WARM_UP: usize = 3;

/// Microseconds per call, for each round.
#[derive(Default)]
pub struct Times {
    pub ours: Vec<f64>,
    pub bare: Vec<f64>,
    pub jax: Vec<f64>,
}

/// The program of all sides.
pub fn plus_one(leaves: Vec<Array>) -> Vec<Array> {
    leaves.iter().map(|leaf| leaf + 1.0).collect()
}

/// Creates the bare side's client with the same plugin.
pub fn bare_client(devices: usize) -> Result<Client> {
    let config = Config::from_env()?;
    let found = find_or_install(&Request::default(), &config, &mut Stderr::new())?;
    let plugin = oxidax_pjrt::Plugin::load(&found.path)?;
    Ok(Client::new(plugin, &[NamedValue::new("cpu_device_count", devices as i64)])?)
}

/// Alternates calls of all sides in rounds. `request` is the request to JAX.
pub fn take_turns(
    (rounds, calls): (usize, usize),
    mut ours: impl FnMut() -> Result<()>,
    mut bare: impl FnMut() -> Result<()>,
    (jax, request): (&mut Option<Jax>, &Value),
) -> Result<Times> {
    let mut times = Times::default();
    for round in 0..rounds + WARM_UP {
        let ours = micros_per_call(calls, &mut ours)?;
        let bare = micros_per_call(calls, &mut bare)?;
        let jax = jax.as_mut().map(|jax| jax.numbers(request)).transpose()?;
        if round >= WARM_UP {
            times.ours.push(ours);
            times.bare.push(bare);
            times.jax.extend(jax.unwrap_or_default());
        }
    }
    Ok(times)
}
