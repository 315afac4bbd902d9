//! The section of docs/performance.md that the command writes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::floor::Floor;
use super::load::{CAPACITY, Contender};
use super::results::Results;
use super::table;

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

/// Replaces what stands between the marks of a comparison.
pub(crate) fn write(path: &Path, peer: &str, section: &str) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = replaced(&text, peer, section)
        .with_context(|| format!("{} has lost its marks for {peer}", path.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn marks(peer: &str) -> (String, String) {
    (
        format!("<!-- versus {peer}: written by `cargo xtask versus {peer}` -->"),
        format!("<!-- versus {peer}: end -->"),
    )
}

fn replaced(text: &str, peer: &str, section: &str) -> Option<String> {
    let (begin, end) = marks(peer);
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{section}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let (begin, end) = marks("x");
        let text = format!("# a\n{begin}\nold\n{end}\nb\n");
        let new = replaced(&text, "x", "new\n").unwrap();
        assert_eq!(new, format!("# a\n{begin}\n\nnew\n\n{end}\nb\n"));
        assert_eq!(replaced(&new, "x", "new\n").as_deref(), Some(new.as_str()));
        assert_eq!(replaced(&new, "y", "new"), None);
    }
}
