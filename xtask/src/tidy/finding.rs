use std::fmt;

/// A place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    what: String,
}

impl Finding {
    /// Something about a whole file, folder or package.
    pub(crate) fn file(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            what: what.into(),
        }
    }

    /// Something about a line, counted from one.
    pub(crate) fn line(path: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::file(path, what)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: {}", self.path, self.what),
            None => write!(out, "{}: {}", self.path, self.what),
        }
    }
}
