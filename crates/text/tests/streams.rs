//! Properties of text that arrives in pieces.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod shared;

use proptest::prelude::*;
use text::{Detokenizer, StopStrings, Tokenizer};

fn streamed(tokenizer: &Tokenizer, ids: &[u32], skip_special: bool) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer, skip_special);
    let mut text = String::new();
    for id in ids {
        text.push_str(detokenizer.push(*id));
    }
    text.push_str(detokenizer.flush());
    text
}

#[test]
fn pieces_of_any_ids_join_to_the_whole_text() {
    let mut dice = shared::Dice(7);
    for name in ["qwen_like", "smollm_like", "llama_like"] {
        let tokenizer = shared::tiny(name);
        for round in 0..600 {
            let ids: Vec<u32> = (0..=dice.below(24))
                .map(|_| dice.below(tokenizer.vocab_size() + 3) as u32)
                .collect();
            let skip = round % 2 == 0;
            assert_eq!(
                streamed(&tokenizer, &ids, skip),
                tokenizer.decode(&ids, skip),
                "{name} {ids:?}"
            );
        }
    }
}

#[test]
fn pieces_of_encoded_texts_join_to_the_whole_text_in_every_vocabulary() {
    let golden = shared::golden("tokenizers.json");
    for entry in golden["tokenizers"].as_array().unwrap() {
        let tokenizer = shared::tiny(entry["name"].as_str().unwrap());
        for text in golden["texts"].as_array().unwrap() {
            let ids = tokenizer.encode(text.as_str().unwrap(), true).unwrap();
            for skip in [true, false] {
                let whole = tokenizer.decode(&ids, skip);
                assert_eq!(
                    streamed(&tokenizer, &ids, skip),
                    whole,
                    "{} {text}",
                    entry["name"]
                );
            }
        }
    }
}

#[test]
fn a_split_character_is_said_once_it_is_whole() {
    let tokenizer = shared::tiny("qwen_like");
    let ids = tokenizer.encode("가🦆", false).unwrap();
    assert!(
        ids.len() > 4,
        "the vocabulary must not know these characters"
    );
    let mut detokenizer = Detokenizer::new(&tokenizer, true);
    let pieces: Vec<String> = ids
        .iter()
        .map(|id| detokenizer.push(*id).to_owned())
        .collect();
    assert!(
        pieces.iter().all(|piece| !piece.contains('\u{fffd}')),
        "{pieces:?}"
    );
    assert_eq!(pieces.concat(), "가🦆");
    let mut cut = Detokenizer::new(&tokenizer, true);
    let said: String = ids[..ids.len() - 1]
        .iter()
        .map(|id| cut.push(*id).to_owned())
        .collect();
    assert_eq!(said + cut.flush(), "가\u{fffd}");
}

#[test]
fn text_behind_a_prompt_keeps_its_leading_space_and_unfinished_characters() {
    let tokenizer = shared::tiny("llama_like");
    let whole = tokenizer.encode("fast birds of é", false).unwrap();
    for cut in 1..whole.len() {
        let (prompt, output) = whole.split_at(cut);
        let mut detokenizer = Detokenizer::after_prompt(&tokenizer, true, prompt);
        let said: String = output
            .iter()
            .map(|id| detokenizer.push(*id).to_owned())
            .collect();
        let mut before = Detokenizer::new(&tokenizer, true);
        let prompt: String = prompt
            .iter()
            .map(|id| before.push(*id).to_owned())
            .collect();
        assert_eq!(prompt + &said, "fast birds of é", "cut at {cut}");
    }
}

/// Feeds a text in pieces of the lengths given and returns what was said and what matched.
fn searched(
    stops: &[String],
    keep: bool,
    text: &str,
    lengths: &[usize],
) -> (String, Option<String>) {
    let mut search = StopStrings::new(stops.to_vec(), keep);
    let (mut said, mut matched, mut taken) = (String::new(), None, String::new());
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    let mut lengths = lengths.iter().cycle();
    while at < characters.len() && matched.is_none() {
        let end = characters.len().min(at + lengths.next().unwrap());
        let piece: String = characters[at..end].iter().collect();
        at = end;
        taken.push_str(&piece);
        let outcome = search.push(&piece);
        said.push_str(&outcome.emit);
        matched = outcome.matched;
        if matched.is_none() {
            assert_eq!(
                said.clone() + search.held(),
                taken,
                "nothing is lost or made up"
            );
        }
    }
    said.push_str(&search.flush());
    (said, matched)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stop_strings_do_not_depend_on_how_the_text_is_cut(
        text in "[abé\n]{0,24}",
        stops in prop::collection::vec("[abé\n]{1,4}", 0..4),
        lengths in prop::collection::vec(1_usize..6, 1..6),
        keep in any::<bool>(),
    ) {
        let (said, matched) = searched(&stops, keep, &text, &lengths);
        prop_assert_eq!((said.clone(), matched.clone()), searched(&stops, keep, &text, &[1]));
        match matched {
            None => {
                prop_assert_eq!(&said, &text);
                prop_assert!(stops.iter().all(|stop| !text.contains(stop.as_str())));
            }
            Some(stop) => {
                let whole = if keep { said.clone() } else { said.clone() + &stop };
                prop_assert!(text.starts_with(&whole));
                let before = if keep { &said[..said.len() - stop.len()] } else { &said };
                prop_assert!(stops.iter().all(|stop| !before.contains(stop.as_str())));
            }
        }
    }
}
