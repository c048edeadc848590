//! Drawing surfaces for charts: SVG text and pixels.

use super::{io_error, write_file};
use crate::core::Error;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use font8x8::legacy::BASIC_LEGACY;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

/// A colour: red, green and blue.
pub(super) type Colour = [u8; 3];

/// The colour of text and axes.
pub(super) const INK: Colour = [0x33, 0x33, 0x33];

/// Colours that can be distinguished with every kind of colour vision.
///
/// Reference: Okabe, Ito: Color universal design (2008).
pub(super) const COLOURS: [Colour; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x00, 0x00, 0x00],
];

/// Draws a picture of a size in pixels into a file, as SVG or PNG depending on the extension.
pub(super) fn save(
    path: &Path,
    (width, height): (u32, u32),
    draw: impl Fn(&mut dyn Canvas),
) -> Result<(), Error> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let bytes = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => {
            let mut svg = Svg::new(width, height);
            draw(&mut svg);
            svg.finish()
        }
        Some("png") => {
            let mut pixels = Pixels::new(width, height);
            draw(&mut pixels);
            pixels.finish().map_err(|error| io_error(path, error))?
        }
        _ => {
            let message = format!("{} ends in neither .svg nor .png", path.display());
            return Err(Error::data("save", message));
        }
    };
    write_file(path, &bytes)
}

/// Alignment of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Middle,
    End,
}

/// A drawing surface. Units are pixels of the finished picture, from the top left.
pub(super) trait Canvas {
    /// Draws straight lines from point to point.
    fn line(&mut self, points: &[(f64, f64)], width: f64, colour: Colour);
    /// Fills a rectangle, given its left top corner, width and height.
    fn rect(&mut self, corner: (f64, f64), size: (f64, f64), colour: Colour);
    /// Draws text, vertically centred at the point.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str, colour: Colour);
}

/// A picture in SVG format.
pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(width: u32, height: u32) -> Svg {
        Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ))
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.push_str("</svg>\n");
        self.0.into_bytes()
    }
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML allows no other control characters, not even as references.
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

impl Canvas for Svg {
    fn line(&mut self, points: &[(f64, f64)], width: f64, colour: Colour) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (points, colour) = (points.join(" "), hex(colour));
        let written = writeln!(
            self.0,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"/>"
        );
        written.expect("a string takes everything");
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        let colour = hex(colour);
        let written = writeln!(
            self.0,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{colour}\"/>"
        );
        written.expect("a string takes everything");
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, colour: Colour) {
        let anchor = match anchor {
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (text, colour) = (escaped(text), hex(colour));
        let written = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" dominant-baseline=\"central\" \
             fill=\"{colour}\">{text}</text>"
        );
        written.expect("a string takes everything");
    }
}

/// Supersampling factor: pictures are drawn larger and scaled down, which smooths edges.
const SUPERSAMPLING: u32 = 3;

/// An RGB bitmap.
pub(super) struct Pixels {
    width: usize,
    height: usize,
    colours: Vec<Colour>,
}

impl Pixels {
    pub(super) fn new(width: u32, height: u32) -> Pixels {
        let [width, height] = [width, height].map(|n| (n * SUPERSAMPLING) as usize);
        Pixels { width, height, colours: vec![[255; 3]; width * height] }
    }

    /// Encodes the picture as PNG.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        let factor = SUPERSAMPLING as usize;
        let (width, height) = (self.width / factor, self.height / factor);
        let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
        for y in 0..height {
            // Filter type 0: none.
            let mut row = vec![0];
            for x in 0..width {
                row.extend(self.mean(x * factor, y * factor));
            }
            rows.write_all(&row)?;
        }
        // Eight bits per channel, colour type RGB.
        let mut header = [width as u32, height as u32].map(u32::to_be_bytes).concat();
        header.extend([8, 2, 0, 0, 0]);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, bytes) in [(b"IHDR", header), (b"IDAT", rows.finish()?), (b"IEND", Vec::new())] {
            let mut sum = flate2::Crc::new();
            sum.update(kind);
            sum.update(&bytes);
            png.extend((bytes.len() as u32).to_be_bytes());
            png.extend(kind);
            png.extend(bytes);
            png.extend(sum.sum().to_be_bytes());
        }
        Ok(png)
    }

    /// Returns the mean colour of the square at `(x, y)` that becomes one pixel.
    fn mean(&self, x: usize, y: usize) -> Colour {
        let mut sums = [0; 3];
        for row in y..y + SUPERSAMPLING as usize {
            for colour in &self.colours[row * self.width + x..][..SUPERSAMPLING as usize] {
                for (sum, &part) in sums.iter_mut().zip(colour) {
                    *sum += u32::from(part);
                }
            }
        }
        sums.map(|sum| (sum / (SUPERSAMPLING * SUPERSAMPLING)) as u8)
    }

    fn dot(&mut self, x: f64, y: f64, colour: Colour) {
        if x < 0.0 || y < 0.0 {
            return;
        }
        let (x, y) = (x as usize, y as usize);
        if x < self.width && y < self.height {
            self.colours[y * self.width + x] = colour;
        }
    }
}

impl Canvas for Pixels {
    fn line(&mut self, points: &[(f64, f64)], width: f64, colour: Colour) {
        let factor = f64::from(SUPERSAMPLING);
        let radius = width * factor / 2.0;
        let reach = radius.ceil() as i32;
        let ends: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x * factor, y * factor)).collect();
        for pair in ends.windows(2) {
            let ((x, y), (u, v)) = (pair[0], pair[1]);
            // One disc per pixel along the line.
            let n = (u - x).abs().max((v - y).abs()).ceil().max(1.0);
            for at in 0..=n as u32 {
                let part = f64::from(at) / n;
                let (x, y) = (x + (u - x) * part, y + (v - y) * part);
                for (dx, dy) in
                    (-reach..=reach).flat_map(|dx| (-reach..=reach).map(move |dy| (dx, dy)))
                {
                    let (dx, dy) = (f64::from(dx), f64::from(dy));
                    if dx * dx + dy * dy <= radius * radius {
                        self.dot(x + dx, y + dy, colour);
                    }
                }
            }
        }
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        let factor = f64::from(SUPERSAMPLING);
        let ends = |from: f64, size: f64| (from * factor) as u32..((from + size) * factor) as u32;
        for row in ends(y, height) {
            for column in ends(x, width) {
                self.dot(column.into(), row.into(), colour);
            }
        }
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str, colour: Colour) {
        // Letters have 8 by 8 dots. Characters outside ASCII become question marks.
        let letters: Vec<usize> =
            text.chars().map(|c| if c.is_ascii() { c as usize } else { '?' as usize }).collect();
        let width = 8.0 * letters.len() as f64;
        let left = match anchor {
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let factor = f64::from(SUPERSAMPLING);
        for (at, &letter) in letters.iter().enumerate() {
            for (row, bits) in BASIC_LEGACY[letter].iter().enumerate() {
                for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                    let corner = (left + (8 * at + column) as f64, y - 4.0 + row as f64);
                    for (dx, dy) in
                        (0..SUPERSAMPLING).flat_map(|dx| (0..SUPERSAMPLING).map(move |dy| (dx, dy)))
                    {
                        let (dx, dy) = (f64::from(dx), f64::from(dy));
                        self.dot(corner.0 * factor + dx, corner.1 * factor + dy, colour);
                    }
                }
            }
        }
    }
}
