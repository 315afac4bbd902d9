use std::io;

use axum::extract::State;
use engine::RequestError;
use protocol::native::StartProfileRequest;

use crate::admission::Phase;
use crate::error::{ApiError, NativeError};
use crate::extract::AdminJson;
use crate::state::Shared;

/// What a server without a folder says.
const NO_FOLDER: &str =
    "this server writes no profiles: start it with --profile-dir or SGLANG_TORCH_PROFILER_DIR";

/// `/start_profile`: the trace is written when the recording ends. In SGLang a second one is a 500 without a reason.
pub(crate) async fn start_profile(
    State(state): State<Shared>,
    AdminJson(request): AdminJson<StartProfileRequest>,
) -> Result<&'static str, NativeError> {
    let folder = state.config.profiles.as_ref();
    let folder = folder.ok_or_else(|| ApiError::invalid(NO_FOLDER))?.clone();
    let asked = request.output_dir.as_deref();
    let way = folder.inside(asked).ok_or_else(|| {
        let asked = asked.unwrap_or_default();
        ApiError::Invalid(format!(
            "output_dir {asked:?} is not in the server's folder of profiles"
        ))
    })?;
    if state.admission.phase() == Phase::Draining {
        return Err(RequestError::ShuttingDown.into());
    }
    let steps = request.num_steps.map(|steps| steps.0);
    let recording = state.engine.start_profile(steps)?;
    let prefix = request.profile_prefix;
    let begin = async move {
        let create = move || folder.create(&way, prefix.as_deref());
        let created = tokio::task::spawn_blocking(create).await;
        match created
            .map_err(io::Error::other)
            .and_then(|created| created)
        {
            Ok(file) => {
                state.profiles.keep(recording, file);
                Ok("Start profiling.\n")
            }
            Err(error) => {
                state.engine.stop_profile()?;
                // Another may begin when this one's trace was handed over.
                let _ = recording.trace().await;
                let message = format!("no profile can be written there: {error}");
                Err(ApiError::Invalid(message))
            }
        }
    };
    // A client that leaves meanwhile leaves no recording that nothing writes.
    let begun = tokio::spawn(begin).await;
    Ok(begun.map_err(|error| ApiError::Failed(error.to_string()))??)
}

/// `/stop_profile`
pub(crate) async fn stop_profile(State(state): State<Shared>) -> Result<&'static str, NativeError> {
    state.engine.stop_profile()?;
    Ok("Stop profiling. This will take some time.\n")
}
