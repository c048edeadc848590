//! Trees with leaves from [`numbers`].

use super::numbers;
use anyhow::Result;
use oxidax::prelude::*;

/// Returns a tree of the types of `new`, with leaves from [`numbers::leaf`].
pub fn tree<T: Tree>(new: impl Fn(random::Key) -> T + 'static) -> Result<T> {
    let types = eval_shape(new, random::Key::of_type())?;
    let mut failed = None;
    let drawn = tree::map_with_path(&types, |path, of_type| {
        let values = numbers::leaf(path, of_type.shape());
        Array::from_slice(&values, of_type.shape()).unwrap_or_else(|error| {
            failed.get_or_insert(error);
            of_type.clone()
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(drawn),
    }
}
