//! Tiny models, fakes and goldens for tests.
