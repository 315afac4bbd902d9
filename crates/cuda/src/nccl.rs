//! Ranks on GPUs that communicate over NCCL, which is opened on demand.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use ops::{AllGather, AllReduce, Comm, DeviceError, OpError};
use tensor::{DType, View, ViewMut};

use crate::context::Context;
use crate::library::{self, Absent, Library};
use crate::{CudaDevice, memory};

const LIBRARY: &str = "libnccl.so.2";
/// `ncclSum`
const SUM: c_int = 0;
/// `ncclUint8`
const BYTES: c_int = 1;
/// Ratio of a rehearsal's message to the previous one.
const STEP: usize = 16;

/// `ncclUniqueId`: what ranks of one group show each other.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GroupId([u8; 128]);

impl GroupId {
    /// To be sent to ranks of other processes.
    pub fn bytes(&self) -> &[u8; 128] {
        &self.0
    }
}

impl From<[u8; 128]> for GroupId {
    fn from(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }
}

type Handle = *mut c_void;

/// The functions of NCCL that ranks need.
struct Functions {
    unique_id: UniqueId,
    join: Join,
    all_reduce: Reduce,
    all_gather: Gather,
    destroy: End,
    abort: End,
    state: State,
    explain: Explain,
    last_error: LastError,
}

type UniqueId = unsafe extern "C" fn(*mut GroupId) -> c_int;
type Join = unsafe extern "C" fn(*mut Handle, c_int, GroupId, c_int) -> c_int;
/// From, to, how many, of which type, what to do with them, among whom, in which stream.
type Reduce =
    unsafe extern "C" fn(Address, Address, usize, c_int, c_int, Handle, CUstream) -> c_int;
type Gather = unsafe extern "C" fn(Address, Address, usize, c_int, Handle, CUstream) -> c_int;
type End = unsafe extern "C" fn(Handle) -> c_int;
type State = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type Explain = unsafe extern "C" fn(c_int) -> *const c_char;
type LastError = unsafe extern "C" fn(Handle) -> *const c_char;
type Address = *mut c_void;

/// NCCL, open.
#[derive(Clone)]
pub struct Nccl {
    functions: Arc<Functions>,
}

impl CudaDevice {
    /// A communicator of ranks on several GPUs.
    pub fn nccl(&self) -> Result<Nccl, Absent> {
        Nccl::open(&self.library_folders)
    }
}

impl Nccl {
    /// Opens it from the loader's path, else from one of the folders.
    fn open(folders: &[PathBuf]) -> Result<Self, Absent> {
        let missing = || library::missing("NCCL (libnccl.so.2)", folders);
        let library = Library::open(LIBRARY, folders).ok_or_else(missing)?;
        let find = |name: &CStr| library.symbol(name).ok_or_else(missing);
        // SAFETY: the types of these functions in NCCL's own header; the library stays open.
        let functions = unsafe {
            Functions {
                unique_id: transmute::<Address, UniqueId>(find(c"ncclGetUniqueId")?),
                join: transmute::<Address, Join>(find(c"ncclCommInitRank")?),
                all_reduce: transmute::<Address, Reduce>(find(c"ncclAllReduce")?),
                all_gather: transmute::<Address, Gather>(find(c"ncclAllGather")?),
                destroy: transmute::<Address, End>(find(c"ncclCommDestroy")?),
                abort: transmute::<Address, End>(find(c"ncclCommAbort")?),
                state: transmute::<Address, State>(find(c"ncclCommGetAsyncError")?),
                explain: transmute::<Address, Explain>(find(c"ncclGetErrorString")?),
                last_error: transmute::<Address, LastError>(find(c"ncclGetLastError")?),
            }
        };
        Ok(Self {
            functions: Arc::new(functions),
        })
    }

    /// A new group; the process that asks for it must live until all ranks have joined.
    pub fn group(&self) -> Result<GroupId, DeviceError> {
        let mut id = GroupId([0; 128]);
        // SAFETY: a valid out-pointer.
        let result = unsafe { (self.functions.unique_id)(&raw mut id) };
        self.functions.check(result, "making a group")?;
        Ok(id)
    }

    /// Joins a group as one of its ranks, and waits until all others have. What is exchanged later has up to `largest`
    /// bytes a rank: messages of all sizes up to it are sent now, so that nothing has to be set up for one later.
    pub fn join(
        &self,
        device: &CudaDevice,
        id: GroupId,
        (rank, ranks): (usize, usize),
        largest: usize,
    ) -> Result<NcclComm, DeviceError> {
        let number = |number: usize| c_int::try_from(number).unwrap_or(c_int::MAX);
        device.context.enter()?;
        let mut handle = null_mut();
        // SAFETY: a valid out-pointer; the GPU's context is current.
        let result =
            unsafe { (self.functions.join)(&raw mut handle, number(ranks), id, number(rank)) };
        self.functions.check(result, "joining a group")?;
        let comm = NcclComm {
            functions: Arc::clone(&self.functions),
            context: Arc::clone(&device.context),
            handle,
            rank,
            ranks,
        };
        comm.rehearse(largest)?;
        Ok(comm)
    }
}

