//! Ranks as threads of one process.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use half::{bf16, f16};
use ops::{AllGather, AllReduce, Comm, DeviceError, OpError};
use tensor::{DType, View};

/// One of some threads that run a model together.
///
/// A rank that is dropped, because it has ended or because its thread panicked, ends the others' waiting with an error.
pub struct ThreadComm {
    rank: usize,
    group: Arc<Group>,
    /// How often it has met the others.
    met: Cell<usize>,
}

struct Group {
    meeting: Mutex<Meeting>,
    over: Condvar,
    /// What each rank brings, twice: who is late still reads of one meeting what the others brought to it when they bring
    /// something to the next one.
    brought: [Vec<RwLock<Brought>>; 2],
}

#[derive(Default)]
struct Meeting {
    number: usize,
    waiting: usize,
    left: Option<usize>,
}

/// A matrix that a rank brings.
struct Brought {
    op: &'static str,
    shape: (usize, usize),
    dtype: DType,
    bytes: Vec<u8>,
}

impl ThreadComm {
    /// The places of so many ranks, one for each thread.
    pub fn group(ranks: usize) -> Vec<Self> {
        let nothing = || {
            let brought = Brought {
                op: "",
                shape: (0, 0),
                dtype: DType::U8,
                bytes: Vec::new(),
            };
            RwLock::new(brought)
        };
        let places = || (0..ranks).map(|_| nothing()).collect();
        let group = Arc::new(Group {
            meeting: Mutex::default(),
            over: Condvar::new(),
            brought: [places(), places()],
        });
        (0..ranks)
            .map(|rank| Self {
                rank,
                group: Arc::clone(&group),
                met: Cell::new(0),
            })
            .collect()
    }

    /// Brings a matrix and waits for those of the others, which `each` is given in the order of ranks.
    fn exchange(
        &self,
        op: &'static str,
        mine: View<'_>,
        mut each: impl FnMut(usize, &[u8]),
    ) -> Result<(), OpError> {
        let brought = &self.group.brought[self.met.get() % 2];
        {
            let mut place = brought[self.rank]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            (place.op, place.dtype) = (op, mine.dtype());
            place.shape = (mine.rows(), mine.cols());
            place.bytes.clear();
            for row in 0..mine.rows() {
                place.bytes.extend_from_slice(mine.row_bytes(row));
            }
        }
        self.group.meet()?;
        self.met.set(self.met.get() + 1);
        for (rank, place) in brought.iter().enumerate() {
            let place = place.read().unwrap_or_else(PoisonError::into_inner);
            place.fits(op, &mine)?;
            each(rank, &place.bytes);
        }
        Ok(())
    }
}

impl Brought {
    /// Fails unless it is what every rank brings to this op.
    fn fits(&self, op: &'static str, mine: &View<'_>) -> Result<(), OpError> {
        if self.op != op {
            return Err(OpError::Device(lost(format!(
                "one rank wants {op} and another {}",
                self.op
            ))));
        }
        let (what, found, expected) = ("what a rank has", self.shape, (mine.rows(), mine.cols()));
        if found != expected {
            return Err(OpError::Shape {
                op,
                what,
                found,
                expected,
            });
        }
        if self.dtype != mine.dtype() {
            let found = self.dtype;
            return Err(OpError::Type { op, what, found });
        }
        Ok(())
    }
}

impl Group {
    /// Waits until every rank is here.
    fn meet(&self) -> Result<(), DeviceError> {
        let mut meeting = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = meeting.number;
        meeting.waiting += 1;
        if meeting.waiting == self.brought[0].len() {
            meeting.waiting = 0;
            meeting.number += 1;
            self.over.notify_all();
            return Ok(());
        }
        let still = |meeting: &mut Meeting| meeting.number == number && meeting.left.is_none();
        let meeting = self
            .over
            .wait_while(meeting, still)
            .unwrap_or_else(PoisonError::into_inner);
        match meeting.left {
            Some(rank) if meeting.number == number => {
                Err(lost(format!("rank {rank} is no longer there")))
            }
            _ => Ok(()),
        }
    }
}

fn lost(message: String) -> DeviceError {
    DeviceError::Lost {
        device: "cpu".into(),
        message,
    }
}

impl Drop for ThreadComm {
    fn drop(&mut self) {
        let group = &self.group;
        let mut meeting = group.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        meeting.left.get_or_insert(self.rank);
        group.over.notify_all();
    }
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.group.brought[0].len()
    }

    /// Adds in f32 in the order of ranks and rounds once, so that bits do not depend on who comes first.
    fn all_reduce(&self, mut op: AllReduce<'_>) -> Result<(), OpError> {
        op.check()?;
        let (dtype, cols) = (op.values.dtype(), op.values.cols());
        let mut sums = vec![0.0; op.values.rows() * cols];
        self.exchange("all_reduce", op.values.view(), |_, bytes| {
            add(&mut sums, bytes, dtype);
        })?;
        for (index, &sum) in sums.iter().enumerate() {
            op.values.set(index / cols, index % cols, sum);
        }
        Ok(())
    }

    fn all_gather(&self, mut op: AllGather<'_>) -> Result<(), OpError> {
        op.check(self.ranks())?;
        let rows = op.x.rows();
        let width = op.x.cols() * op.x.dtype().size();
        self.exchange("all_gather", op.x, |rank, bytes| {
            for row in 0..rows {
                op.out
                    .row_bytes_mut(rank * rows + row)
                    .copy_from_slice(&bytes[row * width..][..width]);
            }
        })
    }
}

/// Adds floats of a type that all ranks have.
fn add(sums: &mut [f32], bytes: &[u8], dtype: DType) {
    let mut each = |number: fn(&[u8]) -> f32| {
        for (sum, bytes) in sums.iter_mut().zip(bytes.chunks_exact(dtype.size())) {
            *sum += number(bytes);
        }
    };
    match dtype {
        DType::F32 => each(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        DType::F16 => each(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
        DType::BF16 => each(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32()),
        other => unreachable!("{other} was refused"),
    }
}
