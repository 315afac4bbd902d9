//! What a client asks of the sampler, and the checked form of it.

use thiserror::Error;

use crate::Token;

/// Below this temperature sampling is greedy.
const GREEDY_BELOW: f64 = 1e-6;

/// Sampling parameters as a client writes them: unchecked, in the widest types.
///
/// The default is what the native API uses for absent fields.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// Most tokens to generate; `None` means until the context ends.
    pub max_new_tokens: Option<i64>,
    /// End tokens are suppressed until this many tokens exist.
    pub min_new_tokens: i64,
    /// Divides the logits; 0 means greedy.
    pub temperature: f64,
    /// Keeps the smallest set of tokens with this total probability.
    pub top_p: f64,
    /// Keeps this many tokens; −1 keeps all.
    pub top_k: i64,
    /// Keeps tokens at least this likely relative to the likeliest.
    pub min_p: f64,
    /// Subtracted from a logit for each time its token was generated.
    pub frequency_penalty: f64,
    /// Subtracted from a logit once if its token was generated.
    pub presence_penalty: f64,
    /// Divides positive and multiplies negative logits of tokens seen before.
    pub repetition_penalty: f64,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(i64, f64)>,
    /// Tokens that end the output besides the model's own end tokens.
    pub stop_token_ids: Vec<i64>,
    /// Neither end tokens nor `stop_token_ids` end the output.
    pub ignore_eos: bool,
    /// Fixes the random numbers of this request.
    pub seed: Option<u64>,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            max_new_tokens: Some(128),
            min_new_tokens: 0,
            temperature: 1.0,
            top_p: 1.0,
            top_k: -1,
            min_p: 0.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            seed: None,
        }
    }
}

/// A parameter is out of range; the texts are the ones SGLang's clients match.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SamplingError {
    /// `temperature` is negative or not a number.
    #[error("temperature must be non-negative, got {0:?}.")]
    Temperature(f64),
    /// `top_p` is outside (0, 1].
    #[error("top_p must be in (0, 1], got {0:?}.")]
    TopP(f64),
    /// `min_p` is outside [0, 1].
    #[error("min_p must be in [0, 1], got {0:?}.")]
    MinP(f64),
    /// `top_k` is neither −1 nor positive.
    #[error("top_k must be -1 (disable) or at least 1, got {0}.")]
    TopK(i64),
    /// `frequency_penalty` is outside [−2, 2].
    #[error("frequency_penalty must be in [-2, 2], got {0:?}.")]
    FrequencyPenalty(f64),
    /// `presence_penalty` is outside [−2, 2].
    #[error("presence_penalty must be in [-2, 2], got {0:?}.")]
    PresencePenalty(f64),
    /// `repetition_penalty` is outside [0, 2].
    #[error("repetition_penalty must be in [0, 2], got {0:?}.")]
    RepetitionPenalty(f64),
    /// `min_new_tokens` is negative.
    #[error("min_new_tokens must be in [0, max_new_tokens], got {0}.")]
    MinNewTokens(i64),
    /// `max_new_tokens` is negative.
    #[error("max_new_tokens must be at least 0, got {0}.")]
    MaxNewTokens(i64),
    /// `min_new_tokens` exceeds `max_new_tokens`.
    #[error("min_new_tokens must be in [0, max_new_tokens({max})], got {min}.")]
    MinAboveMax {
        /// `min_new_tokens` as given.
        min: i64,
        /// `max_new_tokens` as given.
        max: i64,
    },
    /// A key of `logit_bias` is no token.
    #[error("logit_bias must has keys in [0, {last}], got {token}.")]
    LogitBiasToken {
        /// The key as given.
        token: i64,
        /// The largest token of the vocabulary.
        last: i64,
    },
    /// A value of `logit_bias` is not a finite number.
    #[error("logit_bias must have finite values, got {bias:?} for {token}.")]
    LogitBiasValue {
        /// The token it was given for.
        token: i64,
        /// The value as given.
        bias: f64,
    },
}

