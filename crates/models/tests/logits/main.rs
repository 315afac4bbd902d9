//! Logits and greedy tokens of tiny models equal those that `reference/make_goldens.py` wrote, on every host device.

mod tiny;
mod wanted;
