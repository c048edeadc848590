//! Statistics of repeated measurements, and Markdown tables.

use anyhow::Result;
use std::time::Instant;

/// Returns the lower quartile. On a shared machine, slower measurements reflect the other work.
pub fn lower_quartile(measured: &[f64]) -> f64 {
    quantile(measured, 0.25)
}

/// Returns a quantile. The median suits ratios and differences, which disturbances move both ways.
pub fn quantile(measured: &[f64], part: f64) -> f64 {
    let mut sorted = measured.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// Returns the median of `a[i] / b[i]`, whose values were measured in the same moment.
pub fn ratio(a: &[f64], b: &[f64]) -> f64 {
    quantile(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>(), 0.5)
}

/// Prints a Markdown table with the first column left-aligned and the others right-aligned.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
pub fn print_table(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len(), 3]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
    };
    let headings: Vec<String> = headings.iter().map(ToString::to_string).collect();
    println!("{}", line(&headings));
    let rules = widths.iter().enumerate().map(|(column, &width)| {
        if column == 0 { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
    });
    println!("{}", line(&rules.collect::<Vec<_>>()));
    rows.iter().for_each(|row| println!("{}", line(row)));
    println!();
}

/// Prints the benchmark's heading and the machine.
#[allow(clippy::print_stdout, reason = "a benchmark shows its results")]
pub fn print_heading(heading: &str) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    println!("{heading}\n{model}, {cores} cores, load {load}\n");
}

/// Measures one side's calls. The first calls do not count, because the other sides have evicted
/// this side's data from the processor's caches.
#[allow(dead_code, reason = "some benchmarks measure calls")]
pub fn micros_per_call(calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..=calls / 4 {
        call()?;
    }
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

/// Returns the median of `a[i] - b[i]`, whose values were measured in the same moment.
#[allow(dead_code, reason = "some benchmarks measure calls")]
pub fn difference(a: &[f64], b: &[f64]) -> f64 {
    quantile(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>(), 0.5)
}

/// Returns the largest difference of two results relative to the largest number of the other side;
/// NaN if either has a NaN.
#[allow(dead_code, reason = "some benchmarks compare results")]
pub fn relative_difference(ours: &[f64], theirs: &[f64]) -> f64 {
    let largest = theirs.iter().fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let parts = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / largest);
    parts.fold(0.0, |most, part| if part.is_nan() || part > most { part } else { most })
}
