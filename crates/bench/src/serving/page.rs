//! `--plot`: the page of a run.

use super::error::ServingError;
use super::options::Options;
use super::prepare::Prepared;
use super::provenance::{dataset_digest, provenance};
use super::strict_result::StrictResult;
use super::surroundings::Surroundings;
use crate::dataset::Row;
use crate::measure::goodput::Goodput;
use crate::measure::strict::StrictFigures;
use crate::measure::timing::Timing;
use crate::page::{PageContent, page};
use crate::record::RequestRecord;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Writes the page of a run in the reference's manner, when it is asked for. Its goodput is the
/// printed one, which counts from when requests were sent.
pub(super) fn write(
    options: &Options,
    prepared: &Prepared,
    (records, rows): (&[RequestRecord], &[Arc<Row>]),
    (table, goodput): (&str, Option<&Goodput>),
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    let Some(path) = options.own.text("plot") else {
        return Ok(());
    };
    let figures = StrictFigures {
        goodput: goodput.cloned(),
        ..StrictFigures::of(records, prepared.backend, &prepared.vocabulary, None)
    };
    let facts = provenance(options, prepared, &dataset_digest(rows));
    let warnings: Vec<String> = figures
        .failures
        .iter()
        .map(|(name, count)| format!("{count} failed: {name}"))
        .collect();
    let parts = Parts {
        records,
        figures: &figures,
        counts_from_due: false,
        warnings: &warnings,
        table,
        facts: &facts,
    };
    put(options, prepared, Path::new(path), &parts, surroundings)
}

/// Writes the page of a strict run, when it is asked for.
pub(super) fn write_strict(
    options: &Options,
    prepared: &Prepared,
    (result, table): (&StrictResult, &str),
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    let Some(path) = options.own.text("plot") else {
        return Ok(());
    };
    let warnings = result.warnings();
    let parts = Parts {
        records: &result.records,
        figures: &result.figures,
        counts_from_due: true,
        warnings: &warnings,
        table,
        facts: &result.provenance,
    };
    put(options, prepared, Path::new(path), &parts, surroundings)
}

struct Parts<'a> {
    records: &'a [RequestRecord],
    figures: &'a StrictFigures,
    counts_from_due: bool,
    warnings: &'a [String],
    table: &'a str,
    facts: &'a Value,
}

fn put(
    options: &Options,
    prepared: &Prepared,
    path: &Path,
    parts: &Parts<'_>,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    let good = parts.records.iter().filter(|record| record.succeeded());
    let family = prepared.backend.family();
    let timings: Vec<Timing> = good
        .map(|record| Timing::of(record, family, &prepared.vocabulary))
        .collect();
    let model = prepared.model.rsplit('/').next().unwrap_or_default();
    let dataset = options.given.text("dataset-name").unwrap_or_default();
    let subtitle = format!(
        "{} at {} · {dataset} · {} requests · {:.1} s",
        prepared.backend.name(),
        prepared.base.authority(),
        parts.figures.sent,
        parts.figures.duration,
    );
    let facts = serde_json::to_string_pretty(parts.facts).expect("a JSON value is serialised");
    let html = page(&PageContent {
        title: model,
        subtitle: &subtitle,
        records: parts.records,
        timings: &timings,
        figures: parts.figures,
        counts_from_due: parts.counts_from_due,
        warnings: parts.warnings,
        table: parts.table.trim(),
        facts: &facts,
    });
    std::fs::write(path, html).map_err(|source| ServingError::Output {
        path: path.to_owned(),
        source,
    })?;
    surroundings.say(&format!("Plots written to {}", path.display()));
    Ok(())
}
