use std::fmt::Write as _;

use super::histogram::Histogram;

/// Metrics in Prometheus' text format, version 0.0.4.
pub(crate) struct Exposition {
    text: String,
    prefix: &'static str,
    labels: String,
}

impl Exposition {
    /// An exposition whose names begin with `prefix` and whose values all have these labels.
    pub(crate) fn new(prefix: &'static str, labels: &[(&str, &str)]) -> Self {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        Self {
            text: String::new(),
            prefix,
            labels: labels.join(","),
        }
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", "", &number(value));
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, "counter");
        self.line(name, "", "", &number(value as f64));
    }

    /// Values of one name, told apart by labels of their own.
    pub(super) fn labelled(
        &mut self,
        (name, kind): (&str, &str),
        help: &str,
        rows: Vec<(Vec<(&str, String)>, u64)>,
    ) {
        self.head(name, help, kind);
        for (labels, value) in rows {
            let labels = labels.iter().fold(String::new(), |all, (label, value)| {
                format!("{all},{label}=\"{}\"", escaped(value))
            });
            self.line(name, "", &labels, &number(value as f64));
        }
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, help, "histogram");
        self.distribution(name, "", histogram);
    }

    /// Histograms of one name, told apart by the value of a label.
    pub(super) fn histograms<'h>(
        &mut self,
        name: &str,
        help: &str,
        (label, each): (&str, impl Iterator<Item = (&'h str, &'h Histogram)>),
    ) {
        self.head(name, help, "histogram");
        for (value, histogram) in each {
            let label = format!(",{label}=\"{}\"", escaped(value));
            self.distribution(name, &label, histogram);
        }
    }

    fn distribution(&mut self, name: &str, label: &str, histogram: &Histogram) {
        let snapshot = histogram.snapshot();
        for (bound, count) in snapshot.buckets {
            let labels = format!("{label},le=\"{}\"", number(bound));
            self.line(name, "_bucket", &labels, &number(count as f64));
        }
        self.line(name, "_sum", label, &number(snapshot.sum));
        self.line(name, "_count", label, &number(snapshot.count as f64));
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let prefix = self.prefix;
        writeln!(
            self.text,
            "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}"
        )
        .expect("strings take any text");
    }

    fn line(&mut self, name: &str, suffix: &str, label: &str, value: &str) {
        let (prefix, labels) = (self.prefix, &self.labels);
        writeln!(
            self.text,
            "{prefix}{name}{suffix}{{{labels}{label}}} {value}"
        )
        .expect("strings take any text");
    }
}

/// As Python's client writes them: whole numbers have a fraction of zero.
fn number(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else {
        format!("{value:?}")
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
