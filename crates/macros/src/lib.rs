//! Derive macros of oxidax.
