//! The environment variables: every one that is read is read here, once.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use server::{HealthCheck, OpenApi};

use crate::args::Notice;

/// SGLang's variables that mean nothing here, and why.
const IDLE: &[(&str, &str)] = &[
    (
        "SGLANG_ENABLE_FLASHINFER_GEMM",
        "each device has one kernel for matrix products",
    ),
    (
        "SGLANG_MOE_FUSE_DOWN_SUM_REDUCE",
        "it belongs to a private patch of SGLang",
    ),
    (
        "SGLANG_MOE_DEBUG_TOPK",
        "it belongs to a private patch of SGLang",
    ),
    (
        "SGLANG_MOE_DEBUG_FUSE",
        "it belongs to a private patch of SGLang",
    ),
    (
        "SGLANG_TBO_DEBUG",
        "batches are not split to overlap communication",
    ),
    (
        "SGL_CHUNKED_PREFIX_CACHE_THRESHOLD",
        "attention reads cached and new tokens alike",
    ),
    ("PYTORCH_ALLOC_CONF", "there is no Torch allocator"),
    ("PYTORCH_CUDA_ALLOC_CONF", "there is no Torch allocator"),
];

/// What the environment says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Env {
    /// `PEREGRINE_LOG`: a filter such as `debug` or `server=debug,info`.
    pub(crate) log_filter: Option<String>,
    /// The folder of pulled models; where nothing names one there is none.
    pub(crate) models: Option<PathBuf>,
    /// The hub's cache folder; where nothing names one there is none.
    pub(crate) hub_cache: Option<PathBuf>,
    /// The address of a mirror of the hub.
    pub(crate) hub_endpoint: Option<String>,
    /// The hub's access token.
    pub(crate) hub_token: Option<String>,
    /// Whether the hub must not be asked.
    pub(crate) offline: bool,
    /// `OPENAI_API_KEY`, for the benchmark's requests.
    pub(crate) openai_api_key: Option<String>,
    /// `API_KEY`, for the benchmark's requests.
    pub(crate) api_key: Option<String>,
    /// `SGLANG_IS_IN_CI`: the benchmark empties caches.
    pub(crate) in_ci: bool,
    /// `SGLANG_TORCH_PROFILER_DIR`, for profiles of the server and of the benchmark.
    pub(crate) profile_folder: Option<PathBuf>,
    /// `CUDA_HOME` or `CUDA_PATH`: where a CUDA toolkit is installed.
    pub(crate) cuda_home: Option<PathBuf>,
    /// `PATH`: folders of programs.
    pub(crate) programs: Vec<PathBuf>,
    /// How health is found out.
    pub(crate) health: HealthCheck,
    /// `DISABLE_OPENAPI_DOC`: the server does not describe itself.
    pub(crate) openapi: OpenApi,
    /// Variables that are set and mean nothing here.
    pub(crate) notices: Vec<Notice>,
    /// Every variable, for programs that are run.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Env {
    /// Reads the process's environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the environment"
    )]
    pub(crate) fn read() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            ..Self::from(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
        }
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let path = |name: &str| variable(name).map(PathBuf::from);
        let switch = |name: &str| text(name).is_some_and(|value| is_on(&value));
        let home_cache = || path("HOME").map(|home| home.join(".cache"));
        let cache = path("XDG_CACHE_HOME").or_else(home_cache);
        let in_cache = |folder: &str| cache.as_ref().map(|cache| cache.join(folder));
        let hub_home = path("HF_HOME").or_else(|| in_cache("huggingface"));
        let set = IDLE.iter().filter(|(name, _)| variable(name).is_some());
        Self {
            log_filter: text("PEREGRINE_LOG"),
            models: path("PEREGRINE_MODELS").or_else(|| in_cache("peregrine/models")),
            hub_cache: path("HF_HUB_CACHE").or_else(|| Some(hub_home?.join("hub"))),
            hub_endpoint: text("HF_ENDPOINT")
                .map(|address| address.trim_end_matches('/').to_owned()),
            hub_token: text("HF_TOKEN"),
            offline: switch("HF_HUB_OFFLINE") || switch("TRANSFORMERS_OFFLINE"),
            openai_api_key: text("OPENAI_API_KEY"),
            api_key: text("API_KEY"),
            in_ci: switch("SGLANG_IS_IN_CI"),
            profile_folder: path("SGLANG_TORCH_PROFILER_DIR"),
            cuda_home: path("CUDA_HOME").or_else(|| path("CUDA_PATH")),
            programs: variable("PATH")
                .map_or_else(Vec::new, |list| std::env::split_paths(&list).collect()),
            health: health(
                text("SGLANG_HEALTH_CHECK_TIMEOUT").as_deref(),
                text("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION").as_deref(),
            ),
            openapi: if switch("DISABLE_OPENAPI_DOC") {
                OpenApi::Off
            } else {
                OpenApi::Served
            },
            notices: set
                .map(|(name, reason)| Notice {
                    flag: (*name).into(),
                    reason: (*reason).into(),
                })
                .collect(),
            variables: Vec::new(),
        }
    }
}

