//! Sizes of pictures.

use std::str::FromStr;

/// Width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u64,
    /// Pixels down.
    pub height: u64,
}

/// One size, or any between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// All pictures alike.
    Fixed(Size),
    /// Drawn between these, both included.
    Between(Size, Size),
}

/// A text that names no resolution.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "unsupported image resolution: {text} (4k, 1080p, 720p, 360p, HEIGHTxWIDTH, or \
     random:HEIGHTxWIDTH-HEIGHTxWIDTH with the smaller first)"
)]
pub struct NotAResolution {
    text: String,
}

impl FromStr for Resolution {
    type Err = NotAResolution;

    fn from_str(text: &str) -> Result<Self, NotAResolution> {
        let lower = text.trim().to_lowercase();
        let found = match lower.strip_prefix("random:") {
            None => size(&lower).map(Self::Fixed),
            Some(bounds) => bounds.split_once('-').and_then(|(low, high)| {
                let (low, high) = (size(low)?, size(high)?);
                let ordered = low.width <= high.width && low.height <= high.height;
                ordered.then_some(Self::Between(low, high))
            }),
        };
        found.ok_or_else(|| NotAResolution {
            text: text.to_owned(),
        })
    }
}

fn size(text: &str) -> Option<Size> {
    let (height, width) = match text {
        "4k" => (2160, 3840),
        "1080p" => (1080, 1920),
        "720p" => (720, 1280),
        "360p" => (360, 640),
        custom => {
            let (height, width) = custom.split_once('x')?;
            (height.parse().ok()?, width.parse().ok()?)
        }
    };
    let fits = (1..=65_535).contains(&height) && (1..=65_535).contains(&width);
    fits.then_some(Size { width, height })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_read() {
        let read = |text: &str| text.parse::<Resolution>();
        let size = |width, height| Size { width, height };
        assert_eq!(read("1080p").unwrap(), Resolution::Fixed(size(1920, 1080)));
        assert_eq!(read("32x64").unwrap(), Resolution::Fixed(size(64, 32)));
        assert_eq!(
            read("random:16x24-32x48").unwrap(),
            Resolution::Between(size(24, 16), size(48, 32))
        );
        for text in [
            "",
            "8k",
            "0x5",
            "axb",
            "5",
            "random:9x9-3x3",
            "random:9x9",
            "99999x1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
