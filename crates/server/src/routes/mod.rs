//! One file per group of endpoints.

pub(crate) mod admin;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod elsewhere;
pub(crate) mod generate;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod load;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod openapi;
pub(crate) mod parse;
pub(crate) mod profile;
pub(crate) mod tokenize;
