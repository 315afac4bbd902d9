//! Which files of a repository make a model.

use crate::error::HubError;
use crate::obtain::Part;
use crate::reference::{HubId, is_name};

/// The file that says which shard holds which weight.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Small files that are taken when they are there.
const COMPANIONS: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
];

/// The files to fetch and the one to open; `main` is empty when the folder is the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub files: Vec<String>,
    pub main: String,
}

/// Chooses among the repository's files; odd names are never chosen.
pub(crate) fn select(id: &HubId, part: Part, listing: &[String]) -> Result<Selection, HubError> {
    let safe: Vec<&str> = listing
        .iter()
        .map(String::as_str)
        .filter(|name| name.split('/').all(is_name))
        .collect();
    let companions = || {
        owned(
            safe.iter()
                .copied()
                .filter(|name| COMPANIONS.contains(name)),
        )
    };
    if part == Part::Text && safe.contains(&"tokenizer.json") {
        return Ok(Selection {
            files: companions(),
            main: String::new(),
        });
    }
    let gguf: Vec<&str> = safe
        .iter()
        .copied()
        .filter(|name| has_extension(name, "gguf"))
        .collect();
    let safetensors = weights_in_safetensors(&safe);
    if id.file.is_some() || (safetensors.is_empty() && !gguf.is_empty()) {
        return select_gguf(id, &gguf);
    }
    if safetensors.is_empty() {
        return Err(HubError::NoWeights { id: id.to_string() });
    }
    let mut files = companions();
    files.extend(owned(safetensors));
    Ok(Selection {
        files,
        main: String::new(),
    })
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(_, end)| end == extension)
}

/// The index with its shards, or the single file; other layouts beside them are left alone.
fn weights_in_safetensors<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let top = names.iter().copied().filter(|name| !name.contains('/'));
    let weights: Vec<&str> = top
        .filter(|name| has_extension(name, "safetensors"))
        .collect();
    let sharded = names.contains(&INDEX);
    let single = weights.contains(&"model.safetensors") && !sharded;
    let mut chosen: Vec<&str> = weights
        .into_iter()
        .filter(|name| !single || *name == "model.safetensors")
        .filter(|name| !sharded || name.starts_with("model-"))
        .collect();
    if sharded {
        chosen.push(INDEX);
    }
    chosen
}

fn select_gguf(id: &HubId, gguf: &[&str]) -> Result<Selection, HubError> {
    let wanted = id.file.as_deref().unwrap_or_default();
    let exact: Vec<&str> = gguf
        .iter()
        .copied()
        .filter(|name| *name == wanted)
        .collect();
    let lower = wanted.to_lowercase();
    let partly = gguf
        .iter()
        .copied()
        .filter(|name| name.to_lowercase().contains(&lower));
    let matching = if exact.is_empty() {
        partly.collect()
    } else {
        exact
    };
    match matching.as_slice() {
        [file] => Ok(Selection {
            files: owned([*file]),
            main: (*file).to_owned(),
        }),
        [] => Err(HubError::NoSuchFile {
            id: id.repository.clone(),
            file: wanted.to_owned(),
            files: owned(gguf.iter().copied()),
        }),
        [first, ..] => Err(HubError::ChooseOne {
            place: id.repository.clone(),
            example: format!("{}:{first}", id.repository),
            files: owned(matching.iter().copied()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select_from(file: Option<&str>, listing: &[&str]) -> Result<String, String> {
        let file = file.map(str::to_owned);
        let id = HubId {
            repository: "a/b".into(),
            revision: "main".into(),
            file,
        };
        select(&id, Part::Whole, &owned(listing.iter().copied()))
            .map(|chosen| format!("{} -> {}", chosen.files.join(" "), chosen.main))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_is_its_small_files_and_one_set_of_weights() {
        let cases: [(Option<&str>, &[&str], &str); 6] = [
            (
                None,
                &[
                    "README.md",
                    "config.json",
                    "tokenizer.json",
                    "model.safetensors",
                    "pytorch_model.bin",
                ],
                "config.json tokenizer.json model.safetensors -> ",
            ),
            (
                None,
                &[
                    "config.json",
                    "model-1.safetensors",
                    INDEX,
                    "consolidated.safetensors",
                ],
                "config.json model-1.safetensors model.safetensors.index.json -> ",
            ),
            (
                None,
                &["config.json", "x.safetensors", "original/y.safetensors"],
                "config.json x.safetensors -> ",
            ),
            (
                None,
                &["config.json", "only.gguf"],
                "only.gguf -> only.gguf",
            ),
            (
                Some("q4_k_m"),
                &["m-Q4_K_M.gguf", "m-Q8_0.gguf"],
                "m-Q4_K_M.gguf -> m-Q4_K_M.gguf",
            ),
            (
                Some("m.gguf"),
                &["m.gguf", "x-m.gguf", "model.safetensors"],
                "m.gguf -> m.gguf",
            ),
        ];
        for (file, listing, expected) in cases {
            assert_eq!(
                select_from(file, listing).as_deref(),
                Ok(expected),
                "{listing:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_chosen_is_said_with_the_candidates() {
        let cases: [(Option<&str>, &[&str], &str); 4] = [
            (
                None,
                &["README.md", "pytorch_model.bin"],
                "a/b holds neither safetensors nor .gguf weights",
            ),
            (
                None,
                &["../x.safetensors", "/y.gguf"],
                "a/b holds neither safetensors nor .gguf weights",
            ),
            (
                None,
                &["a-Q4.gguf", "a-Q8.gguf"],
                "a/b holds several .gguf files, choose one as a/b:a-Q4.gguf: a-Q4.gguf, a-Q8.gguf",
            ),
            (
                Some("Q2"),
                &["a-Q4.gguf"],
                "a/b has no file Q2; it has a-Q4.gguf",
            ),
        ];
        for (file, listing, expected) in cases {
            assert_eq!(
                select_from(file, listing),
                Err(expected.to_owned()),
                "{listing:?}"
            );
        }
    }
}
