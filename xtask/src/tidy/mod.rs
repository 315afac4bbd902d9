//! The rules of the house that no compiler knows: one file per rule, each with a test that breaks it.

mod arrows;
mod comments;
mod crate_docs;
mod decisions;
mod dependencies;
mod finding;
mod length;
mod licences;
mod links;
mod machine_paths;
mod metadata;
mod module_names;
mod op_coverage;
mod registries;
mod rust_text;
mod tree;
mod unfinished;
mod versions;
mod words;

#[cfg(test)]
mod fixture;

use std::path::Path;
use std::process::ExitCode;

use finding::Finding;
use metadata::Metadata;
use tree::Tree;

/// A rule: what it says, and how to find where it is broken.
type Rule = (&'static str, fn(&Tree, &Metadata) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("crates use only what ARCHITECTURE.md draws", arrows::check),
    ("files are short", |tree, _| length::check(tree)),
    ("comments are short", |tree, _| comments::check(tree)),
    ("crates say what they do and refuse", |tree, _| {
        crate_docs::check(tree)
    }),
    ("modules are named after concepts", |tree, _| {
        module_names::check(tree)
    }),
    ("one word per thing", |tree, _| words::check(tree)),
    ("every op is proven and runs everywhere", |tree, _| {
        op_coverage::check(tree)
    }),
    ("decisions have their four headings", |tree, _| {
        decisions::check(tree)
    }),
    ("links between documents lead somewhere", |tree, _| {
        links::check(tree)
    }),
    ("licences are on the list", licences::check),
    (
        "each dependency has a reason and a user",
        dependencies::check,
    ),
    ("direct dependencies exist once", |_, metadata| {
        versions::check(metadata)
    }),
    ("no path of one machine", |tree, _| {
        machine_paths::check(tree)
    }),
    ("no host of a package registry", |tree, _| {
        registries::check(tree)
    }),
    ("nothing is left unfinished", |tree, _| {
        unfinished::check(tree)
    }),
];

/// Prints every rule and where it is broken; fails when one is.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let metadata = Metadata::read(root)?;
    let mut broken = 0;
    for (rule, check) in RULES {
        let findings = check(&tree, &metadata);
        let mark = if findings.is_empty() { "ok  " } else { "FAIL" };
        println!("{mark} {rule}");
        for finding in &findings {
            println!("     {finding}");
        }
        broken += findings.len();
    }
    if broken == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{broken} to put right");
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_keeps_every_rule() {
        let root = crate::root();
        let tree = Tree::read(&root).unwrap();
        let metadata = Metadata::read(&root).unwrap();
        let findings: Vec<String> = RULES
            .iter()
            .flat_map(|(rule, check)| {
                check(&tree, &metadata)
                    .into_iter()
                    .map(move |finding| format!("{rule}: {finding}"))
            })
            .collect();
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}
