use tensor::{DType, View};

use super::{dims, shape, typed};
use crate::{KvCache, OpError};

/// cache.keys\[slots\[i\]\] = key\[i\]; cache.values\[slots\[i\]\] = value\[i\].
///
/// key, value: `[tokens, kv heads × head dim]`; slots: `[1, tokens]` u32, no slot twice. Rounds to the cache's type.
pub struct StoreKv<'a> {
    /// Keys of the new tokens.
    pub key: View<'a>,
    /// Values of the new tokens.
    pub value: View<'a>,
    /// Where they go.
    pub slots: View<'a>,
    /// Where they are kept.
    pub cache: KvCache<'a>,
}

impl StoreKv<'_> {
    /// Checks shapes and types.
    pub fn check(&self) -> Result<(), OpError> {
        let op = "store_kv";
        shape(
            op,
            "key",
            dims(&self.key),
            (self.slots.cols(), self.cache.keys().cols()),
        )?;
        shape(op, "value", dims(&self.value), dims(&self.key))?;
        typed(op, "slots", self.slots.dtype(), DType::U32)
    }

    /// The meaning.
    #[expect(
        unsafe_code,
        reason = "KV memory is addressed by slots, not by borrows"
    )]
    pub fn reference(self) {
        // SAFETY: slots of one step are distinct and belong to its tokens.
        let (mut keys, mut values) = unsafe { (self.cache.keys_mut(), self.cache.values_mut()) };
        for (i, &slot) in self.slots.row::<u32>(0).iter().enumerate() {
            for col in 0..self.key.cols() {
                keys.set(slot as usize, col, self.key.value(i, col));
                values.set(slot as usize, col, self.value.value(i, col));
            }
        }
    }
}
