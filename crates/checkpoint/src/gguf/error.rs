//! Which rule of GGUF a file breaks.

/// Why bytes are not a GGUF file that can be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GgufError {
    /// The first four bytes are others.
    #[error("it does not start with the letters GGUF")]
    Magic,
    /// An old, a future or a big-endian file.
    #[error("it has version {found}, only little-endian versions 2 and 3 are read")]
    Version {
        /// The version it claims.
        found: u32,
    },
    /// The file ends too early.
    #[error("it ends after {length} bytes, inside {what}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes there are.
        length: usize,
    },
    /// A count that no such file has, or that its bytes cannot hold.
    #[error("it claims {count} {what}, more than the {limit} it can have")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The claim.
        count: u64,
        /// The most there can be.
        limit: u64,
    },
    /// A value type that does not exist.
    #[error("key {key} has unknown value type {found}")]
    ValueType {
        /// The key.
        key: String,
        /// The type number.
        found: u32,
    },
    /// Arrays inside arrays inside arrays.
    #[error("key {key} nests arrays deeper than {limit}")]
    Depth {
        /// The key.
        key: String,
        /// The deepest nesting that is read.
        limit: usize,
    },
    /// Text that is not UTF-8.
    #[error("{what} is not valid UTF-8")]
    Text {
        /// Which text.
        what: String,
    },
    /// One name twice.
    #[error("it has two {what}s named {name}")]
    Duplicate {
        /// Key or tensor.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The alignment must be a power of two.
    #[error("its alignment {found} is not a power of two")]
    Alignment {
        /// The alignment it claims.
        found: u64,
    },
    /// Dimensions that are zero, overflow, or cut blocks.
    #[error("tensor {name} has the impossible shape {shape:?} for {encoding}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its dimensions, outermost first.
        shape: Vec<u64>,
        /// How its elements are written.
        encoding: &'static str,
    },
    /// A number format that is not read.
    #[error(
        "tensor {name} has number format {found}, read are F32 (0), F16 (1), BF16 (30), Q4_0 (2), Q4_1 (3), Q5_0 (6), \
         Q5_1 (7), Q8_0 (8), Q4_K (12), Q5_K (13), Q6_K (14), I8 (24), I32 (26) and I64 (27)"
    )]
    Encoding {
        /// The tensor.
        name: String,
        /// The number ggml gives the format.
        found: u32,
    },
    /// A tensor lies outside of the file.
    #[error("tensor {name} needs {bytes} bytes at {offset}, the file has {length}")]
    PastEnd {
        /// The tensor.
        name: String,
        /// Its size.
        bytes: u64,
        /// Where it claims to begin in the file.
        offset: u64,
        /// Bytes of the file.
        length: usize,
    },
    /// A tensor does not begin at a multiple of the alignment.
    #[error("tensor {name} begins at {offset}, which is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Where it claims to begin in the data.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first} and {second} overlap at {offset}")]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins before the first one ends.
        second: String,
        /// Where the second one begins in the file.
        offset: usize,
    },
    /// One file of several.
    #[error("it is one of {count} parts; merge them into one file first")]
    Split {
        /// How many files make the model.
        count: u64,
    },
    /// A key that must be there is not.
    #[error("it has no key {key}")]
    NoKey {
        /// The key.
        key: String,
    },
    /// A value of the wrong type or out of range.
    #[error("key {key} should be {wanted}, it is {found}")]
    Value {
        /// The key.
        key: String,
        /// What it should be.
        wanted: &'static str,
        /// What it is.
        found: String,
    },
}
