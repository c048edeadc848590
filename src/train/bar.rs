//! A progress bar on the terminal, one line of standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(50);

/// Characters between the brackets.
const WIDTH: u64 = 40;

/// A bar that is drawn if standard error is a terminal.
#[derive(Debug)]
pub(super) struct Bar {
    position: u64,
    length: u64,
    began: Instant,
    /// The time of the next drawing, or `None` where nothing can be drawn.
    draw_at: Option<Instant>,
}

impl Bar {
    pub(super) fn new(length: u64) -> Bar {
        let began = Instant::now();
        let draw_at = std::io::stderr().is_terminal().then_some(began);
        Bar { position: 0, length, began, draw_at }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    /// Returns true if standard error is not a terminal.
    pub(super) fn is_hidden(&self) -> bool {
        self.draw_at.is_none()
    }

    /// Advances by one step. Returns true if it is time to [`show`](Bar::show) the bar.
    pub(super) fn advance(&mut self) -> bool {
        self.position += 1;
        self.draw_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Draws the bar with `message`.
    pub(super) fn show(&mut self, message: &str) {
        self.draw_at = Some(Instant::now() + DRAW_EVERY);
        self.draw(message, "");
    }

    /// Draws the bar for the last time and leaves it on the terminal.
    pub(super) fn finish(&mut self, message: &str) {
        if !self.is_hidden() {
            self.draw(message, "\n");
        }
    }

    fn draw(&self, message: &str, end: &str) {
        let (at, of) = (self.position, self.length);
        let filled = (at.min(of) * WIDTH).checked_div(of).unwrap_or(WIDTH) as usize;
        let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH as usize - filled));
        let elapsed = self.began.elapsed().as_secs();
        let line = format!("\r\x1b[K{bar} {at}/{of} steps, {elapsed} s, {message}{end}");
        // A closed standard error is not an error of the run.
        std::io::stderr().write_all(line.as_bytes()).ok();
    }
}
