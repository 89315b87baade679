//! Small numbers, packed into text: base64 for URLs, the first number in the highest bits.

use data_encoding::BASE64URL_NOPAD;

/// The bits that a number needs which is `most` or less.
pub(super) const fn width(most: usize) -> u32 {
    usize::BITS - most.leading_zeros()
}

/// Packs numbers.
#[derive(Default)]
pub(super) struct Packer {
    bytes: Vec<u8>,
    buffer: u64,
    used: u32,
}

impl Packer {
    /// Adds a number of this many bits, at most 32. The number has no others.
    pub fn put(&mut self, number: u32, width: u32) {
        self.buffer = self.buffer << width | u64::from(number);
        self.used += width;
        while self.used >= 8 {
            self.used -= 8;
            self.bytes.push((self.buffer >> self.used).to_le_bytes()[0]);
        }
    }

    /// The text of all numbers. Zeros fill the last byte.
    pub fn into_text(mut self) -> String {
        if self.used > 0 {
            self.put(0, 8 - self.used);
        }
        BASE64URL_NOPAD.encode(&self.bytes)
    }
}

/// Reads packed numbers.
pub(super) struct Unpacker {
    bytes: std::vec::IntoIter<u8>,
    buffer: u64,
    held: u32,
}

impl Unpacker {
    /// Begins with the first number. `None` if the text is not base64.
    pub fn new(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        Some(Self {
            bytes: bytes.into_iter(),
            buffer: 0,
            held: 0,
        })
    }

    /// The next number of this many bits, at most 32. `None` after the last bit.
    pub fn take(&mut self, width: u32) -> Option<u32> {
        while self.held < width {
            self.buffer = self.buffer << 8 | u64::from(self.bytes.next()?);
            self.held += 8;
        }
        self.held -= width;
        let number = self.buffer >> self.held & ((1 << width) - 1);
        number.try_into().ok()
    }

    /// Whether nothing is left but the zeros that fill the last byte.
    pub fn is_at_end(&self) -> bool {
        let rest = self.buffer & ((1 << self.held) - 1);
        self.bytes.len() == 0 && self.held < 8 && rest == 0
    }
}
