//! What the clients ask for, and what they hold against the answers.

use std::time::Instant;

use crate::client::Server;

/// Token ids below this are in every vocabulary that is worth a soak.
const VOCABULARY: u64 = 20_000;
/// Prompts that several requests have in common, so that prefixes are found again.
const SHARED: u64 = 16;

/// The mix of requests.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// The share of requests that are left before they end.
    pub(crate) cancel: f64,
    pub(crate) longest_input: u64,
    pub(crate) longest_output: u64,
    pub(crate) seed: u64,
}

/// What became of the requests.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) whole: u64,
    pub(crate) cancelled: u64,
    pub(crate) tokens: u64,
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.whole += other.whole;
        self.cancelled += other.cancelled;
        self.tokens += other.tokens;
        self.wrong.extend(other.wrong);
    }
}

impl Load {
    /// A prompt of so many tokens; equal numbers give equal prompts.
    pub(crate) fn prompt(self, number: u64, length: u64) -> Vec<u32> {
        let mut dice = Dice(mix(self.seed ^ number << 8));
        (0..length).map(|_| dice.below(VOCABULARY) as u32).collect()
    }

    /// One client: a request after the other, until the end.
    pub(crate) fn run(self, server: Server, client: u64, end: Instant) -> Tally {
        let mut dice = Dice(mix(self.seed.wrapping_add(1 + client)));
        let mut tally = Tally::default();
        while Instant::now() < end && tally.wrong.len() < 4 {
            if let Err(error) = self.one(server, &mut dice, &mut tally) {
                tally.wrong.push(format!("client {client}: {error:#}"));
            }
        }
        tally
    }

    fn one(self, server: Server, dice: &mut Dice, tally: &mut Tally) -> anyhow::Result<()> {
        let input = 1 + dice.below(self.longest_input);
        let output = 1 + dice.below(self.longest_output) as u32;
        let shared = dice.below(2) == 0;
        let number = if shared {
            dice.below(SHARED)
        } else {
            dice.next()
        };
        let prompt = self.prompt(number, input);
        if dice.unit() < self.cancel {
            let leave = 1 + dice.below(u64::from(output));
            let answer = server.generate(&prompt, output, Some(leave))?;
            tally.cancelled += 1;
            tally.tokens += answer.tokens.len() as u64;
            return Ok(());
        }
        let answer = server.generate(&prompt, output, None)?;
        tally.whole += 1;
        tally.tokens += answer.tokens.len() as u64;
        let facts = answer.facts.unwrap_or_default();
        let as_promised = answer.tokens.len() == output as usize
            && facts["completion_tokens"] == u64::from(output)
            && facts["prompt_tokens"] == input
            && facts["finish_reason"]["type"] == "length";
        if !as_promised {
            let tokens = answer.tokens.len();
            tally.wrong.push(format!(
                "{input} tokens in and {output} out became {tokens} out with {facts}"
            ));
        }
        Ok(())
    }
}

/// Random numbers, equal for equal seeds.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads a counter over all bits.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
