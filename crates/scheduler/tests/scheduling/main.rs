//! The scheduler against a device that checks every slot.

mod device;
mod laws;
mod policies;
mod priority;
mod properties;
mod served;
mod watch;
