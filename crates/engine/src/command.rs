use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::{GenerateRequest, TokenEvent};

/// What a handle calls a request before it has a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey(pub(crate) u64);

/// What handles ask of the engine thread.
pub(crate) enum Command {
    /// Queue a sequence.
    Generate {
        key: RequestKey,
        request: GenerateRequest,
        events: UnboundedSender<TokenEvent>,
    },
    /// Forget a sequence; unknown ones have ended already.
    Cancel(RequestKey),
    /// End a sequence whose client has all it wanted.
    Complete(RequestKey),
    /// Record steps from now on, unless a recording runs; a refused sender is dropped.
    StartProfile {
        steps: Option<u64>,
        result: oneshot::Sender<String>,
    },
    /// End the recording, if one runs.
    StopProfile,
    /// Empty the prefix cache if nobody's sequence runs or waits.
    Flush(oneshot::Sender<bool>),
    /// End the thread once everything queued has ended.
    Stop,
}
