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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_match_the_magnitude() {
        let sizes = [0, 1023, 1024, 5 << 19, 41 << 28].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "2.5 MiB", "10.25 GiB"]);
        let times = [0.0, 2e-7, 1.25e-5, 0.00535, 61.5].map(time);
        assert_eq!(times, ["0.0 ns", "200.0 ns", "12.5 µs", "5.35 ms", "61.50 s"]);
    }
}
