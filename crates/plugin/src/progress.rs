//! Progress messages during downloads.

use std::io::{self, IsTerminal as _, Write as _};

use crate::error::mib;

/// Receives the messages and progress of an installation.
///
/// [`Stderr`] prints them and [`Silent`] discards them. Other implementations can show them
/// elsewhere.
pub trait Progress {
    /// Reports a message for the user.
    fn note(&mut self, text: &str);

    /// Reports the start of a step that processes `total` bytes.
    fn begin(&mut self, step: &str, total: u64);

    /// Reports that the step has processed `done` bytes so far.
    fn advance(&mut self, done: u64);

    /// Reports the end of the step, successful or not.
    fn end(&mut self);
}

/// Discards all messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn note(&mut self, _: &str) {}
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn end(&mut self) {}
}

/// Prints to standard error: a progress bar on a terminal, otherwise a line per quarter.
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
    /// Returns a printer without an active step.
    pub fn new() -> Stderr {
        Stderr::default()
    }
}

/// Writes a line to standard error. Ignores errors, because a closed stream must not fail an
/// installation.
fn print(text: &str) {
    writeln!(io::stderr(), "oxidax: {text}").ok();
}

/// Replaces the current line of the terminal.
fn draw(line: &str) {
    write!(io::stderr(), "\r\x1b[K{line}").ok();
}

impl Progress for Stderr {
    fn note(&mut self, text: &str) {
        if let Some(Step::Bar { percent, .. }) = &mut self.step {
            // The bar is drawn again below the message.
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
