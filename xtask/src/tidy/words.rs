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
const COMPUTE: Crates = Crates::These(&["cpu", "cuda"]);
const CUDA: Crates = Crates::These(&["cuda"]);

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
    refuse("team", "cluster or thread pool", COMPUTE, Names::Any),
    refuse("clerk", "norm-factor warp", CUDA, Names::Any),
    refuse("mail", "message", CUDA, Names::Any),
    refuse("link", "stage", CUDA, Names::Declared),
    refuse("links", "stages", CUDA, Names::Declared),
    refuse("stray", "outlier", CUDA, Names::Any),
    refuse("strays", "outliers", CUDA, Names::Any),
    refuse("unfold", "decode", CUDA, Names::Any),
    refuse("ending", "epilogue", CUDA, Names::Any),
    refuse("surroundings", "epilogue", CUDA, Names::Any),
    refuse("onward", "add_norm", CUDA, Names::Any),
    refuse("way", "candidate", CUDA, Names::Declared),
    refuse("box", "tile", CUDA, Names::Declared),
    refuse("boxes", "tiles", CUDA, Names::Any),
    refuse("piece", "vector or chunk", CUDA, Names::Any),
    refuse("pieces", "vectors or chunks", CUDA, Names::Any),
];

/// Words that name nothing in GPU kernels and in what tests them on the host: these are no Rust, so every word of code counts.
const REFUSED_IN_KERNELS: &[(&str, &str)] = &[
    ("chain", "megakernel"),
    ("clerk", "norm-factor warp"),
    ("mail", "message"),
    ("age", "epoch"),
    ("links", "stages"),
    ("stray", "outlier"),
    ("strays", "outliers"),
    ("fold", "encode"),
    ("folded", "bf12"),
    ("unfold", "decode"),
    ("ending", "epilogue"),
    ("surroundings", "epilogue"),
    ("onward", "add_norm"),
    ("team", "cluster"),
    ("box", "tile"),
    ("boxes", "tiles"),
    ("piece", "vector"),
    ("pieces", "vectors"),
    ("meet", "synchronise"),
    ("told", "sent or stored"),
];

/// Keywords after which a name is declared.
const DECLARING: &[&str] = &[
    "struct", "enum", "trait", "type", "fn", "mod", "const", "static",
];

/// Names made of a refused word.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let kernels = tree.files().iter().filter(|file| is_kernel(file));
    let rust = tree.rust().flat_map(check_file);
    rust.chain(kernels.flat_map(check_kernel)).collect()
}

fn is_kernel(file: &TextFile) -> bool {
    file.crate_name() == Some("cuda") && file.has_extension(&["cu", "cuh", "cc", "h"])
}

fn check_kernel(file: &TextFile) -> Vec<Finding> {
    let code = code_only(&file.text);
    let mut findings: Vec<Finding> = Vec::new();
    for (line, name) in identifiers(&code) {
        let words = words(name);
        let refused = REFUSED_IN_KERNELS
            .iter()
            .filter(|(word, _)| words.iter().any(|found| found == word));
        findings.extend(refused.map(|(word, instead)| {
            let what = format!("`{name}`: say {instead}, not {word}");
            Finding::line(&file.path, line, what)
        }));
    }
    findings.dedup();
    findings
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

    #[test]
    fn kernels_use_the_words_of_the_field() {
        let (_folder, tree) = fixture::tree(&[
            (
                "crates/cuda/kernels/a.cu",
                "// A chain of links.\nstruct TeamOf { uint32_t kMostStrays; };\nvoid chained() { boxes(1); }\n",
            ),
            (
                "crates/cuda/src/a.rs",
                "/// By mail.\nstruct Surroundings;\nfn f(way: u8, stray: u8) { x.chain(y).fold(z) }\n",
            ),
            ("crates/cpu/src/a.rs", "struct Team;\nfn chain() {}\n"),
            ("crates/bench/src/a.rs", "struct Team;\n"),
        ]);
        let mut shown = fixture::shown(&check(&tree));
        shown.sort();
        assert_eq!(
            shown,
            [
                "crates/cpu/src/a.rs:1: `Team`: say cluster or thread pool, not team",
                "crates/cuda/kernels/a.cu:2: `TeamOf`: say cluster, not team",
                "crates/cuda/kernels/a.cu:2: `kMostStrays`: say outliers, not strays",
                "crates/cuda/kernels/a.cu:3: `boxes`: say tiles, not boxes",
                "crates/cuda/src/a.rs:2: `Surroundings`: say epilogue, not surroundings",
                "crates/cuda/src/a.rs:3: `stray`: say outlier, not stray",
            ]
        );
    }
}
