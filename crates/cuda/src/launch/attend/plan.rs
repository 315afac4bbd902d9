//! Plans of streamed attention: every worker's share of a batch, found once for all layers that have the batch.

use std::sync::{Arc, Mutex, PoisonError};

use ops::DeviceError;
use tensor::Buffer;

use super::super::{Grid, launch};
use super::{AttendParams, COLUMNS};
use crate::context::Context;
use crate::memory::allocate;
use crate::module::{Function, Modules};

/// What a kernel plans.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct PlanParams {
    attend: AttendParams,
    plans: u64,
    run: u32,
    columns: u32,
}

impl PlanParams {
    /// Threads of a block that plans.
    pub(crate) const THREADS: usize = 32 * WARPS;

    #[cfg(test)]
    pub(crate) fn for_workers(workers: u32) -> Self {
        let attend = AttendParams {
            workers,
            ..AttendParams::default()
        };
        Self {
            attend,
            ..Self::default()
        }
    }

    /// Blocks that plan for all workers.
    pub(crate) fn blocks(&self) -> usize {
        (self.attend.workers as usize).div_ceil(WARPS)
    }
}

/// Plans that are kept at the same time: layers may alternate between windows of different sizes.
const PLACES: usize = 4;
/// Bytes of a worker's plan; `StreamPlan` of kernels/attend/stream.cuh has as many.
const BYTES: usize = 128;
/// Warps of a block, each of which plans for one worker.
const WARPS: usize = 8;

/// Everything that a plan depends on, but for what lies at the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    addresses: [u64; 4],
    table_stride: u32,
    rows: u32,
    page_size: u32,
    group: u32,
    columns: u32,
    window: u32,
    few: u32,
    workers: u32,
}

impl Key {
    /// None where the kernel before finds anew which rows there are.
    fn of(params: &AttendParams, columns: u32) -> Option<Self> {
        (params.homes == 0).then_some(Self {
            addresses: [
                params.starts,
                params.lengths,
                params.table_rows,
                params.page_table,
            ],
            table_stride: params.table_stride,
            rows: params.rows,
            page_size: params.page_size,
            group: params.group,
            columns,
            window: params.window,
            few: params.few,
            workers: params.workers,
        })
    }
}

/// Which plan lies where, as long as nothing changes that they were made from.
#[derive(Default)]
struct Places {
    epoch: u64,
    keys: [Option<Key>; PLACES],
    next: usize,
}

impl Places {
    /// Where this plan lies.
    fn find(&mut self, epoch: u64, key: Option<Key>) -> Option<usize> {
        if self.epoch != epoch {
            *self = Self {
                epoch,
                ..Self::default()
            };
        }
        self.keys
            .iter()
            .position(|kept| kept.is_some() && *kept == key)
    }

    /// The place for another plan: that of the oldest one, which is forgotten.
    fn make_room(&mut self) -> usize {
        let place = self.next;
        self.next = (place + 1) % PLACES;
        self.keys[place] = None;
        place
    }
}

/// The kernel that plans, and plans in device memory.
pub(super) struct Plans {
    function: Function,
    memory: Buffer,
    most_workers: usize,
    places: Mutex<Places>,
}

impl Plans {
    pub(super) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        most_workers: usize,
    ) -> Result<Self, DeviceError> {
        let bytes = PLACES * most_workers * BYTES;
        Ok(Self {
            function: modules.find("plan_attention")?,
            memory: allocate(context, bytes, "plans of attention")?,
            most_workers,
            places: Mutex::default(),
        })
    }

    /// The address of the plan for an op; enqueues the kernel that makes it unless it is there, or is made where a captured
    /// step begins. A kernel that reads the plan must follow at once, and each copy of it bring `run` positions.
    pub(super) fn prepare(
        &self,
        context: &Context,
        params: &AttendParams,
        column_index: usize,
        run: usize,
    ) -> Result<u64, DeviceError> {
        let workers = params.workers as usize;
        assert!(workers <= self.most_workers, "every worker has a plan");
        let address = |place: usize| {
            self.memory.address() as u64 + (place * self.most_workers * BYTES) as u64
        };
        let columns = COLUMNS[column_index] as u32;
        let key = Key::of(params, columns);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.find(context.epoch(), key) {
            return Ok(address(place));
        }
        let place = places.make_room();
        let plan = PlanParams {
            attend: *params,
            plans: address(place),
            run: run as u32,
            columns,
        };
        // What has a key depends on nothing that a kernel of the step finds.
        if key.is_none() || !context.opening().plans(&plan) {
            let grid = Grid::line(plan.blocks(), PlanParams::THREADS);
            // SAFETY: the struct of the kernel; addresses come from checked views, and the place has a plan for each worker.
            unsafe { launch(context, self.function, grid, &plan) }?;
        }
        places.keys[place] = key;
        Ok(address(place))
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, PLACES, Places};

    fn key(window: u32) -> Key {
        Key {
            addresses: [1, 2, 3, 4],
            table_stride: 5,
            rows: 6,
            page_size: 16,
            group: 4,
            columns: 8,
            window,
            few: 2,
            workers: 33,
        }
    }

    fn remember(places: &mut Places, key: Option<Key>) -> usize {
        let place = places.make_room();
        places.keys[place] = key;
        place
    }

    #[test]
    fn layers_by_turns_find_their_plans_until_something_changes() {
        let mut places = Places::default();
        let [full, sliding] = [u32::MAX, 128].map(|window| Some(key(window)));
        assert_eq!(places.find(7, full), None);
        let first = remember(&mut places, full);
        assert_eq!(places.find(7, sliding), None);
        let second = remember(&mut places, sliding);
        assert_ne!(first, second);
        for _ in 0..3 {
            assert_eq!(places.find(7, full), Some(first));
            assert_eq!(places.find(7, sliding), Some(second));
        }
        assert_eq!(places.find(8, full), None);
        assert_eq!(places.find(8, sliding), None);
    }

    #[test]
    fn every_difference_makes_another_plan() {
        type Change = fn(&mut Key);
        let changes: [Change; 9] = [
            |key| key.addresses[3] = 0,
            |key| key.table_stride = 0,
            |key| key.rows = 0,
            |key| key.page_size = 0,
            |key| key.group = 0,
            |key| key.columns = 0,
            |key| key.window = 0,
            |key| key.few = 0,
            |key| key.workers = 0,
        ];
        let mut places = Places::default();
        remember(&mut places, Some(key(9)));
        for change in changes {
            let mut other = key(9);
            change(&mut other);
            assert_eq!(places.find(0, Some(other)), None, "{other:?}");
        }
        assert_eq!(places.find(0, Some(key(9))), Some(0));
    }

    #[test]
    fn a_plan_without_a_key_is_never_found_and_the_oldest_one_makes_room() {
        let mut places = Places::default();
        assert_eq!(remember(&mut places, None), 0);
        assert_eq!(places.find(0, None), None);
        let keys: Vec<_> = (0..PLACES as u32).map(|window| Some(key(window))).collect();
        for key in &keys {
            remember(&mut places, *key);
        }
        let found: Vec<_> = keys.iter().map(|key| places.find(0, *key)).collect();
        assert_eq!(found, [Some(1), Some(2), Some(3), Some(0)]);
        assert_eq!(remember(&mut places, None), 1);
        assert_eq!(places.find(0, keys[0]), None);
        assert_eq!(places.find(0, keys[1]), Some(2));
    }
}
