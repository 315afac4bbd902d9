//! The hash by which git names a file: SHA-1 over a header and the bytes. It guards against broken
//! transfers, not against an attacker.

pub(crate) struct GitBlob {
    state: [u32; 5],
    block: [u8; 64],
    filled: usize,
    length: u64,
}

impl GitBlob {
    /// Starts the hash of a file of this many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        let state = [
            0x6745_2301,
            0xefcd_ab89,
            0x98ba_dcfe,
            0x1032_5476,
            0xc3d2_e1f0,
        ];
        let mut blob = Self {
            state,
            block: [0; 64],
            filled: 0,
            length: 0,
        };
        blob.update(format!("blob {bytes}\0").as_bytes());
        blob
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let taken = bytes.len().min(64 - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == 64 {
                self.mix();
                self.filled = 0;
            }
        }
    }

    pub(crate) fn finish(mut self) -> [u8; 20] {
        let bits = self.length * 8;
        self.update(&[0x80]);
        while self.filled != 56 {
            self.update(&[0]);
        }
        self.update(&bits.to_be_bytes());
        let mut hash = [0; 20];
        for (bytes, word) in hash.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        hash
    }

    fn mix(&mut self) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(4)) {
            *word = bytes
                .iter()
                .fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        for place in 16..80 {
            let mixed = words[place - 3] ^ words[place - 8] ^ words[place - 14] ^ words[place - 16];
            words[place] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = self.state;
        for (place, word) in words.into_iter().enumerate() {
            let (choice, constant) = match place / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc_u32),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(choice).wrapping_add(e);
            let next = next.wrapping_add(constant).wrapping_add(word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (state, add) in self.state.iter_mut().zip([a, b, c, d, e]) {
            *state = state.wrapping_add(add);
        }
    }
}
