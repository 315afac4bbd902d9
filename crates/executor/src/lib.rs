//! Turns plans into device work.
