//! The families that SGLang's dashboards may ask for, beside ours and beside what we say that we lack.

use std::collections::BTreeMap;

use engine::EngineStats;
use testkit::material;

use super::{Metrics, Room};
use crate::config::StartTimes;

/// Families by name, with their kinds: those of the specification's eighth section.
fn specified(spec: &str) -> BTreeMap<String, &'static str> {
    let section = spec.split("## 8. Metrics").nth(1).expect("section 8");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut families = BTreeMap::new();
    for (heading, kind) in [
        ("Gauges: ", "gauge"),
        ("Histograms: ", "histogram"),
        ("Counters: ", "counter"),
    ] {
        let list = section.split(heading).nth(1).expect(heading);
        let list = list.split('.').next().unwrap_or_default();
        for name in list.split(',').map(str::trim) {
            families.insert(name.to_owned(), kind);
        }
    }
    families
}

/// Those of an exposition.
fn exported() -> BTreeMap<String, String> {
    let metrics = Metrics::new("tiny", StartTimes::default());
    let text = metrics.exposition(&EngineStats::default(), Room::default(), 0);
    let kinds = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE sglang:"));
    let kinds = kinds.filter_map(|line| line.split_once(' '));
    kinds
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

/// Those that the documentation says we do not have: a table of names and reasons.
fn absent() -> Vec<String> {
    let path = material::workspace().join("docs/compatibility.md");
    let text = std::fs::read_to_string(path).expect("the documentation is there");
    let table = text.split("| absent family |").nth(1).expect("its table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let names = rows.filter_map(|row| row.split('`').nth(1));
    names.map(str::to_owned).collect()
}

#[test]
fn every_family_of_the_specification_is_exported_or_named_as_absent() {
    let Some(spec) = material::shared("spec/server-api.md") else {
        return;
    };
    let spec = std::fs::read_to_string(spec).expect("the specification can be read");
    let (specified, exported, absent) = (specified(&spec), exported(), absent());
    assert!(specified.len() > 25, "{specified:?}");
    for (name, kind) in &specified {
        match exported.get(name) {
            Some(found) => assert_eq!(found, kind, "{name}"),
            None => assert!(absent.contains(name), "{name} is not said to be absent"),
        }
    }
    for name in absent {
        assert!(specified.contains_key(&name), "{name} is not asked for");
        assert!(!exported.contains_key(&name), "{name} is there");
    }
}
