//! Loading refuses checkpoints that do not fit their model, and brings the rest into formats that a device takes.

mod complaints;
mod devices;
mod dummy;
mod float8;
mod narrow;
mod streamed;
mod weights;
