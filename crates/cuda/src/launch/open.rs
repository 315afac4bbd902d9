//! Ops that open a step become one kernel while a graph is captured: tokens, their embeddings, the first norm, and the plan
//! of attention, which is asked for later but needs none of them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys;
use ops::DeviceError;

use super::attend::PlanParams;
use super::gather::{GatherParams, ResolveParams};
use super::norm::NormParams;
use super::{Functions, Grid, launch, launch_late};
use crate::context::Context;
use crate::driver::check;
use crate::module::Function;

#[derive(Clone, Copy)]
#[repr(C)]
struct OpenParams {
    plan: PlanParams,
    tokens: ResolveParams,
    table: u64,
    residual: u64,
    norm: u64,
    out: u64,
    table_stride: u32,
    residual_stride: u32,
    out_stride: u32,
    width: u32,
    wide_norm: u32,
    planning: u32,
    early: u32,
    eps: f32,
}

impl OpenParams {
    fn new(tokens: ResolveParams, rows: &GatherParams, norm: &NormParams) -> Self {
        Self {
            plan: PlanParams::default(),
            tokens,
            table: rows.x,
            residual: rows.out,
            norm: norm.weight,
            out: norm.out,
            table_stride: rows.x_stride,
            residual_stride: rows.out_stride,
            out_stride: norm.out_stride,
            width: rows.width,
            wide_norm: norm.wide_weight,
            planning: 0,
            early: 0,
            eps: norm.eps,
        }
    }

    fn grid(&self) -> Grid {
        let blocks = self.planning + self.tokens.tokens;
        Grid::line(blocks as usize, PlanParams::THREADS)
    }
}

/// What a context keeps of them; nothing unless a graph is captured.
#[derive(Default)]
pub(crate) struct Opening(Mutex<Option<Capture>>);

struct Capture {
    resolve_tokens: Function,
    gather_rows: Function,
    open_step: Function,
    waiting: Waiting,
    /// The graph has begun, with its first kernel or with another one.
    has_begun: bool,
    /// The graph's first kernel, as far as it is known what it does.
    opened: Option<OpenParams>,
    /// Nothing was enqueued after it so far.
    is_last: bool,
}

impl Capture {
    fn keeps_tokens(&mut self, tokens: &ResolveParams) -> bool {
        let keeps = !self.has_begun && matches!(self.waiting, Waiting::Nothing);
        if keeps {
            self.waiting = Waiting::Tokens(*tokens);
        }
        keeps
    }

    fn keeps_rows(&mut self, rows: &GatherParams, count: usize) -> bool {
        let Waiting::Tokens(tokens) = self.waiting else {
            return false;
        };
        let keeps = rows.indices == tokens.out && count == tokens.tokens as usize;
        if keeps {
            self.waiting = Waiting::Rows(tokens, *rows);
        }
        keeps
    }

    fn opens(&mut self, norm: &NormParams) -> Option<OpenParams> {
        let Waiting::Rows(tokens, rows) = self.waiting else {
            return None;
        };
        let of_rows = (norm.x, norm.x_stride, norm.width, norm.rows)
            == (rows.out, rows.out_stride, rows.width, tokens.tokens);
        if !of_rows || rows.vectors == 0 || !norm.is_short() {
            return None;
        }
        self.waiting = Waiting::Nothing;
        self.has_begun = true;
        self.opened = Some(OpenParams::new(tokens, &rows, norm));
        self.opened
    }

    fn plans(&mut self, plan: &PlanParams) -> bool {
        match &mut self.opened {
            Some(opened) if opened.planning == 0 => {
                opened.plan = *plan;
                opened.planning = plan.blocks() as u32;
                true
            }
            _ => false,
        }
    }

    fn lets_in(&mut self) -> bool {
        let lets_in = self.is_last;
        if let Some(opened) = self.opened.as_mut().filter(|_| lets_in) {
            opened.early = 1;
        }
        lets_in
    }

    /// What waits is enqueued now, or something else is.
    fn give_up(&mut self) -> Waiting {
        self.has_begun = true;
        self.is_last = false;
        std::mem::replace(&mut self.waiting, Waiting::Nothing)
    }
}

/// Ops that were not enqueued yet, in their order.
#[derive(Clone, Copy)]
enum Waiting {
    Nothing,
    Tokens(ResolveParams),
    Rows(ResolveParams, GatherParams),
}

