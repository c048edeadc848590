//! The stack machine of pickles.

use crate::error::{Error, Result, shortened};
use crate::pickle::{Call, Node, NodeId, Pickle};
use crate::source::Cursor;
use std::collections::HashMap;

/// Reads one pickle. The cursor stops behind it.
pub(crate) fn read(cursor: &mut Cursor) -> Result<Pickle> {
    let mut machine = Machine {
        cursor,
        nodes: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        at: 0,
    };
    loop {
        machine.at = machine.cursor.position();
        let at = machine.at;
        let [opcode] = machine.cursor.array()?;
        match machine.step(opcode) {
            Ok(None) => {}
            Ok(Some(root)) => return Ok(Pickle { nodes: machine.nodes, root }),
            Err(error) => return Err(error.within(&format!("pickle, byte {at}"))),
        }
    }
}

struct Machine<'a> {
    cursor: &'a mut Cursor,
    nodes: Vec<Node>,
    stack: Vec<NodeId>,
    /// Lengths of the stack at open marks.
    marks: Vec<usize>,
    memo: HashMap<u64, NodeId>,
    /// The position of the instruction.
    at: u64,
}

fn wrong(message: &str) -> Error {
    Error::new(message)
}

impl Machine<'_> {
    fn push(&mut self, node: Node) -> Result<()> {
        let id = NodeId::try_from(self.nodes.len()).map_err(|_| wrong("too many objects"))?;
        self.nodes.push(node);
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Result<NodeId> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = (self.stack.len() > floor).then(|| self.stack.pop()).flatten();
        top.ok_or_else(|| wrong("an instruction takes an object, but the stack is empty"))
    }

    fn top(&self) -> Result<NodeId> {
        self.stack.last().copied().ok_or_else(|| wrong("the stack is empty"))
    }

    /// Returns the objects above the last mark, and removes them and the mark.
    fn pop_mark(&mut self) -> Result<Vec<NodeId>> {
        let mark = self.marks.pop().ok_or_else(|| wrong("there is no mark on the stack"))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn pop_tuple(&mut self, count: usize) -> Result<()> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.push(Node::Tuple(items))
    }

    fn u8(&mut self) -> Result<u64> {
        Ok(self.cursor.array::<1>()?[0].into())
    }

    fn u32(&mut self) -> Result<u64> {
        Ok(u32::from_le_bytes(self.cursor.array()?).into())
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.cursor.array()?))
    }

    fn text(&mut self, count: u64) -> Result<String> {
        String::from_utf8(self.cursor.read_bytes(count)?).map_err(|_| wrong("text is not UTF-8"))
    }

    /// Reads up to the end of the line.
    fn line(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        loop {
            match self.cursor.array::<1>()? {
                [b'\n'] => break,
                [byte] => bytes.push(byte),
            }
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        String::from_utf8(bytes).map_err(|_| wrong("a line is not UTF-8"))
    }

    /// Pushes a string of Python 2: text if it is UTF-8.
    fn push_string(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.push(match String::from_utf8(bytes) {
            Ok(text) => Node::Text(text),
            Err(error) => Node::Bytes(error.into_bytes()),
        })
    }

    fn put(&mut self, index: u64) -> Result<()> {
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn get(&mut self, index: u64) -> Result<()> {
        let id = self.memo.get(&index).copied();
        self.stack.push(id.ok_or_else(|| Error::new(format!("the memo has no entry {index}")))?);
        Ok(())
    }

    /// Appends items to the object on the stack.
    fn append(&mut self, items: Vec<NodeId>) -> Result<()> {
        let target = self.top()?;
        match &mut self.nodes[target as usize] {
            Node::List(list) => list.extend(items),
            // The items of an object of a class are not read.
            Node::Call(_) => {}
            _ => return Err(wrong("items are appended to something that is not a list")),
        }
        Ok(())
    }

    fn set_items(&mut self, items: &[NodeId]) -> Result<()> {
        let target = self.top()?;
        if !items.len().is_multiple_of(2) {
            return Err(wrong("a key has no value"));
        }
        match &mut self.nodes[target as usize] {
            Node::Dict(pairs) => {
                pairs.extend(items.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            Node::Call(_) => {}
            _ => return Err(wrong("items are set in something that is not a dictionary")),
        }
        Ok(())
    }

    /// Pushes the result of a call.
    fn call(&mut self, callable: NodeId, arguments: NodeId) -> Result<()> {
        let name = match &self.nodes[callable as usize] {
            Node::Global(module, name) => Some((module.as_str(), name.as_str())),
            _ => None,
        };
        let first = match &self.nodes[arguments as usize] {
            Node::Tuple(items) => items.first().copied(),
            _ => None,
        };
        match name {
            Some(("collections", "OrderedDict")) => {
                let pairs = first.map_or(Vec::new(), |first| self.pairs(first));
                self.push(Node::Dict(pairs))
            }
            Some(("collections", "defaultdict")) => self.push(Node::Dict(Vec::new())),
            // A tuple of sizes.
            Some(("torch", "Size")) => {
                let items = first.and_then(|id| match &self.nodes[id as usize] {
                    Node::Tuple(items) | Node::List(items) => Some(items.clone()),
                    _ => None,
                });
                // Copies of one list could be nested to a huge total.
                let items = items.filter(|items| items.len() <= 64);
                self.push(Node::Tuple(items.unwrap_or_default()))
            }
            _ => self.push(Node::Call(Call { callable, arguments, state: None })),
        }
    }

    /// Moves the pairs out of a list of tuples.
    fn pairs(&mut self, list: NodeId) -> Vec<(NodeId, NodeId)> {
        let Node::List(items) = &mut self.nodes[list as usize] else { return Vec::new() };
        let items = std::mem::take(items);
        let pair = |id: &NodeId| match &self.nodes[*id as usize] {
            Node::Tuple(items) | Node::List(items) => match items[..] {
                [key, value] => Some((key, value)),
                _ => None,
            },
            _ => None,
        };
        items.iter().filter_map(pair).collect()
    }

    /// Executes an instruction. Returns the root at the end.
    fn step(&mut self, opcode: u8) -> Result<Option<NodeId>> {
        match opcode {
            b'.' => return self.pop().map(Some),
            // The protocol, and the length of a frame.
            0x80 => drop(self.u8()?),
            0x95 => drop(self.u64()?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() {
                Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
                _ => drop(self.pop()?),
            },
            b'1' => drop(self.pop_mark()?),
            b'2' => self.stack.push(self.top()?),
            b'N' => self.push(Node::None)?,
            0x88 => self.push(Node::Bool(true))?,
            0x89 => self.push(Node::Bool(false))?,
            b'I' | b'L' => {
                let line = self.line()?;
                self.push(number(&line).ok_or_else(|| wrong("a number has other characters"))?)?;
            }
            b'J' => {
                let value = i32::from_le_bytes(self.cursor.array()?);
                self.push(Node::Int(value.into()))?;
            }
            b'K' => {
                let value = self.u8()?;
                self.push(Node::Int(value.into()))?;
            }
            b'M' => {
                let value = u16::from_le_bytes(self.cursor.array()?);
                self.push(Node::Int(value.into()))?;
            }
            0x8a | 0x8b => {
                let count = if opcode == 0x8a { self.u8()? } else { self.u32()? };
                let bytes = self.cursor.read_bytes(count)?;
                self.push(long(&bytes).ok_or_else(|| wrong("an integer of over 16 bytes"))?)?;
            }
            b'F' => {
                let line = self.line()?;
                let value = line.parse().map_err(|_| wrong("a float has other characters"))?;
                self.push(Node::Float(value))?;
            }
            b'G' => {
                let value = f64::from_be_bytes(self.cursor.array()?);
                self.push(Node::Float(value))?;
            }
            b'S' => {
                let line = self.line()?;
                let inner = line.trim_matches(['\'', '"']).to_owned();
                self.push(Node::Text(inner))?;
            }
            b'V' => {
                let line = self.line()?;
                self.push(Node::Text(line))?;
            }
            b'T' | b'U' => {
                let count = if opcode == b'U' { self.u8()? } else { self.u32()? };
                let bytes = self.cursor.read_bytes(count)?;
                self.push_string(bytes)?;
            }
            b'B' | b'C' | 0x8e | 0x96 => {
                let count = match opcode {
                    b'C' => self.u8()?,
                    b'B' => self.u32()?,
                    _ => self.u64()?,
                };
                let bytes = self.cursor.read_bytes(count)?;
                self.push(Node::Bytes(bytes))?;
            }
            b'X' | 0x8c | 0x8d => {
                let count = match opcode {
                    0x8c => self.u8()?,
                    b'X' => self.u32()?,
                    _ => self.u64()?,
                };
                let text = self.text(count)?;
                self.push(Node::Text(text))?;
            }
            _ => self.step_object(opcode)?,
        }
        Ok(None)
    }

    /// Executes an instruction about containers, objects or the memo.
    fn step_object(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            b']' | 0x8f => self.push(Node::List(Vec::new()))?,
            b'}' => self.push(Node::Dict(Vec::new()))?,
            b')' => self.push(Node::Tuple(Vec::new()))?,
            0x85..=0x87 => self.pop_tuple(usize::from(opcode - 0x84))?,
            b't' => {
                let items = self.pop_mark()?;
                self.push(Node::Tuple(items))?;
            }
            b'l' | 0x91 => {
                let items = self.pop_mark()?;
                self.push(Node::List(items))?;
            }
            b'd' => {
                let items = self.pop_mark()?;
                self.push(Node::Dict(Vec::new()))?;
                self.set_items(&items)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set_items(&items)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Node::Global(module, name))?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let text = |id: NodeId| match &self.nodes[id as usize] {
                    Node::Text(text) if text.len() <= 256 => Ok(text.clone()),
                    _ => Err(wrong("the name of a class is not text")),
                };
                let global = Node::Global(text(module)?, text(name)?);
                self.push(global)?;
            }
            b'R' | 0x81 => {
                let (arguments, callable) = (self.pop()?, self.pop()?);
                self.call(callable, arguments)?;
            }
            // The keywords of the call are not read.
            0x92 => {
                let (_, arguments, callable) = (self.pop()?, self.pop()?, self.pop()?);
                self.call(callable, arguments)?;
            }
            b'o' => {
                let mut items = self.pop_mark()?;
                let callable = *items.first().ok_or_else(|| wrong("an object has no class"))?;
                items.remove(0);
                self.push(Node::Tuple(items))?;
                let arguments = self.pop()?;
                self.call(callable, arguments)?;
            }
            b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                let items = self.pop_mark()?;
                self.push(Node::Global(module, name))?;
                let callable = self.pop()?;
                self.push(Node::Tuple(items))?;
                let arguments = self.pop()?;
                self.call(callable, arguments)?;
            }
            b'b' => {
                let state = self.pop()?;
                let target = self.top()?;
                // Attributes of a dictionary (`_metadata` of a state dict) are not read.
                if let Node::Call(call) = &mut self.nodes[target as usize] {
                    call.state = Some(state);
                }
            }
            b'p' | b'g' => {
                let line = self.line()?;
                let index = line.parse().map_err(|_| wrong("a memo index is not a number"))?;
                if opcode == b'p' { self.put(index)? } else { self.get(index)? }
            }
            b'q' => {
                let index = self.u8()?;
                self.put(index)?;
            }
            b'r' => {
                let index = self.u32()?;
                self.put(index)?;
            }
            0x94 => self.put(self.memo.len() as u64)?,
            b'h' => {
                let index = self.u8()?;
                self.get(index)?;
            }
            b'j' => {
                let index = self.u32()?;
                self.get(index)?;
            }
            b'P' => {
                let line = self.line()?;
                self.push(Node::Text(line))?;
                let id = self.pop()?;
                self.push(Node::Persistent(id))?;
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Node::Persistent(id))?;
            }
            _ => {
                let name = shortened(&char::from(opcode).to_string());
                let message = format!("the instruction {opcode:#04x} (`{name}`) is not supported");
                return Err(Error::new(message));
            }
        }
        Ok(())
    }
}

/// Returns the value of a number in text: `12`, `12L`, and `00` and `01` for booleans.
fn number(line: &str) -> Option<Node> {
    match line {
        "00" => Some(Node::Bool(false)),
        "01" => Some(Node::Bool(true)),
        _ => line.strip_suffix('L').unwrap_or(line).parse().ok().map(Node::Int),
    }
}

/// Returns the value of a little-endian integer in two's complement.
fn long(bytes: &[u8]) -> Option<Node> {
    let mut wide = match bytes.last() {
        Some(byte) if byte & 0x80 != 0 => [0xff; 16],
        _ => [0; 16],
    };
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Node::Int(i128::from_le_bytes(wide)))
}
