//! The bits of floating-point numbers of each width.

/// The layout of a floating-point type of 16 bits or fewer.
struct Layout {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    limits: Limits,
}

/// The numbers that a type has besides finite ones.
#[derive(PartialEq)]
enum Limits {
    /// Infinities and NaN, in the highest exponent.
    Ieee,
    /// NaN, as the highest mantissa of the highest exponent.
    Nan,
    /// NaN, in the place of the negative zero.
    NanOnly,
    /// None.
    Finite,
}

fn layout(name: &str) -> Option<Layout> {
    let (exponent, mantissa, bias, limits) = match name {
        "f16" => (5, 10, 15, Limits::Ieee),
        "bf16" => (8, 7, 127, Limits::Ieee),
        "f8E5M2" => (5, 2, 15, Limits::Ieee),
        "f8E4M3" => (4, 3, 7, Limits::Ieee),
        "f8E3M4" => (3, 4, 3, Limits::Ieee),
        "f8E4M3FN" => (4, 3, 7, Limits::Nan),
        "f8E4M3FNUZ" => (4, 3, 8, Limits::NanOnly),
        "f8E5M2FNUZ" => (5, 2, 16, Limits::NanOnly),
        "f8E4M3B11FNUZ" => (4, 3, 11, Limits::NanOnly),
        "f4E2M1FN" => (2, 1, 1, Limits::Finite),
        "f6E2M3FN" => (2, 3, 1, Limits::Finite),
        "f6E3M2FN" => (3, 2, 3, Limits::Finite),
        _ => return None,
    };
    Some(Layout { exponent, mantissa, bias, limits })
}

/// Rounds a finite number to a floating-point type. Returns `None` if the type is another one.
pub(super) fn bits_of(name: &str, number: f64) -> Option<u64> {
    match name {
        "f64" => return Some(number.to_bits()),
        "f32" => return Some((number as f32).to_bits().into()),
        // Powers of two from 2^-127, without a sign.
        "f8E8M0FNU" => {
            let exponent = number.log2().round().clamp(-127.0, 127.0);
            return Some((exponent as i64 + 127).cast_unsigned());
        }
        _ => {}
    }
    let Layout { exponent, mantissa, bias, limits } = layout(name)?;
    let sign = u64::from(number.is_sign_negative()) << (exponent + mantissa);
    let size = number.abs();
    if size == 0.0 {
        return Some(if limits == Limits::NanOnly { 0 } else { sign });
    }
    let one = 1_u64 << mantissa;
    // The exponent of the first bit, at least that of the smallest normal number.
    let stored = (size.to_bits() >> 52) as i32 - 1023;
    let power = stored.max(1 - bias);
    // Both steps are exact: they change the exponent of an f64 only.
    let steps = size * 2_f64.powi(mantissa.cast_signed() - power);
    let steps = steps.round_ties_even() as u64;
    let code = match steps < one {
        true => steps,
        // A carry out of the mantissa increments the exponent.
        false => (((power + bias).cast_unsigned() as u64) << mantissa) + (steps - one),
    };
    let last = (1_u64 << (exponent + mantissa)) - 1;
    Some(match limits {
        Limits::Ieee => sign | code.min(last & !(one - 1)),
        Limits::Nan => sign | code.min(last),
        Limits::NanOnly if code > last => last + 1,
        Limits::NanOnly if code == 0 => 0,
        Limits::NanOnly => sign | code,
        Limits::Finite => sign | code.min(last),
    })
}

#[cfg(test)]
mod tests {
    use super::bits_of;

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let cases = [
            ("f32", 1.0, 0x3F80_0000),
            ("f16", 1.0, 0x3C00),
            ("f16", 65504.0, 0x7BFF),
            ("f16", 65520.0, 0x7C00),
            ("f16", 5.960_464_477_539_063e-8, 1),
            ("f16", -0.0, 0x8000),
            ("bf16", 1.0 + 1.0 / 256.0, 0x3F80),
            ("bf16", 1.0 + 3.0 / 256.0, 0x3F82),
            ("bf16", -2.5, 0xC020),
            ("f8E4M3FN", 448.0, 0x7E),
            ("f8E4M3FN", 1000.0, 0x7F),
            ("f8E4M3FN", 0.001_953_125, 1),
            ("f8E5M2", 1.5, 0x3E),
            ("f8E4M3FNUZ", -0.0, 0),
            ("f8E4M3FNUZ", 1.0, 0x40),
            ("f8E4M3B11FNUZ", 1.0, 0x58),
            ("f4E2M1FN", -6.0, 0xF),
            ("f4E2M1FN", 0.5, 1),
            ("f8E8M0FNU", 2.0, 128),
            ("f8E8M0FNU", 0.0, 0),
        ];
        for (name, number, bits) in cases {
            assert_eq!(bits_of(name, number), Some(bits), "{number} as {name}");
        }
        assert_eq!(bits_of("i32", 1.0), None);
    }
}
