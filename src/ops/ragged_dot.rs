//! Products of arrays one axis of which falls into groups of various sizes.

use crate::core::{Array, DType, Loc, RuleError, RuleResult, trace};
use crate::ensure_shape;
use crate::primitives::{
    DotGeneral, bitwise_and, broadcast_in_dim, broadcasted_iota, convert_element_type, cumsum,
    dot_general, ge, lt, select, sub, zeros_like,
};

/// How [`ragged_dot_general`] goes: a [`DotGeneral`], and which axis falls into groups.
///
/// What the ragged axis is in `dot` says what the groups do:
///
/// | ragged axis | operands | result |
/// |-|-|-|
/// | free        | `[b…, m…, k…]`, `[g, b…, k…, n…]` | `[b…, m…, n…]`: each row meets its group's matrix |
/// | contracting | `[b…, m…, k…]`, `[b…, k…, n…]` | `[g, b…, m…, n…]`: each group is summed for itself |
/// | batch       | `[b…, m…, k…]`, `[b…, k…, n…]` | `[b…, m…, n…]`: as without groups |
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[doc(alias = "RaggedDotDimensionNumbers")]
pub struct RaggedDot {
    /// The product, the group axis of `rhs` being none of its contracting and batch axes.
    pub dot: DotGeneral,
    /// The axis of `lhs` that falls into groups.
    pub lhs_ragged: usize,
    /// The axis of `rhs` that has an entry for each group, if the ragged axis is free; else `None`.
    pub rhs_group: Option<usize>,
}

/// What the ragged axis is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Free,
    Contracting,
    Batch,
}

impl RaggedDot {
    fn mode(&self) -> Mode {
        match () {
            () if self.dot.lhs_contracting.contains(&self.lhs_ragged) => Mode::Contracting,
            () if self.dot.lhs_batch.contains(&self.lhs_ragged) => Mode::Batch,
            () => Mode::Free,
        }
    }

    /// The axes of `lhs` along which `group_sizes` may differ: its batch axes, and those of the ragged
    /// axis' kind that stand before it.
    fn outer(&self, rank: usize) -> Vec<usize> {
        let DotGeneral { lhs_contracting, lhs_batch, .. } = &self.dot;
        let before = |axes: Vec<usize>| -> Vec<usize> {
            axes.into_iter().take_while(|&axis| axis != self.lhs_ragged).collect()
        };
        let rest = match self.mode() {
            Mode::Batch => return before(lhs_batch.clone()),
            Mode::Contracting => before(lhs_contracting.clone()),
            Mode::Free => before(
                (0..rank)
                    .filter(|axis| !lhs_contracting.contains(axis) && !lhs_batch.contains(axis))
                    .collect(),
            ),
        };
        lhs_batch.iter().copied().chain(rest).collect()
    }

    fn check(&self, lhs: &Array, rhs: &Array, group_sizes: &Array) -> RuleResult<()> {
        crate::ensure_dtype!(
            group_sizes.dtype().is_integer(),
            "group_sizes must be integers, got {}",
            group_sizes.dtype()
        );
        let (rank, ragged) = (lhs.rank(), self.lhs_ragged);
        ensure_shape!(ragged < rank, "lhs has no axis {ragged} to be ragged: its rank is {rank}");
        ensure_shape!(group_sizes.rank() > 0, "group_sizes needs an axis of groups, got a scalar");
        let named = self.dot.lhs_contracting.iter().chain(&self.dot.lhs_batch);
        if let Some(axis) = named.copied().find(|&axis| axis >= rank) {
            return Err(RuleError::shape(format!("lhs has no axis {axis}: its rank is {rank}")));
        }
        let groups = group_sizes.shape()[group_sizes.rank() - 1];
        if group_sizes.rank() > 1 {
            let mut wanted: Vec<usize> =
                self.outer(rank).iter().map(|&axis| lhs.shape()[axis]).collect();
            wanted.push(groups);
            ensure_shape!(
                *group_sizes.shape().dims() == wanted[..],
                "group_sizes must have the shape [{groups}] or {wanted:?}, got {}",
                group_sizes.shape()
            );
        }
        match (self.mode(), self.rhs_group) {
            (Mode::Free, Some(axis)) => {
                ensure_shape!(
                    axis < rhs.rank(),
                    "rhs has no axis {axis} of groups: its rank is {}",
                    rhs.rank()
                );
                ensure_shape!(
                    !self.dot.rhs_contracting.contains(&axis)
                        && !self.dot.rhs_batch.contains(&axis),
                    "rhs axis {axis} cannot be the one of groups: the product contracts or batches it"
                );
                let size = rhs.shape()[axis];
                ensure_shape!(
                    size == groups,
                    "rhs axis {axis} has {size} entries for {groups} groups"
                );
                Ok(())
            }
            (Mode::Free, None) => Err(RuleError::shape(format!(
                "the ragged axis {ragged} is free, so rhs needs an axis of groups: set rhs_group"
            ))),
            (_, Some(axis)) => Err(RuleError::shape(format!(
                "the ragged axis {ragged} is contracting or batch, so rhs has no axis of groups, got {axis}"
            ))),
            (_, None) => Ok(()),
        }
    }
}

