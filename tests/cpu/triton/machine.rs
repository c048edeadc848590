//! An evaluator of the Triton IR that kernels are compiled to for GPUs. It runs the programs of the
//! grid one after the other, and panics at accesses beyond an array.

use std::collections::HashMap;

/// A tensor or scalar. Pointers are indices of elements of one array.
#[derive(Clone, Debug)]
struct Tensor {
    shape: Vec<usize>,
    data: Vec<f64>,
    array: Option<usize>,
}

/// The shape and the element type that a type describes.
fn parse_type(text: &str) -> (Vec<usize>, String) {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("tensor<") else { return (vec![], text.to_string()) };
    let mut inside = inside.strip_suffix('>').expect("a tensor type ends");
    let mut shape = Vec::new();
    while let Some((size, rest)) = inside.split_once('x') {
        let Ok(size) = size.parse() else { break };
        shape.push(size);
        inside = rest;
    }
    (shape, inside.to_string())
}

/// Rounds to the values of an element type.
fn rounded(x: f64, element: &str) -> f64 {
    match element {
        "f32" => f64::from(x as f32),
        "bf16" => {
            let bits = (x as f32).to_bits();
            let bits = bits + 0x7FFF + ((bits >> 16) & 1);
            f64::from(f32::from_bits(bits & 0xFFFF_0000))
        }
        "i1" => f64::from(u8::from(x as i64 & 1 == 1)),
        "i8" => f64::from(x as i64 as i8),
        "i16" => f64::from(x as i64 as i16),
        "i32" => f64::from(x as i64 as i32),
        _ => x,
    }
}

fn constant(text: &str, element: &str) -> f64 {
    let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16).unwrap());
    match (text, hex, element) {
        ("true", ..) => 1.0,
        ("false", ..) => 0.0,
        (_, Some(bits), "f32") => f64::from(f32::from_bits(bits as u32)),
        (_, Some(bits), "bf16") => f64::from(f32::from_bits((bits as u32) << 16)),
        (_, Some(0), "f16") => 0.0,
        (_, Some(bits), "f64") => f64::from_bits(bits),
        _ => text.parse().unwrap_or_else(|_| panic!("constant {text} : {element}")),
    }
}

fn binary(operation: &str, x: f64, y: f64) -> f64 {
    let (i, j) = (x as i64, y as i64);
    match operation {
        "arith.addi" | "arith.addf" => x + y,
        "arith.subi" | "arith.subf" => x - y,
        "arith.muli" => i.wrapping_mul(j) as f64,
        "arith.mulf" => x * y,
        "arith.divf" => x / y,
        "arith.divsi" => (i / j) as f64,
        "arith.remsi" => (i % j) as f64,
        "arith.maximumf" if x.is_nan() || y.is_nan() => f64::NAN,
        "arith.minimumf" if x.is_nan() || y.is_nan() => f64::NAN,
        "arith.maximumf" | "arith.maxsi" => x.max(y),
        "arith.minimumf" | "arith.minsi" => x.min(y),
        "arith.andi" => (i & j) as f64,
        "arith.ori" => (i | j) as f64,
        "arith.xori" => (i ^ j) as f64,
        "first" => x,
        _ => panic!("operation {operation}"),
    }
}

fn compare(predicate: &str, x: f64, y: f64) -> bool {
    match predicate {
        "eq" | "oeq" => x == y,
        "ne" | "une" => x != y,
        "slt" | "olt" => x < y,
        "sle" | "ole" => x <= y,
        "sgt" | "ogt" => x > y,
        "sge" | "oge" => x >= y,
        "uno" => x.is_nan() || y.is_nan(),
        _ => panic!("predicate {predicate}"),
    }
}

fn unary(operation: &str, x: f64) -> f64 {
    match operation {
        "math.exp" => x.exp(),
        "math.exp2" => x.exp2(),
        "math.log" => x.ln(),
        "math.sin" => x.sin(),
        "math.cos" => x.cos(),
        "math.sqrt" => x.sqrt(),
        "math.rsqrt" => 1.0 / x.sqrt(),
        "math.floor" => x.floor(),
        "math.ceil" => x.ceil(),
        "math.absf" => x.abs(),
        _ => panic!("operation {operation}"),
    }
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Returns the indices of each element of a shape.
fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let strides = strides(shape);
    let index = |n: usize| -> Vec<usize> {
        shape.iter().zip(&strides).map(|(size, stride)| n / stride % size).collect()
    };
    (0..shape.iter().product()).map(index).collect()
}

