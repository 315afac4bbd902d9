use super::*;
use crate::store::Parcel;

const NOTEBOOK: &str = include_str!("../../tests/data/notebook.md");
const RESULT: &str = include_str!("../../tests/data/results.jsonl");

fn report(folder: &std::path::Path) -> Report {
    let mut store = Store::open(folder).unwrap();
    for (file, text) in [("notebook.md", NOTEBOOK), ("results.jsonl", RESULT)] {
        for found in import::runs(file, text) {
            store
                .add(&Parcel {
                    run: &found.run,
                    records: &found.records,
                    texts: vec![("table.txt", &found.text)],
                    files: Vec::new(),
                })
                .unwrap();
        }
    }
    let metrics: Vec<_> = Metric::named("request_throughput").into_iter().collect();
    let runs = store.runs().unwrap();
    Report::of(&store, ("A <report>", runs), &metrics, &Manner::default()).unwrap()
}

#[test]
fn subjects_of_one_text_and_model_are_held_against_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(folder.path());
    let pairs: Vec<(&str, &str)> = report
        .pairs
        .iter()
        .map(|pair| (pair.first.as_str(), pair.second.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("Tiny-1B FUSE=1", "Tiny-1B FUSE=0"),
            ("Other-7B before", "Other-7B after")
        ]
    );
    assert!(
        report
            .findings
            .iter()
            .any(|(finding, _)| finding.text.contains("before those of"))
    );
}

#[test]
fn markdown_has_contents_verdicts_and_every_printed_table() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(folder.path());
    let text = markdown(&report, true);
    let brief = markdown(&report, false);
    assert!(brief.len() < text.len() && text.starts_with(brief.split("\n## Tiny").next().unwrap()));
    assert!(!brief.contains("Serving Benchmark Result"));
    assert!(text.starts_with("# A <report>\n"));
    assert!(text.contains("  - [Tiny-1B FUSE=1](#tiny-1b-fuse1)\n"));
    assert!(text.contains("\n## Tiny-1B FUSE=1\n"));
    assert_eq!(
        text.matches("============ Serving Benchmark Result ============")
            .count(),
        5
    );
    assert!(text.contains("cannot be told: B is"));
    assert!(
        text.contains("export FUSE=1\npython3 -m sglang.launch_server --model-path store/Tiny-1B")
    );
    let again = import::runs("report.md", &text);
    assert_eq!(again.len(), 7, "the report can be read again");
    for evidence in &report.evidence {
        assert!(text.contains(evidence.run.short_id()), "every run is named");
    }
}

#[test]
fn machines_and_how_their_gpus_were_doing_are_told_with_each_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(folder.path());
    let (first, load) = {
        let run = &report.evidence[0].run;
        (run.id.clone(), run.load.name.clone())
    };
    for one in &mut report.evidence {
        if one.run.id != first {
            continue;
        }
        for (name, value) in [
            ("gpu_clock_mhz", 1755.0),
            ("gpu_power_w", 641.5),
            ("gpu_temperature_c", 61.0),
            ("gpu_held_down", 25.0),
            ("energy_per_token_j", 0.0125),
        ] {
            one.run.figures.set(name, value);
        }
        one.run.machine = Some(crate::machine::Machine {
            processor: "Some CPU".into(),
            cores: 16,
            accelerators: vec!["Some GPU, driver 1.2, 143771 MiB".into()],
            ..crate::machine::Machine::default()
        });
    }
    let subject = &report.evidence[0].run.subject.name;
    let sentence = format!(
        "{subject}: GPU clock 1755 MHz, power 642 W, 61 °C at most, clocks held down in 25 % of the time, 12.50 mJ an \
         output token"
    );
    let (text, page) = (markdown(&report, true), html(&report));
    assert_eq!(
        text.matches(&format!("- {sentence}\n")).count(),
        1,
        "{load}"
    );
    assert!(text.contains("Some GPU, driver 1.2"));
    assert_eq!(page.matches(&sentence).count(), 1);
    assert!(page.contains("<br>Some CPU, 16 cores, 0 GiB; Some GPU, driver 1.2, 143771 MiB</p>"));
}

