//! Times in the format of RFC 3339.

use std::time::{Duration, SystemTime};

/// Parses a time like `2026-05-17T15:09:54Z`, with a fraction of a second or an offset from UTC.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let marks = text.as_bytes();
    let has = |at: usize, mark: &[u8]| marks.get(at).is_some_and(|byte| mark.contains(byte));
    if !(has(4, b"-") && has(7, b"-") && has(10, b"Tt ") && has(13, b":") && has(16, b":")) {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction = rest.strip_prefix('.').unwrap_or("");
    let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let zone = if rest.starts_with('.') { &fraction[count..] } else { rest };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, zone) = match zone.split_at_checked(1)? {
                ("+", zone) => (1, zone),
                ("-", zone) => (-1, zone),
                _ => return None,
            };
            let (hours, minutes) = zone.split_once(':')?;
            sign * (hours.parse::<u8>().ok()? as i64 * 60 + minutes.parse::<u8>().ok()? as i64) * 60
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Returns the days since 1970-01-01. Years begin in March, so that the leap day is the last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 719_469
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_of_the_unix_clock() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-24T08:12:48Z", 1_795_507_968),
            ("2026-11-24T08:12:48.123456789Z", 1_795_507_968),
            ("2026-11-24T09:12:48+01:00", 1_795_507_968),
            ("2100-03-01T00:00:00-00:30", 4_107_544_200),
        ] {
            let time = parse(text).unwrap();
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since.as_secs(), seconds, "{text}");
        }
        for text in
            ["", "2026", "2026-13-01T00:00:00Z", "2026-11-24T08:12:48", "1969-01-01T00:00:00Z"]
        {
            assert!(parse(text).is_none(), "{text}");
        }
        assert!(parse("2026-11-24T08:12:4éZ").is_none());
    }
}