impl Tensor {
    fn new(shape: Vec<usize>, data: Vec<f64>) -> Tensor {
        Tensor { shape, data, array: None }
    }

    fn at(&self, index: &[usize]) -> f64 {
        let offset: usize = index.iter().zip(strides(&self.shape)).map(|(i, s)| i * s).sum();
        self.data[offset]
    }

    fn scalar(&self) -> i64 {
        assert!(self.shape.is_empty());
        self.data[0] as i64
    }

    /// Combines the elements along an axis. Returns all partial results.
    fn scan(&self, axis: usize, is_reverse: bool, combine: &dyn Fn(f64, f64) -> f64) -> Tensor {
        let mut result = self.clone();
        let (strides, size) = (strides(&self.shape), self.shape[axis]);
        for index in indices(&self.shape).iter().filter(|index| index[axis] == 0) {
            let first: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
            for step in 1..size {
                let place = |step: usize| match is_reverse {
                    true => first + (size - 1 - step) * strides[axis],
                    false => first + step * strides[axis],
                };
                let (before, here) = (place(step - 1), place(step));
                result.data[here] = combine(result.data[before], result.data[here]);
            }
        }
        result
    }
}

/// The names in a text, each with its `%`.
fn names(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "%_#".contains(c);
    text.split(|c| !is_name(c)).filter(|word| word.starts_with('%')).collect()
}

