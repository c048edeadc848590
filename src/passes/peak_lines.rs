//! The peak memory of a program by source line.

use super::peak::{Live, Peak};
use crate::core::{Loc, units};
use std::fmt;

/// The values of one source line in memory at the peak. Returned by [`Peak::by_line`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PeakLine {
    /// The line; [`Loc::UNKNOWN`] for arguments.
    pub loc: Loc,
    /// The bytes of its values, over all devices together.
    pub bytes: u64,
    /// The values, largest first.
    pub values: Vec<Live>,
}

impl Peak {
    /// Returns the values in memory at the peak by source line, the largest line first.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let layers = |x: Array| {
    ///     let deep = |x: &Array| (0..4).fold(x.clone(), |y, _| tanh(y.matmul(&y))).sum();
    ///     grad(deep)(&x)
    /// };
    /// let program = make_program(layers, Aval::new(DType::F32, [64, 64]))?;
    /// let peak = oxidax::passes::peak(&program);
    /// let lines = peak.by_line();
    /// assert_eq!(lines.iter().map(|line| line.bytes).sum::<u64>(), peak.bytes);
    /// println!("{peak}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn by_line(&self) -> Vec<PeakLine> {
        let mut lines: Vec<PeakLine> = Vec::new();
        for live in &self.values {
            let bytes = live.aval.bytes() as u64;
            match lines.iter_mut().find(|line| line.loc == live.loc) {
                Some(line) => {
                    line.bytes = line.bytes.saturating_add(bytes);
                    line.values.push(live.clone());
                }
                None => lines.push(PeakLine { loc: live.loc, bytes, values: vec![live.clone()] }),
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.bytes));
        lines
    }
}

impl fmt::Display for PeakLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter();
        let values = values.map(|live| match live.produced_by {
            Some(primitive) => format!("{} of {primitive}", live.aval),
            None => match &live.path {
                Some(path) => format!("{} {path}", live.aval),
                None => live.aval.to_string(),
            },
        });
        write!(f, "{:>10}  ", units::size(self.bytes))?;
        match self.loc.get() {
            Some(location) => write!(f, "{location}")?,
            None => f.write_str("arguments")?,
        }
        write!(f, "  {}", units::counted(values))
    }
}

/// The table by source line.
impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} values at the peak", units::size(self.bytes), self.values.len())?;
        self.by_line().iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;

    #[test]
    fn lines_are_those_of_the_source() {
        let at = line!() + 2;
        let step = |w: Array, x: Array| {
            let hidden = tanh(x.matmul(&w)); // kept for the derivative of the next product
            let loss = |w: &Array| hidden.matmul(w).sum();
            grad(loss)(&w)
        };
        let aval = Aval::new(DType::F32, [32, 32]);
        let program = make_program(step, (aval.clone(), aval)).expect("it traces");
        let peak = crate::passes::peak(&program);
        let lines = peak.by_line();
        let own = lines.iter().find(|line| line.loc.get().is_some_and(|loc| loc.line() == at));
        assert!(own.is_some_and(|line| line.bytes >= 4096), "{peak}");
        let text = peak.to_string();
        assert!(text.contains("arguments  ") && text.contains("peak_lines.rs:"), "{text}");
    }
}