impl Functions {
    /// Fails unless NCCL agreed.
    fn check(&self, result: c_int, what: &'static str) -> Result<(), DeviceError> {
        if result == 0 {
            return Ok(());
        }
        // SAFETY: both answer with constant or thread-local texts, and take any code and no group.
        let (kind, last) = unsafe { ((self.explain)(result), (self.last_error)(null_mut())) };
        let text = |text: *const c_char| {
            // SAFETY: zero-terminated texts of NCCL, or none.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        let parts: Vec<_> = [text(kind), text(last)].into_iter().flatten().collect();
        Err(DeviceError::Lost {
            device: "cuda".into(),
            message: format!("{what}: {}", parts.join("; ").trim_end()),
        })
    }
}

/// One GPU's place among some. To be dropped after every graph that has captured it: NCCL waits for them.
pub struct NcclComm {
    functions: Arc<Functions>,
    context: Arc<Context>,
    handle: Handle,
    rank: usize,
    ranks: usize,
}

// SAFETY: NCCL's handles may be used from any thread, one at a time.
unsafe impl Send for NcclComm {}

impl NcclComm {
    /// Sends messages of growing sizes: NCCL connects ranks, and loads kernels, when a size first needs them.
    fn rehearse(&self, largest: usize) -> Result<(), DeviceError> {
        let largest = largest.next_multiple_of(STEP).max(STEP);
        let mut own = memory::allocate(&self.context, largest, "a rehearsal of ranks")?;
        let mut all = memory::allocate(&self.context, self.ranks * largest, "the same of all")?;
        let sizes = std::iter::successors(Some(STEP), |bytes| Some(bytes * STEP));
        for bytes in sizes.take_while(|&bytes| bytes < largest).chain([largest]) {
            let floats = own.view_mut(0, 1, bytes / 4, DType::F32);
            self.enqueue_reduce(&floats)?;
            let halves = own.view_mut(0, 1, bytes / 2, DType::BF16);
            self.enqueue_reduce(&halves)?;
            let from = own.view(0, 1, bytes, DType::U8);
            self.enqueue_gather(from, &all.view_mut(0, self.ranks, bytes, DType::U8))?;
        }
        self.context.synchronise()
    }

    fn enqueue_reduce(&self, values: &ViewMut<'_>) -> Result<(), DeviceError> {
        let (kind, count) = (number_type(values.dtype()), values.rows() * values.cols());
        self.between(count, "adding up", |stream| {
            let address = values.address().cast();
            // SAFETY: that many values of this type lie there; the sum may be written where they are.
            unsafe {
                (self.functions.all_reduce)(address, address, count, kind, SUM, self.handle, stream)
            }
        })
    }

    fn enqueue_gather(&self, x: View<'_>, out: &ViewMut<'_>) -> Result<(), DeviceError> {
        let bytes = x.rows() * x.cols() * x.dtype().size();
        self.between(bytes, "gathering", |stream| {
            let (from, to) = (x.address().cast_mut().cast(), out.address().cast());
            // SAFETY: that many bytes are there, and as many of every rank have room.
            unsafe { (self.functions.all_gather)(from, to, bytes, BYTES, self.handle, stream) }
        })
    }

    /// Enqueues a kernel of NCCL between ours, unless it has nothing to do.
    fn between(
        &self,
        count: usize,
        what: &'static str,
        run: impl FnOnce(CUstream) -> c_int,
    ) -> Result<(), DeviceError> {
        self.context.flush()?;
        self.context.begin_epoch();
        if count == 0 {
            return Ok(());
        }
        self.functions.check(run(self.context.stream()), what)
    }
}

/// What NCCL calls floats of a type.
fn number_type(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 6,
        DType::F32 => 7,
        DType::BF16 => 9,
        other => unreachable!("{other} was refused"),
    }
}

impl Comm for NcclComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn all_reduce(&self, op: AllReduce<'_>) -> Result<(), OpError> {
        op.check()?;
        Ok(self.enqueue_reduce(&op.values)?)
    }

    fn all_gather(&self, op: AllGather<'_>) -> Result<(), OpError> {
        op.check(self.ranks)?;
        Ok(self.enqueue_gather(op.x, &op.out)?)
    }
}

impl Drop for NcclComm {
    fn drop(&mut self) {
        let mut state = 0;
        // SAFETY: made in `join` and ended once; a group with an error would wait for ranks that are gone.
        unsafe {
            let _ = self.context.enter();
            let asked = (self.functions.state)(self.handle, &raw mut state);
            let end = if asked == 0 && state == 0 {
                self.functions.destroy
            } else {
                self.functions.abort
            };
            let _ = end(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_it_is_said_what_was_searched() {
        // a machine may have the library
        if let Err(absent) = Nccl::open(&[PathBuf::from("/nowhere/at/all")]) {
            let said = absent.to_string();
            assert_eq!(
                said,
                "NCCL (libnccl.so.2) was not found; searched the loader's path, /nowhere/at/all"
            );
        }
    }
}
