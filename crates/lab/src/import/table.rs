//! Tables that bench_serving and its kin print, in every layout.

use crate::figures::Figures;
use crate::metric::Metric;

/// A table is over after this many lines whatever they say.
const LONGEST: usize = 200;

/// Lines that repeat options.
const SETTINGS: &[&str] = &[
    "Traffic request rate",
    "Target request rate (req/s)",
    "Max request concurrency",
];
/// Labels of our own strict table that have another label elsewhere.
const STRICT: &[(&str, &str)] = &[
    ("Generated tokens", "total_output_tokens"),
    ("Input tokens (dataset)", "total_input_tokens"),
    ("Input tokens (server)", "total_input_tokens_server"),
    (
        "Peak output in any second (tok/s)",
        "max_output_tokens_per_s",
    ),
    ("Prefix cache hit rate", "cache_hit_rate"),
    ("Requests sent", "sent"),
];

/// A printed table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Heads above, labels without colon, and values as printed.
    lines: Vec<(String, String, String)>,
    /// Whether its last line was there.
    pub(crate) closed: bool,
}

impl Table {
    /// Whether a table begins with this line.
    pub(crate) fn begins(line: &str) -> bool {
        let title = line.trim().trim_matches('=').trim();
        title.strip_suffix("(strict)").unwrap_or(title).trim() == "Serving Benchmark Result"
    }

    /// Reads the lines of a table after its first one: the table and how many lines it took.
    pub(crate) fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> (Self, usize) {
        let mut table = Self {
            lines: Vec::new(),
            closed: false,
        };
        let mut above = String::new();
        let mut taken = 0;
        for line in lines.into_iter().take(LONGEST) {
            let trimmed = line.trim();
            if trimmed.len() >= 10 && trimmed.bytes().all(|byte| byte == b'=') {
                table.closed = true;
                taken += 1;
                break;
            }
            if let Some(head) = head(trimmed) {
                head.clone_into(&mut above);
            } else if let Some((label, value)) = label_and_value(line) {
                let (label, value) = (label.to_owned(), value.to_owned());
                table.lines.push((above.clone(), label, value));
            } else {
                break;
            }
            taken += 1;
        }
        (table, taken)
    }

    /// The value printed after a label.
    pub(crate) fn word(&self, label: &str) -> Option<&str> {
        let found = self.lines.iter().find(|(_, name, _)| name == label);
        found.map(|(_, _, value)| value.as_str())
    }

    /// Every number of the table under the name of its metric.
    pub(crate) fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (head, label, value) in &self.lines {
            if SETTINGS.contains(&label.as_str()) {
                continue;
            }
            let percent = value.strip_suffix('%');
            let Ok(number) = percent.unwrap_or(value).trim().parse::<f64>() else {
                continue;
            };
            figures.set(&name_of(head, label, percent.is_some()), number);
        }
        figures
    }

    /// The layout, by what it has.
    pub(crate) fn layout(&self) -> &'static str {
        let has = |label: &str| self.word(label).is_some();
        let under = |head: &str| self.lines.iter().any(|(above, _, _)| above == head);
        if has("Pace") {
            "strict"
        } else if under("Inter-token Latency") {
            "lmdeploy"
        } else if has("P90 TTFT (ms)") {
            "E"
        } else if has("P99 E2E Latency (ms)") {
            "D"
        } else if has("Peak concurrent requests") {
            "C"
        } else if has("Total input text tokens") {
            "B"
        } else {
            "A"
        }
    }
}

/// The name of the metric that a label stands for; one that no table knows is made of its words.
fn name_of(head: &str, label: &str, percent: bool) -> String {
    let plain = label.strip_prefix("Storage (").map_or(label, |_| "Storage");
    if percent && matches!(plain, "Device" | "Host" | "Storage") {
        return format!("cache_{}_share", plain.to_lowercase());
    }
    if let Some((_, name)) = STRICT.iter().find(|(strict, _)| *strict == plain) {
        return (*name).to_owned();
    }
    if let Some((kind, family)) = plain.split_once(' ').filter(|_| head.contains(" from ")) {
        let family = if family.starts_with("TTFT") {
            "ttft"
        } else {
            "e2e_latency"
        };
        let scheduled = if head.ends_with("schedule") {
            "scheduled_"
        } else {
            ""
        };
        return format!("{}_{scheduled}{family}_ms", kind.to_lowercase());
    }
    Metric::labelled(plain).map_or_else(|| words_joined(label), |metric| metric.name.to_owned())
}

fn words_joined(label: &str) -> String {
    let words = label.split(|letter: char| !letter.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("_")
}

/// The words in the middle of a line across the table.
fn head(trimmed: &str) -> Option<&str> {
    let dashed = trimmed.len() >= 10 && trimmed.starts_with("--") && trimmed.ends_with("--");
    dashed
        .then(|| trimmed.trim_matches('-').trim())
        .filter(|head| !head.is_empty())
}

fn label_and_value(line: &str) -> Option<(&str, &str)> {
    let (label, value) = line.split_once(':')?;
    let (label, value) = (label.trim(), value.trim());
    let starts = label.starts_with(|letter: char| letter.is_alphabetic());
    (starts && !value.is_empty() && label.len() <= 60).then_some((label, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Backend:                                 sglang    
Traffic request rate:                    20.0      
Max request concurrency:                 not set   
Successful requests:                     100       
Request throughput (req/s):              2.92      
Shiny new figure (x/y):                  7.5
P99 TTFT (ms):                           n/a
----------------Cache Hit Details-----------------
Total cached tokens:                     100
  Device:                                60
Cache hit rate:                          50.0%
  Device:                                60.0%
  Storage (file):                        10.0%
==================================================
after
";

    #[test]
    fn every_number_has_a_name() {
        let (table, taken) = Table::read(TABLE.lines());
        assert!(table.closed);
        assert_eq!(taken, TABLE.lines().count() - 1);
        assert_eq!(table.word("Backend"), Some("sglang"));
        let figures = table.figures();
        let figures: Vec<_> = figures.iter().collect();
        assert_eq!(
            figures,
            [
                ("cache_cached_tokens", 100.0),
                ("cache_device_share", 60.0),
                ("cache_device_tokens", 60.0),
                ("cache_hit_rate", 50.0),
                ("cache_storage_share", 10.0),
                ("completed", 100.0),
                ("request_throughput", 2.92),
                ("shiny_new_figure_x_y", 7.5),
            ]
        );
    }

    #[test]
    fn a_table_that_is_cut_ends_where_it_ends() {
        let (table, taken) = Table::read("Backend: x\nSuccessful requests: 3\n\nmore".lines());
        assert_eq!((table.closed, taken), (false, 2));
        let (table, taken) = Table::read(std::iter::repeat_n("a: 1e999", 1_000));
        assert_eq!((table.closed, taken), (false, LONGEST));
        assert!(table.figures().is_empty());
    }
}
