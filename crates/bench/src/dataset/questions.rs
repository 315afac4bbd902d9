//! Files of questions: LongBench v2 and SPEED-Bench.

use super::file;
use super::{Dataset, DatasetError, Row, message};
use crate::random::PythonRandom;
use crate::vocabulary::Vocabulary;
use serde::Deserialize;
use std::path::Path;

/// An answer letter and a few words.
const LONG_BENCH_OUTPUT: u64 = 10;

#[derive(Deserialize)]
struct LongQuestion {
    context: String,
    question: String,
    #[serde(rename = "choice_A")]
    a: String,
    #[serde(rename = "choice_B")]
    b: String,
    #[serde(rename = "choice_C")]
    c: String,
    #[serde(rename = "choice_D")]
    d: String,
}

impl LongQuestion {
    fn prompt(&self) -> String {
        format!(
            "{}\n\nQuestion: {}\nA. {}\nB. {}\nC. {}\nD. {}\nAnswer:",
            self.context, self.question, self.a, self.b, self.c, self.d
        )
    }
}

/// LongBench v2 from a file of one question per line, shuffled.
pub(super) fn long_bench(
    path: &Path,
    (count, output_tokens, context): (usize, Option<u64>, Option<u64>),
    random: &mut PythonRandom,
    vocabulary: &Vocabulary,
) -> Result<Dataset, DatasetError> {
    if path
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        let reason = "parquet is not read here, give the same rows as JSON lines".to_owned();
        return Err(DatasetError::Unsupported {
            name: "longbench_v2",
            reason,
        });
    }
    let mut questions: Vec<LongQuestion> = file::read_lines(path, usize::MAX)?;
    random.shuffle(&mut questions);
    let output = output_tokens.unwrap_or(LONG_BENCH_OUTPUT);
    let left_out = format!(
        "of {} questions, none is within --sharegpt-context-len",
        questions.len()
    );
    let mut rows = Vec::new();
    for question in questions {
        if rows.len() == count {
            break;
        }
        let prompt = question.prompt();
        let prompt_tokens = vocabulary.encode(&prompt).len() as u64;
        if context.is_none_or(|most| prompt_tokens + output <= most) {
            rows.push(Row::text(prompt, prompt_tokens, output));
        }
    }
    Ok(Dataset {
        left_out: context.map(|_| left_out),
        ..Dataset::of(rows)
    })
}

#[derive(Deserialize)]
struct SpeedQuestion {
    category: Option<String>,
    #[serde(default)]
    turns: Vec<String>,
}

/// SPEED-Bench from a file of one question per line: first turns, in the chat template.
pub(super) fn speed_bench(
    path: &Path,
    (count, output): (usize, u64),
    category: Option<&str>,
    random: &mut PythonRandom,
    vocabulary: &Vocabulary,
) -> Result<Dataset, DatasetError> {
    let questions: Vec<SpeedQuestion> = file::read_lines(path, usize::MAX)?;
    let wanted =
        |question: &SpeedQuestion| category.is_none() || question.category.as_deref() == category;
    let rows: Vec<Row> = questions
        .into_iter()
        .filter(wanted)
        .filter_map(|question| question.turns.into_iter().next())
        .map(|turn| {
            if let Some(Ok(rendered)) = vocabulary.render(&[message("user", &turn)]) {
                let tokens = vocabulary.count(&rendered) as u64;
                return Row::text(rendered, tokens, output);
            }
            let tokens = vocabulary.encode(&turn).len() as u64;
            Row::text(turn, tokens, output)
        })
        .collect();
    if rows.is_empty() {
        let of = category
            .map(|category| format!(" for category={category}"))
            .unwrap_or_default();
        let reason = format!("no rows found{of}");
        return Err(DatasetError::Empty {
            path: path.to_owned(),
            reason,
        });
    }
    if count <= rows.len() {
        let sample = random.sample(rows.len(), count);
        return Ok(Dataset::of(
            sample.into_iter().map(|row| rows[row].clone()).collect(),
        ));
    }
    let mut tiled: Vec<Row> = rows.iter().cycle().take(count).cloned().collect();
    random.shuffle(&mut tiled);
    Ok(Dataset::of(tiled))
}
