//! Window geometry: sizes, strides, padding, dilations.

use crate::core::{Aval, RuleError, RuleResult, Shape};
use crate::ensure_shape;
use serde::{Deserialize, Serialize};

/// Padding of an operand before windows slide over it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Padding {
    /// No padding: every window is within the operand.
    #[default]
    Valid,
    /// Padded to `size / stride` windows, rounded up. An odd element is added behind.
    Same,
    /// Like `Same`, with an odd element in front.
    SameLower,
    /// Padding in front and behind for each axis. Negative padding crops.
    Explicit(Vec<(isize, isize)>),
}

impl Padding {
    /// Returns the padding of each axis, from the sizes of the operand and the spans and strides of
    /// the windows.
    #[doc(alias = "padtype_to_pads")]
    pub(in crate::primitives) fn resolve(
        &self,
        sizes: &[usize],
        spans: &[usize],
        strides: &[usize],
    ) -> RuleResult<Vec<(isize, isize)>> {
        let same = |odd_in_front: bool| {
            let axes = sizes.iter().zip(spans).zip(strides);
            let pads = axes.map(|((&size, &span), &stride)| {
                let windows = size.div_ceil(stride.max(1));
                let last = windows.saturating_sub(1) * stride;
                let needed = last.saturating_add(span).saturating_sub(size);
                // Without windows there is no padding.
                let needed = if windows == 0 { span.saturating_sub(stride) } else { needed };
                let (less, more) = (needed / 2, needed - needed / 2);
                let (low, high) = if odd_in_front { (more, less) } else { (less, more) };
                (low as isize, high as isize)
            });
            pads.collect()
        };
        match self {
            Padding::Valid => Ok(vec![(0, 0); sizes.len()]),
            Padding::Same => Ok(same(false)),
            Padding::SameLower => Ok(same(true)),
            Padding::Explicit(pads) => {
                let (n, axes) = (pads.len(), sizes.len());
                ensure_shape!(n == axes, "padding is given for {n} axes, there are {axes}");
                Ok(pads.clone())
            }
        }
    }
}

/// Windows that slide over an array. Every list has one entry per axis of the array. Empty lists
/// mean ones.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::Window;
/// // 2 × 2 windows that do not overlap, over the middle axes of [n, h, w, c].
/// let sizes = vec![1, 2, 2, 1];
/// let two = Window { dimensions: sizes.clone(), strides: sizes, ..Default::default() };
/// let x = Aval::new(DType::F32, [8, 28, 28, 3]);
/// let y = eval_shape(move |x: Array| reduce_window_max(&x, &two), x)?;
/// assert_eq!(y.aval().to_string(), "f32[8,14,14,3]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Elements of a window along each axis.
    pub dimensions: Vec<usize>,
    /// Steps from one window to the next.
    pub strides: Vec<usize>,
    /// Padding of the operand after dilation.
    pub padding: Padding,
    /// Dilation of the operand: 2 inserts one padding element between neighbours.
    pub base_dilation: Vec<usize>,
    /// Dilation of the window: 2 skips every other element of the operand.
    pub window_dilation: Vec<usize>,
}

/// One axis of a window that slides over an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primitives) struct WindowAxis {
    /// Size of the operand.
    pub(in crate::primitives) size: usize,
    /// Elements of the window.
    pub(in crate::primitives) window: usize,
    pub(in crate::primitives) stride: usize,
    pub(in crate::primitives) low: isize,
    pub(in crate::primitives) high: isize,
    pub(in crate::primitives) base_dilation: usize,
    pub(in crate::primitives) window_dilation: usize,
    /// Returns the number of windows.
    pub(in crate::primitives) windows: usize,
}

/// Returns the distance from the first to the last of `size` elements with this dilation.
pub(in crate::primitives) fn dilated(size: usize, dilation: usize) -> usize {
    match size {
        0 => 0,
        _ => (size - 1).saturating_mul(dilation).saturating_add(1),
    }
}

/// Returns the number of windows of `span` that fit into `padded` elements.
pub(in crate::primitives) fn count_windows(padded: usize, span: usize, stride: usize) -> usize {
    match padded.checked_sub(span) {
        Some(rest) => rest / stride + 1,
        None => 0,
    }
}

/// The number of pairs that [`overlaps`] counts one by one.
const MAX_PAIRS: u64 = 1 << 24;

