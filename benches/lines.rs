//! Measures the time of training steps by source line.
//!
//! ```text
//! cargo bench --bench lines                    mlp, baby
//! cargo bench --bench lines -- mlp gpt2        some of: mlp, baby, gpt2
//! cargo bench --bench lines -- --quick         mlp
//! cargo bench --bench lines -- mlp --save DIR  also for `oxidax profile report DIR/mlp`
//! ```
//!
//! The first line of each table has the sum of the times of all operations, each measured alone, as
//! a share of the step: how far the parts are from the whole. The peak rates are those that
//! `DeviceSpec::measured` finds.

#[path = "support/figures.rs"]
#[allow(dead_code, reason = "other benchmarks print tables of ratios")]
mod figures;
#[path = "support/mlp.rs"]
#[allow(dead_code, reason = "other benchmarks shard its weights")]
mod mlp;
#[path = "support/models/mod.rs"]
#[allow(dead_code, reason = "other benchmarks run the models beside other libraries")]
mod models;

use anyhow::{Context as _, Result, bail};
use figures::print_heading;
use models::gpt2;
use oxidax::roofline::{DeviceSpec, Effort};
use std::path::Path;

#[allow(clippy::print_stdout, reason = "the benchmark's output")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let mut named: Vec<&str> = Vec::new();
    let mut folder: Option<&Path> = None;
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--save" => folder = Some(rest.next().context("--save needs a folder")?.as_ref()),
            option if option.starts_with("--") => {}
            name => named.push(name),
        }
    }
    let names = match (named.is_empty(), quick) {
        (false, _) => named,
        (true, true) => vec!["mlp"],
        (true, false) => vec!["mlp", "baby"],
    };
    print_heading("Time of training steps by line");
    let here = DeviceSpec::measured(Effort::default())?;
    for name in names {
        let profile = match name {
            "mlp" => models::mlp::line_profile()?,
            "baby" => gpt2::line_profile(gpt2::BABY)?,
            "gpt2" => gpt2::line_profile(gpt2::SMALLEST)?,
            other => bail!("no model is called `{other}`; there are mlp, baby and gpt2"),
        };
        let profile = profile.with_peaks(here.peak.f32, here.hbm_bandwidth);
        println!("\n{name}\n{profile}");
        if let Some(folder) = folder {
            println!("written to {}", profile.to_profile().save(folder.join(name))?.display());
        }
    }
    Ok(())
}