#[test]
fn the_page_is_whole_and_escapes_what_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&report(folder.path()));
    assert!(page.contains("<h1>A &lt;report&gt;</h1>"));
    assert!(
        !page.contains("<script") && !page.contains("http"),
        "it stands alone"
    );
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.matches("<svg").count() >= 5);
    assert!(!page.contains("=\"NaN") && !page.contains("=\"inf"));
    assert!(
        page.contains("share of requests"),
        "the requests of the result lines are drawn"
    );
}

/// The text between two others.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split(from).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {from} in the page"));
    rest.split(to).next().unwrap()
}

#[test]
fn distributions_name_their_curves_and_keep_their_tails() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(folder.path());
    let one = report.evidence.iter_mut().find(|one| one.records.len() > 1);
    let one = one.expect("a result line has requests");
    let (subject, load) = (one.run.subject.name.clone(), one.run.load.name.clone());
    let record = one.records[0].clone();
    one.records = vec![record; 200];
    let late = one.records.last_mut().unwrap();
    late.finished = bench::clock::Nanos(late.sent.0 + 90_000_000_000);
    let page = html(&report);
    let heading = format!("<h3>{}</h3>", load.replace('/', "&#x2f;"));
    let section = between(&page, &heading, "<h2");
    let whole = between(section, "<h3>whole request, ms</h3>", "</svg>");
    assert!(whole.contains(&format!("</i>{subject}: p50 ")), "{whole}");
    assert!(
        whole.contains("max 90k</span>") && whole.contains("log scale"),
        "{whole}"
    );
}

#[test]
fn panels_of_a_load_share_their_scales() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(folder.path());
    let place = report.evidence.iter().position(|one| one.records.len() > 1);
    let one = report.evidence[place.expect("a result line has requests")].clone();
    let mut slower = one.clone();
    slower.run.id = "fedcba987654".to_owned();
    slower.run.subject.name = "slower".to_owned();
    for record in &mut slower.records {
        record.sent = bench::clock::Nanos(record.sent.0.saturating_sub(5_000_000_000));
    }
    report.subjects.push("slower".to_owned());
    report.evidence.push(slower);
    let page = html(&report);
    let panel = |subject: &str, id: &str| {
        let heading = format!("<h3>{subject}, run {id}: time to first token</h3>");
        let panel = between(&page, &heading, "</svg>");
        panel.split("<circle").next().unwrap().to_owned()
    };
    let first = panel(&one.run.subject.name, one.run.short_id());
    assert_eq!(first, panel("slower", "fedcba98"), "the same axes");
}

#[test]
fn gpu_clocks_are_drawn_for_runs_that_kept_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(folder.path());
    assert!(!html(&report).contains("GPU clock"));
    let run = report.evidence[0].run.clone();
    let table = "second,gpu,clock_mhz,highest_clock_mhz,temperature_c,power_w,reasons\n\
        0.0,0,1980,1980,41,300.5,0x0\n0.25,0,1200,1980,84,699.5,0x4\n";
    let course = moments(table);
    report.courses.insert(run.id.clone(), course);
    let page = html(&report);
    let chart = between(&page, "<h3>GPU clock, mean of GPUs</h3>", "</svg>");
    let name = format!("</i>{}, run {}</span>", run.subject.name, run.short_id());
    assert!(chart.contains(&name), "{chart}");
    assert_eq!(chart.matches("<path class=\"line s0\"").count(), 1);
    assert!(page.contains("<h3>GPU power, sum of GPUs</h3>"));
}

#[test]
fn nothing_is_wider_than_a_narrow_screen_but_what_scrolls() {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&report(folder.path()));
    for svg in page.split("<svg viewBox=\"0 0 ").skip(1) {
        let width: f64 = svg.split(' ').next().unwrap().parse().unwrap();
        assert!((300.0..500.0).contains(&width) || (width - 1000.0).abs() < 1e-9);
    }
    let wide = page.matches("<svg viewBox=\"0 0 1000 ").count();
    assert_eq!(page.matches("<div class=\"scroll\"><svg").count(), wide);
    assert!(page.contains(".scroll { overflow-x: auto; }"));
    assert!(!page.contains("minmax(400px"));
    let (broad, narrow) = ("<div class=\"broad\">", "<div class=\"narrow\">");
    assert_eq!(page.matches(broad).count(), page.matches(narrow).count());
}