/// The largest window, stride, dilation or padded size along an axis. Compilers compute with sums
/// and products of them in 64-bit integers, and end the process if one overflows.
const MAX_EXTENT: usize = 1 << 40;

/// Checks that the numbers of an axis are small enough for compilers.
///
/// # Errors
/// `Shape` with the name and the number that is too large.
pub(in crate::primitives) fn check_extents(
    axis: usize,
    extents: &[(&str, usize)],
) -> RuleResult<()> {
    for &(name, extent) in extents {
        ensure_shape!(extent <= MAX_EXTENT, "{name} along axis {axis} is {extent}, more than 2^40");
    }
    Ok(())
}

/// Returns the number of pairs of a window position and a window element that hit an element of the
/// operand, without padding and dilation holes. Beyond [`MAX_PAIRS`] it returns an upper bound.
pub(in crate::primitives) fn overlaps(axis: &WindowAxis) -> u64 {
    let wide = |n: usize| n as i128;
    let (windows, taps, size) = (axis.windows as u64, axis.window as u64, axis.size as u64);
    let pairs = windows.saturating_mul(taps);
    let by_element = size.saturating_mul(taps);
    if pairs.min(by_element) == 0 {
        return 0;
    }
    if pairs.min(by_element) > MAX_PAIRS {
        return pairs.min(size.saturating_mul(windows.min(taps)));
    }
    // The steps from the first multiple to `index`, if `index` is one of `count` multiples.
    let steps = |index: i128, step: usize, count: usize| {
        index % wide(step) == 0 && (0..wide(count)).contains(&(index / wide(step)))
    };
    let at_tap = |tap: usize| wide(tap) * wide(axis.window_dilation) - axis.low as i128;
    let hits = |tap: usize| match pairs <= by_element {
        true => (0..axis.windows)
            .filter(|&place| {
                let index = wide(place) * wide(axis.stride) + at_tap(tap);
                steps(index, axis.base_dilation, axis.size)
            })
            .count(),
        false => (0..axis.size)
            .filter(|&element| {
                let index = wide(element) * wide(axis.base_dilation) - at_tap(tap);
                steps(index, axis.stride, axis.windows)
            })
            .count(),
    };
    (0..axis.window).map(|tap| hits(tap) as u64).sum()
}

impl WindowAxis {
    /// Returns the distance from the first to the last element of the window.
    pub(super) fn span(&self) -> usize {
        dilated(self.window, self.window_dilation)
    }

    /// Returns true if the operand is neither padded, dilated nor cropped.
    pub(super) fn is_bare(&self) -> bool {
        self.low == 0 && self.high == 0 && (self.base_dilation == 1 || self.size < 2)
    }
}

impl Window {
    /// Returns the axes of the window over an operand of this shape.
    pub(super) fn axes(&self, shape: &Shape) -> RuleResult<Vec<WindowAxis>> {
        let rank = shape.rank();
        let list = |name: &str, list: &[usize]| -> RuleResult<Vec<usize>> {
            if list.is_empty() {
                return Ok(vec![1; rank]);
            }
            let n = list.len();
            ensure_shape!(n == rank, "{name} has {n} entries, the operand {rank} axes");
            ensure_shape!(list.iter().all(|&entry| entry > 0), "{name} {list:?} must be positive");
            Ok(list.to_vec())
        };
        let windows = list("dimensions", &self.dimensions)?;
        let strides = list("strides", &self.strides)?;
        let base_dilation = list("base_dilation", &self.base_dilation)?;
        let window_dilation = list("window_dilation", &self.window_dilation)?;
        let spans: Vec<usize> =
            windows.iter().zip(&window_dilation).map(|(&n, &by)| dilated(n, by)).collect();
        let pads = self.padding.resolve(shape, &spans, &strides)?;
        (0..rank)
            .map(|index| {
                let (low, high) = pads[index];
                let bare = dilated(shape[index], base_dilation[index]);
                let padded = usize::try_from(bare as i128 + low as i128 + high as i128);
                let padded = padded.map_err(|_| {
                    RuleError::shape(format!(
                        "axis {index} of size {bare} padded by {low} and {high} has a negative size"
                    ))
                })?;
                check_extents(
                    index,
                    &[
                        ("the size with dilation", bare),
                        ("the size with padding", padded),
                        ("the padding in front", low.unsigned_abs()),
                        ("the padding behind", high.unsigned_abs()),
                        ("the span of the window", spans[index]),
                        ("the stride", strides[index]),
                        ("the base dilation", base_dilation[index]),
                        ("the window dilation", window_dilation[index]),
                    ],
                )?;
                Ok(WindowAxis {
                    size: shape[index],
                    window: windows[index],
                    stride: strides[index],
                    low,
                    high,
                    base_dilation: base_dilation[index],
                    window_dilation: window_dilation[index],
                    windows: count_windows(padded, spans[index], strides[index]),
                })
            })
            .collect()
    }

