//! The Mersenne Twister that both Python and NumPy build their streams on.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

#[derive(Clone)]
pub(super) struct Mt19937 {
    state: Box<[u32; WORDS]>,
    next: usize,
}

impl Mt19937 {
    /// The plain initialiser: one multiplication per word.
    pub(super) fn from_word(seed: u32) -> Self {
        let mut state = Box::new([0_u32; WORDS]);
        let mut previous = seed;
        for (index, word) in state.iter_mut().enumerate() {
            if index > 0 {
                previous = 1_812_433_253_u32
                    .wrapping_mul(previous ^ (previous >> 30))
                    .wrapping_add(index as u32);
            }
            *word = previous;
        }
        Self { state, next: WORDS }
    }

    /// The array initialiser for a key of one word.
    pub(super) fn from_key(key: u32) -> Self {
        let mut twister = Self::from_word(19_650_218);
        let state = &mut twister.state;
        let mut index = 1;
        for _ in 0..WORDS {
            let previous = state[index - 1];
            state[index] = (state[index] ^ (previous ^ (previous >> 30)).wrapping_mul(1_664_525))
                .wrapping_add(key);
            index = advance(state, index);
        }
        for _ in 0..WORDS - 1 {
            let previous = state[index - 1];
            state[index] = (state[index]
                ^ (previous ^ (previous >> 30)).wrapping_mul(1_566_083_941))
            .wrapping_sub(index as u32);
            index = advance(state, index);
        }
        state[0] = 0x8000_0000;
        twister
    }

    /// The next tempered word.
    pub(super) fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A double in [0, 1) with 53 random bits, from two words.
    pub(super) fn unit(&mut self) -> f64 {
        let high = f64::from(self.word() >> 5);
        let low = f64::from(self.word() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn refill(&mut self) {
        for index in 0..WORDS {
            let mixed =
                (self.state[index] & 0x8000_0000) | (self.state[(index + 1) % WORDS] & 0x7fff_ffff);
            let twist = if mixed & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[index] = self.state[(index + MIDDLE) % WORDS] ^ (mixed >> 1) ^ twist;
        }
        self.next = 0;
    }
}

/// The next position of the array initialiser, which wraps past the first word and copies the last.
fn advance(state: &mut [u32; WORDS], index: usize) -> usize {
    if index + 1 == WORDS {
        state[0] = state[WORDS - 1];
        1
    } else {
        index + 1
    }
}