impl Opening {
    /// A graph is captured from now on. Without the kernel that opens steps, ops open them one by one.
    pub(crate) fn begin(&self, functions: &Functions) {
        *self.capture() = functions.open_step.map(|open_step| Capture {
            resolve_tokens: functions.resolve_tokens,
            gather_rows: functions.gather_rows,
            open_step,
            waiting: Waiting::Nothing,
            has_begun: false,
            opened: None,
            is_last: false,
        });
    }

    /// No graph is captured any more.
    pub(crate) fn end(&self) {
        *self.capture() = None;
    }

    /// Keeps the tokens of a step that begins; false where they must be enqueued.
    pub(super) fn keeps_tokens(&self, tokens: &ResolveParams) -> bool {
        self.capture()
            .as_mut()
            .is_some_and(|capture| capture.keeps_tokens(tokens))
    }

    /// Keeps rows of a table, if they are those of the tokens that wait.
    pub(super) fn keeps_rows(&self, rows: &GatherParams, count: usize) -> bool {
        self.capture()
            .as_mut()
            .is_some_and(|capture| capture.keeps_rows(rows, count))
    }

    /// Enqueues what waits with a norm, if that is the norm of the rows that wait; else nothing.
    pub(super) fn opens(&self, context: &Context, norm: &NormParams) -> Result<bool, DeviceError> {
        let opened = self.capture().as_mut().and_then(|capture| {
            let opened = capture.opens(norm)?;
            Some((capture.open_step, opened))
        });
        let Some((function, params)) = opened else {
            return Ok(false);
        };
        // SAFETY: the struct of the kernel; addresses and strides came from checked views.
        unsafe { launch_late(context, function, params.grid(), &params) }?;
        if let Some(capture) = self.capture().as_mut() {
            capture.is_last = true;
        }
        Ok(true)
    }

    /// Whether what is enqueued next comes right behind the kernel that opens the step: they may run side by side, if it lets
    /// nobody begin before that one has ended.
    pub(crate) fn lets_in(&self) -> bool {
        self.capture().as_mut().is_some_and(Capture::lets_in)
    }

    /// Leaves a plan to the kernel that opens the step, once; false where it must be made by another. It depends only on what
    /// no kernel of the step writes.
    pub(super) fn plans(&self, plan: &PlanParams) -> bool {
        self.capture()
            .as_mut()
            .is_some_and(|capture| capture.plans(plan))
    }

    /// Enqueues what waits, op by op: something else follows.
    pub(crate) fn flush(&self, context: &Context) -> Result<(), DeviceError> {
        let (resolve_tokens, gather_rows, waiting) = {
            let mut capture = self.capture();
            let Some(capture) = capture.as_mut() else {
                return Ok(());
            };
            (
                capture.resolve_tokens,
                capture.gather_rows,
                capture.give_up(),
            )
        };
        let (tokens, rows) = match waiting {
            Waiting::Nothing => return Ok(()),
            Waiting::Tokens(tokens) => (tokens, None),
            Waiting::Rows(tokens, rows) => (tokens, Some(rows)),
        };
        // SAFETY: the struct of the kernel; addresses came from checked views.
        unsafe { launch_late(context, resolve_tokens, tokens.grid(), &tokens) }?;
        if let Some(rows) = rows {
            let grid = rows.grid(tokens.tokens as usize);
            // SAFETY: as above.
            unsafe { launch(context, gather_rows, grid, &rows) }?;
        }
        Ok(())
    }

    /// Tells the first kernel of a captured graph what was left to it: a plan, and to let the next one begin.
    ///
    /// # Safety
    /// The graph was captured since [`Self::begin`] and lives.
    pub(crate) unsafe fn complete(&self, graph: sys::CUgraph) -> Result<(), DeviceError> {
        let Some((function, mut params)) = self.left() else {
            return Ok(());
        };
        let (mut node, mut count) = (std::ptr::null_mut(), 1);
        // SAFETY: plain data; zero is a valid value of every field, and all are set below.
        let mut kernel: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
        let grid = params.grid();
        let mut arguments = [(&raw mut params).cast::<std::ffi::c_void>()];
        kernel.func = function.handle;
        kernel.gridDimX = grid.blocks.0 as u32;
        kernel.gridDimY = 1;
        kernel.gridDimZ = 1;
        kernel.blockDimX = grid.threads as u32;
        kernel.blockDimY = 1;
        kernel.blockDimZ = 1;
        kernel.kernelParams = arguments.as_mut_ptr();
        // SAFETY: the graph lives; its one first node is the kernel that opened the step; the driver copies the parameters.
        unsafe {
            let found = sys::cuGraphGetRootNodes(graph, &raw mut node, &raw mut count);
            check(found, "finding the first kernel of a graph")?;
            let set = sys::cuGraphKernelNodeSetParams_v2(node, &raw const kernel);
            check(
                set,
                "telling the first kernel of a graph what is left to it",
            )
        }
    }

