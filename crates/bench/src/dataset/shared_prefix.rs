//! Groups of prompts with a system prompt in common, made of random tokens.

use super::{Dataset, Prompt, Row, lengths, message};
use crate::put::put;
use crate::python_text;
use crate::random::{Pcg64, PythonRandom, Streams};
use crate::release::Release;
use crate::vocabulary::Vocabulary;

/// The shape of shared-prefix prompts.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPrefixRules {
    /// Groups.
    pub groups: usize,
    /// Prompts in each.
    pub per_group: usize,
    /// The longest system prompt.
    pub system: u64,
    /// The longest question.
    pub question: u64,
    /// The longest answer.
    pub output: u64,
    /// The share of those below which no length falls.
    pub share: f64,
    /// Questions per conversation.
    pub turns: usize,
    /// Whether prompt lengths are not counted but taken as one.
    pub uncounted: bool,
    /// Whether prompts stay in the order of their groups.
    pub ordered: bool,
    /// Whether prompts are sent as token ids.
    pub as_ids: bool,
    /// Groups are drawn with this Zipf exponent instead of filled in turn.
    pub zipf: Option<f64>,
    /// What routing keys begin with, when they are sent.
    pub routing: Option<String>,
    /// The seed of the run.
    pub seed: u32,
}

/// A drawn piece of prompt: its ids and their text.
struct Piece {
    ids: Vec<u32>,
    text: String,
}

impl Piece {
    fn draw(random: &mut PythonRandom, length: u64, vocabulary: &Vocabulary) -> Self {
        let ids = random.choices(vocabulary.ids(), length as usize);
        let text = vocabulary.decode(&ids);
        Self { ids, text }
    }

    fn length(&self, as_ids: bool, vocabulary: &Vocabulary) -> u64 {
        let ids = if as_ids {
            self.ids.len()
        } else {
            vocabulary.encode(&self.text).len()
        };
        ids as u64
    }
}

impl SharedPrefixRules {
    pub(super) fn load(
        &self,
        streams: &mut Streams,
        vocabulary: &Vocabulary,
        release: Release,
    ) -> Dataset {
        let total = self.groups * self.per_group;
        let mut draw = |full, count| lengths::draw(&mut streams.numpy, full, self.share, count);
        let system_lengths = draw(self.system, self.groups);
        let question_lengths = draw(self.question, total * self.turns);
        let output_lengths = draw(self.output, total);
        let mut piece = |length: &u64| Piece::draw(&mut streams.python, *length, vocabulary);
        let systems: Vec<Piece> = system_lengths.iter().map(&mut piece).collect();
        let questions: Vec<Piece> = question_lengths.iter().map(&mut piece).collect();
        let mut rows: Vec<Row> = (0..total)
            .zip(self.assignment(total))
            .map(|(place, group)| {
                let turns = &questions[place * self.turns..(place + 1) * self.turns];
                self.row(
                    &systems[group],
                    turns,
                    group,
                    output_lengths[place],
                    vocabulary,
                )
            })
            .collect();
        let mut notes = self.opening(release);
        notes.extend(self.statistics(&rows, &systems, &questions, vocabulary, release));
        if !self.ordered {
            streams.python.shuffle(&mut rows);
        }
        Dataset {
            notes,
            ..Dataset::of(rows)
        }
    }

    /// The group of each prompt.
    fn assignment(&self, total: usize) -> Vec<usize> {
        let Some(exponent) = self.zipf else {
            return (0..total).map(|place| place / self.per_group).collect();
        };
        let weights: Vec<f64> = (1..=self.groups)
            .map(|rank| 1.0 / (rank as f64).powf(exponent))
            .collect();
        let sum = crate::measure::pairwise_sum(&weights);
        let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let mut random = Pcg64::seeded(self.seed);
        (0..total).map(|_| random.choice(&shares)).collect()
    }

