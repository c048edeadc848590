//! Reductions along axes. Their results are in shared memory.
//!
//! Threads share the work in one of three ways: each thread combines the elements of one result,
//! the threads of a warp combine those of one, or all threads do.

use super::arithmetic;
use super::emitter::{Emitter, THREAD, WARP};
use super::indices::Index;
use super::text::{Element, Predicate, Writer};
use super::types::combined;
use super::value::{Memory, Rule, Value};
use crate::core::{DType, RuleResult, Scalar};
use crate::kernel::arith::Combiner;
use crate::primitives::{ArgMax, ArgMin};
use std::any::Any;

/// The most elements of a result that one thread combines while other threads have none.
const SHORT: usize = 8;

/// Writes the combination of two elements of one dtype.
fn combine(of: &mut Writer, combiner: Combiner, x: &Element, y: &Element) -> Element {
    of.binary(combiner.operation(x.dtype), x, y)
}

/// A reduction: an operand of a combined dtype, and its axes.
struct Reduction<'a> {
    x: &'a Value,
    axes: Vec<usize>,
    /// The sizes of the axes that remain, and of those that do not.
    kept: Vec<usize>,
    reduced: Vec<usize>,
    combiner: Combiner,
}

impl Reduction<'_> {
    fn n_reduced(&self) -> usize {
        self.reduced.iter().product()
    }

    fn n_results(&self) -> usize {
        self.kept.iter().product()
    }

    /// Returns the index of an operand's element.
    fn index(&self, of: &mut Writer, result: &Index, element: &Index) -> Vec<Index> {
        let mut kept = of.unravel(result, &self.kept).into_iter();
        let mut reduced = of.unravel(element, &self.reduced).into_iter();
        let along = |axis: usize| match self.axes.contains(&axis) {
            true => reduced.next().expect("an index for each reduced axis"),
            false => kept.next().expect("an index for each other axis"),
        };
        (0..self.x.rank()).map(along).collect()
    }
}

