//! Reductions, of axes and of windows, and functions of elements.

use super::reducers::{combine, is_neutral};
use super::{Operands, Scope, Traced, Translated, Translator};
use crate::control_flow;
use crate::core::{Array, bind1};
use crate::primitives::{
    Extremum, Padding, ReduceAnd, ReduceMax, ReduceMin, ReduceOr, ReduceProd, ReduceSum, ReduceXor,
    SelectAndScatterAdd, Window, reduce_window, reduce_window_max, reduce_window_min,
    reduce_window_prod, reduce_window_sum,
};

impl<'m> Translator<'m> {
    pub(super) fn reduce(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let arrays = self.arrays(operands)?;
        if arrays.is_empty() || arrays.len() % 2 != 0 {
            return Err(self.unsupported(operands.operation, "operands and initial values differ"));
        }
        let (xs, inits) = arrays.split_at(arrays.len() / 2);
        let axes = self.sizes(operands, "dimensions")?;
        if let ([x], Some(name)) = (xs, self.reducer(operands, 0, scope)?) {
            let axes = axes.clone();
            let y = match name {
                "add" => Some(bind1(ReduceSum { axes }, [x])),
                "multiply" => Some(bind1(ReduceProd { axes }, [x])),
                "maximum" => Some(bind1(ReduceMax { axes }, [x])),
                "minimum" => Some(bind1(ReduceMin { axes }, [x])),
                "and" => Some(bind1(ReduceAnd { axes }, [x])),
                "or" => Some(bind1(ReduceOr { axes }, [x])),
                "xor" => Some(bind1(ReduceXor { axes }, [x])),
                _ => None,
            };
            if let Some(y) = y {
                let y = match is_neutral(name, &operands.values[1]) {
                    true => Some(y),
                    false => combine(name, &inits[0], &y),
                };
                return Ok(y.map(Traced::Array).into_iter().collect());
            }
        }
        let block = self.region(operands, 0)?;
        let axes: Vec<isize> = axes.into_iter().map(|axis| axis as isize).collect();
        let f = |a: Vec<Array>, b: Vec<Array>| {
            self.apply(block, a.into_iter().chain(b).collect(), scope)
        };
        let ys: Vec<Array> =
            control_flow::reduce::<Vec<Array>, _>(xs.to_vec(), inits.to_vec(), f, &axes);
        Ok(ys.into_iter().map(Traced::Array).collect())
    }

    pub(super) fn map(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let block = self.region(operands, 0)?;
        let results = self.apply_to_elements(block, self.arrays(operands)?, scope);
        Ok(results.into_iter().map(Traced::Array).collect())
    }

    fn window(&self, operands: &Operands<'m>, rank: usize) -> Translated<Window> {
        let list = |name| self.sizes(operands, name);
        let padding = self.vhlo(operands.operation.numbers("padding"))?;
        let padding = match padding.len() {
            0 => Padding::Valid,
            count if count == 2 * rank => {
                let pairs = padding.chunks(2);
                Padding::Explicit(pairs.map(|p| (p[0] as isize, p[1] as isize)).collect())
            }
            _ => return Err(self.unsupported(operands.operation, "its padding has another rank")),
        };
        Ok(Window {
            dimensions: list("window_dimensions")?,
            strides: list("window_strides")?,
            padding,
            base_dilation: list("base_dilations")?,
            window_dilation: list("window_dilations")?,
        })
    }

    pub(super) fn reduce_window(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let [x, init] = self.exactly(operands).map_err(|_| {
            self.unsupported(operands.operation, "windows of several operands are not supported")
        })?;
        let window = self.window(operands, x.rank())?;
        let name = self.reducer(operands, 0, scope)?;
        let is_number = !x.dtype().is_bool();
        let direct = match name {
            Some("add") if is_number => Some(reduce_window_sum(&x, &window)),
            Some("maximum") if is_number => Some(reduce_window_max(&x, &window)),
            Some("minimum") if is_number => Some(reduce_window_min(&x, &window)),
            Some("multiply") if is_number => Some(reduce_window_prod(&x, &window)),
            _ => None,
        };
        let y = match (direct, name) {
            (Some(y), Some(name)) if is_neutral(name, &operands.values[1]) => y,
            (Some(y), Some(name)) => combine(name, &init, &y).unwrap_or(y),
            _ => {
                let block = self.region(operands, 0)?;
                let both = |a: &Array, b: &Array| {
                    let pair = vec![a.clone(), b.clone()];
                    self.only_result(self.apply_to_elements(block, pair, scope))
                };
                reduce_window(&x, &init, both, &window)
            }
        };
        Ok(vec![Traced::Array(y)])
    }

    pub(super) fn select_and_scatter(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Array> {
        let [x, source, _] = self.exactly(operands)?;
        let window = self.window(operands, x.rank())?;
        let select = self.region(operands, 0)?;
        let direction = select.operations().next().and_then(|first| {
            (first.name() == "compare").then(|| first.text("comparison_direction"))?
        });
        let extremum = match direction {
            Some("GE" | "GT") => Extremum::Max,
            Some("LE" | "LT") => Extremum::Min,
            _ => return Err(self.unsupported(operands.operation, "it selects by a function")),
        };
        let adds = self.reducer(operands, 1, scope)? == Some("add");
        if !adds || !is_neutral("add", &operands.values[2]) {
            return Err(self.unsupported(operands.operation, "it combines by a function"));
        }
        Ok(bind1(SelectAndScatterAdd { window, extremum }, [&source, &x]))
    }
}
