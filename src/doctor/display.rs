//! Display of reports.

use super::fit::Fitted;
use super::report::{Line, Report};
use crate::core::units::{size, time};
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {} ({}", self.step, self.topology, self.device)?;
        match &self.mesh {
            Some(mesh) => writeln!(f, "), {mesh}, {} devices", self.devices)?,
            None => writeln!(f, "), one device")?,
        }
        self.memory_lines(f)?;
        self.time_lines(f)?;
        if !self.lines.is_empty() {
            writeln!(f, "\nlines that take longest")?;
        }
        self.lines.iter().try_for_each(|line| line.fmt(f))?;
        self.movement_lines(f)?;
        if !self.advice.is_empty() {
            writeln!(f, "\nadvice")?;
        }
        for advice in &self.advice {
            write!(f, "  {}: {}", advice.topic, advice.message)?;
            if let Some(seconds) = advice.seconds.filter(|seconds| *seconds > 0.0) {
                write!(f, "; up to {} a step", time(seconds))?;
            }
            match &advice.place {
                Some(place) => writeln!(f, "\n    at {}:{}", place.file, place.line)?,
                None => writeln!(f)?,
            }
        }
        match &self.fitted {
            Some(fitted) => write!(f, "\n{fitted}"),
            None => Ok(()),
        }
    }
}

/// The largest number of collectives in a report.
const MOVEMENTS: usize = 5;

impl Report {
    fn movement_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.movements.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nexchanges that take longest")?;
        self.movements.iter().take(MOVEMENTS).try_for_each(|it| writeln!(f, "{it}"))?;
        match self.movements.len().saturating_sub(MOVEMENTS) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more, in all {}", time(self.exchange_seconds())),
        }
    }

    fn exchange_seconds(&self) -> f64 {
        self.movements.iter().map(|movement| movement.seconds).sum()
    }

    fn memory_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(too_large) = &self.too_large {
            return writeln!(f, "{too_large}");
        }
        let word = if self.fits { "fits" } else { "does not fit" };
        write!(f, "{word}: {} on a device", size(self.needed))?;
        match self.available {
            Some(all) => {
                writeln!(f, " of {} ({:.0} %)", size(all), self.needed as f64 / all as f64 * 100.0)?
            }
            None => writeln!(f)?,
        }
        for share in &self.memory {
            writeln!(f, "  {:12} {:>10}", share.kind.name(), size(share.bytes))?;
        }
        if self.host_needed > 0 {
            writeln!(f, "host memory for each device: {}", size(self.host_needed))?;
        }
        Ok(())
    }

    fn time_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "compiled in {:.1} s", self.compile_seconds)?;
        if let Some(collectives) = &self.collectives {
            writeln!(f, "sends {collectives}")?;
        }
        let Some(prediction) = &self.prediction else {
            return writeln!(
                f,
                "{:.3e} FLOPs; what the device can do is not in the table",
                self.flops as f64
            );
        };
        writeln!(
            f,
            "a step takes {} at best, bound by {}; MFU {:.0} % at most ({:.3e} FLOPs)",
            time(prediction.seconds),
            prediction.bound,
            prediction.mfu * 100.0,
            self.flops as f64
        )?;
        let times = &prediction.times;
        writeln!(
            f,
            "  products {}, vectors {}, memory {}, wires {}, data centre {}; one after the other \
            {}",
            time(times.products),
            time(times.vectors),
            time(times.memory),
            time(times.wires),
            time(times.data_centre),
            time(prediction.serial_seconds)
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:3.0} %", self.share * 100.0)?;
        if let Some(seconds) = self.seconds {
            write!(f, "  {:>9}", time(seconds))?;
        }
        match &self.place {
            Some(place) => write!(f, "  {}:{}", place.file, place.line)?,
            None => write!(f, "  of no line")?,
        }
        writeln!(f, "  {}", self.operation)?;
        match &self.text {
            Some(text) => writeln!(f, "         {text}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "batch {} with {:?} is the best that fits; of",
            self.best.batch, self.best.policy
        )?;
        self.trials.iter().try_for_each(|trial| {
            let word = if trial.fits { "fits" } else { "does not fit" };
            let each = trial.seconds_each.map(|it| format!(", {} for each of it", time(it)));
            writeln!(
                f,
                "  batch {:>6}  {:20}  {:>10}  {word}{}",
                trial.batch,
                format!("{:?}", trial.policy),
                size(trial.needed),
                each.unwrap_or_default()
            )
        })
    }
}
