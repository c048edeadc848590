//! [`Chart`]: the frame of a plot in SVG.

use super::html::{escape, short};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 104.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 14.0;
const BELOW: f64 = 46.0;

/// A plot with axes. Its parts are drawn in the order in which they are added.
pub(super) struct Chart {
    height: f64,
    body: String,
}

impl Chart {
    /// Starts a plot of this height in pixels. The title is read by screen readers.
    pub(super) fn new(title: &str, height: f64) -> Chart {
        let title = escape(title);
        let body = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{title}\"><title>{title}</title>\n"
        );
        Chart { height, body }
    }

    pub(super) fn left(&self) -> f64 {
        LEFT
    }

    pub(super) fn top(&self) -> f64 {
        TOP
    }

    pub(super) fn bottom(&self) -> f64 {
        self.height - BELOW
    }

    /// Returns the width of the area inside the axes.
    pub(super) fn width(&self) -> f64 {
        WIDTH - LEFT - RIGHT
    }

    /// Returns the height of the area inside the axes.
    pub(super) fn height(&self) -> f64 {
        self.bottom() - self.top()
    }

    /// Adds elements.
    pub(super) fn add(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    pub(super) fn x_tick(&mut self, x: f64, text: &str) {
        let (top, bottom) = (self.top(), self.bottom());
        self.add(&format!(
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            escape(&short(text))
        ));
    }

    pub(super) fn y_tick(&mut self, y: f64, text: &str) {
        self.add(&format!(
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            escape(&short(text))
        ));
    }

    /// Adds both axes with their names and units.
    pub(super) fn axes(&mut self, x: &str, y: &str) {
        let (top, bottom) = (self.top(), self.bottom());
        let middle = (top + bottom) / 2.0;
        self.add(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{}\"/>\
             <text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"rotate(-90)\" x=\"{}\" y=\"13\" \
             text-anchor=\"middle\">{}</text>",
            WIDTH - RIGHT,
            LEFT + self.width() / 2.0,
            self.height - 8.0,
            escape(x),
            -middle,
            escape(y)
        ));
    }

    /// Returns the place next to `x` where a label's middle is, so that it stays inside the plot.
    pub(super) fn middle_of_label(&self, x: f64, text: &str) -> f64 {
        let half = 3.6 * text.chars().count() as f64;
        x.max(LEFT + half).min(WIDTH - RIGHT - half)
    }

    /// Adds text with its middle at a point, moved so that it stays inside the plot.
    pub(super) fn label(&mut self, x: f64, y: f64, text: &str) {
        let x = self.middle_of_label(x, text);
        self.add(&format!(
            "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
            escape(text)
        ));
    }

    pub(super) fn svg(mut self) -> String {
        self.body.push_str("</svg>");
        self.body
    }
}

/// Returns multiples of 1, 2 or 5 times a power of ten from 0 to `end`: about `steps` of them.
pub(super) fn round_steps(end: f64, steps: usize) -> impl Iterator<Item = f64> {
    let raw = (end / steps as f64).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(raw.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors.map(|factor| factor * power).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(raw);
    (0..=2 * steps).map(move |index| index as f64 * step).take_while(move |value| *value <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round() {
        let of = |end: f64| round_steps(end, 5).collect::<Vec<_>>();
        assert_eq!(of(9.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(of(1200.0), [0.0, 500.0, 1000.0]);
        assert_eq!(of(0.0), [0.0]);
    }
}
