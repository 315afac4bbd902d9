//! Ranks as threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use ops::host::copy_rows;
use ops::{AllGather, AllReduce, Comm, DeviceError, OpError};
use tensor::{Buffer, DType, View};

/// One of some threads that run a model together.
///
/// A rank that is dropped, because it has ended or because its thread panicked, ends the others' waiting with an error.
pub struct ThreadComm {
    rank: usize,
    group: Arc<Group>,
}

struct Group {
    barrier: Mutex<Barrier>,
    over: Condvar,
    /// Contributions of each rank, double-buffered: a slow rank may still read those of one barrier while others write those
    /// of the next.
    contributed: [Vec<RwLock<Contribution>>; 2],
}

#[derive(Default)]
struct Barrier {
    /// Barriers that all ranks have passed; the same for each of them until it waits for the next one.
    number: usize,
    waiting: usize,
    gone: Option<usize>,
}

/// A matrix that a rank contributes.
struct Contribution {
    op: &'static str,
    shape: (usize, usize),
    dtype: DType,
    memory: Buffer,
}

impl ThreadComm {
    /// A group of `ranks` ranks, one for each thread.
    pub fn group(ranks: usize) -> Vec<Self> {
        let nothing = || {
            let contributed = Contribution {
                op: "",
                shape: (0, 0),
                dtype: DType::U8,
                memory: Buffer::host(0),
            };
            RwLock::new(contributed)
        };
        let places = || (0..ranks).map(|_| nothing()).collect();
        let group = Arc::new(Group {
            barrier: Mutex::default(),
            over: Condvar::new(),
            contributed: [places(), places()],
        });
        (0..ranks)
            .map(|rank| Self {
                rank,
                group: Arc::clone(&group),
            })
            .collect()
    }

    /// Brings a matrix and waits for those of the others, which `each` is given in the order of ranks.
    fn exchange(
        &self,
        op: &'static str,
        mine: View<'_>,
        mut each: impl FnMut(usize, View<'_>),
    ) -> Result<(), OpError> {
        let contributed = &self.group.contributed[self.group.barrier().number % 2];
        contributed[self.rank]
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .put(op, mine);
        self.group.synchronise()?;
        for (rank, place) in contributed.iter().enumerate() {
            let place = place.read().unwrap_or_else(PoisonError::into_inner);
            place.fits(op, &mine)?;
            each(rank, place.view());
        }
        Ok(())
    }
}

impl Contribution {
    fn put(&mut self, op: &'static str, mine: View<'_>) {
        (self.op, self.dtype) = (op, mine.dtype());
        self.shape = (mine.rows(), mine.cols());
        let bytes = mine.rows() * mine.cols() * mine.dtype().size();
        if self.memory.bytes() < bytes {
            self.memory = Buffer::host(bytes);
        }
        let place = self
            .memory
            .view_mut(0, mine.rows(), mine.cols(), mine.dtype());
        copy_rows(mine, place);
    }

    fn view(&self) -> View<'_> {
        self.memory.view(0, self.shape.0, self.shape.1, self.dtype)
    }

    /// Fails unless every rank contributes such a matrix to this op.
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
    /// Waits until every rank has arrived; fails once one is gone.
    fn synchronise(&self) -> Result<(), DeviceError> {
        let mut barrier = self.barrier();
        let number = barrier.number;
        if barrier.gone.is_none() {
            barrier.waiting += 1;
        }
        if barrier.waiting == self.contributed[0].len() {
            barrier.waiting = 0;
            barrier.number += 1;
            self.over.notify_all();
            return Ok(());
        }
        let still = |barrier: &mut Barrier| barrier.number == number && barrier.gone.is_none();
        let barrier = self
            .over
            .wait_while(barrier, still)
            .unwrap_or_else(PoisonError::into_inner);
        match barrier.gone {
            Some(rank) if barrier.number == number => {
                Err(lost(format!("rank {rank} is no longer there")))
            }
            _ => Ok(()),
        }
    }

    fn barrier(&self) -> MutexGuard<'_, Barrier> {
        self.barrier.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.group.barrier().gone.get_or_insert(self.rank);
        self.group.over.notify_all();
    }
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.group.contributed[0].len()
    }

    /// Adds in f32 in the order of ranks and rounds once, so that bits do not depend on who comes first.
    fn all_reduce(&self, mut op: AllReduce<'_>) -> Result<(), OpError> {
        op.check()?;
        let cols = op.values.cols();
        let mut sums = vec![0.0; op.values.rows() * cols];
        self.exchange("all_reduce", op.values.view(), |_, values| {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum += values.value(index / cols, index % cols);
            }
        })?;
        for (index, &sum) in sums.iter().enumerate() {
            op.values.set(index / cols, index % cols, sum);
        }
        Ok(())
    }

    fn all_gather(&self, mut op: AllGather<'_>) -> Result<(), OpError> {
        op.check(self.ranks())?;
        let rows = op.x.rows();
        self.exchange("all_gather", op.x, |rank, values| {
            let place = rank * rows..(rank + 1) * rows;
            copy_rows(values, op.out.reborrow().row_range(place));
        })
    }
}
