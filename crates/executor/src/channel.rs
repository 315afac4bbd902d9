use ops::{Device, DeviceError, Staging};
use tensor::{DType, View};

use crate::DeviceLost;
use crate::inputs::Packer;

/// Host arrays and the staging memory that brings them to the device. It never grows: what may be longer than it is comes
/// in parts.
pub(crate) struct Channel {
    staging: Box<dyn Staging>,
    bytes: usize,
    packer: Packer,
}

impl Channel {
    pub(crate) fn new(device: &dyn Device, bytes: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            staging: device.staging(bytes)?,
            bytes,
            packer: Packer::default(),
        })
    }

    /// Where to pack what is sent next; nothing is in it yet.
    pub(crate) fn pack(&mut self) -> &mut Packer {
        self.packer.clear();
        &mut self.packer
    }

    /// Brings everything packed to the device, over what was sent before; what reads that is enqueued already.
    pub(crate) fn send(&mut self) -> Result<(), DeviceError> {
        let (packed, room) = (self.packer.len(), self.bytes);
        assert!(
            packed <= room,
            "{packed} bytes of a step's inputs, there is room for {room}"
        );
        if packed == 0 {
            return Ok(());
        }
        self.packer.send(self.staging.as_mut())
    }

    /// What was sent last.
    pub(crate) fn device(&self) -> View<'_> {
        self.staging.device()
    }

    /// An array of no numbers.
    pub(crate) fn nothing(&self) -> View<'_> {
        self.device().cast(0, 1, 0, DType::U32)
    }

    /// Sends any number of entries, as many at once as there is room for, and gives `take` each part: one array for every
    /// word of an entry.
    pub(crate) fn in_parts<const WORDS: usize>(
        &mut self,
        entries: impl IntoIterator<Item = [u32; WORDS]>,
        mut take: impl FnMut([View<'_>; WORDS], View<'_>) -> Result<(), DeviceLost>,
    ) -> Result<(), DeviceLost> {
        let most = (self.bytes / WORDS - Packer::ALIGNMENT) / DType::U32.size();
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let mut arrays = [const { Vec::new() }; WORDS];
            for entry in entries.by_ref().take(most) {
                for (array, word) in arrays.iter_mut().zip(entry) {
                    array.push(word);
                }
            }
            let packer = self.pack();
            let packed = arrays.map(|array: Vec<u32>| packer.row(&array));
            self.send()?;
            take(
                packed.map(|array| array.view(self.device())),
                self.nothing(),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ops::ReferenceDevice;

    use super::*;

    #[test]
    fn more_entries_than_there_is_room_for_come_in_parts_and_in_order() {
        let device = ReferenceDevice::default();
        for count in [0, 1, 48, 49, 1000] {
            let mut channel = Channel::new(&device, 512).unwrap();
            let (mut found, mut parts) = (Vec::new(), 0);
            let entries = (0..count).map(|i| [i, 2 * i]);
            let taken = channel.in_parts(entries.clone(), |[ones, twos], nothing| {
                assert_eq!(nothing.cols(), 0);
                let pairs = ones.row::<u32>(0).iter().zip(twos.row::<u32>(0));
                found.extend(pairs.map(|(&one, &two)| [one, two]));
                parts += 1;
                Ok(())
            });
            taken.unwrap();
            assert_eq!(found, entries.collect::<Vec<_>>());
            // 512 bytes hold two arrays of 48 words and their gaps
            assert_eq!(parts, count.div_ceil(48), "{count}");
        }
    }
}
