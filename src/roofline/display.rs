//! Display of rooflines and predictions.

use super::count::{OpCost, Roofline};
use super::predict::Prediction;
use crate::core::units::time;
use std::collections::BTreeMap;
use std::fmt;

/// The largest number of operations, lines and exchanges in a table.
const MAX_ROWS: usize = 10;

/// Formats `1.97e14` as `197 T`.
fn count(number: f64) -> String {
    let steps = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.into_iter().find(|(size, _)| number >= *size) {
        Some((size, letter)) => format!("{:.3} {letter}", number / size),
        None => format!("{number:.0} "),
    }
}

/// Sums operations of equal name and operands, the one with most FLOPs first.
fn by_operation(operations: &[OpCost]) -> Vec<(String, u64, u64, u64)> {
    let mut found: BTreeMap<(&str, &str), (u64, u64, u64)> = BTreeMap::new();
    for operation in operations {
        let entry = found.entry((operation.name, &operation.operands)).or_default();
        entry.0 = entry.0.saturating_add(operation.times);
        entry.1 = entry.1.saturating_add(operation.flops);
        entry.2 = entry.2.saturating_add(operation.fused_bytes);
    }
    let named =
        found.into_iter().map(|((name, types), (n, f, b))| (format!("{name} {types}"), n, f, b));
    let mut rows: Vec<_> = named.collect();
    rows.sort_by_key(|&(_, _, flops, bytes)| std::cmp::Reverse((flops, bytes)));
    rows
}

impl fmt::Display for Roofline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [flops, other] = [self.flops(), self.transcendentals()].map(|n| count(n as f64));
        let [fused, all, least] =
            [self.fused_bytes(), self.bytes(), self.least_bytes()].map(|n| count(n as f64));
        writeln!(f, "{flops}FLOP, {other}transcendentals")?;
        writeln!(f, "{fused}B fused, {all}B unfused, {least}B of arguments and results")?;
        writeln!(f, "{:.1} FLOP/B", self.intensity())?;
        writeln!(f, "\n{:>12} {:>12} {:>8}  operation", "FLOP", "fused B", "runs")?;
        for (name, times, flops, bytes) in by_operation(&self.operations).into_iter().take(MAX_ROWS)
        {
            let [flops, bytes] = [flops, bytes].map(|n| count(n as f64));
            writeln!(f, "{flops:>12} {bytes:>12} {times:>8}  {name}")?;
        }
        writeln!(f, "\n{:>12} {:>12} {:>8}  line", "FLOP", "fused B", "ops")?;
        for line in self.lines().into_iter().take(MAX_ROWS) {
            let [flops, bytes] = [line.flops, line.fused_bytes].map(|n| count(n as f64));
            let place =
                line.place.map_or("(no line)".into(), |at| format!("{}:{}", at.file, at.line));
            writeln!(f, "{flops:>12} {bytes:>12} {:>8}  {place}", line.operations)?;
        }
        for open in &self.unknown_loops {
            let place = open
                .place
                .as_ref()
                .map_or(String::new(), |at| format!(" at {}:{}", at.file, at.line));
            writeln!(
                f,
                "\nhow often the loop{place} runs is not known: counted as {}",
                open.counted
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.devices == 1 { "" } else { "s" };
        writeln!(
            f,
            "on {} {} device{plural}, each a {}",
            self.devices, self.device.name, self.device.unit
        )?;
        let [seconds, serial] = [self.seconds, self.serial_seconds].map(time);
        writeln!(
            f,
            "step: {seconds} if all overlaps, {serial} if nothing does; bound by {}",
            self.bound
        )?;
        writeln!(
            f,
            "utilization: {:.1} % of {}FLOP/s",
            self.mfu * 100.0,
            count(self.device.peak.bf16)
        )?;
        let (hbm, vmem) = (self.critical_intensity, self.critical_intensity_from_vmem);
        writeln!(
            f,
            "intensity: {:.1} FLOP/B; critical {hbm:.1} from HBM, {vmem:.1} from VMEM",
            self.intensity
        )?;
        let times = &self.times;
        for (name, seconds) in [
            ("products", times.products),
            ("vectors", times.vectors),
            ("memory", times.memory),
            ("  unfused", times.memory_unfused),
            ("  least", times.memory_least),
            ("wires", times.wires),
            ("data centre", times.data_centre),
        ] {
            if seconds > 0.0 {
                writeln!(f, "{name:<12} {:>12}", time(seconds))?;
            }
        }
        for one in self.exchanges.iter().take(MAX_ROWS) {
            let exchange = &one.exchange;
            let (axes, bytes) = (exchange.axes.join(", "), count(exchange.bytes as f64));
            writeln!(
                f,
                "{:>12} {:>12}B {:>6} x  {} over {} ({axes})",
                time(one.time.seconds()),
                bytes,
                exchange.times,
                exchange.kind,
                exchange.size
            )?;
        }
        Ok(())
    }
}
