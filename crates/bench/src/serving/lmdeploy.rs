//! A run in the manner of the LMDeploy client: no gate, one whole request as warm-up, rows of CSV.

use super::compat::{interruption, output_file};
use super::error::ServingError;
use super::live::LiveView;
use super::options::Options;
use super::prepare::{Prepared, prepare};
use super::progress::{ProgressBar, Silence};
use super::run::client;
use super::schedule::Schedule;
use super::surroundings::Surroundings;
use crate::client::Client;
use crate::dataset::Row;
use crate::layout::{Heading, lmdeploy_table};
use crate::load::{self, Load, LoadOutcome, Onlooker};
use crate::measure::reference::{Circumstances, Figures, View, figures};
use crate::pace::{Burst, Pace};
use crate::python_text;
use crate::result::append_csv;
use crate::stop::StopRules;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The head of the result table.
const HEAD: [&str; 18] = [
    "backend",
    "dataset_name",
    "sharegpt_output_len",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "request_rate",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "duration",
    "request_throughput",
    "input_throughput",
    "output_throughput",
    "mean_e2e_latency_ms",
    "mean_ttft_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
];

/// Runs the benchmark, once or once per rate; what the process returns.
pub(super) fn serve(
    mut options: Options,
    surroundings: &mut Surroundings<'_>,
) -> Result<u8, ServingError> {
    let rates = rates(&options)?;
    let prepared = prepare(&mut options, surroundings)?;
    let rows: Vec<Arc<Row>> = prepared
        .dataset
        .rows
        .iter()
        .cloned()
        .map(Arc::new)
        .collect();
    let mut completed = 0;
    for rate in rates {
        let (outcome, figures) = run(&options, &prepared, &rows, rate, surroundings)?;
        completed += figures.completed;
        let heading = Heading {
            backend: prepared.backend.name(),
            rate: Some(rate),
            max_concurrency: None,
            embedding: false,
            images: false,
        };
        let table = lmdeploy_table(&heading, &figures);
        surroundings.show(&table);
        let path = output_file(&options);
        let written = append_csv(&path, &HEAD, &cells(&options, rate, &figures))
            .map_err(|source| ServingError::Output { path, source });
        let run = (outcome.records.as_slice(), rows.as_slice());
        super::page::write(&options, &prepared, run, (&table, None), surroundings)?;
        written?;
        if outcome.interrupted {
            surroundings.warn(&interruption(&outcome.records, rows.len()));
            return Ok(130);
        }
    }
    Ok(u8::from(completed == 0))
}

/// The one rate, or with `--multi` all of the range: start,stop,step or a list.
fn rates(options: &Options) -> Result<Vec<f64>, ServingError> {
    if !options.given.switch("multi") {
        return Ok(vec![
            options.given.float("request-rate").unwrap_or(f64::INFINITY),
        ]);
    }
    let text = options.given.text("request-rate-range").unwrap_or_default();
    let numbers: Option<Vec<f64>> = text
        .split(',')
        .map(|part| part.trim().parse().ok())
        .collect();
    let numbers = numbers.filter(|numbers| numbers.iter().all(|number| *number > 0.0));
    match numbers.as_deref() {
        Some([start, stop, step]) if *step > 0.0 => {
            let count = ((stop - start) / step).ceil().max(0.0) as usize;
            Ok((0..count)
                .map(|place| start + step * place as f64)
                .collect())
        }
        Some(list) if !list.is_empty() => Ok(list.to_vec()),
        _ => Err(ServingError::Usage(format!(
            "argument --request-rate-range: expected start,stop,step or a list of rates, all > 0, got '{text}'"
        ))),
    }
}

