//! Elementwise operations and sums of [`Bcoo`].

use super::bcoo::Bcoo;
use super::entries::{column, columns, each_batch, gather_at, in_range, masked};
use super::{SparseArray, expect_axes};
use crate::operands::throw_shape;
use oxidax::core::Loc;
use oxidax::prelude::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

impl Bcoo {
    /// Sums over axes, which are dropped.
    ///
    /// Throws `Op` (value) for an axis out of range.
    #[doc(alias = "bcoo_reduce_sum")]
    #[doc(alias = "sum")]
    #[track_caller]
    pub fn reduce_sum(&self, axes: &[usize]) -> Bcoo {
        expect_axes("Bcoo::reduce_sum", axes, self.ndim());
        let n_batch = self.n_batch();
        let behind = n_batch + self.n_sparse();
        Loc::caller().scope(|| {
            let dense: Vec<usize> = axes.iter().copied().filter(|&axis| axis >= behind).collect();
            let over: Vec<isize> =
                dense.iter().map(|axis| (axis + 1 - self.n_sparse()) as isize).collect();
            let data =
                if over.is_empty() { self.data.clone() } else { reduce_sum(&self.data, &over) };
            let rest = Bcoo { data, n_dense: self.n_dense - dense.len(), ..self.clone() };
            let batch: Vec<usize> = axes.iter().copied().filter(|&axis| axis < n_batch).collect();
            let sparse = axes.iter().copied().filter(|axis| (n_batch..behind).contains(axis));
            let rest = if batch.is_empty() {
                rest
            } else {
                // Axes that are summed come last among the batch axes, and become sparse.
                let kept = (0..n_batch).filter(|axis| !batch.contains(axis));
                let order: Vec<usize> =
                    kept.chain(batch.iter().copied()).chain(n_batch..rest.ndim()).collect();
                rest.transpose(&order).update_layout(n_batch - batch.len(), rest.n_dense)
            };
            let of_batch = n_batch - batch.len()..n_batch;
            rest.without_entries_along(&of_batch.chain(sparse).collect::<Vec<_>>())
        })
    }

    /// Drops sparse axes, whose entries are added up.
    #[track_caller]
    fn without_entries_along(&self, axes: &[usize]) -> Bcoo {
        let n_batch = self.n_batch();
        let kept_axes: Vec<usize> =
            (0..self.n_sparse()).filter(|axis| !axes.contains(&(axis + n_batch))).collect();
        let sizes: Vec<usize> = kept_axes.iter().map(|&axis| self.sparse_shape[axis]).collect();
        let list = self.each(|data, indices| {
            let kept = in_range(indices, &self.sparse_shape);
            let rows = columns(indices, &kept_axes);
            [masked(data, &kept), super::entries::dropped(&rows, &kept, &sizes)]
        });
        Bcoo::of_list(list, sizes, self.n_dense)
    }

    /// Multiplies the entries by the elements of a dense array at their indices. The array
    /// broadcasts to the shape of this one.
    ///
    /// Throws `Op` (shape) for an array that does not broadcast.
    #[doc(alias = "bcoo_multiply_dense")]
    #[track_caller]
    pub fn multiply_dense(&self, v: &Array) -> Bcoo {
        let shape = self.shape();
        if v.shape().broadcast(&shape).as_ref() != Some(&shape) {
            let message = format!("{} does not broadcast to {shape}", v.shape());
            throw_shape("Bcoo::multiply_dense", message, &[&self.data, v]);
        }
        let (n_batch, n_sparse) = (self.n_batch(), self.n_sparse());
        Loc::caller().scope(|| {
            let missing = shape.rank() - v.rank();
            let full: Vec<usize> = vec![1; missing].into_iter().chain(v.shape().to_vec()).collect();
            let own: Vec<usize> =
                self.batch_shape().iter().chain(&full[n_batch..]).copied().collect();
            let v = broadcast_to(&reshape(v, full.clone()), own);
            let is_single: Vec<bool> = full[n_batch..n_batch + n_sparse]
                .iter()
                .zip(&self.sparse_shape)
                .map(|(&size, &whole)| size == 1 && whole != 1)
                .collect();
            let operands = vec![self.data.clone(), self.indices.clone(), v];
            let data = each_batch(n_batch, operands, |operands| {
                let [data, indices, v] = operands else { unreachable!("there are three operands") };
                let rows = if is_single.contains(&true) {
                    let kept: Vec<Array> = (0..n_sparse)
                        .map(|axis| {
                            let own = column(indices, axis);
                            if is_single[axis] { zeros_like(&own) } else { own }
                        })
                        .collect();
                    stack(&kept, -1)
                } else {
                    indices.clone()
                };
                let product = data * gather_at(v, &rows);
                vec![masked(&product, &in_range(indices, &self.sparse_shape))]
            });
            Bcoo { data: data[0].clone(), ..self.clone() }
        })
    }

