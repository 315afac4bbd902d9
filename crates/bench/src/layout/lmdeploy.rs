//! The table of the LMDeploy client.

use super::reference::{Kind, block};
use super::{Frame, Heading};
use crate::measure::reference::Figures;
use crate::python_text;

/// The table of one run.
pub fn lmdeploy_table(heading: &Heading<'_>, figures: &Figures) -> String {
    let mut frame = Frame::titled(" Serving Benchmark Result ");
    frame.word("Backend:", heading.backend);
    frame.word(
        "Traffic request rate:",
        python_text::float(heading.rate.unwrap_or(f64::INFINITY)),
    );
    frame.word("Successful requests:", figures.completed);
    frame.number("Benchmark duration (s):", figures.duration);
    frame.word("Total input tokens:", figures.input);
    frame.word("Total generated tokens:", figures.output);
    frame.word(
        "Total generated tokens (retokenized):",
        figures.output_retokenized,
    );
    frame.number("Request throughput (req/s):", figures.request_throughput());
    frame.number(
        "Input token throughput (tok/s):",
        figures.input_throughput(),
    );
    frame.number(
        "Output token throughput (tok/s):",
        figures.output_throughput(),
    );
    block(
        &mut frame,
        "End-to-End Latency",
        "E2E Latency",
        &figures.e2e,
        &[],
    );
    block(
        &mut frame,
        "Time to First Token",
        "TTFT",
        &figures.ttft,
        &[Kind::P99],
    );
    let head = "Time per Output Token (excl. 1st token)";
    block(&mut frame, head, "TPOT", &figures.tpot, &[Kind::P99]);
    block(
        &mut frame,
        "Inter-token Latency",
        "ITL",
        &figures.itl,
        &[Kind::P99],
    );
    frame.closed()
}
