//! The parts of a device that are the same wherever device memory is host memory.

use tensor::{Buffer, DType, View, ViewMut};

use crate::{DeviceError, Readback, Staging};

/// Plain numbers as a buffer of another float type.
pub fn host_values(values: &[f32], dtype: DType) -> Buffer {
    let mut buffer = Buffer::host(values.len() * dtype.size());
    let mut row = buffer.view_mut(0, 1, values.len(), dtype);
    for (col, &value) in values.iter().enumerate() {
        row.set(0, col, value);
    }
    buffer
}

/// Copies a matrix of host memory, byte by byte.
pub fn copy_rows(from: View<'_>, mut to: ViewMut<'_>) {
    assert_eq!(
        (from.rows(), from.cols(), from.dtype()),
        (to.rows(), to.cols(), to.dtype()),
        "equal shapes and types"
    );
    for row in 0..from.rows() {
        to.row_bytes_mut(row).copy_from_slice(from.row_bytes(row));
    }
}

/// Staging where host and device memory are one: nothing has to move.
pub struct HostStaging(Buffer);

impl HostStaging {
    /// Room for `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Buffer::host(bytes))
    }
}

impl Staging for HostStaging {
    fn host(&mut self) -> Result<&mut [u8], DeviceError> {
        let bytes = self.0.bytes();
        Ok(self.0.view_mut(0, 1, bytes, DType::U8).into_slice())
    }

    fn send(&mut self, _: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    fn device(&self) -> View<'_> {
        self.0.view(0, 1, self.0.bytes(), DType::U8)
    }
}

/// Readback where results are there as soon as they are computed.
pub struct HostReadback(Buffer);

impl HostReadback {
    /// Room for `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Buffer::host(bytes))
    }
}

impl Readback for HostReadback {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn fetch(&mut self, from: View<'_>, offset: usize) -> Result<(), DeviceError> {
        copy_rows(
            from,
            self.0
                .view_mut(offset, from.rows(), from.cols(), from.dtype()),
        );
        Ok(())
    }

    fn seal(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait(&mut self) -> Result<&[u8], DeviceError> {
        Ok(self.0.view(0, 1, self.0.bytes(), DType::U8).into_slice())
    }
}