    /// Multiplies two sparse arrays of one shape elementwise. The result has the entries of this
    /// one.
    ///
    /// All pairs of entries of a batch are compared.
    ///
    /// Throws `Op` (shape) for arrays of different shapes.
    #[doc(alias = "bcoo_multiply_sparse")]
    #[track_caller]
    pub fn multiply_sparse(&self, other: &Bcoo) -> Bcoo {
        if self.shape() != other.shape() {
            let message =
                format!("takes arrays of one shape, got {} and {}", self.shape(), other.shape());
            throw_shape("Bcoo::multiply_sparse", message, &[&self.data, &other.data]);
        }
        let other = other.update_layout(self.n_batch(), self.n_dense);
        let operands = [&self.data, &self.indices, &other.data, &other.indices].map(Clone::clone);
        let data = each_batch(self.n_batch(), operands.to_vec(), |operands| {
            let [data, indices, other_data, other_indices] = operands else {
                unreachable!("there are four operands")
            };
            let is_same = eq(indices.expand_dims(1), other_indices.expand_dims(0)).all_axes(-1);
            let kept = in_range(indices, &self.sparse_shape);
            let matches = logical_and(is_same, kept.expand_dims(-1)).astype(other_data.dtype());
            vec![data * tensordot(&matches, other_data, 1)]
        });
        Bcoo { data: data[0].clone(), ..self.clone() }
    }

    /// Adds two sparse arrays of one shape: the entries of both.
    #[track_caller]
    fn plus(&self, other: &Bcoo) -> Bcoo {
        if self.shape() != other.shape() {
            let message =
                format!("takes arrays of one shape, got {} and {}", self.shape(), other.shape());
            throw_shape("Bcoo::add", message, &[&self.data, &other.data]);
        }
        let other = other.update_layout(self.n_batch(), self.n_dense);
        let dtype = result_type([&self.data, &other.data]);
        let axis = self.n_batch() as isize;
        let data = concatenate([&self.data.astype(dtype), &other.data.astype(dtype)], axis);
        let indices =
            concatenate([&self.indices, &other.indices.astype(self.indices.dtype())], axis);
        Bcoo::of(data, indices, self.sparse_shape.clone(), self.n_dense)
    }
}

impl Neg for &Bcoo {
    type Output = Bcoo;
    #[track_caller]
    fn neg(self) -> Bcoo {
        self.map_data(|data| neg(data))
    }
}

impl Add for &Bcoo {
    type Output = Bcoo;
    /// Returns the entries of both. Throws `Op` (shape) for arrays of different shapes.
    #[track_caller]
    fn add(self, other: &Bcoo) -> Bcoo {
        self.plus(other)
    }
}

impl Sub for &Bcoo {
    type Output = Bcoo;
    /// Returns the entries of both. Throws `Op` (shape) for arrays of different shapes.
    #[track_caller]
    fn sub(self, other: &Bcoo) -> Bcoo {
        self.plus(&-other)
    }
}

impl Mul for &Bcoo {
    type Output = Bcoo;
    /// See [`Bcoo::multiply_sparse`].
    #[track_caller]
    fn mul(self, other: &Bcoo) -> Bcoo {
        self.multiply_sparse(other)
    }
}

impl Mul<&Array> for &Bcoo {
    type Output = Bcoo;
    /// See [`Bcoo::multiply_dense`].
    #[track_caller]
    fn mul(self, other: &Array) -> Bcoo {
        self.multiply_dense(other)
    }
}

impl Mul<f64> for &Bcoo {
    type Output = Bcoo;
    #[track_caller]
    fn mul(self, factor: f64) -> Bcoo {
        self.map_data(|data| data * factor)
    }
}

impl Div<f64> for &Bcoo {
    type Output = Bcoo;
    #[track_caller]
    fn div(self, divisor: f64) -> Bcoo {
        self.map_data(|data| data / divisor)
    }
}
