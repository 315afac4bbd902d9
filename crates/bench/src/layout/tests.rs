use super::*;
use crate::measure::goodput::{Goodput, Objectives};
use crate::measure::reference::{Figures, Spread};
use expect_test::expect_file;

fn spread(base: f64) -> Spread {
    Spread {
        mean: base,
        median: base + 1.0,
        deviation: base + 2.0,
        p90: base + 3.0,
        p95: base + 4.0,
        p99: base + 5.0,
        max: base + 6.0,
    }
}

fn figures() -> Figures {
    Figures {
        completed: 1536,
        input: 5_376_000,
        input_text: 5_376_000,
        input_vision: 0,
        output: 2_304_000,
        output_retokenized: 2_297_507,
        duration: 354.53,
        ttft: spread(11_959.24),
        tpot: spread(45.23),
        itl: spread(45.22),
        e2e: spread(79_755.73),
        concurrency: 345.54,
        accept_length: None,
        peak_output: 8170.0,
        peak_requests: 397,
        output_lengths: Vec::new(),
    }
}

fn heading() -> Heading<'static> {
    Heading {
        backend: "sglang",
        rate: Some(f64::INFINITY),
        max_concurrency: Some(384),
        embedding: false,
        images: false,
    }
}

#[test]
fn every_layout_is_as_its_release_printed_it() {
    for (name, layout) in [
        ("a", Layout::A),
        ("b", Layout::B),
        ("c", Layout::C),
        ("d", Layout::D),
        ("e", Layout::E),
    ] {
        let table = reference_table(layout, &heading(), &figures(), None, None);
        let path = format!(
            "{}/tests/data/layout-{name}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        expect_file![path].assert_eq(&table);
    }
    expect_file!["../../tests/data/layout-lmdeploy.txt"]
        .assert_eq(&lmdeploy_table(&heading(), &figures()));
}

#[test]
fn optional_lines_appear_when_there_is_something_to_say() {
    let bounds = Objectives::from_words(["ttft:500", "e2el:2000"]).unwrap();
    let goodput = Goodput::of(&bounds, &[], 10, 2.0);
    let cache = crate::measure::cache::CacheHits {
        prompt_tokens: 200,
        cached_tokens: 100,
        places: Some(crate::measure::cache::CachePlaces {
            device: 60,
            host: 30,
            storage: 10,
        }),
        storage_backend: Some("file".to_owned()),
    };
    let figures = Figures {
        accept_length: Some(2.5),
        ..figures()
    };
    let heading = Heading {
        rate: None,
        max_concurrency: None,
        images: true,
        ..heading()
    };
    let table = reference_table(Layout::E, &heading, &figures, Some(&goodput), Some(&cache));
    expect_file!["../../tests/data/layout-e-full.txt"].assert_eq(&table);
    let embedding = Heading {
        embedding: true,
        ..heading
    };
    expect_file!["../../tests/data/layout-e-embedding.txt"].assert_eq(&reference_table(
        Layout::E,
        &embedding,
        &figures,
        None,
        None,
    ));
}

#[test]
fn layouts_and_releases_name_each_other() {
    for layout in [Layout::A, Layout::B, Layout::C, Layout::D, Layout::E] {
        assert_eq!(Layout::of(layout.release()), layout);
    }
}
