use std::path::{Path, PathBuf};

use axum::extract::State;
use protocol::native::StartProfileRequest;

use crate::clock;
use crate::error::{ApiError, NativeError};
use crate::extract::NativeJson;
use crate::state::Shared;

/// `/start_profile`: the trace is written when the recording ends. In SGLang a second one is a 500 without a reason.
pub(crate) async fn start_profile(
    State(state): State<Shared>,
    NativeJson(request): NativeJson<StartProfileRequest>,
) -> Result<&'static str, NativeError> {
    let folder = request
        .output_dir
        .as_ref()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    if let Err(error) = tokio::fs::create_dir_all(&folder).await {
        let message = format!("output_dir {}: {error}", folder.display());
        return Err(ApiError::invalid(message).into());
    }
    let path = folder.join(file_name(request.profile_prefix.as_deref()));
    let steps = request.num_steps.map(|steps| steps.0);
    let recording = state.engine.start_profile(steps)?;
    tokio::spawn(async move {
        let Some(trace) = recording.trace().await else {
            tracing::warn!(
                "the engine ended before the trace {} was whole",
                path.display()
            );
            return;
        };
        match write_whole(&path, &trace).await {
            Ok(()) => tracing::info!("Profiling done. Traces are saved to: {}", path.display()),
            Err(error) => {
                tracing::error!("the trace {} was not written: {error}", path.display());
            }
        }
    });
    Ok("Start profiling.\n")
}

/// `/stop_profile`
pub(crate) async fn stop_profile(State(state): State<Shared>) -> Result<&'static str, NativeError> {
    state.engine.stop_profile()?;
    Ok("Stop profiling. This will take some time.\n")
}

/// A name of ours: what the client adds may not lead out of the folder.
fn file_name(prefix: Option<&str>) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || "-_.".contains(*letter);
    let prefix: String = prefix.unwrap_or_default().chars().filter(kept).collect();
    let dash = if prefix.is_empty() { "" } else { "-" };
    format!(
        "{}{dash}{}.trace.json",
        prefix.trim_start_matches('.'),
        clock::unix_seconds()
    )
}

async fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    tokio::fs::write(&unfinished, text).await?;
    tokio::fs::rename(&unfinished, path).await
}
