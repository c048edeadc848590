//! oxidax
#![forbid(unsafe_code)]
