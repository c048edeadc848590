//! Lab.
#[path = "support/models/mod.rs"]
#[allow(dead_code)]
mod models;
#[path = "support/gpt2.rs"]
#[allow(dead_code)]
mod gpt2;
#[path = "support/mlp.rs"]
#[allow(dead_code)]
mod mlp;
use anyhow::Result;
use models::clock::cpu_millis;
use oxidax::jit::disable_outlining;
use oxidax::prelude::*;
use std::time::Instant;

fn timed<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
    let (start, cpu) = (Instant::now(), cpu_millis()?);
    let value = f()?;
    Ok((value, start.elapsed().as_secs_f64(), (cpu_millis()? - cpu) / 1e3))
}

fn main() -> Result<()> {
    oxidax::jit::cache::set_disk(oxidax::jit::cache::Settings::off())?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| words.get(at).and_then(|w| w.parse().ok()).unwrap_or(default);
    match words[0].as_str() {
        "compile" => {
            let layers = number(1, 4);
            let arguments = gpt2::arguments_of(layers)?;
            for (name, on) in [("outlined", true), ("plain", false)] {
                if words.get(2).is_some_and(|w| w != name) { continue; }
                let run = || -> Result<()> {
                    let (lowered, trace, _) = timed(|| Ok(gpt2::step().lower(&arguments.0, &arguments.1, &arguments.2)?))?;
                    let (text, lower, _) = timed(|| Ok(lowered.as_text("cpu")?))?;
                    let calls = text.matches("inlineable").count();
                    if let Some(path) = words.get(3) { std::fs::write(path, &text)?; }
                    println!("{name} {layers}: {} eqns, {} calls, {} kB, trace {:.3} lower {:.3}", lowered.program().eqns().len(), calls, text.len() / 1000, trace, lower);
                    let (compiled, wall, cpu) = timed(|| Ok(lowered.compile()?))?;
                    println!("   compile wall {wall:.2} cpu {cpu:.2}; {:?}", compiled.report().memory_analysis()?);
                    Ok(())
                };
                if on { run()? } else { disable_outlining(run)? }
            }
        }
        "step" => {
            let sizes = models::gpt2::Sizes { layers: number(1, 4), heads: number(2, 12), width: number(3, 768), vocabulary: number(4, 50257), positions: 1024, batch: number(5, 4), context: number(6, 128) };
            let rounds = number(7, 10);
            let mut on = models::gpt2::training(sizes, false)?.call;
            let mut off = models::gpt2::training(sizes, false)?.call;
            let (a, wall, cpu) = timed(&mut on)?;
            println!("outlined first: {a:?} wall {wall:.2} cpu {cpu:.2}");
            let (a, wall, cpu) = disable_outlining(|| timed(&mut off))?;
            println!("plain first: {a:?} wall {wall:.2} cpu {cpu:.2}");
            let (mut w, mut c) = (Vec::new(), Vec::new());
            for round in 0..rounds {
                let (a, w1, c1) = timed(&mut on)?;
                let (b, w2, c2) = disable_outlining(|| timed(&mut off))?;
                w.push(w1 / w2);
                c.push(c1 / c2);
                if round % 5 == 0 { println!("{a:?} {b:?} wall {:.1} {:.1} ms cpu {:.1} {:.1}", w1*1e3, w2*1e3, c1*1e3, c2*1e3); }
            }
            w.sort_by(f64::total_cmp); c.sort_by(f64::total_cmp);
            println!("ratio outlined/plain wall {:.3} cpu {:.3}", w[rounds / 2], c[rounds / 2]);
        }
        "model" => {
            let make = || -> Result<models::Call> { Ok(match words[1].as_str() {
                "resnet" => models::resnet::training(models::resnet::Sizes { batch: 2, side: 64 })?.call,
                "bert" => models::bert::inference(models::bert::Sizes { batch: number(3, 16), ..models::bert::MINI_LM })?.call,
                _ => models::mlp::training()?.call,
            })};
            let rounds = number(2, 15);
            let (mut on, mut off) = (make()?, make()?);
            let (_, wall, cpu) = timed(&mut on)?;
            println!("outlined first: wall {wall:.2} cpu {cpu:.2}");
            let (_, wall, cpu) = disable_outlining(|| timed(&mut off))?;
            println!("plain first: wall {wall:.2} cpu {cpu:.2}");
            let (mut w, mut c) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let (a, w1, c1) = timed(|| { for _ in 0..3 { on()?; } Ok(()) })?;
                let (b, w2, c2) = disable_outlining(|| timed(|| { for _ in 0..3 { off()?; } Ok(()) }))?;
                let _ = (a, b);
                w.push(w1 / w2);
                c.push(c1 / c2);
            }
            w.sort_by(f64::total_cmp); c.sort_by(f64::total_cmp);
            println!("{} ratio outlined/plain wall {:.3} cpu {:.3}", words[1], w[rounds / 2], c[rounds / 2]);
        }
        _ => {}
    }
    Ok(())
}
