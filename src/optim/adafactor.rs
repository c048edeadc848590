//! Adafactor: mean squares kept as rows and columns.

use super::adam::{absolute_square, empty_square};
use super::basic::{decay_where, scale, scale_by_learning_rate};
use super::clip::clip_by_block_rms;
use super::leaves::Leaf;
use super::mask::Mask;
use super::memory::{Memory, Rule, Step};
use super::optimizer::{Optimizer, chain};
use super::rms::scale_by_param_block_rms;
use super::schedule::Schedule;
use super::wrappers::Ema;
use crate::core::{Array, DType, Shape};
use crate::ops::axes;
use crate::primitives::{convert_element_type, pow, rsqrt, zeros};

/// The numbers of Adafactor.
///
/// ```
/// use oxidax::prelude::*;
/// let optimizer = optim::Adafactor { momentum: Some(0.9), ..optim::Adafactor::new(1e-3) }.optimizer();
/// ```
#[derive(Clone, Debug)]
pub struct Adafactor {
    /// Length of a step, per step, as a part of the parameter's size.
    pub learning_rate: Schedule,
    /// Leaves whose second longest axis is shorter keep all of their mean squares.
    pub min_dim_size_to_factor: usize,
    /// The mean squares decay by `1 - t^(-decay_rate)`.
    pub decay_rate: f64,
    /// Multiplies steps by the parameter's root mean square.
    pub multiply_by_parameter_scale: bool,
    /// The most that a step's root mean square may be.
    pub clipping_threshold: Option<f64>,
    /// How much of the last step is in the next.
    pub momentum: Option<f64>,
    /// In which dtype the mean of steps is kept.
    pub dtype_momentum: DType,
    /// How much of a parameter is taken away at each step; not times the learning rate.
    pub weight_decay_rate: Option<f64>,
    /// Which leaves it is taken away from.
    pub weight_decay_mask: Mask,
    /// Added to squares.
    pub eps: f64,
    /// Keeps mean squares as rows and columns where that is allowed.
    pub factored: bool,
}

/// Adafactor: mean squares of matrices are kept as one number for each row and each column. For other numbers
/// use [`Adafactor`].
///
/// # Reference
/// Shazeer, Stern: Adafactor: adaptive learning rates with sublinear memory cost (2018), algorithms 4 and 5.
pub fn adafactor(learning_rate: impl Into<Schedule>) -> Optimizer {
    Adafactor::new(learning_rate).optimizer()
}

impl Adafactor {
    /// The usual numbers: factored from 128 on, `decay_rate` 0.8, steps clipped at 1 and multiplied by the
    /// parameter's scale, `eps` 1e-30, no momentum, no weight decay.
    pub fn new(learning_rate: impl Into<Schedule>) -> Adafactor {
        Adafactor {
            learning_rate: learning_rate.into(),
            min_dim_size_to_factor: 128,
            decay_rate: 0.8,
            multiply_by_parameter_scale: true,
            clipping_threshold: Some(1.0),
            momentum: None,
            dtype_momentum: DType::F32,
            weight_decay_rate: None,
            weight_decay_mask: Mask::all(),
            eps: 1e-30,
            factored: true,
        }
    }

    /// The optimizer.
    pub fn optimizer(self) -> Optimizer {
        let dtype = self.dtype_momentum;
        let mean = |decay| Ema { debias: false, accumulator_dtype: Some(dtype), ..Ema::new(decay) };
        let decayed = |rate| decay_where(rate, self.weight_decay_mask.clone());
        let links = [
            Some(self.clone().transformation()),
            self.clipping_threshold.map(clip_by_block_rms),
            Some(scale(self.learning_rate.clone())),
            self.multiply_by_parameter_scale.then(|| scale_by_param_block_rms(1e-3)),
            self.momentum.map(|decay| mean(decay).transformation()),
            self.weight_decay_rate.map(decayed),
            Some(scale_by_learning_rate(1.0)),
        ];
        chain(links.into_iter().flatten())
    }

