//! The enumerations of StableHLO, with their numbers in the file.

/// An enumeration: its name, the number of the attribute, the number of the first case, and the
/// cases.
pub(crate) type Enumeration = (&'static str, u64, u64, &'static [&'static str]);

/// All enumerations.
pub(crate) const ENUMERATIONS: [Enumeration; 8] = [
    ("comparison_direction", 3, 0, &["EQ", "NE", "GE", "GT", "LE", "LT"]),
    ("comparison_type", 4, 0, &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]),
    ("fft_type", 7, 0, &["FFT", "IFFT", "RFFT", "IRFFT"]),
    ("precision", 11, 0, &["DEFAULT", "HIGH", "HIGHEST"]),
    ("rng_algorithm", 12, 0, &["DEFAULT", "THREE_FRY", "PHILOX"]),
    ("rng_distribution", 13, 1, &["UNIFORM", "NORMAL"]),
    ("transpose", 16, 0, &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
    ("result_accuracy_mode", 19, 0, &["DEFAULT", "HIGHEST", "TOLERANCE"]),
];
