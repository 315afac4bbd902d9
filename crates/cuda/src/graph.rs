//! Captured steps.

use std::sync::Arc;

use cudarc::driver::sys;
use ops::{DeviceError, Graph, OpError};
use tensor::Buffer;

use crate::context::Context;
use crate::driver::check;

/// An executable graph.
pub(crate) struct CudaGraph {
    executable: sys::CUgraphExec,
    context: Arc<Context>,
    /// Only kernels read it.
    links: Option<Buffer>,
}

// SAFETY: graph handles may be used from any thread, one at a time.
unsafe impl Send for CudaGraph {}

/// Records what `run` enqueues instead of running it.
pub(crate) fn capture(
    context: &Arc<Context>,
    run: &mut dyn FnMut() -> Result<(), OpError>,
) -> Result<CudaGraph, OpError> {
    let stream = context.stream();
    context.begin_epoch();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream lives as long as the context.
    let result = unsafe { sys::cuStreamBeginCapture_v2(stream, mode) };
    check(result, "beginning a capture")?;
    let ran = run();
    let mut graph = std::ptr::null_mut();
    // SAFETY: ends the capture begun above, whatever `run` said.
    let result = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) };
    let ended = check(result, "ending a capture");
    context.begin_epoch();
    ran?;
    ended?;
    // SAFETY: the graph that was just captured.
    unsafe { context.opening().complete(graph) }?;
    let mut executable = std::ptr::null_mut();
    // SAFETY: a graph that was just captured; it is not needed once instantiated.
    let (instantiated, destroyed) = unsafe {
        (
            sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0),
            sys::cuGraphDestroy(graph),
        )
    };
    check(instantiated, "instantiating a graph")?;
    check(destroyed, "forgetting a captured graph")?;
    Ok(CudaGraph {
        executable,
        context: Arc::clone(context),
        links: None,
    })
}

impl CudaGraph {
    /// Gives it the memory that its kernels read.
    pub(crate) fn keep(&mut self, links: Option<Buffer>) {
        self.links = links;
    }

    /// Brings it to the device now, not at the first replay.
    pub(crate) fn upload(&self) -> Result<(), DeviceError> {
        // SAFETY: graph and stream live as long as self.
        let result = unsafe { sys::cuGraphUpload(self.executable, self.context.stream()) };
        check(result, "uploading a graph")
    }
}

impl Graph for CudaGraph {
    fn replay(&self) -> Result<(), DeviceError> {
        self.context.begin_epoch();
        // SAFETY: graph and stream live as long as self.
        let result = unsafe { sys::cuGraphLaunch(self.executable, self.context.stream()) };
        check(result, "replaying a graph")
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        // SAFETY: made in `capture` and destroyed once; errors at the end cannot be handled.
        unsafe {
            let _ = self.context.enter();
            let _ = sys::cuGraphExecDestroy(self.executable);
        }
    }
}
