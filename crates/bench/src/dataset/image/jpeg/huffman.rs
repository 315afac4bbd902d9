//! Entropy coding with the standard's own tables.

use super::tables::{Kind, ZIGZAG};

/// The code of each symbol: its bits and how many.
pub(super) struct Code {
    bits: [u16; 256],
    lengths: [u8; 256],
}

impl Code {
    pub(super) fn of(kind: Kind) -> Self {
        let (counts, values) = kind.table();
        let mut code = Self {
            bits: [0; 256],
            lengths: [0; 256],
        };
        let mut next = 0_u16;
        let mut values = values.iter();
        for (length, count) in (1..).zip(counts) {
            for value in values.by_ref().take(usize::from(*count)) {
                code.bits[usize::from(*value)] = next;
                code.lengths[usize::from(*value)] = length;
                next += 1;
            }
            next <<= 1;
        }
        code
    }
}

/// Bits into bytes, with a zero after every byte of ones.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            held: 0,
            count: 0,
        }
    }

    /// Writes a quantised block; its level is told as the change from the block before.
    pub(super) fn block(&mut self, block: &[i32; 64], before: i32, [levels, details]: &[Code; 2]) {
        let change = block[0] - before;
        self.symbol(levels, size_of_value(change));
        self.value(change);
        let mut zeros = 0_u8;
        for at in &ZIGZAG[1..] {
            let value = block[*at];
            if value == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 {
                self.symbol(details, 0xf0);
                zeros -= 16;
            }
            self.symbol(details, (zeros << 4) | size_of_value(value));
            self.value(value);
            zeros = 0;
        }
        if zeros > 0 {
            self.symbol(details, 0);
        }
    }

    /// Fills the last byte with ones.
    pub(super) fn finish(mut self) {
        self.bits(0x7f, 7);
    }

    fn symbol(&mut self, code: &Code, symbol: u8) {
        let place = usize::from(symbol);
        self.bits(code.bits[place], code.lengths[place]);
    }

    fn value(&mut self, value: i32) {
        let size = size_of_value(value);
        let bits = if value < 0 { value - 1 } else { value };
        self.bits((bits & ((1 << size) - 1)) as u16, size);
    }

    fn bits(&mut self, bits: u16, count: u8) {
        self.held = (self.held << count) | u64::from(bits);
        self.count += u32::from(count);
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.held >> self.count) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
        self.held &= (1 << self.count) - 1;
    }
}

/// How many bits a value needs.
fn size_of_value(value: i32) -> u8 {
    (i32::BITS - value.unsigned_abs().leading_zeros()) as u8
}
