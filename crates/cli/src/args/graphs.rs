//! Flags about graphs and compilation.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, for_gpu, idle};

const NO_GRAPHS: &str = "steps that only generate are captured whole; there is nothing to choose";
const NO_GRAPHS_ON_CPU: &str = "a CPU has no graphs to capture";
const NO_COMPILER: &str =
    "kernels are compiled ahead of time; there is nothing to compile while serving";

pub(super) const ENTRIES: &[Entry] = &[
    for_gpu(
        NO_GRAPHS_ON_CPU,
        FlagSpec::integer(
            "cuda-graph-max-bs",
            "Most requests of a captured step on a GPU.",
        )
        .alias(&["cuda-graph-max-bs-decode"]),
    ),
    for_gpu(
        NO_GRAPHS_ON_CPU,
        FlagSpec::integer("cuda-graph-bs", "Requests of each captured step on a GPU.")
            .takes(Takes::Some)
            .alias(&["cuda-graph-bs-decode"]),
    ),
    for_gpu(
        NO_GRAPHS_ON_CPU,
        FlagSpec::switch(
            "disable-cuda-graph",
            "Launch every step of a GPU kernel by kernel.",
        )
        .alias(&["disable-decode-cuda-graph"]),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::switch("disable-cuda-graph-padding", ""),
    ),
    idle(NO_GRAPHS, FlagSpec::switch("enable-profile-cuda-graph", "")),
    idle(NO_GRAPHS, FlagSpec::switch("enable-cudagraph-gc", "")),
    idle(
        NO_GRAPHS,
        FlagSpec::switch("enable-piecewise-cuda-graph", ""),
    ),
    idle(NO_GRAPHS, FlagSpec::text("piecewise-cuda-graph-tokens", "")),
    idle(
        NO_GRAPHS,
        FlagSpec::choice("piecewise-cuda-graph-compiler", &["eager", "inductor"], "")
            .default(Preset::Text("eager")),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::integer("piecewise-cuda-graph-max-tokens", "").default(Preset::Integer(4096)),
    ),
    idle(NO_GRAPHS, FlagSpec::text("cuda-graph-config", "")),
    idle(
        NO_GRAPHS,
        FlagSpec::choice(
            "cuda-graph-backend-decode",
            &["full", "breakable", "disabled"],
            "",
        ),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::choice(
            "cuda-graph-backend-prefill",
            &["full", "breakable", "disabled"],
            "",
        ),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::integer("cuda-graph-max-bs-prefill", ""),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::integer("cuda-graph-max-seq-len-prefill", ""),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::integer("cuda-graph-bs-prefill", "").takes(Takes::Some),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::count("cuda-graph-prefill-max-context", "").alias(&["context-bucket"]),
    ),
    idle(
        NO_GRAPHS,
        FlagSpec::switch("disable-prefill-cuda-graph", ""),
    ),
    idle(NO_GRAPHS, FlagSpec::switch("debug-cuda-graph", "")),
    idle(NO_COMPILER, FlagSpec::switch("enable-torch-compile", "")),
    idle(
        NO_COMPILER,
        FlagSpec::switch("enable-torch-compile-debug-mode", ""),
    ),
    idle(
        NO_COMPILER,
        FlagSpec::integer("torch-compile-max-bs", "").default(Preset::Integer(32)),
    ),
    idle(
        NO_COMPILER,
        FlagSpec::text("torchao-config", "").default(Preset::Text("")),
    ),
];
