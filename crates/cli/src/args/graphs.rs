//! Flags about graphs and compilation.

use flags::{FlagSpec, Preset, Takes};

use super::entry::{Entry, idle};

const NO_GRAPHS: &str = "steps are not captured as graphs in this version";
const NO_COMPILER: &str =
    "kernels are compiled ahead of time; there is nothing to compile while serving";

pub(super) const ENTRIES: &[Entry] = &[
    idle(NO_GRAPHS, FlagSpec::integer("cuda-graph-max-bs", "")),
    idle(
        NO_GRAPHS,
        FlagSpec::integer("cuda-graph-bs", "").takes(Takes::Some),
    ),
    idle(NO_GRAPHS, FlagSpec::switch("disable-cuda-graph", "")),
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
    idle(NO_GRAPHS, FlagSpec::integer("cuda-graph-max-bs-decode", "")),
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
        FlagSpec::integer("cuda-graph-bs-decode", "").takes(Takes::Some),
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
    idle(NO_GRAPHS, FlagSpec::switch("disable-decode-cuda-graph", "")),
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
