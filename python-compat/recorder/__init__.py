"""Records results of JAX that oxidax must reproduce. See README.md in the parent folder."""
