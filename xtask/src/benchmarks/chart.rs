//! Horizontal bars on a logarithmic axis, as SVG.

use std::fmt::Write as _;

/// A bar from 1 to its value.
pub(super) struct Bar {
    /// The heading above the bars of a group, which follow each other.
    pub(super) group: String,
    pub(super) label: String,
    pub(super) value: f64,
}

const WIDTH: f64 = 800.0;
/// The columns of the axis. Labels are to the left, and there is room for a number to the right.
const AXIS: [f64; 2] = [150.0, 740.0];
const LINE: f64 = 18.0;
const TOP: f64 = 48.0;
/// Colours of Okabe and Ito (2008), which most people with colour blindness can tell apart.
const SLOWER: &str = "#0072b2";
const FASTER: &str = "#d55e00";

/// Returns the bars as an SVG document.
pub(super) fn draw(title: &str, bars: &[Bar]) -> String {
    let groups = bars.chunk_by(|a, b| a.group == b.group).count();
    let height = TOP + LINE * (bars.len() + groups) as f64 + LINE;
    let octaves = bars.iter().map(|bar| bar.value.log2());
    let (least, most) =
        octaves.fold((-1.0f64, 1.0f64), |(least, most), x| (least.min(x), most.max(x)));
    let (least, most) = (least.floor() as i32, most.ceil() as i32);
    let column = |value: f64| {
        let part = (value.log2() - f64::from(least)) / f64::from(most - least);
        AXIS[0] + part * (AXIS[1] - AXIS[0])
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             dominant-baseline=\"central\" fill=\"#333333\">{text}</text>"
        )
        .expect("a string is written");
    };
    text(WIDTH / 2.0, 14.0, "middle", title);
    for octave in least..=most {
        let value = 2.0f64.powi(octave);
        let tick = if octave < 0 { format!("1/{}", 1 << -octave) } else { value.to_string() };
        text(column(value), 34.0, "middle", &tick);
    }
    let mut y = TOP + LINE / 2.0;
    let mut marks = String::new();
    for group in bars.chunk_by(|a, b| a.group == b.group) {
        text(8.0, y, "start", &group[0].group);
        for bar in group {
            y += LINE;
            let (start, end) = (column(1.0), column(bar.value));
            let (left, width) = (start.min(end), (start - end).abs());
            let colour = if bar.value < 1.0 { FASTER } else { SLOWER };
            writeln!(
                marks,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/>",
                y - LINE * 0.35,
                LINE * 0.7
            )
            .expect("a string is written");
            text(AXIS[0] - 8.0, y, "end", &bar.label);
            text(start.max(end) + 6.0, y, "start", &format!("{:.2}", bar.value));
        }
        y += LINE;
    }
    for octave in least..=most {
        let x = column(2.0f64.powi(octave));
        let colour = if octave == 0 { "#333333" } else { "#dddddd" };
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
            height - LINE / 2.0
        )
        .expect("a string is written");
    }
    svg + &marks + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_go_from_one_to_both_sides() {
        let bar = |value| Bar { group: "a < b".into(), label: "JAX".into(), value };
        let svg = draw("Times", &[bar(4.0), bar(0.5)]);
        // Three octaves, from 1/2 to 4, with 1 after the first.
        let one = AXIS[0] + (AXIS[1] - AXIS[0]) / 3.0;
        for part in [
            format!("<rect x=\"{one:.1}\" y=\"68.7\" width=\"{:.1}\"", AXIS[1] - one),
            format!("<rect x=\"{:.1}\" y=\"86.7\" width=\"{:.1}\"", AXIS[0], one - AXIS[0]),
            ">1/2</text>".into(),
            ">a &lt; b</text>".into(),
            ">4.00</text>".into(),
        ] {
            assert!(svg.contains(&part), "{part}\nis missing in\n{svg}");
        }
        assert_eq!(svg.matches("a &lt; b").count(), 1, "one heading for both bars");
    }
}