/// `x` once for each group, in front, with zeros where the position along `ragged` is in another
/// group. `sizes` is `[…, g]`, its leading axes being the axes `outer` of `x`.
fn spread(x: &Array, sizes: &Array, ragged: usize, outer: &[usize]) -> Array {
    let ends = cumsum(sizes, -1);
    let starts = sub(&ends, sizes);
    let last = sizes.rank() - 1;
    let groups = sizes.shape()[last];
    let shape = x.shape().insert(0, groups);
    // Groups come to the front; the outer axes go where they are in `x`, behind it. A broadcast wants
    // them in increasing order.
    let place = |bound: &Array| {
        let mut order: Vec<usize> = (0..last).collect();
        order.sort_by_key(|&at| outer[at]);
        let to: Vec<usize> =
            std::iter::once(0).chain(order.iter().map(|&at| outer[at] + 1)).collect();
        let order: Vec<usize> = std::iter::once(last).chain(order).collect();
        broadcast_in_dim(&crate::primitives::transpose(bound, &order), shape.clone(), &to)
    };
    let position = broadcasted_iota(sizes.dtype(), shape.clone(), ragged + 1);
    let inside = bitwise_and(ge(&position, place(&starts)), lt(&position, place(&ends)));
    let axes: Vec<usize> = (1..=x.rank()).collect();
    let each = broadcast_in_dim(x, shape.clone(), &axes);
    select(&inside, &each, &zeros_like(&each))
}

/// A product of arrays in which an axis of `lhs` falls into consecutive groups: `group_sizes`,
/// `int[…, g]`, says how long each is. Its leading axes, if it has any, are those along which the
/// division differs. Positions behind the last group belong to none and count as zeros.
///
/// See [`RaggedDot`] for what the groups do, and [`ragged_dot`] for the usual case. The operand is spread
/// over groups first, so that time and memory grow with their number: `lhs` once for each group.
///
/// Throws `Op` (shape, dtype) if sizes do not fit.
///
/// Reference: Gale et al., "MegaBlocks: efficient sparse training with mixture-of-experts" (2022), for
/// what it is good for.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// // The sum of outer products of the rows in each group.
/// let how = RaggedDot {
///     dot: DotGeneral { lhs_contracting: vec![0], rhs_contracting: vec![0], ..Default::default() },
///     lhs_ragged: 0,
///     rhs_group: None,
/// };
/// let (x, y) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [8, 2]));
/// let sizes = Aval::new(DType::I32, [4]);
/// let z = eval_shape(
///     move |x: Array, y: Array, sizes: Array| ragged_dot_general(&x, &y, &sizes, &how),
///     (x, y, sizes),
/// )?;
/// assert_eq!(z.aval().to_string(), "f32[4,3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_dot_general(lhs: &Array, rhs: &Array, group_sizes: &Array, how: &RaggedDot) -> Array {
    if let Err(error) = how.check(lhs, rhs, group_sizes) {
        trace::throw_operands("ragged_dot_general", error, &[lhs, rhs, group_sizes]);
    }
    Loc::caller().scope(|| run(lhs, rhs, group_sizes, how))
}

