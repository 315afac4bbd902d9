//! Choosing and opening the device.

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use flags::Parsed;
use ops::Device;

use crate::launch::ConfigError;

/// Opens the device that the arguments name.
pub(crate) fn open(parsed: &Parsed) -> Result<Box<dyn Device>, ConfigError> {
    let device = parsed.text("device").unwrap_or("auto");
    if device == "cuda" {
        let offered = &["auto", "cpu"];
        return Err(ConfigError::NotOffered {
            flag: "--device",
            value: device.into(),
            offered,
        });
    }
    Ok(Box::new(CpuDevice::new(&cpu_options(parsed)?)))
}

fn cpu_options(parsed: &Parsed) -> Result<CpuOptions, ConfigError> {
    let mut options = CpuOptions::default();
    if let Some(threads) = parsed.integer("threads") {
        let fits = usize::try_from(threads)
            .ok()
            .filter(|threads| (1..=1024).contains(threads));
        options.threads = fits.ok_or_else(|| ConfigError::OutOfRange {
            flag: "--threads",
            value: threads.to_string(),
            range: "between 1 and 1024",
        })?;
    }
    // exactness is asked for to compare with other engines, which keep keys and values in full
    if parsed.text("cpu-activations") == Some("exact") {
        (options.activations, options.kv) = (Activations::Exact, KvPrecision::F32);
    }
    Ok(options)
}
