//! A line search for the strong Wolfe conditions.
//!
//! Reference: Nocedal, Wright: Numerical optimization (2006), algorithms 3.5 and 3.6.

use oxidax::prelude::*;

/// The part of the decrease that the slope predicts which a step must reach.
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// The part of the first slope that the slope after a step may have.
const CURVATURE: f64 = 0.9;

/// The largest number of steps of a zoom.
const MAX_ZOOM: i32 = 30;

/// A step size with the value and the slope there.
#[derive(Clone, Tree)]
struct Point {
    a: Array,
    phi: Array,
    dphi: Array,
}

/// Returns the first tree where `condition` is true, and the second one elsewhere.
fn choose<T: Tree>(condition: &Array, x: &T, y: &T) -> T {
    tree::zip_map(x, y, |x, y| where_(condition, x, y))
}

fn and(x: &Array, y: &Array) -> Array {
    bitwise_and(x, y)
}

fn or(x: &Array, y: &Array) -> Array {
    bitwise_or(x, y)
}

fn not(x: &Array) -> Array {
    bitwise_not(x)
}

/// The result of a line search.
#[derive(Tree)]
pub(super) struct Step {
    /// The step size.
    pub(super) length: Array,
    pub(super) value: Array,
    pub(super) gradient: Array,
    pub(super) is_failed: Array,
    /// The reason of a failure: 1 if an interval could not be narrowed, 3 after too many steps.
    pub(super) status: Array,
    /// The number of evaluations of the function and its gradient.
    pub(super) n_evaluations: Array,
}

/// The function along a direction.
struct Line<'a> {
    f: &'a dyn Fn(&Array) -> (Array, Array),
    x: &'a Array,
    direction: &'a Array,
    /// The point of step size zero.
    start: Point,
}

impl Line<'_> {
    fn at(&self, a: &Array) -> (Point, Array) {
        let (phi, gradient) = (self.f)(&(self.x + self.direction * a));
        let dphi = vdot(&gradient, self.direction);
        let dtype = self.start.phi.dtype();
        let point = Point { a: a.clone(), phi: phi.astype(dtype), dphi: dphi.astype(dtype) };
        (point, gradient.astype(self.x.dtype()))
    }

    /// Returns true if the value does not decrease enough.
    fn is_too_high(&self, point: &Point) -> Array {
        let slope = &self.start.dphi * SUFFICIENT_DECREASE;
        gt(&point.phi, &self.start.phi + &point.a * slope)
    }

    /// Returns true if the slope is flat enough.
    fn is_flat(&self, point: &Point) -> Array {
        le(abs(&point.dphi), &self.start.dphi * -CURVATURE)
    }
}

/// The state of a zoom: an interval whose first end has the least value so far.
#[derive(Tree)]
struct Zoom {
    low: Point,
    high: Point,
    /// A third point: step size and value.
    recent: (Array, Array),
    best: Point,
    gradient: Array,
    is_done: Array,
    is_failed: Array,
    n: Array,
}

/// Narrows the interval between two points until a step satisfies the conditions. Does nothing if
/// `is_skipped`.
fn zoom(line: &Line<'_>, low: &Point, high: &Point, gradient: &Array, is_skipped: &Array) -> Zoom {
    let no = eq(scalar(0), 1);
    let half = |x: &Array, y: &Array| (x + y) * 0.5;
    let start = Zoom {
        recent: (half(&low.a, &high.a), half(&low.phi, &high.phi)),
        best: low.clone(),
        low: low.clone(),
        high: high.clone(),
        gradient: gradient.clone(),
        is_done: no.clone(),
        is_failed: no,
        n: scalar(0).astype(DType::I32),
    };
    let is_open = |zoom: &Zoom| not(&or(&or(&zoom.is_done, &zoom.is_failed), is_skipped));
    while_loop(is_open, |zoom: &Zoom| zoom.narrowed(line), start)
}

impl Zoom {
    fn narrowed(&self, line: &Line<'_>) -> Zoom {
        let Zoom { low, high, recent, .. } = self;
        let width = &high.a - &low.a;
        let (left, right) = (minimum(&low.a, &high.a), maximum(&low.a, &high.a));
        let least_width = if width.dtype() == DType::F64 { 1e-10 } else { 1e-5 };
        let is_narrow = le(abs(&width), least_width);
        let inside = |a: &Array, margin: f64| {
            let margin = abs(&width) * margin;
            and(&gt(a, &left + &margin), &lt(a, &right - margin))
        };
        // The minimum of a cubic, else of a parabola, else the middle. The comparisons are false
        // for numbers that are not finite.
        let cubic = cubic_minimum(low, high, recent);
        let quadratic = quadratic_minimum(low, high);
        let takes_cubic = and(&gt(&self.n, 0), &inside(&cubic, 0.2));
        let other = where_(inside(&quadratic, 0.1), quadratic, (&low.a + &high.a) * 0.5);
        let (point, gradient) = line.at(&where_(takes_cubic, cubic, other));
        let is_high = or(&line.is_too_high(&point), &ge(&point.phi, &low.phi));
        let is_found = and(&line.is_flat(&point), &not(&is_high));
        let is_low = not(&or(&is_high, &is_found));
        // The slope at the new first end must point into the interval.
        let turns = and(&ge(&point.dphi * &width, 0.0), &is_low);
        let pair = |point: &Point| (point.a.clone(), point.phi.clone());
        let replaced = or(&is_high, &turns);
        let recent = choose(&replaced, &pair(high), &choose(&is_low, &pair(low), recent));
        let new_high = choose(&is_high, &point, &choose(&turns, low, high));
        let is_failed = or(&is_narrow, &ge(&self.n, MAX_ZOOM - 1));
        Zoom {
            low: choose(&is_low, &point, low),
            high: new_high,
            recent,
            best: choose(&is_found, &point, &self.best),
            gradient: where_(&is_found, gradient, &self.gradient),
            is_failed: and(&is_failed, &not(&is_found)),
            is_done: is_found,
            n: &self.n + 1,
        }
    }
}

