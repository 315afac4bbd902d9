//! Memory that ops read and write: element types, owned buffers, borrowed matrices and the scratch arena of a step.
//!
//! A [`View`] is to device memory what `&[T]` is to the heap, a [`ViewMut`] what `&mut [T]` is; the borrow checker proves
//! that an op does not read what it writes. This crate computes nothing, knows no device, and never allocates during a step.
#![allow(
    unsafe_code,
    reason = "views wrap raw addresses; every unsafe block is confined to this crate and the devices"
)]

mod buffer;
mod dtype;
pub mod float8;
mod scratch;
mod view;

pub use buffer::{Buffer, Place};
pub use dtype::{DType, Element};
pub use scratch::{Scope, Scratch};
pub use view::{View, ViewMut};
