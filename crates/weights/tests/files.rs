//! Files that the formats' own libraries wrote, compared with the arrays as those libraries read
//! them. `python-compat/weight_files.py` records them.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

mod files {
    mod flax;
    mod fuzz;
    mod gguf;
    mod mutation;
    mod numpy;
    mod orbax;
    mod pytorch;
    mod recorded;
    mod safetensors;
}
