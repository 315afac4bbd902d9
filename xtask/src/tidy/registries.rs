//! Packages are fetched by name with the ordinary clients, so no registry's host appears anywhere.

use super::finding::Finding;
use super::tree::Tree;

/// Hosts, written in two parts so that this file keeps its own rule, and where each may appear.
const HOSTS: &[(&str, &str, Option<&str>)] = &[
    ("pypi", "org", None),
    ("pythonhosted", "org", None),
    ("crates", "io/", None),
    ("static.crates", "io", None),
    ("index.crates", "io", None),
    ("npmjs", "org", None),
    ("huggingface", "co", Some("crates/hub/")),
];
/// Cargo writes its index into the lock file by itself.
const EXEMPT: &[&str] = &["Cargo.lock"];

/// Lines that name such a host.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.files().iter();
    for file in files.filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        for (name, domain, allowed) in HOSTS {
            if allowed.is_some_and(|folder| file.path.starts_with(folder)) {
                continue;
            }
            let host = format!("{name}.{domain}");
            let lines = file.text.lines().enumerate();
            let named = lines.filter(|(_, line)| line.contains(&host));
            findings.extend(named.map(|(number, _)| {
                let what = format!("`{host}` is the host of a registry");
                Finding::line(&file.path, number + 1, what)
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_registry_is_found_and_the_hub_may_name_its_endpoint() {
        let package_index = format!("https://{}.org/simple", "pypi");
        let endpoint = format!("https://{}.co", "huggingface");
        let (_folder, tree) = fixture::tree(&[
            ("Cargo.lock", &package_index),
            ("crates/hub/src/hf.rs", &endpoint),
            ("docs/a.md", &format!("\n{endpoint}\n")),
            (".ci/run", &package_index),
        ]);
        let names = [
            format!(".ci/run:1: `{}.org` is the host of a registry", "pypi"),
            format!(
                "docs/a.md:2: `{}.co` is the host of a registry",
                "huggingface"
            ),
        ];
        assert_eq!(fixture::shown(&check(&tree)), names);
    }
}
