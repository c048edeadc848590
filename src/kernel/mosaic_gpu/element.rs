//! The elements of values: each rule, at an index.

use super::arithmetic;
use super::emitter::Emitter;
use super::indices::Index;
use super::text::{Element, Predicate};
use super::value::{Part, Rule, Start, Value};
use crate::core::{DType, RuleError, RuleResult};

impl Emitter<'_> {
    /// Computes the element of a value at an index.
    pub(super) fn element(&mut self, value: &Value, index: &[Index]) -> RuleResult<Element> {
        let key = (value.id, index.to_vec());
        if let Some(known) = self.computed.iter().rev().find_map(|all| all.get(&key)) {
            return Ok(known.clone());
        }
        let outer = self.text.set_loc(value.loc);
        let element = self.compute(value, index);
        self.text.restore_loc(outer);
        let element = element?;
        if let Some(all) = self.computed.last_mut() {
            all.insert(key, element.clone());
        }
        Ok(element)
    }

    /// Computes the only element of a scalar, as an index.
    pub(super) fn scalar(&mut self, value: &Value) -> RuleResult<Index> {
        if let Rule::Scalar(index) = &*value.rule {
            return Ok(index.clone());
        }
        let element = self.element(value, &[])?;
        Ok(Index::Name(arithmetic::convert(&mut self.text, &element, DType::I32).name))
    }

    fn compute(&mut self, value: &Value, index: &[Index]) -> RuleResult<Element> {
        let dtype = value.dtype;
        match &*value.rule {
            Rule::Fill(number) => Ok(self.text.fill(*number, dtype)),
            Rule::Scalar(scalar) => Ok(self.text.element_of(scalar)),
            Rule::Iota(axis) => Ok(self.text.element_of(&index[*axis])),
            Rule::Memory(memory) => self.load(*memory, index, (dtype, &value.shape)),
            Rule::Function { function, operands } => {
                let mut elements = Vec::with_capacity(operands.len());
                for operand in operands {
                    let at = if operand.rank() == 0 { &[] } else { index };
                    elements.push(self.element(operand, at)?);
                }
                function(&mut self.text, &elements)
                    .ok_or_else(|| RuleError::value("a function has no form for these elements"))
            }
            Rule::Broadcast { x, axes } => {
                let along = |(axis, &size): (&usize, &usize)| match size {
                    1 => Index::Number(0),
                    _ => index[*axis].clone(),
                };
                let at: Vec<Index> = axes.iter().zip(x.shape.iter()).map(along).collect();
                self.element(x, &at)
            }
            Rule::Reshape(x) => {
                let at = self.reshaped(index, &value.shape, &x.shape);
                self.element(x, &at)
            }
            Rule::Transpose { x, axes } => {
                let mut at = vec![Index::Number(0); axes.len()];
                for (along, &axis) in index.iter().zip(axes) {
                    at[axis] = along.clone();
                }
                self.element(x, &at)
            }
            Rule::Reverse { x, axes } => {
                let mut at = index.to_vec();
                for &axis in axes {
                    let last = Index::Number(x.shape[axis] as i64 - 1);
                    at[axis] = self.text.minus(&last, &at[axis]);
                }
                self.element(x, &at)
            }
            Rule::Part { x, part } => {
                let starts = self.starts(part, &x.shape)?;
                let mut along = index.iter();
                let mut at = Vec::with_capacity(starts.len());
                for (axis, start) in starts.iter().enumerate() {
                    at.push(match along.as_slice() {
                        [next, ..] if part.keeps(axis) => {
                            along.next();
                            let offset = self.text.times(next, part.axes[axis].stride());
                            self.text.plus(start, &offset)
                        }
                        _ => start.clone(),
                    });
                }
                self.element(x, &at)
            }
            Rule::Update { x, part, value, mask } => {
                self.updated(x, part, (value, mask.as_ref()), index)
            }
            Rule::Pad { x, value, lows } => {
                let mut at = Vec::with_capacity(lows.len());
                let mut bounds = Vec::new();
                for (axis, &low) in lows.iter().enumerate() {
                    let from = self.text.minus(&index[axis], &Index::Number(low));
                    bounds.push((from.clone(), x.shape[axis]));
                    at.push(from);
                }
                match self.within(&bounds) {
                    None => self.element(x, &at),
                    Some(inside) => self.either(
                        &inside,
                        dtype,
                        |of| of.element(x, &at),
                        |of| of.element(value, &[]),
                    ),
                }
            }
            Rule::Join { parts, axis } => self.joined(parts, *axis, index),
            Rule::Branch { number, branches } => {
                let at = if number.rank() == 0 { &[] } else { index };
                let number = self.element(number, at)?;
                self.chosen(&number, 0, branches, index)
            }
        }
    }

    /// Returns the index of an element before a reshape.
    fn reshaped(&mut self, index: &[Index], from: &[usize], to: &[usize]) -> Vec<Index> {
        let kept = |sizes: &[usize]| sizes.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        if kept(from) != kept(to) {
            let position = self.text.ravel(index, from);
            return self.text.unravel(&position, to);
        }
        let mut long = index.iter().zip(from).filter(|(_, size)| **size != 1);
        let along = |&size: &usize| match size {
            1 => Index::Number(0),
            _ => long.next().expect("the long axes are the same").0.clone(),
        };
        to.iter().map(along).collect()
    }

    /// Returns the first index along each axis of a part, which is inside of the array.
    fn starts(&mut self, part: &Part, shape: &[usize]) -> RuleResult<Vec<Index>> {
        let mut starts = Vec::with_capacity(part.starts.len());
        for (axis, start) in part.starts.iter().enumerate() {
            starts.push(match start {
                Start::Number(number) => Index::Number(*number as i64),
                Start::Value(value) => {
                    let last = shape[axis] - part.axes[axis].extent();
                    let start = self.scalar(value)?;
                    self.text.limited(&start, last)
                }
            });
        }
        Ok(starts)
    }

    /// Returns the condition that indices are within sizes, or `None` if it always holds.
    fn within(&mut self, bounds: &[(Index, usize)]) -> Option<Element> {
        let mut inside: Option<Element> = None;
        for (index, size) in bounds {
            if matches!(index, Index::Number(n) if (0..*size as i64).contains(n)) {
                continue;
            }
            let (zero, end) = (Index::Number(0), Index::Number(*size as i64));
            let above = self.text.compare_indices(Predicate::GreaterEqual, index, &zero);
            let below = self.text.compare_indices(Predicate::Less, index, &end);
            let both = self.text.binary("arith.andi", &above, &below);
            inside = Some(match inside {
                Some(inside) => self.text.binary("arith.andi", &inside, &both),
                None => both,
            });
        }
        inside
    }

    fn updated(
        &mut self,
        x: &Value,
        part: &Part,
        (value, mask): (&Value, Option<&Value>),
        index: &[Index],
    ) -> RuleResult<Element> {
        let starts = self.starts(part, &x.shape)?;
        let (mut at, mut bounds, mut hits) = (Vec::new(), Vec::new(), None::<Element>);
        for (axis, start) in starts.iter().enumerate() {
            let (size, stride) = (part.axes[axis].size(), part.axes[axis].stride());
            let is_whole = matches!(start, Index::Number(0)) && size == x.shape[axis];
            let offset = self.text.minus(&index[axis], start);
            if !is_whole {
                bounds.push((offset.clone(), part.axes[axis].extent()));
            }
            let (quotient, rest) = self.text.divided(&offset, stride);
            if stride > 1 {
                let hit = self.text.compare_indices(Predicate::Equal, &rest, &Index::Number(0));
                hits = Some(match hits {
                    Some(hits) => self.text.binary("arith.andi", &hits, &hit),
                    None => hit,
                });
            }
            if part.keeps(axis) {
                at.push(quotient);
            }
        }
        let inside = match (self.within(&bounds), hits) {
            (Some(inside), Some(hits)) => Some(self.text.binary("arith.andi", &inside, &hits)),
            (inside, hits) => inside.or(hits),
        };
        let written = |of: &mut Self| match mask {
            None => of.element(value, &at),
            Some(mask) => {
                let at_mask: &[Index] = if mask.rank() == 0 { &[] } else { &at };
                let mask = of.element(mask, at_mask)?;
                of.either(&mask, x.dtype, |of| of.element(value, &at), |of| of.element(x, index))
            }
        };
        match inside {
            None => written(self),
            Some(inside) => self.either(&inside, x.dtype, written, |of| of.element(x, index)),
        }
    }

    fn joined(&mut self, parts: &[Value], axis: usize, index: &[Index]) -> RuleResult<Element> {
        let Some((first, rest)) = parts.split_first() else {
            return Err(RuleError::value("a concatenation of no arrays"));
        };
        if rest.is_empty() {
            return self.element(first, index);
        }
        let end = Index::Number(first.shape[axis] as i64);
        let is_first = self.text.compare_indices(Predicate::Less, &index[axis], &end);
        let mut later = index.to_vec();
        later[axis] = self.text.minus(&index[axis], &end);
        self.either(
            &is_first,
            first.dtype,
            |of| of.element(first, index),
            |of| of.joined(rest, axis, &later),
        )
    }

    fn chosen(
        &mut self,
        number: &Element,
        first: usize,
        branches: &[Value],
        index: &[Index],
    ) -> RuleResult<Element> {
        let (branch, rest) = branches.split_first().expect("a condition has branches");
        if rest.is_empty() {
            return self.element(branch, index);
        }
        let this = self.text.int(first as i128, number.dtype);
        let is_this = self.text.compare(Predicate::Equal, number, &this);
        self.either(
            &is_this,
            branch.dtype,
            |of| of.element(branch, index),
            |of| of.chosen(number, first + 1, rest, index),
        )
    }
}
