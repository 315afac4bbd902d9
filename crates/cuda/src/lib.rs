//! The ops on NVIDIA GPUs, driver opened at run time.
