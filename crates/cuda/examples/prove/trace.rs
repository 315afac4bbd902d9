//! What the kernels of a graph take, as CUPTI sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use cuda::CudaDevice;
use ops::{Device as _, DeviceTrace, Graph, NoTracer, OpError};

use crate::bench::{captured, sync};

/// Replays that are recorded.
const REPLAYS: usize = 3;
/// Letters of a kernel's name that are shown.
const NAME: usize = 90;

/// Times of one kernel, added up.
#[derive(Default)]
struct Total {
    count: usize,
    lasted: Duration,
    /// From the end of the kernel before to the end of this one: what it adds to the whole.
    added: Duration,
}

/// Prints what each kernel takes in one of `many` runs, in the order in which they first appear.
pub(crate) fn run(
    device: &CudaDevice,
    many: usize,
    run: impl FnMut(usize) -> Result<(), OpError>,
) -> bool {
    of_graph(device, many, captured(device, many, run).as_ref())
}

/// The same of a graph of several runs.
pub(crate) fn of_graph(device: &CudaDevice, many: usize, graph: &dyn Graph) -> bool {
    let record = || -> Result<DeviceTrace, NoTracer> {
        let tracer = device.tracer()?;
        graph.replay().expect("a replay");
        sync(device);
        tracer.begin()?;
        for _ in 0..REPLAYS {
            graph.replay().expect("a replay");
        }
        sync(device);
        tracer.end()
    };
    match record() {
        Ok(trace) => {
            print(&trace, many * REPLAYS);
            true
        }
        Err(NoTracer(reason)) => {
            println!("no trace: {reason}");
            false
        }
    }
}

fn print(trace: &DeviceTrace, runs: usize) {
    let mut totals: BTreeMap<&str, (usize, Total)> = BTreeMap::new();
    let mut before: Option<Duration> = None;
    for (place, span) in trace.spans.iter().enumerate() {
        let total = &mut totals
            .entry(&span.name)
            .or_insert((place, Total::default()))
            .1;
        total.count += 1;
        let lasted = span.end.saturating_sub(span.start);
        total.lasted += lasted;
        total.added += before.map_or(lasted, |before| span.end.saturating_sub(before));
        before = before.max(Some(span.end));
    }
    let mut lines: Vec<_> = totals.into_iter().collect();
    lines.sort_by_key(|(_, (place, _))| *place);
    let a_run = |time: Duration| 1e6 * time.as_secs_f64() / runs as f64;
    for (name, (_, total)) in lines {
        println!(
            "    {:7.1} µs of a run, {:7.1} from begin to end, {:4.1} ×  {}",
            a_run(total.added),
            a_run(total.lasted),
            total.count as f64 / runs as f64,
            name.chars().take(NAME).collect::<String>()
        );
    }
}
