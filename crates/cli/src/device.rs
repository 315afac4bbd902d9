//! Choosing and opening the device.

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use cuda::{Absent, CudaOptions};
use flags::Parsed;
use models::ModelSpec;
use ops::Device;

use crate::cuda_libraries;
use crate::env::Env;
use crate::launch::{ConfigError, Shortfall};

/// Prompt tokens of a step on the largest GPU, and rows that join it.
const LARGEST_CHUNK: i64 = 16384;
const MOST_ROWS: i64 = 4096;

/// Opens the device that the arguments name, for a model that its kernels run; `auto` takes a GPU that can be used.
pub(crate) fn open(
    parsed: &Parsed,
    env: &Env,
    spec: &ModelSpec,
) -> Result<Box<dyn Device>, ConfigError> {
    let device = open_any(parsed, env)?;
    spec.check_device(device.as_ref())
        .map_err(ConfigError::TooLarge)?;
    Ok(device)
}

fn open_any(parsed: &Parsed, env: &Env) -> Result<Box<dyn Device>, ConfigError> {
    let wanted = parsed.text("device").unwrap_or("auto");
    if wanted != "cpu" {
        let options = CudaOptions {
            untried: wanted == "cuda",
            ..cuda_options(parsed, env)
        };
        match cuda::open(&options) {
            Ok(device) => return Ok(Box::new(device)),
            Err(absent) if wanted == "cuda" => {
                return Err(ConfigError::NoGpu {
                    reason: reason(&absent),
                });
            }
            Err(
                absent @ (Absent::OldDriver { .. }
                | Absent::Unsuited { .. }
                | Absent::Untried { .. }
                | Absent::Device(_)),
            ) => {
                tracing::warn!("the CPU is used: {}", reason(&absent));
            }
            Err(absent) => tracing::info!("the CPU is used: {absent}"),
        }
    }
    Ok(Box::new(CpuDevice::new(&cpu_options(parsed)?)))
}

/// Why there is no GPU to use; memory that is short with what to do about it.
fn reason(absent: &Absent) -> String {
    let short = match absent {
        Absent::Device(error) => Shortfall::opening(error),
        _ => None,
    };
    short.map_or_else(|| absent.to_string(), |short| short.to_string())
}

fn cuda_options(parsed: &Parsed, env: &Env) -> CudaOptions {
    let eight_bits = parsed.text("kv-cache-dtype") == Some("fp8_e4m3");
    let rows = parsed
        .integer("max-running-requests")
        .unwrap_or(MOST_ROWS)
        .max(1);
    let chunk = match parsed.integer("chunked-prefill-size") {
        Some(tokens) if tokens > 0 => tokens,
        // prompts that are never split may be as long as they like; the longest are not tuned for
        Some(_) => 2 * LARGEST_CHUNK,
        None => LARGEST_CHUNK,
    };
    CudaOptions {
        library_folders: cuda_libraries::folders(env),
        kv: if eight_bits {
            cuda::KvPrecision::F8E4M3
        } else {
            cuda::KvPrecision::BF16
        },
        max_step_tokens: chunk.saturating_add(rows) as usize,
        ..CudaOptions::default()
    }
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
    match parsed.text("cpu-activations") {
        // exactness is asked for to compare with other engines, which keep keys and values in full
        Some("exact") => (options.activations, options.kv) = (Activations::Exact, KvPrecision::F32),
        Some("int8") => options.activations = Activations::Int8,
        _ => {}
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use models::TooLarge;
    use ops::{Beyond, DeviceError};

    use super::*;

    #[test]
    fn a_gpu_that_is_full_says_what_is_short_and_what_to_do() {
        let full = Absent::Device(DeviceError::OutOfMemory {
            device: "a GPU".into(),
            what: "the cuBLASLt workspace",
            wanted: 32 << 20,
            free: 10 << 20,
        });
        let no_gpu = ConfigError::NoGpu {
            reason: reason(&full),
        };
        assert_eq!(
            no_gpu.to_string(),
            "--device cuda: a GPU: 33.6 MB for the cuBLASLt workspace were asked, 10.5 MB are free, 23.1 MB too \
             little; stop what else uses the device, or name another one in CUDA_VISIBLE_DEVICES; --device cpu runs \
             without a GPU"
        );
        assert_eq!(reason(&Absent::NoDevice), Absent::NoDevice.to_string());
    }

    #[test]
    fn a_model_without_kernels_is_refused_with_sizes_limits_and_a_way() {
        let beyond = vec![Beyond {
            what: "head size",
            found: 512,
            most: 256,
        }];
        let device = "NVIDIA H200".to_owned();
        let refused = ConfigError::TooLarge(TooLarge { device, beyond });
        assert_eq!(
            refused.to_string(),
            "NVIDIA H200 has no kernels for a model with head size 512, where 256 is the most; --device cpu runs it"
        );
    }
}
