//! Operations on the bits of one element.

/// Rounds to `bf16`, ties to even.
fn bf16(x: f32) -> u64 {
    let bits = x.to_bits();
    u64::from((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
}

/// Returns the width of an integer type.
fn width(ty: &str) -> u32 {
    ty.strip_prefix('i').and_then(|bits| bits.parse().ok()).unwrap_or(64)
}

/// Returns a signed integer from its bits.
pub fn signed(bits: u64, ty: &str) -> i64 {
    let unused = 64 - width(ty);
    ((bits << unused) as i64) >> unused
}

/// Keeps the bits of an integer type.
pub fn kept(bits: i128, ty: &str) -> u64 {
    (bits as u64) & (u64::MAX >> (64 - width(ty)))
}

pub fn float(bits: u64, ty: &str) -> f64 {
    match ty {
        "f32" => f64::from(f32::from_bits(bits as u32)),
        "bf16" => f64::from(f32::from_bits((bits as u32) << 16)),
        "f64" => f64::from_bits(bits),
        _ => panic!("a float of type {ty}"),
    }
}

pub fn of_float(x: f64, ty: &str) -> u64 {
    match ty {
        "f32" => u64::from((x as f32).to_bits()),
        "bf16" => bf16(x as f32),
        "f64" => x.to_bits(),
        _ => panic!("a float of type {ty}"),
    }
}

pub fn constant(text: &str) -> u64 {
    let (value, ty) = text.split_once(" : ").unwrap_or((text, "i1"));
    let ty = if ty == "index" { "i64" } else { ty };
    match (value, value.strip_prefix("0x")) {
        ("true", _) => 1,
        ("false", _) => 0,
        (_, Some(hex)) => u64::from_str_radix(hex, 16).unwrap(),
        _ if ty.starts_with('i') => kept(value.parse::<i128>().unwrap(), ty),
        _ => of_float(value.parse().unwrap(), ty),
    }
}

fn compare_floats(predicate: u64, x: f64, y: f64) -> bool {
    match predicate {
        1 => x == y,
        2 => x > y,
        3 => x >= y,
        4 => x < y,
        5 => x <= y,
        13 => x != y,
        14 => x.is_nan() || y.is_nan(),
        _ => panic!("predicate {predicate}"),
    }
}

fn compare_ints(predicate: u64, bits: [u64; 2], ty: &str) -> bool {
    let [x, y] = bits;
    let [i, j] = bits.map(|bits| signed(bits, ty));
    match predicate {
        0 => x == y,
        1 => x != y,
        2 => i < j,
        3 => i <= j,
        4 => i > j,
        5 => i >= j,
        6 => x < y,
        7 => x <= y,
        8 => x > y,
        9 => x >= y,
        _ => panic!("predicate {predicate}"),
    }
}

fn function(name: &str, x: f64, y: f64) -> Option<f64> {
    Some(match name {
        "arith.addf" => x + y,
        "arith.subf" => x - y,
        "arith.mulf" => x * y,
        "arith.divf" => x / y,
        "arith.negf" => -x,
        "arith.maximumf" | "arith.minimumf" if x.is_nan() || y.is_nan() => f64::NAN,
        "arith.maximumf" => x.max(y),
        "arith.minimumf" => x.min(y),
        "math.exp" => x.exp(),
        "math.log" => x.ln(),
        "math.log1p" => x.ln_1p(),
        "math.expm1" => x.exp_m1(),
        "math.tanh" => x.tanh(),
        "math.sin" => x.sin(),
        "math.sqrt" => x.sqrt(),
        "math.rsqrt" => 1.0 / x.sqrt(),
        "math.floor" => x.floor(),
        "math.ceil" => x.ceil(),
        "math.absf" => x.abs(),
        "math.round" => x.round(),
        "math.roundeven" => x.round_ties_even(),
        "math.powf" => x.powf(y),
        _ => return None,
    })
}

fn integer(name: &str, bits: [u64; 2], ty: &str) -> i128 {
    let [x, y] = bits.map(i128::from);
    let [i, j] = bits.map(|bits| i128::from(signed(bits, ty)));
    match name {
        "arith.addi" => x + y,
        "arith.subi" => x - y,
        "arith.muli" => x.wrapping_mul(y),
        "arith.divsi" => i / j,
        "arith.remsi" => i % j,
        "arith.divui" => x / y,
        "arith.remui" => x % y,
        "arith.andi" => x & y,
        "arith.ori" => x | y,
        "arith.xori" => x ^ y,
        "arith.shli" => x << y,
        "arith.shrui" => x >> y,
        "arith.shrsi" => i >> y,
        "arith.maxsi" => i.max(j),
        "arith.minsi" => i.min(j),
        "arith.maxui" => x.max(y),
        "arith.minui" => x.min(y),
        _ => panic!("operation {name}"),
    }
}

/// Computes the bits of an element. `types` are those of operands and the result.
pub fn element(name: &str, x: &[u64], predicate: u64, types: (&[&str], &str)) -> u64 {
    let (from, to) = (types.0[0], types.1);
    let second = x.get(1).copied().unwrap_or(0);
    match name {
        "arith.select" => x[if x[0] == 1 { 1 } else { 2 }],
        "arith.cmpf" => {
            let [x, y] = [x[0], second].map(|bits| float(bits, from));
            u64::from(compare_floats(predicate, x, y))
        }
        "arith.cmpi" => u64::from(compare_ints(predicate, [x[0], second], from)),
        "arith.bitcast" => x[0],
        "arith.index_cast" | "arith.extsi" | "arith.trunci" => {
            let from = if from == "index" { "i64" } else { from };
            kept(i128::from(signed(x[0], from)), to)
        }
        "arith.extui" => x[0],
        "arith.extf" | "arith.truncf" => of_float(float(x[0], from), to),
        "arith.sitofp" => of_float(signed(x[0], from) as f64, to),
        "arith.uitofp" => of_float(x[0] as f64, to),
        "arith.fptosi" => kept(float(x[0], from) as i128, to),
        _ if from.starts_with('i') => kept(integer(name, [x[0], second], from), to),
        _ => {
            let value = function(name, float(x[0], from), float(second, types.0[x.len() - 1]));
            of_float(value.unwrap_or_else(|| panic!("operation {name}")), to)
        }
    }
}
