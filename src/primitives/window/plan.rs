//! Plans that reduce a window in few steps: axis by axis, and along an axis by doubling.
//!
//! Two neighbours are combined, then two pairs of neighbours, and so on, until a window is the
//! combination of a few ranges whose sizes are powers of two. Earlier elements are always on the
//! left.

use super::dims::WindowAxis;
use crate::core::{Array, Shape};
use crate::primitives::arithmetic::add;
use crate::primitives::composite::Combine;
use crate::primitives::constant::zeros_of;
use crate::primitives::select::select;
use crate::primitives::slicing::slice;
use crate::primitives::structural::{PaddingDim, lax_pad};

/// A part of an array.
#[derive(Debug, Clone)]
struct Part {
    starts: Vec<usize>,
    limits: Vec<usize>,
    strides: Vec<usize>,
}

/// One step. Each step produces one array, numbered in order from 1. Array 0 is the operand.
#[derive(Debug)]
enum Step {
    /// Padding around and between.
    Pad(usize, Vec<PaddingDim>),
    /// A slice.
    Slice(usize, Part),
    /// An elementwise combination of two arrays of one shape; elements of the first come before.
    Combine(usize, usize),
}

/// The steps that reduce an array over windows.
#[derive(Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    shapes: Vec<Shape>,
}

impl Plan {
    /// Creates the plan for an operand whose sizes the axes hold.
    pub(super) fn new(axes: &[WindowAxis]) -> Plan {
        let shape: Shape = axes.iter().map(|axis| axis.size).collect();
        let mut plan = Plan { steps: Vec::new(), shapes: vec![shape] };
        if !axes.iter().all(WindowAxis::is_bare) {
            plan.pad(axes);
        }
        // The last axis first, so that the element that is first in memory wins ties.
        for (at, axis) in axes.iter().enumerate().rev() {
            plan.reduce_axis(at, axis);
        }
        plan
    }

    fn last(&self) -> usize {
        self.steps.len()
    }

    fn push(&mut self, step: Step, shape: Shape) -> usize {
        self.steps.push(step);
        self.shapes.push(shape);
        self.last()
    }

    fn pad(&mut self, axes: &[WindowAxis]) {
        let dims = axes.iter().map(|axis| PaddingDim {
            low: axis.low,
            high: axis.high,
            interior: axis.base_dilation - 1,
        });
        let shape = axes.iter().map(|axis| {
            let bare = super::dims::dilated(axis.size, axis.base_dilation) as isize;
            (bare + axis.low + axis.high) as usize
        });
        let shape = shape.collect();
        self.push(Step::Pad(0, dims.collect()), shape);
    }

    /// Takes `count` elements of an array along one axis, `stride` apart; returns the array itself
    /// if these are all.
    fn slice(&mut self, of: usize, at: usize, from: usize, count: usize, stride: usize) -> usize {
        let shape = &self.shapes[of];
        if from == 0 && count == shape[at] && (stride == 1 || count < 2) {
            return of;
        }
        let mut part = Part {
            starts: vec![0; shape.rank()],
            limits: shape.to_vec(),
            strides: vec![1; shape.rank()],
        };
        part.starts[at] = from;
        part.limits[at] = from + super::dims::dilated(count, stride);
        part.strides[at] = stride;
        let shape = shape.remove(at).insert(at, count);
        self.push(Step::Slice(of, part), shape)
    }

    fn combine(&mut self, left: usize, right: usize) -> usize {
        let shape = self.shapes[left].clone();
        self.push(Step::Combine(left, right), shape)
    }

    fn reduce_axis(&mut self, at: usize, axis: &WindowAxis) {
        let mut stretch = self.last();
        if axis.windows == 0 {
            self.slice(stretch, at, 0, 0, 1);
            return;
        }
        // `stretch` holds combinations of `length` elements each, one for each start index.
        let (mut length, mut rest) = (1, axis.window);
        let (mut done, mut total) = (0, None);
        while rest > 0 {
            if rest & 1 == 1 {
                let from = done * axis.window_dilation;
                let piece = self.slice(stretch, at, from, axis.windows, axis.stride);
                total = Some(total.map_or(piece, |total| self.combine(total, piece)));
                done += length;
            }
            rest >>= 1;
            if rest > 0 {
                let shift = length * axis.window_dilation;
                let count = self.shapes[stretch][at] - shift;
                let left = self.slice(stretch, at, 0, count, 1);
                let right = self.slice(stretch, at, shift, count, 1);
                stretch = self.combine(left, right);
                length *= 2;
            }
        }
    }

    /// Reduces arrays jointly: `combine` takes earlier and later elements, `fills` are the scalars
    /// of the padding.
    pub(super) fn run(&self, xs: &[Array], fills: &[Array], combine: Combine<'_>) -> Vec<Array> {
        let mut made: Vec<Vec<Array>> = vec![xs.to_vec()];
        for step in &self.steps {
            let next = match step {
                Step::Pad(of, config) => {
                    let pairs = made[*of].iter().zip(fills);
                    pairs.map(|(x, fill)| lax_pad(x, fill, config)).collect()
                }
                Step::Slice(of, part) => made[*of].iter().map(|x| part.of(x)).collect(),
                Step::Combine(left, right) => combine(&made[*left], &made[*right]),
            };
            made.push(next);
        }
        made.swap_remove(self.last())
    }