/// Sampling parameters that were checked against a vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Most tokens to generate; `None` means until the context ends.
    pub max_new_tokens: Option<u32>,
    /// End tokens are suppressed until this many tokens exist.
    pub min_new_tokens: u32,
    /// Divides the logits; positive. Greedy parameters have 1 here and `top_k` 1.
    pub temperature: f32,
    /// Keeps this many tokens; `None` keeps all.
    pub top_k: Option<u32>,
    /// Keeps the smallest set of tokens with this total probability.
    pub top_p: f32,
    /// Keeps tokens at least this likely relative to the likeliest.
    pub min_p: f32,
    /// Subtracted from a logit for each time its token was generated.
    pub frequency_penalty: f32,
    /// Subtracted from a logit once if its token was generated.
    pub presence_penalty: f32,
    /// Divides positive and multiplies negative logits of tokens seen before.
    pub repetition_penalty: f32,
    /// Added to the logits of single tokens.
    pub logit_bias: Vec<(Token, f32)>,
    /// Tokens that end the output besides the model's own end tokens.
    pub stop_token_ids: Vec<Token>,
    /// Neither end tokens nor `stop_token_ids` end the output.
    pub ignore_eos: bool,
    /// Fixes the random numbers of this request.
    pub seed: Option<u64>,
}

impl SamplingParams {
    /// Checks `options` for a model of `vocab_size` tokens.
    ///
    /// Stop tokens outside the vocabulary can never be sampled and are dropped.
    pub fn new(options: &SamplingOptions, vocab_size: u32) -> Result<Self, SamplingError> {
        check_ranges(options)?;
        check_lengths(options)?;
        let greedy = options.temperature < GREEDY_BELOW;
        Ok(Self {
            max_new_tokens: options.max_new_tokens.map(clamp_count),
            min_new_tokens: clamp_count(options.min_new_tokens),
            temperature: if greedy {
                1.0
            } else {
                options.temperature as f32
            },
            top_k: if greedy {
                Some(1)
            } else {
                (options.top_k > 0).then(|| clamp_count(options.top_k))
            },
            top_p: options.top_p as f32,
            min_p: options.min_p as f32,
            frequency_penalty: options.frequency_penalty as f32,
            presence_penalty: options.presence_penalty as f32,
            repetition_penalty: options.repetition_penalty as f32,
            logit_bias: check_bias(&options.logit_bias, vocab_size)?,
            stop_token_ids: options
                .stop_token_ids
                .iter()
                .filter_map(|&token| in_vocabulary(token, vocab_size))
                .collect(),
            ignore_eos: options.ignore_eos,
            seed: options.seed,
        })
    }

    /// Greedy parameters that generate `max_new_tokens`.
    pub fn greedy(max_new_tokens: u32) -> Self {
        let options = SamplingOptions {
            max_new_tokens: Some(i64::from(max_new_tokens)),
            temperature: 0.0,
            ..SamplingOptions::default()
        };
        Self::new(&options, u32::MAX).expect("greedy options are in range")
    }

    /// Whether the likeliest token is always taken.
    pub fn is_greedy(&self) -> bool {
        self.top_k == Some(1)
    }

    /// Whether logits depend on the tokens seen before.
    pub fn has_penalties(&self) -> bool {
        self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
            || (self.repetition_penalty - 1.0).abs() > f32::EPSILON
    }
}

fn check_ranges(options: &SamplingOptions) -> Result<(), SamplingError> {
    if !(options.temperature >= 0.0 && options.temperature.is_finite()) {
        return Err(SamplingError::Temperature(options.temperature));
    }
    if !(options.top_p > 0.0 && options.top_p <= 1.0) {
        return Err(SamplingError::TopP(options.top_p));
    }
    if !(0.0..=1.0).contains(&options.min_p) {
        return Err(SamplingError::MinP(options.min_p));
    }
    if options.top_k < 1 && options.top_k != -1 {
        return Err(SamplingError::TopK(options.top_k));
    }
    if !(-2.0..=2.0).contains(&options.frequency_penalty) {
        return Err(SamplingError::FrequencyPenalty(options.frequency_penalty));
    }
    if !(-2.0..=2.0).contains(&options.presence_penalty) {
        return Err(SamplingError::PresencePenalty(options.presence_penalty));
    }
    if !(0.0..=2.0).contains(&options.repetition_penalty) {
        return Err(SamplingError::RepetitionPenalty(options.repetition_penalty));
    }
    Ok(())
}

fn check_lengths(options: &SamplingOptions) -> Result<(), SamplingError> {
    let min = options.min_new_tokens;
    if min < 0 {
        return Err(SamplingError::MinNewTokens(min));
    }
    match options.max_new_tokens {
        Some(max) if max < 0 => Err(SamplingError::MaxNewTokens(max)),
        Some(max) if min > max => Err(SamplingError::MinAboveMax { min, max }),
        _ => Ok(()),
    }
}

