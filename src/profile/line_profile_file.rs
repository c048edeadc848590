//! `line_profile.json`: a [`LineProfile`] in the folder of a profile.
//!
//! The file is one JSON object with the fields `format`, `version`, `profile` and, beside recorded
//! steps, `steps`. Times are in seconds, rates in operations or bytes per second. A reader ignores
//! unknown fields, and missing ones are empty, so that fields can be added without a new version.

use super::line_profile::LineProfile;
use super::step_lines::StepLines;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The name of the file.
pub(super) const NAME: &str = "line_profile.json";
const FORMAT: &str = "oxidax line profile";
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Written<'p> {
    format: &'static str,
    version: u32,
    profile: &'p LineProfile,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<&'p StepLines>,
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
}

#[derive(Deserialize)]
struct Body {
    profile: LineProfile,
}

/// Writes a file. `steps` is the time of the recorded steps, if there are any.
pub(super) fn write(
    profile: &LineProfile,
    steps: Option<&StepLines>,
    out: &mut impl Write,
) -> io::Result<()> {
    serde_json::to_writer(out, &Written { format: FORMAT, version: VERSION, profile, steps })
        .map_err(io::Error::from)
}

/// Reads a file. Returns the reason if it cannot be used.
pub(super) fn read(bytes: &[u8]) -> Result<LineProfile, String> {
    let header: Header = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if header.format != FORMAT {
        return Err(format!("the format is `{}` instead of `{FORMAT}`", header.format));
    }
    if header.version != VERSION {
        return Err(format!(
            "it has version {}, and this oxidax reads version {VERSION}",
            header.version
        ));
    }
    let Body { profile } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    check(&profile)?;
    Ok(profile)
}

/// Checks numbers that computations rely on. Times have been checked as they were read.
fn check(profile: &LineProfile) -> Result<(), String> {
    let is_amount = |value: f64| value.is_finite() && value >= 0.0;
    if ![profile.peak_flops, profile.peak_bandwidth].into_iter().all(is_amount) {
        return Err("a peak rate is negative".to_owned());
    }
    for operation in &profile.operations {
        let amounts = [operation.flops, operation.bytes, operation.runs.unwrap_or(0.0)];
        if !amounts.into_iter().all(is_amount) {
            return Err(format!("operation `{}` has negative work", operation.name));
        }
        if !operation.lines.iter().all(|(_, share)| (0.0..=1.0).contains(share)) {
            return Err(format!("operation `{}` has a share outside of 0 to 1", operation.name));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::core::SourceLine;
    use crate::profile::{PeakArrays, ProfiledCollective, ProfiledOperation, StepMemory};
    use std::time::Duration;

    /// Returns a step of four operations on two devices.
    pub(in crate::profile) fn example() -> LineProfile {
        let line = |line| SourceLine { file: "src/model.rs".into(), line };
        let operation = |name: &str, scope: &str, lines: &[(u32, f64)], micros, flops, bytes| {
            ProfiledOperation {
                name: name.into(),
                scope: scope.into(),
                lines: lines.iter().map(|&(number, share)| (line(number), share)).collect(),
                time: Duration::from_micros(micros),
                runs: Some(1.0),
                flops,
                bytes,
                not_measured: None,
            }
        };
        let array = |array_type: &str, count, bytes, produced_by: Option<&str>, at| PeakArrays {
            array_type: array_type.into(),
            count,
            bytes,
            produced_by: produced_by.map(str::to_owned),
            line: at,
            // Arguments.
            paths: if produced_by.is_none() { vec!["$[0].w".into()] } else { Vec::new() },
        };
        LineProfile {
            name: "train_step".into(),
            predicted_for: None,
            recorded_on: None,
            step: Duration::from_millis(10),
            apart: Duration::from_millis(9),
            operations: vec![
                operation("dot.1", "model/encoder", &[(12, 1.0)], 6000, 6e9, 3e6),
                operation("fusion.2", "model/encoder", &[(12, 0.5), (14, 0.5)], 2000, 1e6, 4e7),
                operation("dot.3", "model/head", &[(20, 1.0)], 1500, 1e9, 2e6),
                operation("copy.4", "", &[], 500, 0.0, 8e6),
            ],
            peak_flops: 2e12,
            peak_bandwidth: 3e10,
            collectives: vec![ProfiledCollective {
                kind: "all-reduce".into(),
                axes: vec!["data".into()],
                size: 2,
                bytes: 4 << 20,
                runs: 3,
                time: Duration::from_micros(700),
                line: Some(line(30)),
                scope: "head".into(),
                cause: Some("gradients of replicated weights".into()),
            }],
            memory: Some(StepMemory {
                timeline: vec![1 << 20, 3 << 20, 6 << 20, 2 << 20],
                at_peak: vec![
                    array("f32[512,512]", 4, 4 << 20, Some("dot_general"), Some(line(12))),
                    array("f32[512,1024]", 1, 2 << 20, None, None),
                ],
                of_one_device: false,
            }),
        }
    }

    #[test]
    fn files_are_read_back() {
        let profile = example();
        let mut bytes = Vec::new();
        write(&profile, Some(&StepLines::default()), &mut bytes).expect("writing to a vector");
        assert_eq!(read(&bytes), Ok(profile));
    }

    #[test]
    fn damaged_files_are_errors() {
        let mut bytes = Vec::new();
        write(&example(), None, &mut bytes).expect("writing to a vector");
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        // Any byte may be replaced: whatever is read can be computed with.
        for at in 0..bytes.len() {
            for byte in [b'"', b'9', b'-', b'e', b'}', 0xff] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                if let Ok(profile) = read(&changed) {
                    let lines = profile.lines();
                    assert!(lines.iter().all(|line| line.share.is_finite()), "{lines:?}");
                }
            }
        }
        let text = |profile: &str| {
            format!(r#"{{"format":"{FORMAT}","version":1,"profile":{{{profile}}}}}"#)
        };
        let refused = |profile: &str| read(text(profile).as_bytes()).unwrap_err();
        assert!(refused(r#""step":-1"#).contains("-1 is not a time in seconds"));
        assert!(refused(r#""step":1e300"#).contains("is not a time in seconds"));
        assert!(refused(r#""peak_flops":-1"#).contains("negative"));
        let share = r#""operations":[{"name":"a","lines":[[{"file":"m.rs","line":1},2.0]]}]"#;
        assert!(refused(share).contains("share"));
        let other = format!(r#"{{"format":"{FORMAT}","version":2,"profile":{{"step":[]}}}}"#);
        assert!(read(other.as_bytes()).unwrap_err().contains("version 2"));
        assert_eq!(read(text("").as_bytes()), Ok(LineProfile::default()));
    }
}
