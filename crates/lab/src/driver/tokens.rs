//! Counting the tokens of the texts that came back.

use super::LoadResult;
use crate::Tokenizers;
use crate::run::SubjectFacts;

/// The figure of the tokens that the texts have.
pub(crate) const RETOKENISED: &str = "total_output_tokens_retokenized";

/// The names under which the tokenizer of a load may be had: the client's own, then the server's.
pub(crate) fn tokenizer_names(words: &[String], subject: &SubjectFacts) -> Vec<String> {
    let given = ["--tokenizer", "--model"].iter().filter_map(|flag| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).cloned()
    });
    let info = subject.info.as_ref();
    let said = ["tokenizer_path", "model_path"]
        .iter()
        .filter_map(|name| info?.get(name)?.as_str().map(str::to_owned));
    given.chain(said).collect()
}

/// The tokens of the texts of a load, counted again; nothing when the client did so itself or no
/// texts or tokenizer are there.
pub(crate) fn retokenised(
    result: &LoadResult,
    names: &[String],
    tokenizers: Tokenizers<'_>,
) -> Option<usize> {
    let good = || result.records.iter().filter(|record| record.succeeded());
    let kept = good().any(|record| !record.text.is_empty());
    if !kept || result.figures.get(RETOKENISED).is_some() {
        return None;
    }
    let vocabulary = names.iter().find_map(|name| tokenizers(name).ok())?;
    Some(good().map(|record| vocabulary.count(&record.text)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_tokenizer_goes_before_the_servers() {
        let words = ["bench", "--model", "m", "--tokenizer", "t"].map(str::to_owned);
        let subject = SubjectFacts {
            info: Some(serde_json::json!({ "model_path": "served", "port": 1 })),
            ..SubjectFacts::default()
        };
        assert_eq!(tokenizer_names(&words, &subject), ["t", "m", "served"]);
        assert_eq!(tokenizer_names(&[], &SubjectFacts::default()), [""; 0]);
    }
}