fn check_bias(
    logit_bias: &[(i64, f64)],
    vocab_size: u32,
) -> Result<Vec<(Token, f32)>, SamplingError> {
    let last = i64::from(vocab_size) - 1;
    let check = |&(token, bias): &(i64, f64)| {
        let known = in_vocabulary(token, vocab_size)
            .ok_or(SamplingError::LogitBiasToken { token, last })?;
        if !(bias as f32).is_finite() {
            return Err(SamplingError::LogitBiasValue { token, bias });
        }
        Ok((known, bias as f32))
    };
    logit_bias.iter().map(check).collect()
}

fn in_vocabulary(token: i64, vocab_size: u32) -> Option<Token> {
    Token::try_from(token)
        .ok()
        .filter(|&token| token < vocab_size)
}

fn clamp_count(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut SamplingOptions);

    fn message(change: impl FnOnce(&mut SamplingOptions)) -> String {
        let mut options = SamplingOptions::default();
        change(&mut options);
        match SamplingParams::new(&options, 100) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_read_as_sglang_writes_them() {
        let cases: &[(Change, &str)] = &[
            (
                |o| o.temperature = -0.5,
                "temperature must be non-negative, got -0.5.",
            ),
            (|o| o.top_p = 0.0, "top_p must be in (0, 1], got 0.0."),
            (|o| o.top_p = 1.5, "top_p must be in (0, 1], got 1.5."),
            (|o| o.top_p = f64::NAN, "top_p must be in (0, 1], got NaN."),
            (|o| o.min_p = -1.0, "min_p must be in [0, 1], got -1.0."),
            (
                |o| o.top_k = 0,
                "top_k must be -1 (disable) or at least 1, got 0.",
            ),
            (
                |o| o.top_k = -2,
                "top_k must be -1 (disable) or at least 1, got -2.",
            ),
            (
                |o| o.frequency_penalty = 2.1,
                "frequency_penalty must be in [-2, 2], got 2.1.",
            ),
            (
                |o| o.presence_penalty = -3.0,
                "presence_penalty must be in [-2, 2], got -3.0.",
            ),
            (
                |o| o.repetition_penalty = 2.5,
                "repetition_penalty must be in [0, 2], got 2.5.",
            ),
            (
                |o| o.min_new_tokens = -1,
                "min_new_tokens must be in [0, max_new_tokens], got -1.",
            ),
            (
                |o| o.max_new_tokens = Some(-1),
                "max_new_tokens must be at least 0, got -1.",
            ),
            (
                |o| o.min_new_tokens = 200,
                "min_new_tokens must be in [0, max_new_tokens(128)], got 200.",
            ),
            (
                |o| o.logit_bias = vec![(100, 1.0)],
                "logit_bias must has keys in [0, 99], got 100.",
            ),
            (
                |o| o.logit_bias = vec![(1, f64::INFINITY)],
                "logit_bias must have finite values, got inf for 1.",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(message(change), *expected);
        }
    }

    #[test]
    fn the_edges_of_every_range_are_accepted() {
        let cases: &[Change] = &[
            |o| o.temperature = 0.0,
            |o| o.top_p = 1.0,
            |o| o.min_p = 1.0,
            |o| o.top_k = 1,
            |o| o.frequency_penalty = -2.0,
            |o| o.presence_penalty = 2.0,
            |o| o.repetition_penalty = 0.0,
            |o| o.max_new_tokens = Some(0),
            |o| o.max_new_tokens = Some(i64::MAX),
            |o| o.max_new_tokens = None,
            |o| o.logit_bias = vec![(0, -100.0), (99, 100.0)],
            |o| o.stop_token_ids = vec![-1, 5, 100],
        ];
        for change in cases {
            assert_eq!(message(change), "accepted");
        }
    }

    #[test]
    fn a_temperature_near_zero_is_greedy() {
        let params = |temperature| {
            let options = SamplingOptions {
                temperature,
                ..SamplingOptions::default()
            };
            SamplingParams::new(&options, 100).unwrap()
        };
        assert!(params(0.0).is_greedy());
        assert!(params(9e-7).is_greedy());
        assert!(!params(1e-6).is_greedy());
        assert!(!params(1.0).is_greedy());
    }

    #[test]
    fn stop_tokens_outside_the_vocabulary_are_dropped() {
        let options = SamplingOptions {
            stop_token_ids: vec![-1, 5, 100],
            ..SamplingOptions::default()
        };
        assert_eq!(
            SamplingParams::new(&options, 100).unwrap().stop_token_ids,
            [5]
        );
    }
}
