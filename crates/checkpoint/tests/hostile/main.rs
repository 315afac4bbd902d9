//! Broken and hostile files end in an error: no panic, no endless loop, no allocation of what they claim.

mod allocator;
mod files;
mod gguf;
mod index;
mod mutate;
mod safetensors;
