//! How a text is cut before merging, for the pre-tokenizer names that GGUF files use.
//!
//! GGUF keeps only a name; the patterns are those of the tokenizers these models were published with.

use tokenizers::normalizers::{NFC, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use super::TokenizerError;
use super::error::guarded;

/// One cut, applied to every piece that the cuts before it left.
enum Cut {
    /// Matches become pieces of their own, and so does what lies between them.
    Pattern(&'static str),
    /// Every digit becomes a piece.
    EachDigit,
    /// The words, numbers, signs and spaces of GPT-2.
    Gpt2,
}

/// What a pre-tokenizer name stands for.
pub(super) struct PreRule {
    names: &'static [&'static str],
    cuts: &'static [Cut],
    /// The text is composed to NFC first.
    compose: bool,
    /// A piece that is a token as a whole is not built from merges.
    pub(super) ignore_merges: bool,
    /// Whether a text begins with the bos token when the file does not say.
    pub(super) add_bos: bool,
}

const PLAIN: PreRule = PreRule {
    names: &[],
    cuts: &[],
    compose: false,
    ignore_merges: false,
    add_bos: false,
};

const LLAMA3: Cut = Cut::Pattern(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2: Cut = Cut::Pattern(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN35: Cut = Cut::Pattern(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const GPT4O: Cut = Cut::Pattern(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const TEKKEN: Cut = Cut::Pattern(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const DEEPSEEK_CJK: Cut = Cut::Pattern("[一-龥\u{800}-一가-\u{d7ff}]+");
const DEEPSEEK_V3_WORDS: Cut = Cut::Pattern(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
);
/// Letters of the scripts that have two cases.
const DEEPSEEK_LLM_WORDS: Cut = Cut::Pattern(concat!(
    r"\s?[",
    r"A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}",
    r"\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}",
    r"\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}",
    r"\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}",
    r"\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}",
    r"\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}",
    r"\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}",
    r"\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}",
    r"\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}",
    r"\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}",
    r"\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}",
    r"\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}",
    r"\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}",
    r"\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}",
    r"\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}",
    r"\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}",
    r"]+",
));
const BLOOM: Cut = Cut::Pattern(r" ?[^(\s|.,!?…。，、।۔،)]+");

const RULES: &[PreRule] = &[
    PreRule {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "gigachat",
            "a.x-4.0",
            "mellum",
        ],
        cuts: &[Cut::Gpt2],
        ..PLAIN
    },
    PreRule {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        cuts: &[Cut::EachDigit, Cut::Gpt2],
        ..PLAIN
    },
    PreRule {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
        ],
        cuts: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    PreRule {
        names: &["glm4", "glm5"],
        cuts: &[LLAMA3],
        ignore_merges: true,
        ..PLAIN
    },
    PreRule {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe"],
        cuts: &[LLAMA3],
        ..PLAIN
    },
    PreRule {
        names: &["qwen2", "deepseek-r1-qwen", "megrez"],
        cuts: &[QWEN2],
        compose: true,
        ..PLAIN
    },
    PreRule {
        names: &["stablelm2", "hunyuan", "solar-open", "grok-2"],
        cuts: &[QWEN2],
        ..PLAIN
    },
    PreRule {
        names: &["qwen35"],
        cuts: &[QWEN35],
        compose: true,
        ..PLAIN
    },
    PreRule {
        names: &["deepseek-llm"],
        cuts: &[
            Cut::Pattern(r"[\r\n]"),
            DEEPSEEK_LLM_WORDS,
            Cut::Pattern(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            Cut::Pattern(r"\s+$"),
            DEEPSEEK_CJK,
            Cut::EachDigit,
        ],
        ..PLAIN
    },
    PreRule {
        names: &["deepseek-coder"],
        cuts: &[
            Cut::Pattern(r"[\r\n]"),
            Cut::Pattern(r"\s?\p{L}+"),
            Cut::Pattern(r"\s?\p{P}+"),
            DEEPSEEK_CJK,
            Cut::EachDigit,
        ],
        ..PLAIN
    },
    PreRule {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        cuts: &[
            Cut::Pattern(r"\p{N}{1,3}"),
            Cut::Pattern("[一-龥\u{3040}-ゟ゠-ヿ]+"),
            DEEPSEEK_V3_WORDS,
        ],
        ..PLAIN
    },
    PreRule {
        names: &["falcon"],
        cuts: &[
            Cut::Pattern(r"[\p{P}\$\+<=>\^~\|`]+"),
            Cut::Gpt2,
            Cut::Pattern("[0-9][0-9][0-9]"),
        ],
        ..PLAIN
    },
    PreRule {
        names: &["bloom", "poro-chat", "gpt3-finnish"],
        cuts: &[BLOOM],
        ..PLAIN
    },
    PreRule {
        names: &["viking"],
        cuts: &[BLOOM, Cut::EachDigit],
        ..PLAIN
    },
    PreRule {
        names: &["tekken"],
        cuts: &[TEKKEN],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    PreRule {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        cuts: &[GPT4O],
        ..PLAIN
    },
    PreRule {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        cuts: &[Cut::Pattern(
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        )],
        ..PLAIN
    },
    PreRule {
        names: &["seed-coder"],
        cuts: &[Cut::Pattern(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        )],
        ..PLAIN
    },
    PreRule {
        names: &["default"],
        cuts: &[
            Cut::Pattern(r"[\p{P}\$\+<=>\^~\|]+"),
            Cut::Gpt2,
            Cut::Pattern(r"\p{N}+"),
            Cut::Pattern("[0-9][0-9][0-9]"),
        ],
        ..PLAIN
    },
];

impl PreRule {
    /// The rule of a name, or an error that lists the names there are.
    pub(super) fn named(name: &str) -> Result<&'static Self, TokenizerError> {
        RULES
            .iter()
            .find(|rule| rule.names.contains(&name))
            .ok_or_else(|| {
                let known: Vec<&str> = RULES.iter().flat_map(|rule| rule.names).copied().collect();
                TokenizerError::UnknownPreTokenizer {
                    name: name.to_owned(),
                    known: known.join(", "),
                }
            })
    }

    pub(super) fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.compose.then_some(NormalizerWrapper::NFC(NFC))
    }

    /// The cuts in order, and at the end the change to the byte alphabet.
    pub(super) fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper, TokenizerError> {
        let mut steps = Vec::with_capacity(self.cuts.len() + 1);
        for cut in self.cuts {
            steps.push(match cut {
                Cut::Pattern(pattern) => split(pattern)?,
                Cut::EachDigit => PreTokenizerWrapper::Digits(Digits::new(true)),
                Cut::Gpt2 => split(
                    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
                )?,
            });
        }
        steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(
            false, true, false,
        )));
        Ok(PreTokenizerWrapper::Sequence(Sequence::new(steps)))
    }
}

fn split(pattern: &str) -> Result<PreTokenizerWrapper, TokenizerError> {
    let pattern = SplitPattern::Regex(pattern.to_owned());
    let split = guarded(|| Split::new(pattern, SplitDelimiterBehavior::Isolated, false))?;
    Ok(PreTokenizerWrapper::Split(split))
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

    use super::*;

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let mut cut = PreTokenizedString::from(text);
        PreRule::named(name)
            .unwrap()
            .pre_tokenizer()
            .unwrap()
            .pre_tokenize(&mut cut)
            .unwrap();
        cut.get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .map(|(_, (start, end), _)| text[start..end].to_owned())
            .collect()
    }

    #[test]
    fn every_rule_compiles_and_no_name_is_taken_twice() {
        let mut names: Vec<&str> = RULES.iter().flat_map(|rule| rule.names).copied().collect();
        for rule in RULES {
            rule.pre_tokenizer().unwrap();
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn names_cut_texts_in_their_own_ways() {
        let text = "It's 12345 cafés\n\n  x!!";
        let table: &[(&str, &[&str])] = &[
            (
                "gpt-2",
                &["It", "'s", " 12345", " cafés", "\n\n ", " x", "!!"],
            ),
            (
                "smollm",
                &[
                    "It", "'s", " ", "1", "2", "3", "4", "5", " cafés", "\n\n ", " x", "!!",
                ],
            ),
            (
                "llama-bpe",
                &[
                    "It", "'s", " ", "123", "45", " cafés", "\n\n", " ", " x", "!!",
                ],
            ),
            (
                "qwen2",
                &[
                    "It", "'s", " ", "1", "2", "3", "4", "5", " cafés", "\n\n", " ", " x", "!!",
                ],
            ),
            (
                "deepseek-v3",
                &[
                    "It", "'s", " ", "123", "45", " cafés", "\n\n", " ", " x", "!!",
                ],
            ),
            (
                "gpt-4o",
                &["It's", " ", "123", "45", " cafés", "\n\n", " ", " x", "!!"],
            ),
            (
                "default",
                &[
                    "It", "'", "s", " ", "123", "45", " cafés", "\n\n ", " x", "!!",
                ],
            ),
        ];
        for (name, expected) in table {
            assert_eq!(pieces(name, text), *expected, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = PreRule::named("gpt-9").err().unwrap().to_string();
        assert!(error.starts_with("pre-tokenizer \"gpt-9\" is not known, known are gpt-2, "));
        assert!(error.contains("smollm") && error.contains("deepseek-v3"));
    }
}
