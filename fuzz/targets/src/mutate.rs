//! Mutants: what a target reads, damaged, from a seed and a number alone.

/// Longer ones are cut.
const LONGEST: usize = 256 << 10;

/// Words that break careless readers.
const WORDS: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"NaN",
    b"null",
    b"true",
    b"\"",
    b"\"\\ud800\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[",
    b"{\"a\":",
    b",",
    b":",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\r\n",
    b"\n\n",
    b"\r",
    b"data: ",
    b"event: ",
    b"Content-Length: 18446744073709551615\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"ffffffffffffffff\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"{{",
    b"}}",
    b"{%",
    b"%}",
    b"{#",
    b"not ",
    b"|string",
    b"|tojson",
    b".a",
    b"~1",
    b"+1",
    b"(",
    b")",
    b"{% set ns = namespace() %}",
    b"{% set ns.x = ns %}",
    b"{% set ns.x = [ns.x] %}",
    b"{% set ns.x = ns.x ~ ns.x %}",
    b"{{ ns }}",
    b"{% for a in range(90000) %}",
    b"{% endfor %}",
    b"{% elif a %}",
    b"|replace('a', 'a' * 100000)",
    b"|join('a' * 100000)",
    b"* 1000000000",
    b"|batch(10 ** 10)",
    b"|indent(100000)",
    b"(?:",
    b"(a*)*b",
    b"\xef\xb7\xba",
    b"{\"type\": \"Sequence\", \"normalizers\": [",
    b"\"Replace\"",
    b"\"ByteLevel\"",
    b"\"NFKC\"",
];

/// Numbers that break careless arithmetic.
const NUMBERS: [u64; 12] = [
    0,
    1,
    7,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 61,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

/// Small, fast and the same everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A stretch of up to `longest` bytes.
    fn stretch(&mut self, bytes: &[u8], longest: usize) -> std::ops::Range<usize> {
        let start = self.below(bytes.len());
        start..bytes.len().min(start + 1 + self.below(longest))
    }
}

/// The mutant of this number.
pub(crate) fn mutant(corpus: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ number);
    let mut bytes = corpus[dice.below(corpus.len())].clone();
    // Most of them once: what is damaged everywhere is refused early.
    for _ in 0..[1, 1, 1, 1, 2, 2, 3, 5][dice.below(8)] {
        damage(&mut bytes, corpus, &mut dice);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    if bytes.is_empty() {
        bytes.push(b' ');
    }
    let at = dice.below(bytes.len());
    match dice.below(16) {
        0 => bytes[at] = dice.next() as u8,
        1 => bytes[at] ^= 1 << dice.below(8),
        2 => bytes.truncate(at),
        3 => {
            let width = [1, 2, 4, 8][dice.below(4)];
            let number = NUMBERS[dice.below(NUMBERS.len())].to_le_bytes();
            for (byte, new) in bytes[at..].iter_mut().zip(&number[..width]) {
                *byte = *new;
            }
        }
        4 => drop(bytes.drain(dice.stretch(bytes, 40))),
        5 => {
            let copy = bytes[dice.stretch(bytes, 40)].to_vec();
            drop(bytes.splice(at..at, copy));
        }
        6 | 7 => {
            let end = bytes.len().min(at + dice.below(4));
            drop(bytes.splice(at..end, WORDS[dice.below(WORDS.len())].iter().copied()));
        }
        8 => {
            // Nesting and length: a stretch or a word, very often.
            let unit = match dice.below(2) {
                0 => WORDS[dice.below(WORDS.len())].to_vec(),
                _ => bytes[dice.stretch(bytes, 12)].to_vec(),
            };
            let times = [10, 100, 1_000, 100_000][dice.below(4)];
            let times = times.min(LONGEST / unit.len().max(1));
            drop(bytes.splice(at..at, unit.repeat(times)));
        }
        9 => {
            let other = &corpus[dice.below(corpus.len())];
            if !other.is_empty() {
                let part = other[dice.stretch(other, 400)].to_vec();
                drop(bytes.splice(at..at, part));
            }
        }
        _ => {
            // One word for another leaves the text well formed.
            let other = &corpus[dice.below(corpus.len())];
            let there = word(bytes, at);
            let new = match dice.below(3) {
                0 => NUMBERS[dice.below(NUMBERS.len())].to_string().into_bytes(),
                _ => other[word(other, dice.below(other.len()))].to_vec(),
            };
            drop(bytes.splice(there, new));
        }
    }
}

/// The next word from here on: letters and digits, or a sign.
fn word(bytes: &[u8], from: usize) -> std::ops::Range<usize> {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let start = (from..bytes.len())
        .find(|at| belongs(&bytes[*at]))
        .unwrap_or(from);
    let start = (0..start)
        .rev()
        .find(|at| !belongs(&bytes[*at]))
        .map_or(0, |at| at + 1);
    let length = bytes[start..]
        .iter()
        .take_while(|byte| belongs(byte))
        .count();
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_the_same_every_time_and_most_differ() {
        let corpus = [b"{\"a\": [1, 2]}".to_vec(), b"x".to_vec()];
        let all: Vec<_> = (0..1000).map(|number| mutant(&corpus, 7, number)).collect();
        let again: Vec<_> = (0..1000).map(|number| mutant(&corpus, 7, number)).collect();
        assert_eq!(all, again);
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert!(distinct.len() > 900, "{}", distinct.len());
    }
}
