//! What we depend on directly exists in one version, or somebody else's reason is written down.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::metadata::Metadata;

/// Packages that others still bring in an older version.
const TWICE: &[(&str, &str)] = &[("rand", "tokenizers stays on 0.9")];

/// Direct dependencies that are built in several versions, and exceptions that no longer are.
pub(crate) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.others() {
        let known = versions.entry(&package.name).or_default();
        known.push(&package.version);
    }
    let is_twice = |name: &str| versions.get(name).is_some_and(|known| known.len() > 1);
    let excused = |name: &str| TWICE.iter().any(|(known, _)| *known == name);
    let mut findings: Vec<Finding> = versions
        .iter()
        .filter(|(name, _)| metadata.is_used_by_us(name) && is_twice(name) && !excused(name))
        .map(|(name, known)| {
            let what = format!("is built in versions {}", known.join(" and "));
            Finding::file(*name, what)
        })
        .collect();
    let stale = TWICE.iter().filter(|(name, _)| !is_twice(name));
    findings.extend(stale.map(|(name, _)| {
        let what = "is built in one version: drop its exception";
        Finding::file(*name, what)
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_dependency_in_two_versions_is_found() {
        let json = br#"{"workspace_members": ["kv"], "packages": [
            {"id": "kv", "name": "kv", "version": "0.1.0", "dependencies": [{"name": "direct", "source": "registry"}]},
            {"id": "d1", "name": "direct", "version": "1.0.0"},
            {"id": "d2", "name": "direct", "version": "2.0.0"},
            {"id": "i1", "name": "indirect", "version": "1.0.0"},
            {"id": "i2", "name": "indirect", "version": "2.0.0"}]}"#;
        let findings: Vec<String> = check(&Metadata::parse(json).unwrap())
            .iter()
            .map(ToString::to_string)
            .filter(|finding| !finding.contains("drop its exception"))
            .collect();
        assert_eq!(findings, ["direct: is built in versions 1.0.0 and 2.0.0"]);
    }
}
