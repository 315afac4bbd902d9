//! What somebody may have meant by the name of a model that is not to be had.

use hub::source::wheel::PINNED;
use hub::{HubError, Store};

/// A name that is known here and close to `name`, where the error is about a name nobody knows.
pub(crate) fn suggest(error: &HubError, name: &str, store: &Store) -> Option<String> {
    let unknown = matches!(
        error,
        HubError::NotFound { .. }
            | HubError::Refused { .. }
            | HubError::Unreachable { .. }
            | HubError::Offline { .. }
            | HubError::BadReference { .. }
            | HubError::NoSuchPath { .. }
    );
    if !unknown {
        return None;
    }
    // a store that cannot be read has nothing to offer
    let stored = store.models().unwrap_or_default();
    let known = PINNED.iter().flat_map(|pin| {
        let aliases = pin.aliases.iter().map(|alias| (*alias, pin.name));
        std::iter::once((pin.name, pin.name)).chain(aliases)
    });
    let stored = stored.iter().map(|model| (&*model.name, &*model.name));
    nearest(name, &known.chain(stored).collect::<Vec<_>>())
}

/// The name behind the spelling that contains what was written or is contained in it, else behind the closest one.
fn nearest(name: &str, known: &[(&str, &str)]) -> Option<String> {
    let written = squeezed(name);
    let alike = |spelling: &str| {
        let spelling = squeezed(spelling);
        spelling.contains(&written) || written.contains(&spelling)
    };
    let contained = known
        .iter()
        .find(|(spelling, _)| written.len() > 2 && alike(spelling));
    let closest = || {
        let lone = name.rsplit('/').next().unwrap_or(name);
        let spellings = known.iter().map(|(spelling, _)| *spelling);
        let found = flags::nearest(name, spellings.clone());
        let found = found.or_else(|| flags::nearest(lone, spellings))?;
        known.iter().find(|(spelling, _)| *spelling == found)
    };
    let (_, meant) = contained.or_else(closest)?;
    Some((*meant).to_owned())
}

/// The last part of a name, without what spellings differ in.
fn squeezed(name: &str) -> String {
    let lone = name.rsplit('/').next().unwrap_or(name);
    lone.to_lowercase().replace(['-', '_', '.'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_of_the_store_and_known_aliases_are_found() {
        let known = [
            ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct"),
            ("default", "SmolLM2-135M-Instruct"),
            ("smollm2", "SmolLM2-135M-Instruct"),
            ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ];
        for (written, expected) in [
            ("smolm2", Some("SmolLM2-135M-Instruct")),
            ("defualt", Some("SmolLM2-135M-Instruct")),
            ("maker/SmolLM2-135M", Some("SmolLM2-135M-Instruct")),
            (
                "./SmolLM2-135M-Instruct.gguf",
                Some("SmolLM2-135M-Instruct"),
            ),
            ("qwen3-8b", Some("Qwen/Qwen3-8B")),
            ("Qwen/Qwen3-9B", Some("Qwen/Qwen3-8B")),
            ("meta-llama/Llama-3-70B", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, &known).as_deref(), expected, "{written}");
        }
    }
}
