//! The page of a run: one HTML file with inline SVG, readable in light and in dark.

mod charts;
pub mod svg;

use crate::measure::strict::StrictFigures;
use crate::measure::timing::Timing;
use crate::record::RequestRecord;
use minijinja::Environment;
use minijinja::value::{Serde, Value};
use serde_json::json;

/// What a page shows.
pub struct PageContent<'a> {
    /// What was measured.
    pub title: &'a str,
    /// How, in a few words.
    pub subtitle: &'a str,
    /// Every request.
    pub records: &'a [RequestRecord],
    /// The times of the successful ones, in the order of the records.
    pub timings: &'a [Timing],
    /// The figures; their goodput has the objectives that charts draw.
    pub figures: &'a StrictFigures,
    /// Whether times count from when a request was due, rather than from when it was sent.
    pub counts_from_due: bool,
    /// What a reader should know.
    pub warnings: &'a [String],
    /// The printed table.
    pub table: &'a str,
    /// Facts of the run as text.
    pub facts: &'a str,
}

/// The whole page.
///
/// # Panics
/// Never for any content: the template is part of the program.
pub fn page(content: &PageContent<'_>) -> String {
    let mut environment = Environment::new();
    environment
        .add_template("page.html", include_str!("page.html"))
        .expect("the template is part of the program");
    let template = environment
        .get_template("page.html")
        .expect("the template was just added");
    let values = json!({
        "title": content.title,
        "subtitle": content.subtitle,
        "warnings": content.warnings,
        "table": content.table,
        "facts": content.facts,
        "tiles": charts::tiles(content),
        "groups": charts::groups(content),
    });
    template
        .render(Value::from(Serde(values)))
        .expect("the template renders any content")
}

#[cfg(test)]
mod tests;
