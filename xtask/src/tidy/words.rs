//! One word per thing: the synonyms that the glossary of ARCHITECTURE.md refuses.

use super::finding::Finding;
use super::rust_text::{code_only, identifiers};
use super::tree::{TextFile, Tree};

/// A word that is not used for a thing, and where.
struct Refused {
    word: &'static str,
    instead: &'static str,
    crates: Crates,
    names: Names,
}

/// The crates in which a word would mean the thing.
enum Crates {
    All,
    These(&'static [&'static str]),
}

/// Which names are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Every name, used or declared.
    Any,
    /// Names of types, functions, modules and constants where they are declared.
    Declared,
}

const CORE: Crates = Crates::These(&["kv", "scheduler", "executor", "engine"]);

const fn refuse(
    word: &'static str,
    instead: &'static str,
    crates: Crates,
    names: Names,
) -> Refused {
    Refused {
        word,
        instead,
        crates,
        names,
    }
}

const REFUSED: &[Refused] = &[
    refuse("req", "request or sequence", Crates::All, Names::Any),
    refuse("job", "request", CORE, Names::Declared),
    refuse("loc", "slot", CORE, Names::Any),
    refuse(
        "block",
        "page",
        Crates::These(&["kv", "scheduler", "engine"]),
        Names::Declared,
    ),
    refuse("iteration", "step", CORE, Names::Declared),
    refuse("tick", "step", CORE, Names::Declared),
    refuse("postprocess", "commit", Crates::All, Names::Declared),
    refuse("preempt", "retract", CORE, Names::Declared),
    refuse("preempted", "retracted", CORE, Names::Declared),
    refuse("preemption", "retraction", CORE, Names::Declared),
    refuse(
        "worker",
        "rank",
        Crates::These(&["executor", "engine"]),
        Names::Declared,
    ),
    refuse(
        "target",
        "subject",
        Crates::These(&["lab"]),
        Names::Declared,
    ),
    refuse(
        "strategy",
        "pace",
        Crates::These(&["bench", "lab"]),
        Names::Declared,
    ),
];

/// Keywords after which a name is declared.
const DECLARING: &[&str] = &[
    "struct", "enum", "trait", "type", "fn", "mod", "const", "static",
];

/// Names made of a refused word.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let Some(crate_name) = file.crate_name() else {
        return Vec::new();
    };
    let rules: Vec<&Refused> = REFUSED
        .iter()
        .filter(|rule| match rule.crates {
            Crates::All => true,
            Crates::These(names) => names.contains(&crate_name),
        })
        .collect();
    let code = code_only(&file.text);
    let mut findings: Vec<Finding> = Vec::new();
    let mut before = "";
    for (line, name) in identifiers(&code) {
        let declared = DECLARING.contains(&before);
        before = name;
        let words = words(name);
        let broken = rules.iter().filter(|rule| {
            (rule.names == Names::Any || declared) && words.iter().any(|word| word == rule.word)
        });
        findings.extend(broken.map(|rule| {
            let what = format!("`{name}`: say {}, not {}", rule.instead, rule.word);
            Finding::line(&file.path, line, what)
        }));
    }
    findings.dedup();
    findings
}

/// The words of a name, lower case: `NewReq_x` is new, req, x.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if c != '_' {
            let word = words.last_mut().expect("there is a first word");
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn names_fall_apart_into_words() {
        assert_eq!(words("NewReq_x2Y"), ["new", "req", "x2", "y"]);
        assert_eq!(words("max_LOC"), ["max", "loc"]);
    }

    #[test]
    fn a_synonym_is_found_where_it_would_mean_the_thing() {
        let source = "/// A block.\nstruct FreeBlock;\nfn f(req: u8) { let block = \"req\"; }\nfn preempt() {}\n";
        let (_folder, tree) = fixture::tree(&[
            ("crates/kv/src/page.rs", source),
            (
                "crates/checkpoint/src/blocks.rs",
                "struct GgufBlock;\nstruct Required;\n",
            ),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "crates/kv/src/page.rs:2: `FreeBlock`: say page, not block",
                "crates/kv/src/page.rs:3: `req`: say request or sequence, not req",
                "crates/kv/src/page.rs:4: `preempt`: say retract, not preempt",
            ]
        );
    }
}