    /// Returns, for each combination, a mask that is true where the left element wins. `wins`
    /// compares left with right.
    pub(super) fn choose(
        &self,
        x: &Array,
        fill: &Array,
        wins: impl Fn(&Array, &Array) -> Array,
    ) -> Choice<'_> {
        let mut made = vec![x.clone()];
        let mut masks = Vec::new();
        for step in &self.steps {
            let (next, mask) = match step {
                Step::Pad(of, config) => (lax_pad(&made[*of], fill, config), None),
                Step::Slice(of, part) => (part.of(&made[*of]), None),
                Step::Combine(left, right) => {
                    let mask = wins(&made[*left], &made[*right]);
                    (select(&mask, &made[*left], &made[*right]), Some(mask))
                }
            };
            made.push(next);
            masks.push(mask);
        }
        Choice { plan: self, masks }
    }
}

impl Part {
    fn of(&self, x: &Array) -> Array {
        slice(x, &self.starts, &self.limits, &self.strides)
    }

    /// Returns zeros of `shape` with `ct` at this slice.
    fn scatter(&self, ct: &Array, shape: &Shape) -> Array {
        let zero = zeros_of(&ct.aval().with_shape(Shape::scalar()));
        let config: Vec<PaddingDim> = (0..shape.rank())
            .map(|at| {
                let stop = self.starts[at] + super::dims::dilated(ct.shape()[at], self.strides[at]);
                PaddingDim {
                    low: self.starts[at] as isize,
                    high: shape[at] as isize - stop as isize,
                    interior: self.strides[at] - 1,
                }
            })
            .collect();
        lax_pad(ct, &zero, &config)
    }
}

/// A plan with the winner of each of its combinations: the linear function that takes the winner's
/// element from each window.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    plan: &'a Plan,
    masks: Vec<Option<Array>>,
}

impl Choice<'_> {
    fn steps(&self) -> impl DoubleEndedIterator<Item = (usize, (&Step, &Option<Array>))> {
        let numbers = 1..=self.plan.last();
        numbers.zip(self.plan.steps.iter().zip(&self.masks)).collect::<Vec<_>>().into_iter()
    }

    /// Returns the elements of `t` at the indices of the winners; zero where padding won.
    pub(super) fn gather(&self, t: &Array) -> Array {
        let zero = zeros_of(&t.aval().with_shape(Shape::scalar()));
        let mut made = vec![t.clone()];
        for (_, (step, mask)) in self.steps() {
            let next = match (step, mask) {
                (Step::Pad(of, config), _) => lax_pad(&made[*of], &zero, config),
                (Step::Slice(of, part), _) => part.of(&made[*of]),
                (Step::Combine(left, right), Some(mask)) => {
                    select(mask, &made[*left], &made[*right])
                }
                (Step::Combine(..), None) => unreachable!("every combination has a mask"),
            };
            made.push(next);
        }
        made.swap_remove(self.plan.last())
    }

    /// The transpose of [`Choice::gather`]: adds each element of `source` at the index of its
    /// winner.
    pub(super) fn scatter(&self, source: &Array) -> Array {
        let mut cts: Vec<Option<Array>> = vec![None; self.plan.last() + 1];
        cts[self.plan.last()] = Some(source.clone());
        let sum = |ct: &mut Option<Array>, more: Array| {
            *ct = Some(ct.as_ref().map_or(more.clone(), |ct| add(ct, more)));
        };
        for (number, (step, mask)) in self.steps().rev() {
            let Some(ct) = cts[number].take() else { continue };
            match (step, mask) {
                (Step::Pad(of, config), _) => {
                    let inside: Vec<PaddingDim> = config
                        .iter()
                        .map(|dim| PaddingDim { low: -dim.low, high: -dim.high, interior: 0 })
                        .collect();
                    let zero = zeros_of(&ct.aval().with_shape(Shape::scalar()));
                    let bare = lax_pad(&ct, &zero, &inside);
                    let strides: Vec<usize> = config.iter().map(|dim| dim.interior + 1).collect();
                    let starts = vec![0; strides.len()];
                    sum(&mut cts[*of], slice(&bare, &starts, bare.shape(), &strides));
                }
                (Step::Slice(of, part), _) => {
                    let whole = part.scatter(&ct, &self.plan.shapes[*of]);
                    sum(&mut cts[*of], whole);
                }
                (Step::Combine(left, right), Some(mask)) => {
                    let zeros = zeros_of(ct.aval());
                    sum(&mut cts[*left], select(mask, &ct, &zeros));
                    sum(&mut cts[*right], select(mask, &zeros, &ct));
                }
                (Step::Combine(..), None) => unreachable!("every combination has a mask"),
            }
        }
        let aval = source.aval().with_shape(self.plan.shapes[0].clone());
        cts.swap_remove(0).unwrap_or_else(|| zeros_of(&aval))
    }
}