fn run(lhs: &Array, rhs: &Array, group_sizes: &Array, how: &RaggedDot) -> Array {
    let outer = how.outer(lhs.rank());
    // One list of sizes holds along every outer axis.
    let (sizes, outer) = match group_sizes.rank() {
        1 => (group_sizes.clone(), Vec::new()),
        _ => (group_sizes.clone(), outer),
    };
    let sizes = match sizes.dtype().bits() < 32 {
        true => convert_element_type(&sizes, DType::I32),
        false => sizes,
    };
    let behind = |axes: &[usize]| axes.iter().map(|axis| axis + 1).collect::<Vec<_>>();
    let dot = &how.dot;
    match how.mode() {
        Mode::Batch => dot_general(lhs, rhs, dot.clone()),
        Mode::Free => {
            let group = how.rhs_group.expect("checked: a free ragged axis comes with one");
            let mut by_group = DotGeneral {
                lhs_contracting: behind(&dot.lhs_contracting),
                lhs_batch: behind(&dot.lhs_batch),
                ..dot.clone()
            };
            by_group.lhs_contracting.push(0);
            by_group.rhs_contracting.push(group);
            dot_general(&spread(lhs, &sizes, how.lhs_ragged, &outer), rhs, by_group)
        }
        Mode::Contracting => {
            // The axes of rhs that stand for the ragged one and the outer ones of lhs.
            let pairs = |axis: usize| {
                let contracted = dot.lhs_contracting.iter().zip(&dot.rhs_contracting);
                let mut all = contracted.chain(dot.lhs_batch.iter().zip(&dot.rhs_batch));
                all.find(|(of_lhs, _)| **of_lhs == axis).map(|(_, of_rhs)| *of_rhs)
            };
            let partner = |axis: usize| match pairs(axis) {
                Some(axis) if axis < rhs.rank() => Ok(axis),
                _ => Err(RuleError::shape(format!("rhs has no axis to go with lhs axis {axis}"))),
            };
            let fits = partner(how.lhs_ragged).and_then(|ragged| {
                let outer =
                    outer.iter().map(|&axis| partner(axis)).collect::<RuleResult<Vec<_>>>()?;
                let (l, r) = (lhs.shape()[how.lhs_ragged], rhs.shape()[ragged]);
                ensure_shape!(
                    l == r,
                    "contracting sizes differ: lhs axis {} is {l}, rhs axis {ragged} is {r}",
                    how.lhs_ragged
                );
                Ok((ragged, outer))
            });
            let (rhs_ragged, rhs_outer) = match fits {
                Ok(fits) => fits,
                Err(error) => trace::throw_operands("ragged_dot_general", error, &[lhs, rhs]),
            };
            let shifted = |batch: &[usize]| [vec![0], behind(batch)].concat();
            let by_group = DotGeneral {
                lhs_contracting: behind(&dot.lhs_contracting),
                rhs_contracting: behind(&dot.rhs_contracting),
                lhs_batch: shifted(&dot.lhs_batch),
                rhs_batch: shifted(&dot.rhs_batch),
                ..dot.clone()
            };
            let lhs = spread(lhs, &sizes, how.lhs_ragged, &outer);
            let rhs = spread(rhs, &sizes, rhs_ragged, &rhs_outer);
            dot_general(&lhs, &rhs, by_group)
        }
    }
}

/// Rows of `lhs`, `[m, k]`, times the matrix of the group that they are in: `rhs` is `[g, k, n]`, and
/// `group_sizes`, `int[g]`, says how many consecutive rows each matrix gets. Gives `[m, n]`; rows behind
/// the last group are zeros. What layers of experts are made of, with the rows sorted by expert.
///
/// Throws as [`ragged_dot_general`] does, which has other layouts, precision and dtypes.
///
/// ```
/// use oxidax::prelude::*;
/// let (rows, experts) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [4, 3, 2]));
/// let sizes = Aval::new(DType::I32, [4]);
/// let y = eval_shape(
///     |x: Array, w: Array, sizes: Array| ragged_dot(&x, &w, &sizes),
///     (rows, experts, sizes),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_dot(lhs: &Array, rhs: &Array, group_sizes: &Array) -> Array {
    let dot =
        DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![1], ..DotGeneral::default() };
    ragged_dot_general(lhs, rhs, group_sizes, &RaggedDot { dot, lhs_ragged: 0, rhs_group: Some(0) })
}