    /// Returns the window with these axes and no defaults.
    pub(super) fn of(axes: &[WindowAxis]) -> Window {
        let list = |entry: fn(&WindowAxis) -> usize| axes.iter().map(entry).collect();
        Window {
            dimensions: list(|axis| axis.window),
            strides: list(|axis| axis.stride),
            padding: Padding::Explicit(axes.iter().map(|axis| (axis.low, axis.high)).collect()),
            base_dilation: list(|axis| axis.base_dilation),
            window_dilation: list(|axis| axis.window_dilation),
        }
    }

    /// Returns the window with defaults resolved for an operand of this shape.
    pub(super) fn resolved(&self, shape: &Shape) -> RuleResult<Window> {
        Ok(Window::of(&self.axes(shape)?))
    }

    /// Returns the window over operands with one more axis in front, along which it has size 1.
    /// `shape` is the shape without the axis.
    pub(super) fn with_front(&self, shape: &Shape) -> RuleResult<Window> {
        let front = |list: Vec<usize>| std::iter::once(1).chain(list).collect();
        let window = self.resolved(shape)?;
        let Padding::Explicit(mut pads) = window.padding else {
            return Err(RuleError::value("a window that is written out has explicit padding"));
        };
        pads.insert(0, (0, 0));
        Ok(Window {
            dimensions: front(window.dimensions),
            strides: front(window.strides),
            padding: Padding::Explicit(pads),
            base_dilation: front(window.base_dilation),
            window_dilation: front(window.window_dilation),
        })
    }

    /// Returns the number of operations of a reduction of `x` to `results`: one for each window
    /// element that hits an operand element, but the first.
    pub(super) fn operations(&self, x: &Aval, results: &[Aval]) -> u64 {
        // `abstract_eval` has already rejected windows that do not fit.
        let axes = self.axes(&x.shape).unwrap_or_default();
        let met: u64 = axes.iter().map(overlaps).product();
        met.saturating_sub(results[0].size() as u64)
    }

    /// Returns the number of elements of a window.
    pub(super) fn size(&self) -> u64 {
        self.dimensions.iter().map(|&n| n as u64).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_keeps_sizes() {
        let same = |padding: Padding| padding.resolve(&[5, 6, 0, 4], &[2, 3, 3, 5], &[1, 2, 1, 3]);
        assert_eq!(same(Padding::Same).unwrap(), [(0, 1), (0, 1), (1, 1), (2, 2)]);
        assert_eq!(same(Padding::SameLower).unwrap(), [(1, 0), (1, 0), (1, 1), (2, 2)]);
        assert_eq!(same(Padding::Valid).unwrap(), [(0, 0); 4]);
        let error = same(Padding::Explicit(vec![(0, 0)])).unwrap_err();
        assert_eq!(error.message, "padding is given for 1 axes, there are 4");
    }

    #[test]
    fn counts_windows() {
        let count = |size, window, stride, pads, base, dilation| {
            let window = Window {
                dimensions: vec![window],
                strides: vec![stride],
                padding: Padding::Explicit(vec![pads]),
                base_dilation: vec![base],
                window_dilation: vec![dilation],
            };
            window.axes(&Shape::new(&[size])).map(|axes| axes[0].windows)
        };
        assert_eq!(count(5, 2, 1, (0, 0), 1, 1).unwrap(), 4);
        assert_eq!(count(5, 2, 2, (0, 1), 1, 1).unwrap(), 3);
        assert_eq!(count(3, 2, 1, (0, 0), 2, 3).unwrap(), 2);
        assert_eq!(count(5, 3, 1, (-2, -2), 1, 1).unwrap(), 0);
        assert_eq!(count(0, 1, 1, (1, 1), 1, 1).unwrap(), 2);
        assert!(count(3, 1, 1, (-2, -2), 1, 1).is_err());
    }
}
