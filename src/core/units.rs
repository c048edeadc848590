//! Human-readable sizes and times.

/// Formats bytes in B, KiB, MiB or GiB: `38.19 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let number = bytes as f64;
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", number / f64::from(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", number / f64::from(1 << 20)),
        _ => format!("{:.2} GiB", number / f64::from(1 << 30)),
    }
}

/// Formats seconds in ns, µs, ms or s: `5.35 ms`.
#[cfg(any(test, feature = "doctor", feature = "roofline"))]
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.1} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Number of different items that [`counted`] lists.
const LISTED: usize = 3;

/// Lists equal items once, with their numbers: `96 × f32[8], 2 × f32[]`. After the most frequent
/// ones, the number of the others.
pub(crate) fn counted(items: impl IntoIterator<Item = String>) -> String {
    let mut groups: Vec<(usize, String)> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|(_, other)| *other == item) {
            Some((count, _)) => *count += 1,
            None => groups.push((1, item)),
        }
    }
    groups.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let others: usize = groups.iter().skip(LISTED).map(|(count, _)| count).sum();
    let listed = groups.into_iter().take(LISTED).map(|(count, item)| match count {
        1 => item,
        count => format!("{count} × {item}"),
    });
    let mut parts: Vec<String> = listed.collect();
    if others > 0 {
        parts.push(format!("{others} others"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_items_are_counted() {
        let of = |items: &[&str]| counted(items.iter().map(|item| (*item).to_string()));
        assert_eq!(of(&["a", "b", "b"]), "2 × b, a");
        assert_eq!(of(&["a", "b", "c", "d", "e"]), "a, b, c, 2 others");
    }

    #[test]
    fn units_match_the_magnitude() {
        let sizes = [0, 1023, 1024, 5 << 19, 41 << 28].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "2.5 MiB", "10.25 GiB"]);
        let times = [0.0, 2e-7, 1.25e-5, 0.00535, 61.5].map(time);
        assert_eq!(times, ["0.0 ns", "200.0 ns", "12.5 µs", "5.35 ms", "61.50 s"]);
    }
}