    fn row(
        &self,
        system: &Piece,
        turns: &[Piece],
        group: usize,
        output: u64,
        vocabulary: &Vocabulary,
    ) -> Row {
        let opening = format!("{}\n\n{}", system.text, turns[0].text);
        let prompt_tokens = if self.as_ids {
            (system.ids.len() + turns[0].ids.len()) as u64
        } else if self.uncounted {
            1
        } else {
            vocabulary.encode(&opening).len() as u64
        };
        let prompt = if self.as_ids {
            Prompt::Tokens(system.ids.iter().chain(&turns[0].ids).copied().collect())
        } else if self.turns == 1 {
            Prompt::Text(opening)
        } else {
            let first = std::iter::once(opening.as_str());
            let rest = turns[1..].iter().map(|piece| piece.text.as_str());
            Prompt::Turns(
                first
                    .chain(rest)
                    .map(|text| vec![message("user", text)])
                    .collect(),
            )
        };
        let mut row = Row::new(prompt, prompt_tokens, output);
        row.routing_key = self.routing.as_ref().map(|run| format!("{run}_{group}"));
        row
    }

    /// What the reference says first. It keeps uniform sets in a file; nothing is kept here, so a
    /// set can never be taken for that of another tokenizer.
    fn opening(&self, release: Release) -> Vec<String> {
        let share = python_text::float(self.share);
        let mut text = format!(
            "\nGenerating new input data... (num_groups={}, {}, system_prompt_len={}, \
             question_len={}, output_len={}, range_ratio={share}",
            self.groups, self.per_group, self.system, self.question, self.output
        );
        if release.has(8) {
            put(&mut text, format_args!(", num_turns={}", self.turns));
        }
        if release.has(14) {
            let (name, exponent) = match self.zipf {
                Some(exponent) => ("zipf", python_text::float(exponent)),
                None => ("uniform", "None".to_owned()),
            };
            put(
                &mut text,
                format_args!(", group_distribution='{name}', zipf_alpha={exponent}"),
            );
        }
        text.push(')');
        let routed = self.routing.is_some();
        let kept = self.share.to_bits() == 1.0_f64.to_bits() && !routed && self.turns == 1;
        if !release.has(8) || kept {
            return vec![text];
        }
        let routed = if routed { "True" } else { "False" };
        let turns = self.turns;
        let bypassed = format!(
            "\nCache bypassed (range_ratio={share}, send_routing_key={routed}, num_turns={turns})"
        );
        vec![bypassed, text]
    }

    fn statistics(
        &self,
        rows: &[Row],
        systems: &[Piece],
        questions: &[Piece],
        vocabulary: &Vocabulary,
        release: Release,
    ) -> Vec<String> {
        let mut notes = vec![
            "\nGenerated shared prefix dataset statistics:".to_owned(),
            format!("Number of groups: {}", self.groups),
            format!("Prompts per group: {}", self.per_group),
        ];
        if release.has(8) {
            notes.push(format!("Number of turns: {}", self.turns));
        }
        if release.has(14) {
            let name = if self.zipf.is_some() {
                "zipf"
            } else {
                "uniform"
            };
            notes.push(format!("Group distribution: {name}"));
            notes.extend(
                self.zipf
                    .map(|zipf| format!("Zipf alpha: {}", python_text::float(zipf))),
            );
        }
        notes.push(format!("Total prompts: {}", rows.len()));
        if self.uncounted && !self.as_ids {
            return notes;
        }
        let input: u64 = rows.iter().map(|row| row.asked.prompt_tokens).sum();
        let output: u64 = rows.iter().map(|row| row.asked.output_tokens).sum();
        notes.push(format!("Total input tokens: {input}"));
        notes.push(format!("Total output tokens: {output}"));
        let average = |pieces: &[Piece]| {
            let lengths = pieces
                .iter()
                .map(|piece| piece.length(self.as_ids, vocabulary));
            lengths.sum::<u64>() as f64 / pieces.len() as f64
        };
        notes.push(format!(
            "Average system prompt length: {:.1} tokens",
            average(systems)
        ));
        notes.push(format!(
            "Average question length: {:.1} tokens\n",
            average(questions)
        ));
        notes
    }
}
