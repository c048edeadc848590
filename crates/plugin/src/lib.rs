//! Finds and installs PJRT plugins.
