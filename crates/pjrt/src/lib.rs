//! Safe access to PJRT plugins.
