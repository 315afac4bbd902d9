//! Whole steps of a tiny model: what they compute of prompts and of generating rows, and what they leave out.

mod served;
mod wanted;
