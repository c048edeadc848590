//! `examples/parallel` on eight CPU devices: the numbers of one device, the collectives that were meant and no others, and
//! as many bytes on each device as the rules say.

mod collectives;
mod recipes;
