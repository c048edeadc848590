//! Elastic distortion of images: every pixel moves by a smooth random field. From Simard,
//! Steinkraus and Platt, *Best Practices for Convolutional Neural Networks Applied to Visual
//! Document Analysis* (2003).

use rand::{Rng, RngExt as _};

/// Width and height of an image in pixels.
pub const SIDE: usize = 28;

/// Standard deviation of the Gaussian that smooths the field, in pixels.
const SIGMA: f32 = 4.0;

/// Factor of the smoothed field: displacements of about one pixel.
const ALPHA: f32 = 20.0;

/// Pixels on each side that the Gaussian reaches: three standard deviations.
const REACH: usize = 12;

/// An image, or one component of the field.
type Plane = [f32; SIDE * SIDE];

/// Returns the image with each pixel taken from a random nearby position.
pub fn distort(image: &Plane, random: &mut impl Rng) -> Plane {
    let mut field = || {
        let mut plane = [0.0; SIDE * SIDE];
        plane.fill_with(|| random.random_range(-1.0..1.0));
        smooth(&smooth(&plane))
    };
    let (right, down) = (field(), field());
    let mut distorted = [0.0; SIDE * SIDE];
    for (at, pixel) in distorted.iter_mut().enumerate() {
        let x = (at % SIDE) as f32 + ALPHA * right[at];
        let y = (at / SIDE) as f32 + ALPHA * down[at];
        *pixel = interpolate(image, x, y);
    }
    distorted
}

/// Convolves the rows with a Gaussian and returns the transpose, so that a second call convolves
/// the columns.
fn smooth(plane: &Plane) -> Plane {
    let weight = |distance: usize| (-((distance as f32 / SIGMA).powi(2)) / 2.0).exp();
    let weights: [f32; REACH + 1] = std::array::from_fn(weight);
    let sum = weights[0] + 2.0 * weights[1..].iter().sum::<f32>();
    let mut smoothed = [0.0; SIDE * SIDE];
    for (y, row) in plane.chunks_exact(SIDE).enumerate() {
        for x in 0..SIDE {
            let near = x.saturating_sub(REACH)..(x + REACH + 1).min(SIDE);
            let total: f32 = near.map(|other| row[other] * weights[other.abs_diff(x)]).sum();
            smoothed[x * SIDE + y] = total / sum;
        }
    }
    smoothed
}

/// Returns the bilinear interpolation at a position; 0 outside of the image.
fn interpolate(image: &Plane, x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (right, down) = (x - left, y - top);
    let pixel = |x: f32, y: f32| {
        let inside = 0.0..SIDE as f32;
        let is_inside = inside.contains(&x) && inside.contains(&y);
        if is_inside { image[y as usize * SIDE + x as usize] } else { 0.0 }
    };
    let above = pixel(left, top) * (1.0 - right) + pixel(left + 1.0, top) * right;
    let below = pixel(left, top + 1.0) * (1.0 - right) + pixel(left + 1.0, top + 1.0) * right;
    above * (1.0 - down) + below * down
}
