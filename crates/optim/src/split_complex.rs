//! Optimizers of the real and imaginary parts of complex parameters.

use oxidax::optim::{GradientTransformation, Leaves, Optimizer, State, UpdateArgs};
use oxidax::prelude::*;

/// Applies an optimizer to the real and imaginary parts of complex parameters as if they were
/// separate parameters. Real parameters are passed on.
///
/// The names of the parts in the state end with `.re` and `.im`.
pub fn split_real_and_imaginary(inner: Optimizer) -> Optimizer {
    Optimizer::new(SplitComplex { inner })
}

struct SplitComplex {
    inner: Optimizer,
}

#[derive(Tree)]
struct SplitState {
    inner: State,
}

/// Returns the real and imaginary parts as separate leaves.
fn split(leaves: &Leaves) -> Leaves {
    let mut parts = Vec::new();
    for (path, leaf) in leaves.iter() {
        if leaf.dtype().is_complex() {
            let dot = if path.is_empty() { "" } else { "." };
            parts.push((format!("{path}{dot}re"), leaf.real()));
            parts.push((format!("{path}{dot}im"), leaf.imag()));
        } else {
            parts.push((path.to_owned(), leaf.clone()));
        }
    }
    parts.into_iter().collect()
}

/// Joins the parts of [`split`].
fn join(parts: &Leaves, like: &Leaves) -> Leaves {
    let mut parts = parts.values().iter();
    let mut next = || parts.next().expect("one part for every real leaf, two for a complex one");
    like.map(|leaf| match leaf.dtype().is_complex() {
        true => {
            let re = next().clone();
            complex(re, next())
        }
        false => next().clone(),
    })
}

impl GradientTransformation for SplitComplex {
    type State = SplitState;

    fn init(&self, parameters: &Leaves) -> SplitState {
        SplitState { inner: self.inner.init(&split(parameters)) }
    }

    fn update(
        &self,
        updates: Leaves,
        state: SplitState,
        args: &UpdateArgs<'_>,
    ) -> (Leaves, SplitState) {
        let (parts, parameters) = (split(&updates), split(args.parameters()));
        let (steps, inner) = args.update_inner_at(&self.inner, &parts, &state.inner, &parameters);
        (join(&steps, &updates), SplitState { inner })
    }
}
