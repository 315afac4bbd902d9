/// The device cannot go on; running requests fail and the process ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device was lost: {message}")]
pub struct DeviceLost {
    /// What it said.
    pub message: String,
}

impl DeviceLost {
    /// From whatever the device or its thread said.
    pub fn because(cause: impl std::fmt::Display) -> Self {
        Self {
            message: format!("{cause}"),
        }
    }
}

impl From<ops::OpError> for DeviceLost {
    fn from(error: ops::OpError) -> Self {
        Self::because(error)
    }
}

impl From<ops::DeviceError> for DeviceLost {
    fn from(error: ops::DeviceError) -> Self {
        Self::because(error)
    }
}