/// Returns the minimum of the cubic through three points with the slope of the first.
fn cubic_minimum(low: &Point, high: &Point, recent: &(Array, Array)) -> Array {
    let (db, dc) = (&high.a - &low.a, &recent.0 - &low.a);
    let fb = &high.phi - &low.phi - &low.dphi * &db;
    let fc = &recent.1 - &low.phi - &low.dphi * &dc;
    let denominator = (&db * &dc).square() * (&db - &dc);
    let a = (&dc * &dc * &fb - &db * &db * &fc) / &denominator;
    let b = (&db * &db * &db * &fc - &dc * &dc * &dc * &fb) / &denominator;
    let root = sqrt(&b * &b - &a * &low.dphi * 3.0);
    &low.a + (root - b) / (a * 3.0)
}

/// Returns the minimum of the parabola through two points with the slope of the first.
fn quadratic_minimum(low: &Point, high: &Point) -> Array {
    let width = &high.a - &low.a;
    let curvature = (&high.phi - &low.phi - &low.dphi * &width) / (&width * &width);
    &low.a - &low.dphi / (curvature * 2.0)
}

/// The state of a search.
#[derive(Tree)]
struct Search {
    previous: Point,
    previous_gradient: Array,
    best: Point,
    gradient: Array,
    is_done: Array,
    is_failed: Array,
    /// The number of step sizes tried, from 1.
    i: Array,
    n_evaluations: Array,
}

/// Returns a step along `direction` that satisfies the strong Wolfe conditions. `f` returns the
/// value and the gradient; `value` and `gradient` are those at `x`, and `previous_value` is that of
/// the step before.
pub(super) fn line_search(
    f: &dyn Fn(&Array) -> (Array, Array),
    x: &Array,
    direction: &Array,
    (value, gradient): (&Array, &Array),
    previous_value: &Array,
    max_steps: usize,
) -> Step {
    let zero = zeros_like(value);
    let start = Point {
        a: zero.clone(),
        phi: value.clone(),
        dphi: vdot(gradient, direction).astype(value.dtype()),
    };
    // The step that would decrease the value as much as the one before.
    let guess = (value - previous_value) * 2.02 / &start.dphi;
    let first = where_(gt(&guess, 1.0), 1.0, guess);
    let line = Line { f, x, direction, start: start.clone() };
    let no = eq(scalar(0), 1);
    let search = Search {
        previous: start.clone(),
        previous_gradient: gradient.clone(),
        best: start,
        gradient: gradient.clone(),
        is_done: no.clone(),
        is_failed: no,
        i: scalar(1).astype(DType::I32),
        n_evaluations: scalar(0).astype(DType::I32),
    };
    let is_open = |search: &Search| {
        and(&not(&or(&search.is_done, &search.is_failed)), &le(&search.i, max_steps))
    };
    let step = |search: &Search| {
        let previous = &search.previous;
        let a = where_(eq(&search.i, 1), &first, &previous.a * 2.0);
        let (point, point_gradient) = line.at(&a);
        let rises = and(&ge(&point.phi, &previous.phi), &gt(&search.i, 1));
        let is_too_long = or(&line.is_too_high(&point), &rises);
        let is_found = and(&line.is_flat(&point), &not(&is_too_long));
        let is_past = and(&ge(&point.dphi, 0.0), &not(&or(&is_too_long, &is_found)));
        let before = zoom(&line, previous, &point, &search.previous_gradient, &not(&is_too_long));
        let behind = zoom(&line, &point, previous, &point_gradient, &not(&is_past));
        let found = (point.clone(), point_gradient.clone());
        let kept = (search.best.clone(), search.gradient.clone());
        let of = |zoom: &Zoom| (zoom.best.clone(), zoom.gradient.clone());
        let best = choose(&is_past, &of(&behind), &choose(&is_found, &found, &kept));
        let (best, best_gradient) = choose(&is_too_long, &of(&before), &best);
        let failed_before = and(&is_too_long, &before.is_failed);
        let failed_behind = and(&is_past, &behind.is_failed);
        Search {
            previous: point,
            previous_gradient: point_gradient,
            best,
            gradient: best_gradient,
            is_done: or(&is_too_long, &or(&is_found, &is_past)),
            is_failed: or(&failed_before, &failed_behind),
            i: &search.i + 1,
            n_evaluations: &search.n_evaluations + 1 + &before.n + &behind.n,
        }
    };
    let end = while_loop(is_open, step, search);
    let out_of_steps = gt(&end.i, max_steps);
    let status = where_(&end.is_failed, 1, where_(&out_of_steps, 3, 0)).astype(DType::I32);
    Step {
        length: end.best.a,
        value: end.best.phi,
        gradient: end.gradient,
        is_failed: or(&end.is_failed, &not(&end.is_done)),
        status,
        n_evaluations: end.n_evaluations,
    }
}
