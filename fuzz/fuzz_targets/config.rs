#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::config(bytes);
});
