use tensor::DType;

/// Why an op was not enqueued.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// The shapes of the arguments do not fit each other.
    #[error("{op}: {what} is {found:?}, expected {expected:?}")]
    Shape {
        /// The op.
        op: &'static str,
        /// Which argument.
        what: &'static str,
        /// Rows and columns it has.
        found: (usize, usize),
        /// Rows and columns it should have.
        expected: (usize, usize),
    },
    /// An argument has an element type that the op does not take.
    #[error("{op}: {what} has type {found}")]
    Type {
        /// The op.
        op: &'static str,
        /// Which argument.
        what: &'static str,
        /// The type it has.
        found: DType,
    },
    /// The device does not take the op.
    #[error("{op}: not for this device")]
    NotTaken {
        /// The op.
        op: &'static str,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A device that cannot go on, or cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Not enough memory.
    #[error("{device}: {wanted} bytes for {what} were asked, {free} are free")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// What the memory was for.
        what: &'static str,
        /// Bytes asked.
        wanted: usize,
        /// Bytes there are.
        free: usize,
    },
    /// A weight format that the device cannot use.
    #[error("{device} has no kernel for weights in {format}")]
    UnsupportedWeight {
        /// Which device.
        device: String,
        /// The format.
        format: String,
    },
    /// The device stopped working.
    #[error("{device} failed: {message}")]
    Lost {
        /// Which device.
        device: String,
        /// What it said.
        message: String,
    },
}
