//! How long the code of GPU kernels is. Instructions come from device memory too: a layer's kernels that do not fit the
//! caches of a multiprocessor lose microseconds at every launch (ADR 18), so kernels of decode steps have a limit.

use anyhow::{Context as _, bail};

/// Beginnings of names, and kilobytes of code that such a kernel has at most. The first that fits counts.
const LIMITS: [(&str, usize); 10] = [
    ("attend_stream_256_", 63),
    ("attend_stream_", 60),
    ("plan_attention", 12),
    ("open_step", 20),
    ("linear_", 32),
    ("megakernel", 76),
    ("sample", 60),
    ("add_rms_norm_short", 8),
    ("add_split_k_norm_short", 8),
    ("rope_store_kv", 24),
];
/// What sections of code are called, before the kernel's name.
const CODE: &[u8] = b".text.";

/// Bytes of code by kernel in a compiled file, and an error where one is longer than it may be.
pub(crate) fn check(file: &str, object: &[u8]) -> anyhow::Result<Vec<(String, usize)>> {
    let sizes = of(object).with_context(|| format!("{file} is no object file"))?;
    for (kernel, bytes) in &sizes {
        let limit = LIMITS.iter().find(|(name, _)| kernel.starts_with(name));
        if let Some((_, most)) = limit.filter(|(_, most)| *bytes > most << 10) {
            bail!(
                "{kernel} has {bytes} bytes of code, {most} KB are the limit: shorten what runs once (loops that are unrolled, \
                 paths that are there twice), or raise it in xtask/src/code_size.rs with a measurement"
            );
        }
    }
    Ok(sizes)
}

/// Names and sizes of the sections that hold kernels, as a 64-bit little-endian ELF file lists them.
fn of(object: &[u8]) -> Option<Vec<(String, usize)>> {
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let at = word(object, 0x28, 8)?;
    let (each, count) = (word(object, 0x3a, 2)?, word(object, 0x3c, 2)?);
    let section = |number: usize| at.checked_add(number.checked_mul(each)?);
    let names = word(
        object,
        section(word(object, 0x3e, 2)?)?.checked_add(0x18)?,
        8,
    )?;
    let mut sizes = Vec::new();
    for number in 0..count {
        let header = section(number)?;
        let name = object.get(names.checked_add(word(object, header, 4)?)?..)?;
        let name = name.split(|&byte| byte == 0).next()?;
        if let Some(kernel) = name.strip_prefix(CODE) {
            let bytes = word(object, header.checked_add(0x20)?, 8)?;
            sizes.push((String::from_utf8_lossy(kernel).into_owned(), bytes));
        }
    }
    Some(sizes)
}

/// A number of so many bytes.
fn word(object: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let mut word = [0; 8];
    let found = object.get(at..at.checked_add(bytes)?)?;
    word[..bytes].copy_from_slice(found);
    usize::try_from(u64::from_le_bytes(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one section of code of this name and size.
    fn object(name: &str, bytes: u64) -> Vec<u8> {
        let names = format!("\0.text.{name}\0");
        let mut object = vec![0; 0x40];
        object[..6].copy_from_slice(b"\x7fELF\x02\x01");
        object.extend(names.as_bytes());
        let headers = object.len() as u64;
        object[0x28..0x30].copy_from_slice(&headers.to_le_bytes());
        object[0x3a..0x40].copy_from_slice(&[0x40, 0, 2, 0, 1, 0]);
        for (name, place, size) in [(1u32, 0, bytes), (0, 0x40, names.len() as u64)] {
            let mut header = [0; 0x40];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[0x18..0x20].copy_from_slice(&u64::to_le_bytes(place));
            header[0x20..0x28].copy_from_slice(&size.to_le_bytes());
            object.extend(header);
        }
        object
    }

    #[test]
    fn code_longer_than_its_limit_is_refused_by_name() {
        let found = check("a.cubin", &object("linear_add_norm_few_1", 8000)).unwrap();
        assert_eq!(found, [("linear_add_norm_few_1".to_owned(), 8000)]);
        let long = check("a.cubin", &object("linear_add_norm_few_1", 40_000));
        let said = long.unwrap_err().to_string();
        assert!(
            said.contains("linear_add_norm_few_1 has 40000 bytes of code, 32 KB"),
            "{said}"
        );
        check("a.cubin", &object("any_other", 400_000)).unwrap();
    }

    #[test]
    fn files_that_are_cut_short_or_no_objects_are_refused() {
        let whole = object("megakernel", 1);
        for length in [0, 3, 0x29, 0x50, whole.len() - 0x50] {
            assert!(check("a.cubin", &whole[..length]).is_err(), "{length}");
        }
        assert!(check("a.cubin", b"MZ").is_err());
    }
}
