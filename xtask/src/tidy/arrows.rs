//! Which crate may use which: the table drawn in ARCHITECTURE.md against what cargo says.

use super::finding::Finding;
use super::metadata::{Metadata, Package};
use super::tree::Tree;

const DRAWING: &str = "ARCHITECTURE.md";

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    name: &'a str,
    uses: Uses<'a>,
    in_tests: Vec<&'a str>,
}

/// What a crate may use outside its tests.
#[derive(Debug, PartialEq, Eq)]
enum Uses<'a> {
    /// Every crate in a row above.
    AllAbove,
    /// These.
    These(Vec<&'a str>),
}

/// Arrows that are not drawn, arrows that point up, and crates that are not in the table.
pub(crate) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Finding> {
    let Some(drawing) = tree.get(DRAWING) else {
        return vec![Finding::file(DRAWING, "is missing")];
    };
    let rows = table(&drawing.text);
    let mut findings = upward(&rows);
    for package in metadata.ours() {
        if let Some(at) = rows.iter().position(|row| row.name == package.name) {
            findings.extend(undrawn(package, &rows, at));
        } else {
            let what = format!("{} has no row in the table of crates", package.name);
            findings.push(Finding::file(DRAWING, what));
        }
    }
    for row in &rows {
        if !metadata.ours().any(|package| package.name == row.name) {
            let what = format!("{} is in the table of crates but not in the tree", row.name);
            findings.push(Finding::file(DRAWING, what));
        }
    }
    findings
}

/// The rows below the heading `| crate | may use | in tests | …`.
fn table(text: &str) -> Vec<Row<'_>> {
    let mut lines = text.lines();
    let heading = |line: &str| cells(line).starts_with(&["crate", "may use", "in tests"]);
    lines.by_ref().find(|line| heading(line));
    let rows = lines.skip(1).map_while(|line| {
        let cells = cells(line);
        let [name, uses, in_tests, ..] = cells.as_slice() else {
            return None;
        };
        let uses = match *uses {
            "all above" => Uses::AllAbove,
            names => Uses::These(list(names)),
        };
        Some(Row {
            name,
            uses,
            in_tests: list(in_tests),
        })
    });
    rows.collect()
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line
        .trim()
        .strip_prefix('|')
        .and_then(|rest| rest.strip_suffix('|'));
    inner.map_or_else(Vec::new, |inner| {
        inner
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect()
    })
}

fn list(names: &str) -> Vec<&str> {
    let names = names.split(',').map(|name| name.trim().trim_matches('`'));
    names
        .filter(|name| !name.is_empty() && *name != "–")
        .collect()
}

/// Every arrow points to a row above, so there is no circle.
fn upward(rows: &[Row<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Uses::These(names) = &row.uses else {
            continue;
        };
        let above = |name: &&str| rows[..at].iter().any(|other| other.name == *name);
        findings.extend(names.iter().filter(|name| !above(name)).map(|name| {
            let what = format!("{} may use {name}, which stands in no row above", row.name);
            Finding::file(DRAWING, what)
        }));
    }
    findings
}

fn undrawn(package: &Package, rows: &[Row<'_>], at: usize) -> Vec<Finding> {
    let row = &rows[at];
    let ours = package.dependencies.iter();
    let ours = ours.filter(|dependency| dependency.source.is_none());
    let wrong = ours.filter(|dependency| {
        let name = dependency.name.as_str();
        let drawn = match &row.uses {
            Uses::AllAbove => rows[..at].iter().any(|other| other.name == name),
            Uses::These(names) => names.contains(&name),
        };
        !(drawn || dependency.is_dev() && row.in_tests.contains(&name))
    });
    let findings = wrong.map(|dependency| {
        let how = if dependency.is_dev() {
            "uses in tests"
        } else {
            "uses"
        };
        let what = format!(
            "{} {how} {}, which {DRAWING} does not draw",
            package.name, dependency.name
        );
        Finding::file(format!("crates/{}/Cargo.toml", package.name), what)
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    const DRAWN: &str = "text\n\n| crate | may use | in tests | what |\n|---|---|---|---|\n\
        | `kv` | – | – | pages |\n| `cpu` | – | – | kernels |\n| `engine` | kv | `cpu` | loop |\n\
        | `cli` | all above | – | binary |\n\n| other | table |\n";

    fn metadata(edges: &[(&str, &[&str], &[&str])]) -> Metadata {
        let edge = |name: &&str, kind: Option<&str>| serde_json::json!({ "name": name, "kind": kind, "source": null });
        let packages: Vec<_> = edges
            .iter()
            .map(|(name, uses, in_tests)| {
                let mut dependencies: Vec<_> = uses.iter().map(|to| edge(to, None)).collect();
                dependencies.extend(in_tests.iter().map(|to| edge(to, Some("dev"))));
                serde_json::json!({ "id": name, "name": name, "version": "1.0.0", "dependencies": dependencies })
            })
            .collect();
        let members: Vec<_> = edges.iter().map(|(name, ..)| name).collect();
        let json = serde_json::json!({ "packages": packages, "workspace_members": members });
        Metadata::parse(json.to_string().as_bytes()).unwrap()
    }

    fn findings(drawing: &str, edges: &[(&str, &[&str], &[&str])]) -> Vec<String> {
        let (_folder, tree) = fixture::tree(&[(DRAWING, drawing)]);
        fixture::shown(&check(&tree, &metadata(edges)))
    }

    #[test]
    fn drawn_arrows_pass() {
        let edges: &[(&str, &[&str], &[&str])] = &[
            ("kv", &[], &[]),
            ("cpu", &[], &[]),
            ("engine", &["kv"], &["cpu"]),
            ("cli", &["kv", "engine"], &["cpu"]),
        ];
        assert_eq!(findings(DRAWN, edges), [""; 0]);
    }

    #[test]
    fn an_arrow_that_is_not_drawn_is_found() {
        let edges: &[(&str, &[&str], &[&str])] = &[
            ("kv", &["engine"], &[]),
            ("cpu", &[], &["kv"]),
            ("engine", &["cpu"], &[]),
            ("new", &[], &[]),
        ];
        assert_eq!(
            findings(DRAWN, edges),
            [
                "crates/kv/Cargo.toml: kv uses engine, which ARCHITECTURE.md does not draw",
                "crates/cpu/Cargo.toml: cpu uses in tests kv, which ARCHITECTURE.md does not draw",
                "crates/engine/Cargo.toml: engine uses cpu, which ARCHITECTURE.md does not draw",
                "ARCHITECTURE.md: new has no row in the table of crates",
                "ARCHITECTURE.md: cli is in the table of crates but not in the tree",
            ]
        );
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let drawing =
            "| crate | may use | in tests |\n|---|---|---|\n| a | b | – |\n| b | – | – |\n";
        assert_eq!(
            findings(drawing, &[("a", &["b"], &[]), ("b", &[], &[])]),
            ["ARCHITECTURE.md: a may use b, which stands in no row above"]
        );
    }
}
