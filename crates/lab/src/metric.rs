//! What is measured of a run: names as in result files, the words of printed tables, units, and
//! which way is better.

/// Which way a figure improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It describes the work, not how well it was done.
    Neither,
}

/// One kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name in result files and on the command line.
    pub name: &'static str,
    /// Its label in printed tables, without the colon.
    pub label: &'static str,
    /// Its unit, empty for counts.
    pub unit: &'static str,
    /// Which way it improves.
    pub better: Better,
    /// Decimals in printed tables.
    pub decimals: usize,
}

const fn count(name: &'static str, label: &'static str) -> Metric {
    Metric {
        name,
        label,
        unit: "",
        better: Better::Neither,
        decimals: 0,
    }
}

const fn figure(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    better: Better,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        better,
        decimals: 2,
    }
}

const fn rate(name: &'static str, label: &'static str, unit: &'static str) -> Metric {
    figure(name, label, unit, Better::Higher)
}

const fn time(name: &'static str, label: &'static str) -> Metric {
    figure(name, label, "ms", Better::Lower)
}

const fn share(name: &'static str, label: &'static str, better: Better) -> Metric {
    figure(name, label, "%", better)
}

/// Every figure with a name of its own, in the order of printed tables.
pub const METRICS: &[Metric] = &[
    count("completed", "Successful requests"),
    count("failed", "Failed requests"),
    figure("duration", "Benchmark duration (s)", "s", Better::Neither),
    count("total_input_tokens", "Total input tokens"),
    count("total_input_text_tokens", "Total input text tokens"),
    count("total_input_vision_tokens", "Total input vision tokens"),
    count("total_output_tokens", "Total generated tokens"),
    count(
        "total_output_tokens_retokenized",
        "Total generated tokens (retokenized)",
    ),
    rate("request_throughput", "Request throughput (req/s)", "req/s"),
    rate(
        "input_throughput",
        "Input token throughput (tok/s)",
        "tok/s",
    ),
    rate(
        "output_throughput",
        "Output token throughput (tok/s)",
        "tok/s",
    ),
    rate(
        "max_output_tokens_per_s",
        "Peak output token throughput (tok/s)",
        "tok/s",
    ),
    count("max_concurrent_requests", "Peak concurrent requests"),
    rate(
        "total_throughput",
        "Total token throughput (tok/s)",
        "tok/s",
    ),
    figure("concurrency", "Concurrency", "", Better::Neither),
    figure("accept_length", "Accept length", "", Better::Higher),
    rate("request_goodput", "Request goodput (req/s)", "req/s"),
    share("slo_attainment_pct", "SLO attainment (%)", Better::Higher),
    share(
        "ttft_slo_attainment_pct",
        "TTFT SLO attainment (%)",
        Better::Higher,
    ),
    share(
        "tpot_slo_attainment_pct",
        "TPOT SLO attainment (%)",
        Better::Higher,
    ),
    share(
        "e2el_slo_attainment_pct",
        "E2EL SLO attainment (%)",
        Better::Higher,
    ),
    time("mean_e2e_latency_ms", "Mean E2E Latency (ms)"),
    time("median_e2e_latency_ms", "Median E2E Latency (ms)"),
    time("std_e2e_latency_ms", "Std E2E Latency (ms)"),
    time("p90_e2e_latency_ms", "P90 E2E Latency (ms)"),
    time("p95_e2e_latency_ms", "P95 E2E Latency (ms)"),
    time("p99_e2e_latency_ms", "P99 E2E Latency (ms)"),
    time("mean_ttft_ms", "Mean TTFT (ms)"),
    time("median_ttft_ms", "Median TTFT (ms)"),
    time("std_ttft_ms", "Std TTFT (ms)"),
    time("p90_ttft_ms", "P90 TTFT (ms)"),
    time("p95_ttft_ms", "P95 TTFT (ms)"),
    time("p99_ttft_ms", "P99 TTFT (ms)"),
    time("mean_tpot_ms", "Mean TPOT (ms)"),
    time("median_tpot_ms", "Median TPOT (ms)"),
    time("std_tpot_ms", "Std TPOT (ms)"),
    time("p90_tpot_ms", "P90 TPOT (ms)"),
    time("p95_tpot_ms", "P95 TPOT (ms)"),
    time("p99_tpot_ms", "P99 TPOT (ms)"),
    time("mean_itl_ms", "Mean ITL (ms)"),
    time("median_itl_ms", "Median ITL (ms)"),
    time("std_itl_ms", "Std ITL (ms)"),
    time("p90_itl_ms", "P90 ITL (ms)"),
    time("p95_itl_ms", "P95 ITL (ms)"),
    time("p99_itl_ms", "P99 ITL (ms)"),
    time("max_itl_ms", "Max ITL (ms)"),
    time("max_ttft_ms", "Max TTFT (ms)"),
    time(
        "mean_scheduled_e2e_latency_ms",
        "Mean E2E from schedule (ms)",
    ),
    time(
        "median_scheduled_e2e_latency_ms",
        "Median E2E from schedule (ms)",
    ),
    time("p99_scheduled_e2e_latency_ms", "P99 E2E from schedule (ms)"),
    time("mean_scheduled_ttft_ms", "Mean TTFT from schedule (ms)"),
    time("median_scheduled_ttft_ms", "Median TTFT from schedule (ms)"),
    time("p99_scheduled_ttft_ms", "P99 TTFT from schedule (ms)"),
    time("mean_queue_ms", "Mean queue (ms)"),
    time("p99_queue_ms", "P99 queue (ms)"),
    rate(
        "achieved_request_rate",
        "Achieved request rate (req/s)",
        "req/s",
    ),
    rate(
        "steady_output_throughput",
        "Output in the steady window (tok/s)",
        "tok/s",
    ),
    count("cache_prompt_tokens", "Total prompt tokens"),
    count("cache_cached_tokens", "Total cached tokens"),
    count("cache_device_tokens", "Device"),
    count("cache_host_tokens", "Host"),
    count("cache_storage_tokens", "Storage"),
    Metric {
        decimals: 1,
        ..share("cache_hit_rate", "Cache hit rate", Better::Neither)
    },
    figure("warmup_seconds", "warmup time", "s", Better::Neither),
    // Some thousandths with a small model.
    Metric {
        decimals: 5,
        ..figure(
            "energy_per_token_j",
            "Energy per output token (J)",
            "J",
            Better::Lower,
        )
    },
    figure("gpu_clock_mhz", "GPU clock (MHz)", "MHz", Better::Neither),
    figure("gpu_power_w", "GPU power (W)", "W", Better::Neither),
    figure(
        "gpu_temperature_c",
        "GPU temperature (°C)",
        "°C",
        Better::Neither,
    ),
    share("gpu_held_down", "GPU clocks held down (%)", Better::Neither),
];

impl Metric {
    /// The metric with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// The metric that tables print under this label.
    pub fn labelled(label: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.label == label)
    }

    /// The closest name to one that does not exist.
    pub fn nearest(name: &str) -> Option<&'static str> {
        flags::nearest(name, METRICS.iter().map(|metric| metric.name))
    }

    /// A value as tables print it, without its unit.
    pub fn written(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }

    /// A value with its unit.
    pub fn with_unit(&self, value: f64) -> String {
        let number = self.written(value);
        match self.unit {
            "" => number,
            unit => format!("{number} {unit}"),
        }
    }
}

/// A value as people read it when the metric may be one that no table knows.
pub fn written(name: &str, value: f64) -> String {
    match Metric::named(name) {
        Some(metric) => metric.written(value),
        None if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
        None => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_energies_are_told_apart() {
        assert_eq!(written("energy_per_token_j", 0.01779), "0.01779");
    }

    #[test]
    fn names_and_labels_are_unique() {
        for (place, metric) in METRICS.iter().enumerate() {
            assert_eq!(Metric::named(metric.name), Some(&METRICS[place]));
            assert_eq!(Metric::labelled(metric.label), Some(&METRICS[place]));
        }
    }
}
