//! Telling the user what is going on while tens of megabytes travel.

use std::io::{self, IsTerminal as _, Write as _};

use crate::error::mib;

/// Receives what an installation has to say.
///
/// [`Stderr`] prints it, [`Silent`] drops it; implement it to show it elsewhere.
pub trait Progress {
    /// A sentence for the user.
    fn note(&mut self, text: &str);

    /// A step begins that will handle `total` bytes.
    fn begin(&mut self, step: &str, total: u64);

    /// The step has handled `done` bytes so far.
    fn advance(&mut self, done: u64);

    /// The step has ended, well or badly.
    fn end(&mut self);
}

/// Says nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn note(&mut self, _: &str) {}
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
}

/// Prints to standard error: a bar where that is a terminal, otherwise a line per quarter.
#[derive(Debug, Default)]
pub struct Stderr {
    step: Option<Step>,
}

#[derive(Debug)]
enum Step {
    Bar { name: String, total: u64, percent: Option<u64> },
    Lines { name: String, total: u64, quarter: u64 },
}

impl Stderr {
    /// A printer with no step under way.
    pub fn new() -> Stderr {
        Stderr::default()
    }
}

/// Writes a line to standard error. A closed stream is no reason to fail an installation.
fn print(text: &str) {
    writeln!(io::stderr(), "oxidax: {text}").ok();
}

/// Replaces the line of the terminal on which the cursor is.
fn draw(line: &str) {
    write!(io::stderr(), "\r\x1b[K{line}").ok();
}

impl Progress for Stderr {
    fn note(&mut self, text: &str) {
        if let Some(Step::Bar { percent, .. }) = &mut self.step {
            // The bar is drawn again below the note.
            *percent = None;
            draw("");
        }
        print(text);
    }

    fn begin(&mut self, step: &str, total: u64) {
        self.end();
        self.step = Some(if io::stderr().is_terminal() {
            Step::Bar { name: step.to_owned(), total, percent: None }
        } else {
            print(&format!("{step}: {}", mib(total)));
            Step::Lines { name: step.to_owned(), total, quarter: 0 }
        });
    }

    fn advance(&mut self, done: u64) {
        match &mut self.step {
            Some(Step::Bar { name, total, percent }) => {
                let now = (done.min(*total) * 100).checked_div(*total).unwrap_or(100);
                if *percent != Some(now) {
                    *percent = Some(now);
                    let filled = "=".repeat(now as usize * 30 / 100);
                    draw(&format!("oxidax: {name:12} [{filled:30}] {now:3} % of {}", mib(*total)));
                }
            }
            Some(Step::Lines { name, total, quarter }) => {
                let now = (done.min(*total) * 4).checked_div(*total).unwrap_or(4);
                if now > *quarter {
                    *quarter = now;
                    print(&format!("{name}: {} %", now * 25));
                }
            }
            None => {}
        }
    }

    fn end(&mut self) {
        if let Some(Step::Bar { .. }) = self.step.take() {
            draw("");
        }
    }
}
