//! Systems of equations whose matrix is sparse or a function.

pub mod linalg;
