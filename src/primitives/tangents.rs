//! Arithmetic on tangents, which binds primitives.

use super::arithmetic::Add;
use super::collective::vary;
use super::constant::zeros_of;
use super::device_put::in_memory;
use super::reshard::sharded_like;
use crate::core::{Array, Aval, Tangent, bind1};

impl Tangent {
    /// Returns the tangent as an array: zeros for a symbolic zero.
    pub fn to_dense(&self) -> Array {
        match self {
            Tangent::Zero(aval) => zeros_of(aval),
            Tangent::Dense(array) => array.clone(),
        }
    }

    /// Returns the sum of two tangents of one value.
    #[must_use]
    pub fn add(&self, other: &Tangent) -> Tangent {
        match (self, other) {
            (Tangent::Zero(_), sum) | (sum, Tangent::Zero(_)) => sum.clone(),
            (Tangent::Dense(a), Tangent::Dense(b)) => Tangent::Dense(bind1(Add, [a, b])),
        }
    }

    /// Returns the tangent, sharded over explicit axes of a mesh as a value of type `aval` is.
    #[must_use]
    pub(crate) fn sharded_like(self, aval: &Aval) -> Tangent {
        match self {
            Tangent::Zero(zero) => Tangent::Zero(Aval { sharding: aval.sharding.clone(), ..zero }),
            Tangent::Dense(array) => Tangent::Dense(sharded_like(&array, aval)),
        }
    }

    /// Converts a tangent of a value of type `aval` to vary over the mesh axes that the value
    /// varies over, in the memory that the value is in.
    #[must_use]
    pub(crate) fn vary_like(self, aval: &Aval) -> Tangent {
        match self {
            tangent
                if tangent.aval().varying == aval.varying
                    && tangent.aval().memory == aval.memory =>
            {
                tangent
            }
            Tangent::Zero(zero) => {
                let zero = zero.with_varying(aval.varying.clone());
                Tangent::Zero(zero.with_memory(aval.memory))
            }
            Tangent::Dense(array) => {
                Tangent::Dense(in_memory(&vary(&array, &aval.varying), aval.memory))
            }
        }
    }
}