    fn left(&self) -> Option<(Function, OpenParams)> {
        let capture = self.capture();
        let capture = capture.as_ref()?;
        let opened = capture
            .opened
            .filter(|opened| opened.planning > 0 || opened.early > 0)?;
        Some((capture.open_step, opened))
    }

    fn capture(&self) -> MutexGuard<'_, Option<Capture>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: ResolveParams = ResolveParams {
        staged: 1,
        last: 2,
        out: 3,
        tokens: 64,
    };
    const ROWS: GatherParams = GatherParams {
        x: 4,
        indices: 3,
        out: 5,
        x_stride: 1536,
        out_stride: 1536,
        width: 1536,
        vectors: 1,
    };

    fn capture() -> Capture {
        let function = Function {
            handle: std::ptr::null_mut(),
            parameter: 0,
        };
        Capture {
            resolve_tokens: function,
            gather_rows: function,
            open_step: function,
            waiting: Waiting::Nothing,
            has_begun: false,
            opened: None,
            is_last: false,
        }
    }

    fn waiting_rows() -> Capture {
        let mut capture = capture();
        assert!(capture.keeps_tokens(&TOKENS));
        assert!(capture.keeps_rows(&ROWS, 64));
        capture
    }

    #[test]
    fn tokens_rows_and_their_norm_open_a_step_which_plans_once() {
        let norm = NormParams::of_rows(ROWS.out, 1536, 64);
        let mut capture = waiting_rows();
        let opened = capture.opens(&norm).expect("the norm of the rows");
        assert_eq!((opened.planning, opened.grid().blocks.0), (0, 64));
        let plan = PlanParams::for_workers(66);
        assert!(capture.plans(&plan));
        let opened = capture.opened.expect("it was opened");
        assert_eq!((opened.planning, opened.grid().blocks.0), (9, 73));
        assert!(!capture.plans(&plan), "another plan has its own kernel");
        assert!(!capture.keeps_tokens(&TOKENS), "the step is open");
    }

    #[test]
    fn what_belongs_to_nothing_that_waits_is_not_kept() {
        let mut other = capture();
        assert!(!other.keeps_rows(&ROWS, 64), "no tokens wait");
        assert!(other.keeps_tokens(&TOKENS));
        assert!(!other.keeps_tokens(&TOKENS), "others wait already");
        let elsewhere = GatherParams { indices: 9, ..ROWS };
        assert!(!other.keeps_rows(&elsewhere, 64));
        assert!(!other.keeps_rows(&ROWS, 63));
        assert!(
            other
                .opens(&NormParams::of_rows(ROWS.out, 1536, 64))
                .is_none(),
            "rows are missing"
        );
        for (x, width, rows) in [(6, 1536, 64), (ROWS.out, 1528, 64), (ROWS.out, 1536, 63)] {
            let norm = NormParams::of_rows(x, width, rows);
            assert!(
                waiting_rows().opens(&norm).is_none(),
                "{x}, {width}, {rows}"
            );
        }
        assert!(
            !waiting_rows().plans(&PlanParams::for_workers(66)),
            "nothing was opened"
        );
    }

    #[test]
    fn only_what_is_enqueued_right_behind_begins_beside_it() {
        let norm = NormParams::of_rows(ROWS.out, 1536, 64);
        let opened = || {
            let mut capture = waiting_rows();
            assert!(!capture.lets_in(), "nothing was opened");
            capture.opens(&norm).expect("the norm of the rows");
            capture.is_last = true;
            capture
        };
        let early = |capture: &Capture| capture.opened.map(|opened| opened.early);
        let mut next = opened();
        assert_eq!((next.lets_in(), early(&next)), (true, Some(1)));
        let mut later = opened();
        later.give_up();
        assert_eq!((later.lets_in(), early(&later)), (false, Some(0)));
    }

    #[test]
    fn a_graph_that_has_begun_with_something_else_is_not_opened() {
        let mut capture = waiting_rows();
        assert!(matches!(capture.give_up(), Waiting::Rows(..)));
        assert!(matches!(capture.give_up(), Waiting::Nothing));
        assert!(!capture.keeps_tokens(&TOKENS));
    }
}
