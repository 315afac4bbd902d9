//! Releases of the reference client: what changed when.

use std::fmt;
use std::str::FromStr;

/// A release of the reference whose manners are taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    minor: u16,
    patch: u16,
}

impl Release {
    /// The release imitated unless another is asked for: the one the seeds' logs were made with.
    pub const USUAL: Self = Self::new(5, 6);
    /// The newest release known here.
    pub const NEWEST: Self = Self::new(5, 23);

    const fn new(minor: u16, patch: u16) -> Self {
        Self { minor, patch }
    }

    /// Whether this is release 0.5.`patch` or newer.
    pub fn has(self, patch: u16) -> bool {
        self >= Self::new(5, patch)
    }

    /// The seed of a run that names none.
    pub fn seed(self) -> u32 {
        if self.has(13) { 42 } else { 1 }
    }

    /// The path of the server's information.
    pub fn info_path(self) -> &'static str {
        if self.has(10) {
            "/server_info"
        } else {
            "/get_server_info"
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "0.{}.{}", self.minor, self.patch)
    }
}

/// A text that names no release.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text}: not a release between 0.4.9 and {newest} (such as 0.5.6 or 0.5.6.post2)", newest = Release::NEWEST)]
pub struct NotARelease {
    text: String,
}

impl FromStr for Release {
    type Err = NotARelease;

    /// Reads `0.5.6`; what follows the third number is passed over.
    fn from_str(text: &str) -> Result<Self, NotARelease> {
        let mut numbers = text.split('.').map(|part| part.parse().ok());
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Some(0)), Some(Some(minor)), Some(Some(patch))) => {
                let release = Self::new(minor, patch);
                let known = Self::new(4, 9)..=Self::NEWEST;
                known.contains(&release).then_some(release)
            }
            _ => None,
        }
        .ok_or_else(|| NotARelease {
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_and_read() {
        let release = |text: &str| text.parse::<Release>();
        assert_eq!(release("0.5.6.post2").unwrap(), Release::USUAL);
        assert!(release("0.4.9.post2").unwrap() < release("0.5.0").unwrap());
        assert!(release("0.5.23").unwrap().has(9) && !release("0.5.6").unwrap().has(9));
        assert_eq!(
            (
                release("0.5.12").unwrap().seed(),
                release("0.5.13").unwrap().seed()
            ),
            (1, 42)
        );
        for text in ["", "0.5", "1.0.0", "0.5.24", "0.4.8", "new"] {
            assert!(release(text).is_err(), "{text}");
        }
    }
}
