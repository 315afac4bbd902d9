//! The section of docs/performance.md that the command writes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::floor::Floor;
use super::load::{CAPACITY, Contender};
use super::results::Results;
use super::table;

const BEGIN: &str = "<!-- versus llama-cpp: written by `cargo xtask versus llama-cpp` -->";
const END: &str = "<!-- versus llama-cpp: end -->";

/// The table with everything one needs to know to judge it.
pub(crate) fn section(
    results: &Results,
    contenders: &[Contender],
    floor: Option<&Floor>,
    facts: &[(&'static str, String)],
) -> String {
    let mut out = table::markdown(results, "llama-cpp", floor);
    out.push('\n');
    for (name, fact) in facts {
        let _ = writeln!(out, "- {name}: {fact}");
    }
    for contender in contenders {
        let (clean, all) = results.clean(contender.name);
        let _ = writeln!(
            out,
            "- {}: {}; {clean} of {all} samples clean (other processes under 0.1 core)",
            contender.name, contender.version
        );
    }
    let _ = writeln!(
        out,
        "- room for keys and values: {CAPACITY} tokens on either side; prompts are random tokens, \
         prompt caches are off"
    );
    if let Some(floor) = floor {
        let _ = writeln!(
            out,
            "- floor: every byte of the file once a token at the measured speed of memory; products \
             at {:.0} billion 8-bit products/s (clock × threads × vector width, stated, not measured)",
            floor.products / 1e9
        );
    }
    out
}

/// Replaces what stands between the marks.
pub(crate) fn write(path: &Path, section: &str) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = replaced(&text, section)
        .with_context(|| format!("{} has lost its marks", path.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn replaced(text: &str, section: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{section}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let text = format!("# a\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("# a\n{BEGIN}\n\nnew\n\n{END}\nb\n"));
        assert_eq!(replaced(&new, "new\n").as_deref(), Some(new.as_str()));
        assert_eq!(replaced("no marks", "new"), None);
    }
}
