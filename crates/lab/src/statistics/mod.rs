//! What samples allow to be said.
