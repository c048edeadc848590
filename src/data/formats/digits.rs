//! The handwritten digits that scikit-learn ships as comma-separated values.

use crate::core::Error;
use crate::data::files::{File, Reader};
use crate::data::labelled::LabelledImages;
use std::path::Path;

const PIXELS: usize = 64;
const MAX_PIXEL: u8 = 16;
const MAX_LABEL: u8 = 9;
/// A larger file is not the digits, which take 0.25 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads the 8 × 8 digits of a CSV file, compressed with gzip or not. A line has 64 pixels in
/// `0..=16` and the label.
///
/// Pixels are scaled to `0.0..=1.0`.
///
/// # Errors
/// [`Error::Io`] naming the file, the byte and the line if the file is missing, or a line is not 65
/// numbers in range.
///
/// ```
/// use oxidax::prelude::*;
/// let digits = data::digits("examples/mlp/data/digits.csv.gz")?;
/// let (test, train) = digits.split(|row| row % 5 == 0);
/// assert_eq!((train.len(), test.len()), (1437, 360));
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning
/// Repository, 1998.
pub fn digits(path: impl AsRef<Path>) -> Result<LabelledImages, Error> {
    let mut reader = Reader::open(&File::from(path.as_ref()))?;
    let bytes = reader.up_to(MAX_FILE_BYTES)?;
    if bytes.len() as u64 == MAX_FILE_BYTES {
        return Err(reader.damaged(MAX_FILE_BYTES, "the file is too large to be the digits"));
    }
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let mut offset = 0;
    for (row, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        parse_line(line.trim_ascii_end(), &mut pixels, &mut labels).map_err(
            |(column, message)| {
                let message = format!("line {}: {message}", row + 1);
                reader.damaged((offset + column) as u64, message)
            },
        )?;
        offset += line.len();
    }
    Ok(LabelledImages::new(pixels, labels, PIXELS, f32::from(MAX_PIXEL)))
}

/// Appends one line's pixels and label. An error holds the column of the wrong byte.
fn parse_line(
    line: &[u8],
    pixels: &mut Vec<u8>,
    labels: &mut Vec<u8>,
) -> Result<(), (usize, String)> {
    let fields = line.split(|&byte| byte == b',').count();
    if fields != PIXELS + 1 {
        return Err((0, format!("expected {} numbers, found {fields}", PIXELS + 1)));
    }
    let mut column = 0;
    for (position, field) in line.split(|&byte| byte == b',').enumerate() {
        let (largest, what) =
            if position < PIXELS { (MAX_PIXEL, "pixel") } else { (MAX_LABEL, "label") };
        let text = String::from_utf8_lossy(field);
        let number: Option<u8> = text.trim().parse().ok().filter(|&number| number <= largest);
        let Some(number) = number else {
            return Err((
                column,
                format!("a {what} must be a number in 0..={largest}, not `{text}`"),
            ));
        };
        if position < PIXELS {
            pixels.push(number)
        } else {
            labels.push(number)
        }
        column += field.len() + 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn line(first: &str, label: &str) -> String {
        format!("{first},{}{label}\n", "4,".repeat(PIXELS - 1))
    }

    fn read(text: &str) -> Result<LabelledImages, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.csv");
        std::fs::write(&path, text).unwrap();
        let place = path.display().to_string();
        digits(&path).map_err(|error| error.to_string().replace(&place, "digits.csv"))
    }

    #[test]
    fn last_newline_is_optional() {
        let text = format!("{}{}", line("16", "3"), line("0", "9"));
        for text in [text.as_str(), text.trim_end()] {
            let set = read(text).unwrap();
            assert_eq!((set.len(), set.width()), (2, 64));
            let (pixels, label) = set.row(0);
            assert_eq!((pixels[0], pixels[1], label), (1.0, 0.25, 3));
        }
    }

    #[test]
    fn errors_name_the_line_and_the_byte() {
        let refused =
            |text: String, expected: Expect| expected.assert_eq(&read(&text).unwrap_err());
        refused(
            format!("{}1,2,3\n", line("1", "1")),
            expect!["error[io]: digits.csv: at byte 130: line 2: expected 65 numbers, found 3"],
        );
        refused(
            format!("{}{}", line("1", "1"), line("17", "1")),
            expect![
                "error[io]: digits.csv: at byte 130: line 2: a pixel must be a number in 0..=16, not `17`"
            ],
        );
        refused(
            line("1", "ten"),
            expect![
                "error[io]: digits.csv: at byte 128: line 1: a label must be a number in 0..=9, not `ten`"
            ],
        );
        refused(
            "\n".into(),
            expect!["error[io]: digits.csv: at byte 0: line 1: expected 65 numbers, found 1"],
        );
    }
}
