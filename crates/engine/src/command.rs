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
    /// Empty the prefix cache if nothing runs or waits.
    Flush(oneshot::Sender<bool>),
    /// End the thread once everything queued has ended.
    Stop,
}
