//! Pages of KV memory, page tables and the radix tree of cached prefixes, as bookkeeping over
//! integers.
//!
//! Nothing here knows a device address, a clock or a thread: pages are numbers, age is a counter,
//! and the same calls always give the same answer.

mod cache;
mod integrity;
mod lease;
mod namespace;
mod page;
mod pool;
mod radix;
mod table;

pub use cache::{PageCounts, PartialPage, PrefixCache};
pub use integrity::IntegrityError;
pub use lease::PrefixLease;
pub use namespace::Namespace;
pub use page::{Page, PageSize, Token};
pub use radix::common_prefix;
pub use table::PageTable;
