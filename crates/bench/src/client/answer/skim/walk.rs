//! A walk over JSON text that decodes nothing.

/// Strings are looked at byte by byte up to here.
const SHORT: usize = 24;
/// Lists are looked at in blocks of this many bytes.
const BLOCK: usize = 32;

/// What is left to be walked over.
pub(super) struct Walk<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(super) fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Takes this byte after blanks, if it is next.
    pub(super) fn byte(&mut self, wanted: u8) -> Option<()> {
        self.blanks();
        self.rest = self.rest.strip_prefix(&[wanted])?;
        Some(())
    }

    /// Walks an object; `visit` is called at each value and must pass over it.
    pub(super) fn object(
        &mut self,
        mut visit: impl FnMut(&[u8], &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.byte(b'{')?;
        if self.byte(b'}').is_some() {
            return Some(());
        }
        loop {
            let key = self.string()?;
            if key.contains(&b'\\') {
                return None;
            }
            self.byte(b':')?;
            visit(key, self)?;
            if self.byte(b',').is_none() {
                return self.byte(b'}');
            }
        }
    }

    /// Passes over a string: its raw content, escapes and all.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        // Keys and short values end within a few bytes; a search would cost more than it saves.
        let mut from = 0;
        for (at, byte) in self.rest.iter().take(SHORT).enumerate() {
            match byte {
                b'"' => {
                    let content = &self.rest[..at];
                    self.rest = &self.rest[at + 1..];
                    return Some(content);
                }
                b'\\' | b'\n' => break,
                _ => from = at + 1,
            }
        }
        self.string_from(from)
    }

    /// Passes over a string, likely a long one, that begins here and ends on this line: its raw
    /// content, escapes and all.
    pub(super) fn line_string(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.strip_prefix(b"\"")?;
        self.string_from(0)
    }

    /// Passes over what is left of a string whose first bytes have been looked at. Line ends are
    /// not allowed in it.
    fn string_from(&mut self, mut from: usize) -> Option<&'a [u8]> {
        loop {
            let at = from + memchr::memchr3(b'"', b'\\', b'\n', &self.rest[from..])?;
            if self.rest[at] == b'"' {
                let content = &self.rest[..at];
                self.rest = &self.rest[at + 1..];
                return Some(content);
            }
            let escaped = *self.rest.get(at + 1)?;
            if self.rest[at] == b'\n' || escaped == b'\n' {
                return None;
            }
            from = at + 2;
        }
    }

    pub(super) fn integer(&mut self) -> Option<u32> {
        self.blanks();
        let mut number = 0_u32;
        let mut length = 0;
        while let Some(digit) = self.rest.get(length).filter(|byte| byte.is_ascii_digit()) {
            number = number
                .checked_mul(10)?
                .checked_add(u32::from(digit - b'0'))?;
            length += 1;
        }
        self.rest = &self.rest[length..];
        let ends = matches!(self.rest, [b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r', ..]);
        (length > 0 && ends).then_some(number)
    }

    pub(super) fn skip(&mut self) -> Option<()> {
        self.value().map(drop)
    }

    /// Passes over any value: its raw bytes.
    pub(super) fn value(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        let start = self.rest;
        let mut depth = 0_usize;
        loop {
            match *self.rest.first()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.rest = &self.rest[1..];
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.rest = &self.rest[1..];
                }
                _ => self.scalar(depth)?,
            }
            if depth == 0 {
                return Some(&start[..start.len() - self.rest.len()]);
            }
        }
    }

    /// Passes over a number or word, or, inside a container, over everything up to the next
    /// string or bracket.
    fn scalar(&mut self, depth: usize) -> Option<()> {
        let opens_or_closes = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
        let mut from = 0;
        if depth > 0 {
            // Lists of numbers are long: a whole block without an end is passed over at once.
            let blocks = self.rest.chunks_exact(BLOCK);
            let without = |block: &&[u8]| {
                !block
                    .iter()
                    .fold(false, |found, byte| found | opens_or_closes(byte))
            };
            from = blocks.take_while(without).count() * BLOCK;
        }
        let ends = |byte: &u8| {
            opens_or_closes(byte)
                || depth == 0 && matches!(byte, b',' | b' ' | b'\t' | b'\n' | b'\r')
        };
        let length = from + self.rest[from..].iter().position(ends)?;
        self.rest = &self.rest[length..];
        (length > 0).then_some(())
    }
}