    /// The step of about unit length alone.
    #[doc(alias = "scale_by_factored_rms")]
    pub fn transformation(self) -> Optimizer {
        Optimizer::one(Factored {
            factored: self.factored,
            min_size: self.min_dim_size_to_factor,
            decay_rate: self.decay_rate,
            eps: self.eps,
        })
    }
}

#[derive(Debug)]
struct Factored {
    factored: bool,
    min_size: usize,
    decay_rate: f64,
    eps: f64,
}

impl Factored {
    /// The two longest axes of a leaf that is kept as rows and columns: the shorter, then the longer.
    fn axes(&self, leaf: &Leaf) -> Option<[usize; 2]> {
        let dims = leaf.parameter.shape().dims();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|&axis| dims[axis]);
        match order[..] {
            [.., short, long] if self.factored && dims[short] >= self.min_size => {
                Some([short, long])
            }
            _ => None,
        }
    }

    /// The leaf's shape without one of its two axes.
    fn without(&self, leaf: &Leaf, which: usize) -> Shape {
        let axis = self.axes(leaf).expect("a factored leaf")[which];
        let mut dims = leaf.parameter.shape().to_vec();
        dims.remove(axis);
        Shape::from(dims)
    }
}

impl Rule for Factored {
    fn init(&self, leaves: &[Leaf], memory: &mut Memory<'_>) {
        let split = || leaves.iter().filter(|leaf| self.axes(leaf).is_some());
        let whole = leaves.iter().filter(|leaf| self.axes(leaf).is_none());
        let dtype = |leaf: &Leaf| leaf.parameter.dtype().real();
        memory.make("v_row", split(), |leaf| zeros(self.without(leaf, 1), dtype(leaf)));
        memory.make("v_col", split(), |leaf| zeros(self.without(leaf, 0), dtype(leaf)));
        memory.make("v", whole, |leaf| empty_square(leaf, None));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], memory: &mut Memory<'_>) {
        let split = || leaves.iter().filter(|leaf| self.axes(leaf).is_some());
        let mut rows = memory.take_shaped("v_row", split(), |leaf| self.without(leaf, 1));
        let mut columns = memory.take_shaped("v_col", split(), |leaf| self.without(leaf, 0));
        let whole = leaves.iter().filter(|leaf| self.axes(leaf).is_none());
        let mut squares = memory.take_shaped("v", whole, |leaf| leaf.parameter.shape().clone());
        let count = convert_element_type(&step.count, DType::F32);
        let added = pow(&count, -self.decay_rate);
        let decay = 1.0 - &added;
        let mix = |mean: &Array, square: &Array| {
            let next = mean * &decay + square * (1.0 - &decay);
            convert_element_type(&next, mean.dtype())
        };
        let (mut at_split, mut at_whole) = (0, 0);
        for leaf in leaves {
            let square = absolute_square(&leaf.update) + self.eps;
            leaf.update = match self.axes(leaf) {
                Some([short, long]) => {
                    let row = &mut rows[at_split];
                    let column = &mut columns[at_split];
                    at_split += 1;
                    *row = mix(row, &square.mean_axes(long as isize));
                    *column = mix(column, &square.mean_axes(short as isize));
                    // Where the shorter axis lies in the rows, of which the longer is gone.
                    let within = if short > long { short - 1 } else { short };
                    let mean = row.mean_axes(axes(within as isize).keepdims());
                    let by_row = rsqrt(&(&*row / mean)).expand_dims(long as isize);
                    let by_column = rsqrt(column).expand_dims(short as isize);
                    &leaf.update * by_row * by_column
                }
                None => {
                    let mean = &mut squares[at_whole];
                    at_whole += 1;
                    *mean = mix(mean, &square);
                    &leaf.update * rsqrt(mean)
                }
            };
        }
        memory.keep(rows);
        memory.keep(columns);
        memory.keep(squares);
    }
}
