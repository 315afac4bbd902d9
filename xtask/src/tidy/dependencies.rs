//! Other people's code is let in with a reason: one line each in docs/dependencies.md.

use super::finding::Finding;
use super::metadata::Metadata;
use super::tree::Tree;

const MANIFEST: &str = "Cargo.toml";
const REASONS: &str = "docs/dependencies.md";

/// Dependencies without a reason or without a user, and reasons without a dependency.
pub(crate) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Finding> {
    let text = |path| tree.get(path).map_or("", |file| file.text.as_str());
    let declared = declared(text(MANIFEST));
    let explained = explained(text(REASONS));
    let mut findings = Vec::new();
    for name in &declared {
        if !explained.contains(name) {
            findings.push(Finding::file(REASONS, format!("has no line for {name}")));
        }
        if !metadata.is_used_by_us(name) {
            let what = format!("no crate uses {name}");
            findings.push(Finding::file(MANIFEST, what));
        }
    }
    let gone = explained.iter().filter(|name| !declared.contains(name));
    findings.extend(gone.map(|name| {
        let what = format!("explains {name}, which is not a dependency");
        Finding::file(REASONS, what)
    }));
    findings
}

/// Names under `[workspace.dependencies]` that are not our own crates.
fn declared(manifest: &str) -> Vec<&str> {
    let section = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let other = !name.starts_with('#') && !value.contains("path =");
        other.then_some(name.trim())
    });
    names.collect()
}

/// Names in the first column: `| name | reason |`.
fn explained(reasons: &str) -> Vec<&str> {
    let names = reasons.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("| `")?.split_once("` |")?;
        Some(name)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_dependency_without_a_reason_or_a_user_is_found() {
        let manifest = "[workspace.dependencies]\nkv = { path = \"crates/kv\" }\n# others\n\
            half = \"2\"\nrand = { version = \"0.10\" }\nidle = \"1\"\n[workspace.lints]\nx = 1\n";
        let reasons =
            "| name | why |\n|---|---|\n| `half` | bf16 |\n| `idle` | ? |\n| `gone` | was used |\n";
        let json = br#"{"workspace_members": ["kv"], "packages": [{"id": "kv", "name": "kv", "version": "0.1.0",
            "dependencies": [{"name": "half", "source": "registry"}, {"name": "rand", "source": "registry"}]}]}"#;
        let metadata = Metadata::parse(json).unwrap();
        let (_folder, tree) = fixture::tree(&[(MANIFEST, manifest), (REASONS, reasons)]);
        assert_eq!(
            fixture::shown(&check(&tree, &metadata)),
            [
                "docs/dependencies.md: has no line for rand",
                "Cargo.toml: no crate uses idle",
                "docs/dependencies.md: explains gone, which is not a dependency",
            ]
        );
    }
}