impl Emitter<'_> {
    /// Writes an operation of this family, or returns `None` if it is of another one.
    pub(super) fn reduction(
        &mut self,
        primitive: &dyn Any,
        x: &[Value],
    ) -> RuleResult<Option<Value>> {
        if let Some((axes, combiner)) = Combiner::of_reduction(primitive) {
            return self.reduce(&x[0], axes, combiner).map(Some);
        }
        if let Some(of) = primitive.downcast_ref::<ArgMax>() {
            return self.arg(&x[0], of.axis, Combiner::Max, of.index_dtype).map(Some);
        }
        if let Some(of) = primitive.downcast_ref::<ArgMin>() {
            return self.arg(&x[0], of.axis, Combiner::Min, of.index_dtype).map(Some);
        }
        Ok(None)
    }

    /// Combines the elements along axes.
    fn reduce(&mut self, x: &Value, axes: &[usize], combiner: Combiner) -> RuleResult<Value> {
        let dtype = x.dtype;
        let x = self.converted(x, combined(dtype));
        let sizes = |is_reduced: bool| -> Vec<usize> {
            let axes = (0..x.rank()).filter(|axis| axes.contains(axis) == is_reduced);
            axes.map(|axis| x.shape[axis]).collect()
        };
        let (kept, reduced) = (sizes(false), sizes(true));
        let reduction = Reduction { x: &x, axes: axes.to_vec(), kept, reduced, combiner };
        let shape = reduction.kept.clone();
        if reduction.n_reduced() == 0 || reduction.n_results() == 0 {
            let neutral = match dtype.is_bool() {
                true => Scalar::Bool(matches!(combiner, Combiner::And)),
                false => combiner.neutral(dtype),
            };
            return Ok(self.fill(neutral, dtype, &shape));
        }
        let start = self.allocate(reduction.n_results(), x.dtype)?;
        let n_warps = self.n_threads / WARP;
        if reduction.n_reduced() <= SHORT || reduction.n_results() >= self.n_threads {
            self.by_threads(&reduction, start)?;
        } else if reduction.n_results() >= n_warps {
            self.by_warps(&reduction, start)?;
        } else {
            self.by_all(&reduction, start)?;
        }
        self.barrier();
        let rule = Rule::Memory(Memory::Shared(start));
        let result = self.value(x.dtype, &shape, rule);
        Ok(self.converted(&result, dtype))
    }

    /// Combines elements of a result: those from `first` on in steps.
    fn partial(
        &mut self,
        reduction: &Reduction<'_>,
        result: &Index,
        (first, step): (&Index, usize),
    ) -> RuleResult<Element> {
        let combiner = reduction.combiner;
        let neutral = self.text.fill(combiner.neutral(reduction.x.dtype), reduction.x.dtype);
        let end = Index::Number(reduction.n_reduced() as i64);
        let total = self.for_loop((first, &end, step), Some(neutral), |of, position, total| {
            let index = reduction.index(&mut of.text, result, &position);
            let element = of.element(reduction.x, &index)?;
            Ok(total.map(|total| combine(&mut of.text, combiner, &total, &element)))
        })?;
        Ok(total.expect("a loop returns what it carries"))
    }

    fn by_threads(&mut self, reduction: &Reduction<'_>, start: usize) -> RuleResult<()> {
        self.for_elements(reduction.n_results(), |of, result| {
            let total = of.partial(reduction, &result, (&Index::Number(0), 1))?;
            of.store_shared(&total, start, &result);
            Ok(())
        })
    }

    fn by_warps(&mut self, reduction: &Reduction<'_>, start: usize) -> RuleResult<()> {
        let thread = Index::Name(THREAD.to_string());
        let (warp, lane) = self.text.divided(&thread, WARP);
        let end = Index::Number(reduction.n_results() as i64);
        self.for_loop((&warp, &end, self.n_threads / WARP), None, |of, result, _| {
            let total = of.partial(reduction, &result, (&lane, WARP))?;
            let total = of.over_warp(reduction.combiner, total);
            let is_first = of.text.compare_indices(Predicate::Equal, &lane, &Index::Number(0));
            of.where_true(&is_first, |of| {
                of.store_shared(&total, start, &result);
                Ok(())
            })?;
            Ok(None)
        })?;
        Ok(())
    }

    fn by_all(&mut self, reduction: &Reduction<'_>, start: usize) -> RuleResult<()> {
        let (combiner, dtype) = (reduction.combiner, reduction.x.dtype);
        let n_warps = self.n_threads / WARP;
        let partials = self.allocate(n_warps, dtype)?;
        let thread = Index::Name(THREAD.to_string());
        let (warp, lane) = self.text.divided(&thread, WARP);
        let (zero, end) = (Index::Number(0), Index::Number(reduction.n_results() as i64));
        self.for_loop((&zero, &end, 1), None, |of, result, _| {
            let total = of.partial(reduction, &result, (&thread, of.n_threads))?;
            let total = of.over_warp(combiner, total);
            let is_first = of.text.compare_indices(Predicate::Equal, &lane, &zero);
            of.where_true(&is_first, |of| {
                of.store_shared(&total, partials, &warp);
                Ok(())
            })?;
            of.barrier();
            let is_thread = of.text.compare_indices(Predicate::Equal, &thread, &zero);
            of.where_true(&is_thread, |of| {
                let mut total = of.load_shared(partials, &zero, dtype);
                for warp in 1..n_warps {
                    let next = of.load_shared(partials, &Index::Number(warp as i64), dtype);
                    total = combine(&mut of.text, combiner, &total, &next);
                }
                of.store_shared(&total, start, &result);
                Ok(())
            })?;
            // The next result has the same partial results.
            of.barrier();
            Ok(None)
        })?;
        Ok(())
    }

    /// Combines the elements of the threads of a warp. Each thread has the result.
    fn over_warp(&mut self, combiner: Combiner, mut total: Element) -> Element {
        let mut distance = WARP / 2;
        while distance > 0 {
            let other = self.exchanged(&total, distance);
            total = combine(&mut self.text, combiner, &total, &other);
            distance /= 2;
        }
        total
    }

    /// Returns the element of the thread whose number differs in one bit.
    fn exchanged(&mut self, x: &Element, distance: usize) -> Element {
        let bits = x.dtype.bits();
        if bits == 32 {
            return self.exchanged_word(x, distance);
        }
        let of = &mut self.text;
        // A value of 64 bits is exchanged in two words.
        let long = match x.dtype.is_float() {
            true => of.apply("arith.bitcast", &[x], "", DType::I64),
            false => Element { dtype: DType::I64, ..x.clone() },
        };
        let shift = of.int(32, DType::I64);
        let high = of.binary("arith.shrui", &long, &shift);
        let words = [&long, &high].map(|word| arithmetic::convert(of, word, DType::U32));
        let words = words.map(|word| self.exchanged_word(&word, distance));
        let of = &mut self.text;
        let [low, high] = words.map(|word| arithmetic::convert(of, &word, DType::U64));
        let (low, high) =
            (Element { dtype: DType::I64, ..low }, Element { dtype: DType::I64, ..high });
        let high = of.binary("arith.shli", &high, &shift);
        let long = of.binary("arith.ori", &low, &high);
        match x.dtype.is_float() {
            true => of.apply("arith.bitcast", &[&long], "", x.dtype),
            false => Element { dtype: x.dtype, ..long },
        }
    }

    fn exchanged_word(&mut self, x: &Element, distance: usize) -> Element {
        let distance = self.text.name_of(&Index::Number(distance as i64));
        let width = self.text.name_of(&Index::Number(WARP as i64));
        Element { name: self.text.exchange(&x.name, &distance, &width, x.dtype), ..x.clone() }
    }

    /// Returns the index of the first element that is the greatest or least, or NaN.
    fn arg(
        &mut self,
        x: &Value,
        axis: usize,
        by: Combiner,
        index_dtype: DType,
    ) -> RuleResult<Value> {
        let x = self.converted(x, combined(x.dtype));
        let shape = x.shape.to_vec();
        let best = self.reduce(&x, &[axis], by)?;
        let kept: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
        let best = self.broadcast(&best, &kept, &shape);
        let index = self.value(DType::I32, &shape, Rule::Iota(axis));
        let last = shape[axis] as i128 - 1;
        let function = move |of: &mut Writer, x: &[Element]| {
            let [x, best, index] = x else { return None };
            let mut is_best = of.compare(Predicate::Equal, x, best);
            if x.dtype.is_float() {
                let is_nan = of.compare(Predicate::Unordered, x, x);
                is_best = of.binary("arith.ori", &is_best, &is_nan);
            }
            let none = of.int(last, DType::I32);
            Some(of.select(&is_best, index, &none))
        };
        let index = self.apply(function, &[&x, &best, &index], (DType::I32, &shape));
        let first = self.reduce(&index, &[axis], Combiner::Min)?;
        Ok(self.converted(&first, index_dtype))
    }
}
