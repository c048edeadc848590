//! Telling the user what is going on while tens of megabytes travel.

use std::io::{self, IsTerminal as _, Write as _};

use indicatif::{ProgressBar, ProgressStyle};

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
    Bar(ProgressBar),
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

impl Progress for Stderr {
    fn note(&mut self, text: &str) {
        match &self.step {
            Some(Step::Bar(bar)) => bar.suspend(|| print(text)),
            _ => print(text),
        }
    }

    fn begin(&mut self, step: &str, total: u64) {
        self.end();
        self.step = Some(if io::stderr().is_terminal() {
            let bar = ProgressBar::new(total).with_message(step.to_owned());
            let template = "oxidax: {msg:12} [{bar:30}] {binary_bytes}/{binary_total_bytes} {eta}";
            bar.set_style(
                ProgressStyle::with_template(template)
                    .expect("the template is a constant that was tried")
                    .progress_chars("=> "),
            );
            Step::Bar(bar)
        } else {
            print(&format!("{step}: {}", mib(total)));
            Step::Lines { name: step.to_owned(), total, quarter: 0 }
        });
    }

    fn advance(&mut self, done: u64) {
        match &mut self.step {
            Some(Step::Bar(bar)) => bar.set_position(done),
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
        if let Some(Step::Bar(bar)) = self.step.take() {
            bar.finish_and_clear();
        }
    }
}
