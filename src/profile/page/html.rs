//! Text of a page: escaping, numbers with units, tables.

use crate::core::SourceLine;

/// Replaces the characters that have a meaning in HTML and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // A page must not contain other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a value as JSON that may stand inside a `script` element.
pub(super) fn script_json(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028")
}

/// Removes detours from a path: `a/../b` is `b`. Modules of another folder have such paths.
pub(super) fn short_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("..", Some(&last)) if !matches!(last, "" | "." | "..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Formats a number with three significant digits.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        s if s >= 99.95 || s == 0.0 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Formats an amount with a decimal prefix: `2.15 TFLOP/s`.
pub(super) fn amount(value: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefixes = ["", "k", "M", "G", "T", "P", "E"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = prefixes.next() else { break };
        (value, prefix) = (value / 1e3, next);
    }
    format!("{} {prefix}{unit}", digits(value))
}

/// Removes the zeros behind the point of a formatted number: `10 GiB` of `10.0 GiB`.
pub(super) fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

/// Formats bytes with a binary prefix: `1.50 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        (value, unit) = (value / 1024.0, next);
        if value < 1023.5 {
            break;
        }
    }
    format!("{} {unit}", digits(value))
}

/// Formats seconds: `5.35 ms`.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        s if s <= 0.0 => "0 s".to_owned(),
        s if s < 0.9995e-6 => format!("{} ns", digits(s * 1e9)),
        s if s < 0.9995e-3 => format!("{} µs", digits(s * 1e6)),
        s if s < 0.9995 => format!("{} ms", digits(s * 1e3)),
        s => format!("{} s", digits(s)),
    }
}

pub(super) fn nanoseconds(value: u64) -> String {
    seconds(value as f64 / 1e9)
}

/// Formats a share: `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Formats a count with thin spaces between thousands: `1 234 567`.
pub(super) fn count(value: u64) -> String {
    let text = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count with its noun: `1 step`, `12 steps`.
pub(super) fn counted(value: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(value), if value == 1 { singular } else { plural })
}

/// Returns the sentence of a section without data: what is missing, and the call that records it.
pub(super) fn missing(sentence: &str) -> String {
    format!("<p class=\"missing\">{sentence}</p>")
}

/// A cell of a table.
pub(crate) enum Cell {
    /// Text that is not escaped yet.
    Text(String),
    /// A source line.
    Line(Option<SourceLine>),
    /// A source line, and the reason for what is there, with names in backticks.
    Explained(Option<SourceLine>, Option<String>),
    /// Another name of a program.
    Code(String),
    /// A number: its text, and the value by which rows are sorted.
    Number(String, f64),
    /// A share from 0 to 1 with a bar.
    Share(f64),
    /// There is no value.
    Empty,
}

/// A table that is sorted by a click on a heading.
pub(crate) struct Table {
    pub(crate) caption: &'static str,
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn html(&self) -> String {
        let mut out = format!(
            "<div class=\"scroll\"><table class=\"sortable\"><caption>{}</caption><thead><tr>",
            escape(self.caption)
        );
        let is_number =
            |cell: Option<&Cell>| matches!(cell, Some(Cell::Number(..) | Cell::Share(_)));
        let are_numbers: Vec<bool> = (0..self.headings.len())
            .map(|index| self.rows.iter().any(|row| is_number(row.get(index))))
            .collect();
        for (heading, is_number) in self.headings.iter().zip(&are_numbers) {
            let class = if *is_number { " class=\"number\"" } else { "" };
            let heading = escape(heading);
            out.push_str(&format!("<th scope=\"col\"{class}><button>{heading}</button></th>"));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (cell, is_number) in row.iter().zip(&are_numbers) {
                out.push_str(&cell.html(*is_number));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>");
        out
    }
}

/// Escapes a text, and marks its names in backticks as code.
fn with_code(text: &str) -> String {
    let mut out = String::new();
    for (index, part) in text.split('`').enumerate() {
        match index % 2 {
            0 => out.push_str(&escape(part)),
            _ => out.push_str(&format!("<code>{}</code>", escape(part))),
        }
    }
    out
}

impl Cell {
    fn html(&self, is_number: bool) -> String {
        match self {
            Cell::Text(text) => format!("<td>{}</td>", escape(text)),
            Cell::Line(Some(line)) => Cell::Code(short_path(&line.to_string())).html(is_number),
            Cell::Line(None) => Cell::Empty.html(is_number),
            Cell::Explained(line, None) => Cell::Line(line.clone()).html(is_number),
            Cell::Explained(line, Some(reason)) => {
                let line = line.as_ref().map_or_else(
                    || "no line".to_owned(),
                    |line| format!("<code>{}</code>", escape(&short_path(&line.to_string()))),
                );
                format!("<td>{line}<div class=\"note\">{}</div></td>", with_code(reason))
            }
            Cell::Code(text) => format!("<td><code>{}</code></td>", escape(text)),
            Cell::Number(text, value) => {
                format!("<td class=\"number\" data-v=\"{value}\">{}</td>", escape(text))
            }
            Cell::Share(share) => {
                let width = (100.0 * share).clamp(0.0, 100.0);
                format!(
                    "<td class=\"share\" data-v=\"{share}\"><span class=\"bar\" \
                     style=\"width:{width:.1}%\"></span><span>{}</span></td>",
                    percent(*share)
                )
            }
            Cell::Empty if is_number => "<td class=\"number empty\">–</td>".to_owned(),
            Cell::Empty => "<td class=\"empty\">–</td>".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_is_escaped() {
        let name = "<script>alert('a' & \"b\")</script>\u{0}";
        let escaped = "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;\u{fffd}";
        assert_eq!(escape(name), escaped);
        assert!(!script_json(&serde_json::json!([name])).contains("</script>"));
        let rows = vec![vec![Cell::Text(name.into()), Cell::Code(name.into())]];
        let table = Table { caption: "a", headings: vec!["b", "c"], rows }.html();
        assert!(!table.contains("<script>"), "{table}");
    }

    #[test]
    fn paths_have_no_detours() {
        let paths = ["a/../b/c.rs:1", "../a.rs", "a/b/../../../c", "/../a", "./../a", "src/a.rs"];
        let short = ["b/c.rs:1", "../a.rs", "../c", "/../a", "./../a", "src/a.rs"];
        assert_eq!(paths.map(short_path), short);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 0.0123, 1.0, 9.996, 99.96, 1234.0].map(digits),
            ["0", "0.012", "1.00", "10.0", "100", "1234"]
        );
        assert_eq!(amount(2.154e12, "FLOP/s"), "2.15 TFLOP/s");
        assert_eq!(amount(999.6, "B/s"), "1.00 kB/s");
        assert_eq!(amount(f64::MAX, "B").split(' ').next_back(), Some("EB"));
        assert_eq!(
            [0, 1023, 1024, 1_048_575, 3 << 29, u64::MAX].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "1.00 MiB", "1.50 GiB", "16.0 EiB"]
        );
        assert_eq!(
            [0.0, 2e-7, 1.25e-5, 0.00535, 0.9996, 61.5].map(seconds),
            ["0 s", "200 ns", "12.5 µs", "5.35 ms", "1.00 s", "61.5 s"]
        );
        assert_eq!(
            [7, 1234, 1_234_567].map(count),
            ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(
            ["1.00 GB/s", "0.100", "100", "10.5 MiB"].map(short),
            ["1 GB/s", "0.1", "100", "10.5 MiB"]
        );
    }
}
