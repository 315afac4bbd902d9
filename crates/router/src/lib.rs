//! Many servers behind one address.