fn run(
    options: &Options,
    prepared: &Prepared,
    rows: &[Arc<Row>],
    rate: f64,
    surroundings: &mut Surroundings<'_>,
) -> Result<(LoadOutcome, Figures), ServingError> {
    let mut client = client(options, prepared)?;
    let watch = super::interrupts::watch(client.interrupter(), surroundings.catch_interrupts);
    if !options.given.switch("disable-warmup") {
        warm_up(&mut client, &rows[0], surroundings)?;
        super::pause(Duration::from_millis(1500));
    }
    let schedule = Schedule::at(options, rows, prepared.streams.clone(), rate);
    let began = Instant::now();
    let outcome = if options.given.switch("disable-tqdm") {
        put(&mut client, rows, schedule.pace, &mut Silence)
    } else if let Some(mut view) = LiveView::wanted(options, surroundings, rows.len(), &client) {
        put(&mut client, rows, schedule.pace, &mut view)
    } else {
        let rounds = |_: usize| 1;
        let mut bar = ProgressBar::new(&mut surroundings.err, rows.len(), &rounds);
        let outcome = put(&mut client, rows, schedule.pace, &mut bar);
        bar.close();
        outcome
    };
    let duration = began.elapsed().as_secs_f64();
    drop(watch);
    let view = View {
        backend: prepared.backend,
        release: options.release,
        gap_per_event: true,
    };
    let figures = figures(
        &outcome.records,
        &Circumstances {
            view,
            duration,
            accept_length: None,
            vocabulary: &prepared.vocabulary,
            conversations: false,
        },
    );
    Ok((outcome, figures))
}

fn put(
    client: &mut Client,
    rows: &[Arc<Row>],
    pace: Box<dyn Pace>,
    onlooker: &mut dyn Onlooker,
) -> LoadOutcome {
    let stop = StopRules::default();
    load::run(
        client,
        Load {
            rows,
            adapters: &[],
            pace,
            gate: None,
            stop,
            again: false,
            skip: &|_| false,
        },
        onlooker,
    )
}

/// One request of the load, whole.
fn warm_up(
    client: &mut Client,
    row: &Arc<Row>,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    surroundings.say("Starting initial single prompt test run...");
    let began = Instant::now();
    let outcome = put(
        client,
        std::slice::from_ref(row),
        Box::new(Burst),
        &mut Silence,
    );
    if outcome.interrupted {
        return Err(ServingError::Said(130));
    }
    if let Some(failure) = outcome
        .records
        .first()
        .and_then(|record| record.failure.as_ref())
    {
        return Err(ServingError::Refused(format!(
            "Initial test run failed - Please make sure benchmark arguments are correctly \
             specified. Error: {failure}"
        )));
    }
    surroundings.say("Initial test run completed. Starting main benchmark run...");
    surroundings.say(&format!(
        "warmup time: {:.2}s",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn cells(options: &Options, rate: f64, figures: &Figures) -> Vec<String> {
    let text = |name: &str| options.given.text(name).unwrap_or_default().to_owned();
    let number = |name: &str| {
        options
            .given
            .integer(name)
            .map_or_else(String::new, |n| n.to_string())
    };
    let float = python_text::float;
    vec![
        text("backend"),
        text("dataset-name"),
        number("sharegpt-output-len"),
        number("random-input-len"),
        number("random-output-len"),
        float(
            options
                .given
                .float("random-range-ratio")
                .unwrap_or_default(),
        ),
        float(rate),
        figures.completed.to_string(),
        figures.input.to_string(),
        figures.output.to_string(),
        float(figures.duration),
        float(figures.request_throughput()),
        float(figures.input_throughput()),
        float(figures.output_throughput()),
        float(figures.e2e.mean),
        float(figures.ttft.mean),
        float(figures.tpot.mean),
        float(figures.itl.mean),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates_of(line: &str) -> Result<Vec<f64>, ServingError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        rates(&Options::parse(&words)?)
    }

    #[test]
    fn rates_are_one_a_range_or_a_list() {
        assert_eq!(rates_of("--client lmdeploy").unwrap(), [f64::INFINITY]);
        assert_eq!(rates_of("--client lmdeploy --multi").unwrap().len(), 16);
        let range = "--client lmdeploy --multi --request-rate-range";
        assert_eq!(
            rates_of(&format!("{range} 1,4,1")).unwrap(),
            [1.0, 2.0, 3.0]
        );
        assert_eq!(
            rates_of(&format!("{range} 1,4,9,20")).unwrap(),
            [1.0, 4.0, 9.0, 20.0]
        );
        assert_eq!(rates_of(&format!("{range} x")).unwrap_err().exit_code(), 2);
    }
}
