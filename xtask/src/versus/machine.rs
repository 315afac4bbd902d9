//! Facts about where and with what a comparison ran.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// Instruction sets that decide how fast small integers are multiplied.
const FEATURES: &[&str] = &["avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8"];

/// Name and value of each fact.
pub(crate) fn facts(
    root: &Path,
    threads: usize,
    model: &Path,
    speed: f64,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let file = model.file_name().unwrap_or_default().to_string_lossy();
    let mut facts = common_facts(root)?;
    let more = [
        ("memory, measured", format!("{:.1} GB/s", speed / 1e9)),
        ("model", file.into_owned()),
        ("threads", threads.to_string()),
    ];
    facts.splice(1..1, more);
    Ok(facts)
}

/// The processor, the commit and the compilers.
pub(crate) fn common_facts(root: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let cpu = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let cores = cpu.lines().filter(|line| line.starts_with("processor"));
    let features: Vec<&str> = FEATURES
        .iter()
        .copied()
        .filter(|feature| cpu.split_whitespace().any(|word| word == *feature))
        .collect();
    let processor = format!(
        "{}, {} cores, {}",
        field(&cpu, "model name"),
        cores.count(),
        features.join(" ")
    );
    Ok(vec![
        ("processor", processor),
        (
            "commit",
            output(root, "git", &["rev-parse", "--short", "HEAD"]),
        ),
        (
            "compilers",
            format!("{}; {}", output(root, "rustc", &["--version"]), gcc(root)),
        ),
    ])
}

fn field(cpu: &str, name: &str) -> String {
    let line = cpu.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value.map_or_else(
        || "unknown".to_owned(),
        |(_, value)| value.trim().to_owned(),
    )
}

fn gcc(root: &Path) -> String {
    format!("gcc {}", output(root, "gcc", &["-dumpfullversion"]))
}

/// The first line a program prints.
pub(crate) fn output(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output();
    let text = run.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_kernels_page_is_found() {
        let cpu = "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\n";
        assert_eq!(field(cpu, "model name"), "AMD EPYC");
        assert_eq!(field(cpu, "absent"), "unknown");
    }
}