/// A limit in seconds, and whether health is found out by generating.
fn health(limit: Option<&str>, generate: Option<&str>) -> HealthCheck {
    let limit = limit.and_then(|seconds| seconds.parse().ok());
    let limit = limit.map_or_else(|| HealthCheck::default().limit(), Duration::from_secs);
    match generate.map(is_on) {
        Some(true) => HealthCheck::Generate(limit),
        _ => HealthCheck::Alive(limit),
    }
}

fn is_on(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "1" | "true" | "yes" | "on"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Env {
        Env::from(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.into())
        })
    }

    #[test]
    fn folders_follow_the_usual_variables() {
        let home = ("HOME", "/h");
        let cases = [
            (
                vec![home],
                Some("/h/.cache/peregrine/models"),
                Some("/h/.cache/huggingface/hub"),
            ),
            (
                vec![home, ("XDG_CACHE_HOME", "/x")],
                Some("/x/peregrine/models"),
                Some("/x/huggingface/hub"),
            ),
            (
                vec![home, ("HF_HOME", "/f")],
                Some("/h/.cache/peregrine/models"),
                Some("/f/hub"),
            ),
            (
                vec![home, ("PEREGRINE_MODELS", "/m")],
                Some("/m"),
                Some("/h/.cache/huggingface/hub"),
            ),
            (vec![], None, None),
            (vec![("PEREGRINE_MODELS", "/m")], Some("/m"), None),
            (vec![("HF_HUB_CACHE", "/c")], None, Some("/c")),
        ];
        for (variables, models, cache) in cases {
            let env = env(&variables);
            assert_eq!(
                (env.models, env.hub_cache),
                (models.map(PathBuf::from), cache.map(PathBuf::from)),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn the_hub_is_reached_as_other_tools_reach_it() {
        let here = env(&[
            ("HF_ENDPOINT", "http://mirror/"),
            ("HF_TOKEN", "t"),
            ("HF_HUB_OFFLINE", "1"),
        ]);
        assert_eq!(here.hub_endpoint.as_deref(), Some("http://mirror"));
        assert_eq!((here.hub_token.as_deref(), here.offline), (Some("t"), true));
        assert!(!env(&[("HF_HUB_OFFLINE", "0")]).offline);
    }

    #[test]
    fn the_server_describes_itself_unless_told_not_to() {
        assert_eq!(env(&[]).openapi, OpenApi::Served);
        let told = env(&[("DISABLE_OPENAPI_DOC", "true")]);
        assert_eq!(told.openapi, OpenApi::Off);
    }

    #[test]
    fn health_follows_the_variables_of_sglang() {
        let limit = |seconds| Duration::from_secs(seconds);
        assert_eq!(env(&[]).health, HealthCheck::Alive(limit(20)));
        let variables = [
            ("SGLANG_HEALTH_CHECK_TIMEOUT", "5"),
            ("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "true"),
        ];
        assert_eq!(env(&variables).health, HealthCheck::Generate(limit(5)));
        let off = [("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "0")];
        assert_eq!(env(&off).health, HealthCheck::Alive(limit(20)));
    }

    #[test]
    fn variables_without_effect_are_reported() {
        let notices = env(&[("PYTORCH_ALLOC_CONF", "x"), ("PATH", "/bin")]).notices;
        let lines: Vec<String> = notices.iter().map(Notice::to_string).collect();
        assert_eq!(
            lines,
            ["PYTORCH_ALLOC_CONF accepted, no effect: there is no Torch allocator"]
        );
    }
}
