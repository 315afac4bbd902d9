//! Whatever we link may be used under a licence that deny.toml allows.

use serde::Deserialize;

use super::finding::Finding;
use super::metadata::{Metadata, Package};
use super::tree::Tree;

const LIST: &str = "deny.toml";

#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// Further licences for one package.
#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: Vec<String>,
}

/// Packages without a licence or with one that is not allowed, and exceptions for nobody.
pub(crate) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Finding> {
    let text = tree.get(LIST).map_or("", |file| file.text.as_str());
    let deny: Deny = match toml::from_str(text) {
        Ok(deny) => deny,
        Err(error) => return vec![Finding::file(LIST, error.to_string())],
    };
    let licences = deny.licenses;
    let mut findings: Vec<Finding> = metadata
        .others()
        .filter_map(|package| refused(package, &licences))
        .collect();
    let stale = licences.exceptions.iter().filter(|exception| {
        let mut others = metadata.others();
        !others.any(|package| package.name == exception.package)
    });
    findings.extend(stale.map(|exception| {
        let what = format!(
            "has an exception for {}, which nobody uses",
            exception.package
        );
        Finding::file(LIST, what)
    }));
    findings
}

fn refused(package: &Package, licences: &Licences) -> Option<Finding> {
    let name = format!("{} {}", package.name, package.version);
    let Some(expression) = package.license.as_deref() else {
        return Some(Finding::file(name, "states no licence"));
    };
    let exceptions = licences.exceptions.iter();
    let exceptions = exceptions.filter(|exception| exception.package == package.name);
    let mut allowed: Vec<&str> = licences.allow.iter().map(String::as_str).collect();
    allowed.extend(exceptions.flat_map(|exception| exception.allow.iter().map(String::as_str)));
    let what = format!("its licence is {expression}");
    (!is_allowed(expression, &allowed)).then(|| Finding::file(name, what))
}

/// Whether an SPDX expression can be met with the list; the old `A/B` means `A OR B`.
fn is_allowed(expression: &str, list: &[&str]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = either(&mut words, list);
    allowed && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, list: &[&str]) -> bool {
    let mut allowed = both(words, list);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= both(words, list);
    }
    allowed
}

fn both(words: &mut Words<'_>, list: &[&str]) -> bool {
    let mut allowed = single(words, list);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= single(words, list);
    }
    allowed
}

fn single(words: &mut Words<'_>, list: &[&str]) -> bool {
    let Some(word) = words.next() else {
        return false;
    };
    if word == "(" {
        let allowed = either(words, list);
        return words.next() == Some(")") && allowed;
    }
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().unwrap_or_default();
        return list.contains(&format!("{word} WITH {exception}").as_str());
    }
    list.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    const LICENCES: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Unicode-3.0\"]\n\
        [[licenses.exceptions]]\ncrate = \"weak\"\nallow = [\"MPL-2.0\"]\n";

    #[test]
    fn expressions_are_read_as_spdx_says() {
        let list = [
            "MIT",
            "Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "Unicode-3.0",
        ];
        let cases = [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("MIT AND (GPL-3.0 OR LGPL-3.0)", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("Apache-2.0 WITH other-exception", false),
            ("(MIT", false),
            ("", false),
        ];
        for (expression, expected) in cases {
            assert_eq!(is_allowed(expression, &list), expected, "{expression}");
        }
    }

    #[test]
    fn a_package_with_another_licence_or_none_is_found() {
        let json = br#"{"workspace_members": ["ours"], "packages": [
            {"id": "ours", "name": "ours", "version": "0.1.0", "license": null},
            {"id": "a", "name": "a", "version": "1.0.0", "license": "MIT"},
            {"id": "b", "name": "b", "version": "2.0.0", "license": "MPL-2.0"},
            {"id": "c", "name": "c", "version": "3.0.0", "license": null}]}"#;
        let metadata = Metadata::parse(json).unwrap();
        let (_folder, tree) = fixture::tree(&[(LIST, LICENCES)]);
        assert_eq!(
            fixture::shown(&check(&tree, &metadata)),
            [
                "b 2.0.0: its licence is MPL-2.0",
                "c 3.0.0: states no licence",
                "deny.toml: has an exception for weak, which nobody uses",
            ]
        );
    }

    #[test]
    fn an_exception_holds_for_its_package_alone() {
        let json = br#"{"workspace_members": [], "packages": [
            {"id": "w", "name": "weak", "version": "1.0.0", "license": "MPL-2.0"}]}"#;
        let metadata = Metadata::parse(json).unwrap();
        let (_folder, tree) = fixture::tree(&[(LIST, LICENCES)]);
        assert_eq!(check(&tree, &metadata), []);
    }
}