/// Returns the number after `name = ` in attributes.
fn attribute(text: &str, name: &str) -> usize {
    let rest = text.split(&format!("{name} = ")).nth(1).expect("the attribute is there");
    rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Runs programs of a kernel on arrays.
pub struct Machine {
    arrays: Vec<Vec<f64>>,
    values: HashMap<String, Tensor>,
    program: usize,
}

/// Returns the index of the line that closes the region that `lines[0]` opens.
fn end_of(lines: &[&str]) -> usize {
    let mut depth = 0;
    for (number, line) in lines.iter().enumerate() {
        depth -= i32::from(line.starts_with('}') && number > 0);
        if depth == 0 && number > 0 {
            return number;
        }
        depth += i32::from(line.ends_with('{'));
    }
    panic!("a region does not end: {}", lines[0]);
}

impl Machine {
    /// Runs all programs of the Triton IR `text`. `arrays` are those of operands and results.
    pub fn run(text: &str, n_programs: usize, arrays: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.split(" loc(").next().expect("a line has a start").trim())
            .collect();
        let first = lines.iter().position(|line| line.starts_with("tt.func")).unwrap();
        let mut machine = Machine { arrays, values: HashMap::new(), program: 0 };
        for program in 0..n_programs {
            machine.program = program;
            for array in 0..machine.arrays.len() {
                let pointer = Tensor { shape: vec![], data: vec![0.0], array: Some(array) };
                machine.values.insert(format!("%arg{array}"), pointer);
            }
            machine.block(&lines[first + 1..]);
        }
        machine.arrays
    }

    fn get(&self, name: &str) -> Tensor {
        self.values.get(name).unwrap_or_else(|| panic!("{name} is defined")).clone()
    }

    fn all(&self, text: &str) -> Vec<Tensor> {
        names(text).into_iter().map(|name| self.get(name)).collect()
    }

    fn set(&mut self, left: &str, results: Vec<Tensor>) {
        match left.split_once(':') {
            None => {
                let result = results.into_iter().next().expect("there is a result");
                self.values.insert(left.trim().to_string(), result);
            }
            Some((name, _)) => {
                for (index, result) in results.into_iter().enumerate() {
                    self.values.insert(format!("{name}#{index}"), result);
                }
            }
        }
    }

    /// Runs lines up to the end of their region. Returns the values that it yields.
    fn block(&mut self, lines: &[&str]) -> Vec<Tensor> {
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            if line.starts_with("scf.yield") || line.starts_with("scf.condition") {
                return self.all(line.split(" : ").next().unwrap());
            }
            if line == "tt.return" || line.starts_with('}') {
                return vec![];
            }
            let (left, right) = match line.starts_with('%') {
                true => line.split_once(" = ").unwrap(),
                false => ("", line),
            };
            let operation = right.split([' ', '(']).next().unwrap();
            if !line.ends_with('{') {
                if let Some(result) = self.operation(operation, right) {
                    self.set(left, vec![result]);
                }
                at += 1;
                continue;
            }
            let end = at + end_of(&lines[at..]);
            let results = match operation {
                "scf.for" => self.run_for(right, &lines[at + 1..end]),
                "scf.if" => {
                    let other = end + end_of(&lines[end..]);
                    let is_true = self.all(right)[0].scalar() == 1;
                    let range = if is_true { at + 1..end } else { end + 1..other };
                    at = other;
                    self.block(&lines[range])
                }
                "scf.while" => {
                    let last = end + end_of(&lines[end..]);
                    let (cond, body) = (&lines[at + 1..end], &lines[end + 1..last]);
                    at = last;
                    self.run_while(right, cond, body)
                }
                _ => {
                    at = end;
                    vec![self.combined(right, lines[end - 2], lines[end])]
                }
            };
            if operation == "scf.for" {
                at = end;
            }
            if !left.is_empty() {
                self.set(left, results);
            }
            at += 1;
        }
        vec![]
    }

    fn run_for(&mut self, right: &str, body: &[&str]) -> Vec<Tensor> {
        let all = names(right.split(" -> ").next().unwrap());
        let (index, pairs) = (all[0], &all[4..]);
        let [first, end, step] = [1, 2, 3].map(|n| self.get(all[n]).scalar());
        let mut carry: Vec<Tensor> = pairs.chunks(2).map(|pair| self.get(pair[1])).collect();
        let mut n = first;
        while n < end {
            self.set(index, vec![Tensor::new(vec![], vec![n as f64])]);
            for (pair, value) in pairs.chunks(2).zip(&carry) {
                self.set(pair[0], vec![value.clone()]);
            }
            carry = self.block(body);
            n += step;
        }
        carry
    }

    fn run_while(&mut self, right: &str, cond: &[&str], body: &[&str]) -> Vec<Tensor> {
        let all = names(right.split(" : ").next().unwrap());
        let mut carry: Vec<Tensor> = all.chunks(2).map(|pair| self.get(pair[1])).collect();
        loop {
            for (pair, value) in all.chunks(2).zip(&carry) {
                self.set(pair[0], vec![value.clone()]);
            }
            let mut passed = self.block(cond);
            if passed.remove(0).scalar() == 0 {
                return passed;
            }
            for (name, value) in names(body[0]).into_iter().zip(passed) {
                self.set(name, vec![value]);
            }
            carry = self.block(&body[1..]);
        }
    }

    /// Runs a reduction or a scan.
    fn combined(&self, right: &str, combiner: &str, end: &str) -> Tensor {
        let x = self.all(right)[0].clone();
        let axis = attribute(right, "axis");
        let (shape, element) = parse_type(end.split("-> ").nth(1).unwrap());
        let operation = match combiner.split_once(" = ") {
            Some((_, operation)) => operation.split(' ').next().unwrap().to_string(),
            None => "first".to_string(),
        };
        let combine = |x: f64, y: f64| rounded(binary(&operation, x, y), &element);
        if right.starts_with("\"tt.scan\"") {
            return x.scan(axis, right.contains("reverse = true"), &combine);
        }
        let all = x.scan(axis, false, &combine);
        let last = indices(&x.shape).into_iter().filter(|i| i[axis] + 1 == x.shape[axis]);
        Tensor::new(shape, last.map(|index| all.at(&index)).collect())
    }

    fn operation(&mut self, operation: &str, text: &str) -> Option<Tensor> {
        let (head, tail) = text.rsplit_once(" : ").unwrap_or((text, ""));
        let to = tail.rsplit("-> ").next().unwrap().rsplit(" to ").next().unwrap();
        let (shape, element) = parse_type(to);
        let x = match operation {
            "arith.constant" => vec![],
            _ => self.all(text.split(" : ").next().unwrap()),
        };
        let elementwise = |f: &dyn Fn(usize) -> f64| {
            let n = x[0].data.len();
            Tensor::new(x[0].shape.clone(), (0..n).map(|i| rounded(f(i), &element)).collect())
        };
        Some(match operation {
            "arith.constant" => {
                let value = head.trim_start_matches("arith.constant ");
                let value = value.trim_start_matches("dense<").trim_end_matches('>');
                let value = match text.contains(" : ") {
                    true => constant(value, &element),
                    false => constant(text.trim_start_matches("arith.constant "), "i1"),
                };
                let n = shape.iter().product();
                Tensor::new(shape, vec![value; n])
            }
            "tt.get_program_id" => Tensor::new(vec![], vec![self.program as f64]),
            "tt.make_range" => {
                Tensor::new(shape.clone(), (0..shape[0]).map(|i| i as f64).collect())
            }
            "tt.splat" => {
                let n = shape.iter().product();
                Tensor { shape, data: vec![x[0].data[0]; n], array: x[0].array }
            }
            "tt.broadcast" => {
                let of = |index: Vec<usize>| {
                    let index: Vec<usize> =
                        index.iter().zip(&x[0].shape).map(|(i, &n)| i % n).collect();
                    x[0].at(&index)
                };
                Tensor::new(shape.clone(), indices(&shape).into_iter().map(of).collect())
            }
            "tt.expand_dims" | "tt.reshape" => {
                assert_eq!(shape.iter().product::<usize>(), x[0].data.len());
                Tensor::new(shape, x[0].data.clone())
            }
            "tt.trans" => {
                let order = text.split("array<i32: ").nth(1).unwrap().split('>').next().unwrap();
                let order: Vec<usize> = order.split(", ").map(|n| n.parse().unwrap()).collect();
                let of = |index: Vec<usize>| {
                    let mut from = vec![0; order.len()];
                    order.iter().zip(&index).for_each(|(&axis, &i)| from[axis] = i);
                    x[0].at(&from)
                };
                Tensor::new(shape.clone(), indices(&shape).into_iter().map(of).collect())
            }
            "tt.addptr" => {
                let data = x[0].data.iter().zip(&x[1].data).map(|(p, i)| p + i).collect();
                Tensor { shape: x[0].shape.clone(), data, array: x[0].array }
            }
            "tt.load" => {
                let array = &self.arrays[x[0].array.unwrap()];
                let read = |i: usize| match x.get(1) {
                    Some(mask) if mask.data[i] == 0.0 => x[2].data[i],
                    _ => array[x[0].data[i] as usize],
                };
                let n = x[0].data.len();
                Tensor::new(x[0].shape.clone(), (0..n).map(read).collect())
            }
            "tt.store" => {
                let array = &mut self.arrays[x[0].array.unwrap()];
                for i in 0..x[0].data.len() {
                    if x.get(2).is_none_or(|mask| mask.data[i] != 0.0) {
                        array[x[0].data[i] as usize] = x[1].data[i];
                    }
                }
                return None;
            }
            "gpu.barrier" => return None,
            "tt.gather" => {
                let axis = attribute(text, "axis");
                let of = |index: Vec<usize>| {
                    let mut from = index.clone();
                    from[axis] = x[1].at(&index) as usize;
                    x[0].at(&from)
                };
                let all = indices(&x[1].shape);
                Tensor::new(x[1].shape.clone(), all.into_iter().map(of).collect())
            }
            "tt.dot" => {
                let rank = shape.len();
                let (m, n, k) = (shape[rank - 2], shape[rank - 1], x[0].shape[rank - 1]);
                let mut data = x[2].data.clone();
                for (row, sums) in data.chunks_mut(n).enumerate() {
                    let first = row / m * k * n;
                    for (step, &lhs) in x[0].data[row * k..][..k].iter().enumerate() {
                        let rhs = &x[1].data[first + step * n..][..n];
                        sums.iter_mut().zip(rhs).for_each(|(sum, rhs)| *sum += lhs * rhs);
                    }
                    sums.iter_mut().for_each(|sum| *sum = rounded(*sum, &element));
                }
                Tensor::new(shape, data)
            }
            "arith.select" => {
                let of = |i: usize| if x[0].data[i] != 0.0 { x[1].data[i] } else { x[2].data[i] };
                Tensor::new(x[1].shape.clone(), (0..x[1].data.len()).map(of).collect())
            }
            "arith.cmpi" | "arith.cmpf" => {
                let predicate = text.split([' ', ',']).nth(1).unwrap();
                let of =
                    |i: usize| f64::from(u8::from(compare(predicate, x[0].data[i], x[1].data[i])));
                Tensor::new(x[0].shape.clone(), (0..x[0].data.len()).map(of).collect())
            }
            "arith.extui" | "arith.extsi" | "arith.trunci" | "arith.sitofp" | "arith.uitofp"
            | "arith.extf" | "arith.truncf" | "tt.bitcast" => elementwise(&|i| x[0].data[i]),
            "arith.fptosi" | "arith.fptoui" => elementwise(&|i| x[0].data[i].trunc()),
            _ if x.len() == 1 => elementwise(&|i| unary(operation, x[0].data[i])),
            _ => elementwise(&|i| binary(operation, x[0].data[i], x[1].data[i])),
        })
    }
}
